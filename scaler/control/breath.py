"""Lets KEDA be answered while a tick works through thousands of workloads."""

from __future__ import annotations

import asyncio

from scaler.core.units import Seconds

WORKLOADS_BETWEEN = 10
"""How many workloads are dealt with at a time: a few milliseconds."""

_PAUSE: Seconds = 0.001


async def breathe() -> None:
    """Give way for a moment.

    A call is handed over between gRPC's thread and the loop's several times, and each time that
    thread has to get a turn. Giving way for no time at all lets one step through at most, and then
    a call takes as long as the tick.
    """
    await asyncio.sleep(_PAUSE)
