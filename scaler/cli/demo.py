"""`scaler demo`: a small emulated fleet, the scaler, and a stand-in for KEDA and the HPA."""

from __future__ import annotations

import asyncio
import sys

import click

from scaler.app import REFUSALS, demo
from scaler.demo.errors import DemoError


@click.command()
@click.option("--once", is_flag=True, help="End after one cycle; 0 if the fleet grew and shrank.")
@click.option(
    "--speed", type=float, default=30.0, show_default=True, help="Simulated seconds a second."
)
@click.option(
    "--http-listen",
    default="127.0.0.1:0",
    metavar="HOST:PORT",
    help="Where the scaler's HTTP edge listens; port 0 picks one.",
)
def command(*, once: bool, speed: float, http_listen: str) -> None:
    """Show the scaler at work, with nothing but Python.

    Only the clock is sped up: policy and windows are the defaults.
    """
    status = 1
    try:
        status = asyncio.run(demo(once=once, speed=speed, http_listen=http_listen))
    except* KeyboardInterrupt:
        click.echo("\nStopped.")
        status = 0
    except* (DemoError, *REFUSALS) as errors:
        raise click.ClickException("; ".join(str(error) for error in errors.exceptions)) from errors
    sys.exit(status)
