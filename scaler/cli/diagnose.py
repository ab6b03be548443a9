"""`scaler diagnose`: what is wrong with a workload, and what to do, asked over HTTP."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scaler.cli.asking import ask, asks_a_scaler
from scaler.core.diagnosis_finding import Severity
from scaler.core.diagnosis_text import WORST_HEADER

FOUND = 3
"""The exit status where something is wrong."""

_WRONG = {Severity.CRITICAL.value, Severity.WARNING.value}


@click.command("diagnose")
@asks_a_scaler
def command(
    workload: str,
    server: str,
    trigger: str | None,
    form: str,
    timeout: float,
    token_file: Path | None,
) -> None:
    """Say what is wrong with the ScaledObject NAMESPACE/NAME, and what to do about it.

    Which memory ran out (the host's, the GPU's, the KV cache), what else is short, and what stands
    between the scaler and the fleet. Each finding comes with its evidence; what could not be looked
    at is said.

    Exit status: 0 where nothing is wrong (there may be notes), 3 where there is a warning or
    worse, 1 where the scaler could not be asked, 2 for a wrong command line.
    """
    answer = ask(
        workload,
        "/diagnosis",
        server=server,
        trigger=trigger,
        form=form,
        timeout=timeout,
        token_file=token_file,
    )
    click.echo(answer.printed)
    if answer.headers.get(WORST_HEADER) in _WRONG:
        sys.exit(FOUND)
