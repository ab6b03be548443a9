"""A scribe at work: it looks again and again, and no fault of its ends anything."""

from __future__ import annotations

import asyncio

from scaler.control.writing import all_faults, look_again_and_again
from tests.fakes.clock import FakeClock, settle
from tests.fakes.cluster import FakeCluster


class Clumsy:
    """A scribe that fails at every second look."""

    looks_every = 5.0
    faults = ("may not write",)

    def __init__(self) -> None:
        """Have looked never."""
        self.looked: list[float] = []

    async def look(self, now: float) -> None:
        """Look, and stumble now and then."""
        self.looked.append(now)
        if len(self.looked) % 2 == 0:
            raise TypeError("odd")


async def test_a_scribe_looks_again_and_again() -> None:
    """At its own pace, by the clock, whatever it stumbles over; until it is cancelled."""
    clock, scribe = FakeClock(1000.0), Clumsy()
    task = asyncio.create_task(look_again_and_again(scribe, clock))
    await settle()
    for _ in range(3):
        await clock.advance(5.0)
    assert scribe.looked == [1000.0, 1005.0, 1010.0, 1015.0]
    task.cancel()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], BaseException)


def test_all_faults_stand_together() -> None:
    """What cannot be read and what cannot be written are told in one place."""
    cluster = FakeCluster()
    cluster.faults = ("may not list pods",)
    assert all_faults(cluster, [Clumsy()]) == ("may not list pods", "may not write")
    assert all_faults(None, []) == ()
