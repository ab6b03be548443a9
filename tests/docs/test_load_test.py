"""The page on load tests says what the command does."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from scaler.cli import main
from scaler.cli.load import BEHIND, DONE, INTERRUPTED, MISSED
from scaler.cli.load_plan import CannotRun

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "load-test.md").read_text(encoding="utf-8")


def test_every_option_on_the_page_exists() -> None:
    """An option that is renamed is missed here."""
    told = set(re.findall(r"`(?:[^`\n]* )?(--[a-z][a-z-]+)", PAGE))
    known = set(re.findall(r"--[a-z][a-z-]+", CliRunner().invoke(main, ["load", "--help"]).output))
    assert len(told) > 10
    assert told <= known


def test_the_exit_statuses_are_the_command_s() -> None:
    """The table has each, in order."""
    told = [int(status) for status in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)]
    assert told == [DONE, MISSED, CannotRun.exit_code, BEHIND, INTERRUPTED]
