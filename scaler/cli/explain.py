"""`scaler explain`: a workload's decision in words, asked of a running scaler over HTTP."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import click

from scaler.cli.asking import ask, asks_a_scaler

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")


@click.command("explain")
@click.option(
    "--at",
    "instant",
    metavar="TIME",
    help="Of that moment in the last day: RFC 3339, or the latest such local time (03:10).",
)
@asks_a_scaler
def command(
    workload: str,
    server: str,
    trigger: str | None,
    form: str,
    timeout: float,
    token_file: Path | None,
    instant: str | None,
) -> None:
    """Say why the ScaledObject NAMESPACE/NAME has the replicas that it has, or had.

    Prints the count, the reason, each signal against its thresholds, for how long what has been
    sustained, and what would change the answer.
    """
    at = None if instant is None else moment(instant, datetime.now().astimezone())
    query = {} if at is None else {"at": f"{at.timestamp():.3f}"}
    answer = ask(
        workload,
        "",
        server=server,
        trigger=trigger,
        form=form,
        timeout=timeout,
        token_file=token_file,
        also=query,
    )
    click.echo(answer.printed)


def moment(text: str, now: datetime) -> datetime:
    """Return the moment that is meant; a time of day is the latest such before `now`.

    Raises UsageError.
    """
    clock = _CLOCK.fullmatch(text.strip())
    if clock is not None:
        hour, minute, second = (int(part or 0) for part in clock.groups())
        found = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return found if found <= now else found - timedelta(days=1)
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise click.UsageError(
            f'--at "{text[:60]}" is no time: write 03:10, or 2026-12-01T03:10:00Z'
        ) from error
    # Whether it has come yet is for the scaler to say: the demo's clock runs ahead.
    return found if found.tzinfo is not None else found.replace(tzinfo=now.tzinfo)
