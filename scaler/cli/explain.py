"""`scaler explain`: a workload's decision in words, asked of a running scaler over HTTP."""

from __future__ import annotations

import click

from scaler.cli.asking import ask, asks_a_scaler


@click.command("explain")
@asks_a_scaler
def command(workload: str, server: str, trigger: str | None, form: str, timeout: float) -> None:
    """Say why the ScaledObject NAMESPACE/NAME has the replicas that it has.

    Prints the count, the reason, each signal against its thresholds, for how long what has been
    sustained, and what would change the answer.
    """
    answer = ask(workload, "", server=server, trigger=trigger, form=form, timeout=timeout)
    click.echo(answer.printed)
