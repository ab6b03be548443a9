"""Units that the core speaks: time in seconds since the epoch or as a span, and the tick grid."""

from __future__ import annotations

import math
from typing import TypeAlias

Seconds: TypeAlias = float

TICK: Seconds = 15.0
"""One sample per workload is taken each tick, on a grid aligned to the epoch."""

RATE_WINDOW: Seconds = 120.0
"""Counters are turned into rates per second over this span."""


def tick_at(now: Seconds) -> Seconds:
    """Return the newest tick at or before `now`."""
    return math.floor(now / TICK) * TICK


def ticks_in(now: Seconds, span: Seconds) -> int:
    """Count the grid's ticks in (now - span, now]; at least one."""
    return max(1, round((tick_at(now) - tick_at(now - span)) / TICK))
