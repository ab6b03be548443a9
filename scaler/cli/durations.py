"""Spans of time as options of commands."""

from __future__ import annotations

import click

from scaler.config.faults import Unreadable
from scaler.config.quantities import duration, written
from scaler.core.units import Seconds


class Duration(click.ParamType[Seconds]):
    """Reads `90`, `500ms`, `10m` or `1h30m` as seconds: above zero, or zero too where asked."""

    name = "duration"

    def __init__(self, *, zero: bool = False) -> None:
        self._zero = zero

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Seconds:
        """Read the text; a default may already be in seconds."""
        if isinstance(value, float | int):
            return float(value)
        try:
            seconds = duration(str(value))
        except Unreadable as error:
            self.fail(f"{value!r} {error}", param, ctx)
        if seconds == 0 and not self._zero:
            self.fail(f"{value!r} is no span: write {written(90.0)} or the like", param, ctx)
        return seconds
