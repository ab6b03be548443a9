"""Spans of time on the command line."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from scaler.cli.durations import Duration


@click.command()
@click.option("--above", type=Duration(), default="90s")
@click.option("--any", "least", type=Duration(zero=True), default=2.5)
def shown(above: float, least: float) -> None:
    """Show both."""
    click.echo(f"{above:g} {least:g}")


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ([], "90 2.5"),
        (["--above", "500ms"], "0.5 2.5"),
        (["--above", "1h30m", "--any", "0"], "5400 0"),
        (["--any", "3m"], "90 180"),
    ],
)
def test_spans_are_seconds(arguments: list[str], seconds: str) -> None:
    """Units are read as people write them, and zero where it means something."""
    done = CliRunner().invoke(shown, arguments)
    assert (done.exit_code, done.stdout.strip()) == (0, seconds)


@pytest.mark.parametrize("text", ["0", "0s", "-1", "nan", "inf", "soon", "", "1d2"])
def test_what_is_no_span_is_refused_by_name(text: str) -> None:
    """The message holds what was written and how to write it."""
    done = CliRunner().invoke(shown, ["--above", text])
    assert done.exit_code == 2
    assert repr(text) in done.stderr
    assert "write" in done.stderr
