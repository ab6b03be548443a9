"""A past that is read an hour at a time is the past."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scaler.control.archive import Archive
from scaler.core.decision import Decision
from scaler.core.reasons import Reason
from scaler.core.units import TICK
from scaler.core.workload import Scale, WorkloadKey
from scaler.edge.hours import hours, read_record
from tests.core.histories import BUSY, NOW, stamped

OLD, NEW = (WorkloadKey(namespace="prod", name="chat", trigger=each) for each in ("1", "2"))


def edited(first: int, second: int) -> Archive:
    """Return the past of a trigger that was edited after so many ticks, and so many before now."""
    archive = Archive()
    for tick in range(first + second):
        at = NOW + (tick - first - second) * TICK
        decision = Decision(at=at, current=4, desired=4, advised=4, reason=Reason.STEADY)
        key = OLD if tick < first else NEW
        archive.keep(key, decision, sample=stamped(BUSY, at), scale=Scale(current=4))
    return archive


@pytest.mark.parametrize("first", [0, 3, 479, 481, 900])
@pytest.mark.parametrize("offset", [0.0, 7.5, 45.0])
async def test_the_hours_put_together_are_the_whole(first: int, offset: float) -> None:
    """Wherever an hour ends: among minutes, among ticks, or where a trigger was edited."""
    archive = edited(first, 1_200)
    span = NOW - 9 * 3600.0 + offset, NOW
    whole = archive.record(NEW, *span, asks_gateway=True)
    assert len(whole.moments) > 500
    assert await read_record(archive, NEW, span, asks_gateway=True) == whole


async def test_each_tick_is_in_one_hour() -> None:
    """None is left out and none comes twice; an empty span has no hour."""
    found = [span async for span in hours(NOW + 1.0, NOW + 3 * 3600.0)]
    assert found[0][0] == NOW + TICK
    assert found[-1][1] == NOW + 3 * 3600.0
    assert all(later[0] - earlier[1] == TICK for earlier, later in pairwise(found))
    assert [span async for span in hours(NOW, NOW - 1.0)] == []
