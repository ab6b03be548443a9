"""Reads a day of the past an hour at a time, so that KEDA's calls are answered between."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Protocol

from scaler.core.units import TICK, Seconds
from scaler.core.workload import WorkloadKey
from scaler.tuning.record import Moment, Record, apart

_HOUR: Seconds = 3600.0


class Records(Protocol):
    """Whoever keeps what was seen."""

    def record(
        self, key: WorkloadKey, start: Seconds, end: Seconds, *, asks_gateway: bool = False
    ) -> Record:
        """Return what is known of [start, end]."""


async def hours(start: Seconds, end: Seconds) -> AsyncIterator[tuple[Seconds, Seconds]]:
    """Cut the ticks of [start, end] into hours, and give way after each."""
    begin = math.ceil(start / TICK) * TICK
    while begin <= end:
        yield begin, min(end, begin + _HOUR - TICK)
        begin += _HOUR
        await asyncio.sleep(0)


async def read_record(
    records: Records, key: WorkloadKey, span: tuple[Seconds, Seconds], *, asks_gateway: bool
) -> Record:
    """Return what is known of a span."""
    moments: list[Moment] = []
    async for begin, end in hours(*span):
        moments += records.record(key, begin, end).moments
    return Record(
        namespace=key.namespace,
        name=key.name,
        moments=apart(moments),
        asks_gateway=asks_gateway,
    )
