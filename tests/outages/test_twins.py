"""A scaler that was suspended answers as one that never stopped."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.control.ports import SourceError
from scaler.core.decision import Decision
from scaler.core.reading import Reading
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Scale, Selection
from tests.control.conftest import House, build
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import fleet_reading

TICKS = 60

stops = st.lists(
    st.tuples(st.integers(1, TICKS - 2), st.sampled_from([1, 5, 20, 40])), min_size=1, max_size=4
)
"""When a scaler stops, and for how many ticks."""

loads = st.lists(
    st.tuples(st.sampled_from([0.0, 4.0, 9.0, 30.0]), st.sampled_from([0.0, 2.0, 12.0])),
    min_size=6,
    max_size=6,
)
"""What each of four replicas runs and has waiting, for ten ticks each."""


@dataclass
class Past:
    """What the source shows at any time, and so has always shown."""

    loads: list[tuple[float, float]]

    def __call__(self, _: Selection, at: float) -> Reading | SourceError:
        """Read it."""
        running, waiting = self.loads[int(at // (10 * TICK)) % len(self.loads)]
        return fleet_reading(at, running=running, waiting=waiting)


def answer(house: House) -> tuple[int | None, int | None, int | None, bool | None]:
    """Return what two scalers have to agree on."""
    told: Decision = house.posting().decision
    return told.desired, told.floor, told.ceiling, told.active


async def awake(house: House, at: float) -> None:
    """Let a scaler live through one tick."""
    house.clock.set(at + 0.5)
    house.ask()
    await house.follower.tick(tick_at(at))
    await house.follower.admit(tick_at(at))
    while house.follower.wants_minutes:
        await house.follower.recall_a_day(tick_at(at))


async def play(past: Past, stopped: list[tuple[int, int]]) -> None:
    """Play one that never stops beside one that does, on one count."""
    cluster = FakeCluster(chat=Scale(current=4, max_replicas=20))
    first, second = build(past, cluster), build(past, cluster)
    start = tick_at(first.clock.now())
    sleeps = dict(stopped)
    until = 0
    for number in range(1, TICKS):
        at = start + number * TICK
        await awake(first, at)
        if number >= until and number in sleeps:
            until = number + sleeps[number]
        if number >= until:
            await awake(second, at)
            assert answer(second) == answer(first), number


@settings(max_examples=8)
@given(loads=loads, stopped=stops)
def test_a_suspension_changes_no_answer(
    loads: list[tuple[float, float]], stopped: list[tuple[int, int]]
) -> None:
    """A process that stood still for up to ten minutes goes on as if it had not."""
    asyncio.run(play(Past(loads), stopped))
