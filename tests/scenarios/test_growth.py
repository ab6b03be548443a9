"""Growth while replicas take long to come, or do not come at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scaler.core.reasons import Reason
from tests.kubernetes_server import objects
from tests.kubernetes_server.resources import Json
from tests.kubernetes_server.store import stamp
from tests.scenarios.fleets import SimulatedFleet
from tests.scenarios.stage import START, Setting, Stage, stage

pytestmark = pytest.mark.timeout(300)


async def test_ten_minute_loads_do_not_cascade(tmp_path: Path) -> None:
    """Load that trebles for good is answered within a minute, and nothing is added to that."""
    fleet = SimulatedFleet(
        lambda t: 3.0 if t < 600.0 else 9.0, replicas=2, start=START, start_up=600.0
    )
    async with stage(tmp_path, fleet, Setting(replicas=2)) as on:
        await on.ticks(40)
        before = on.spec
        await on.ticks(6)
        answer = on.spec
        await on.ticks(60)
    assert before < answer <= 7, on.story()
    assert set(on.counts[46:]) == {answer}, on.story()
    assert max(d.sample.loading for d in on.decisions if d.sample is not None) > 1


class TestCrashLoop:
    """One of five pods never becomes Ready; four serve."""

    @staticmethod
    def never_comes(on: Stage, *, killed: bool) -> Callable[[], None]:
        """Return what happens before each tick: the host may kill it every other minute."""

        def crash() -> None:
            if on.spec < on.setting.replicas:  # what is not Ready goes first
                on.places_taken, on.extra = 0, []
                return
            on.extra = [looping(on.at) if killed else LOADING]

        return crash

    async def play(
        self, directory: Path, rate: float, later: float, *, killed: bool = True
    ) -> Stage:
        """Let requests come at one rate for ten minutes, and at another for ten more."""
        fleet = SimulatedFleet(
            lambda t: rate if t < 600.0 else later, replicas=4, start=START, start_up=60.0
        )
        async with stage(directory, fleet, Setting(replicas=5, places_taken=1)) as on:
            crash = self.never_comes(on, killed=killed)
            crash()
            await on.ticks(80, crash)
        return on

    async def test_it_keeps_no_fleet_large(self, tmp_path: Path) -> None:
        """When load falls the fleet follows, and the pod that does not come is named."""
        on = await self.play(tmp_path, 7.0, 1.0)
        assert Reason.OVERDUE in on.reasons, on.story()
        assert on.counts[-1] <= 2, on.story()

    async def test_it_keeps_no_fleet_small(self, tmp_path: Path) -> None:
        """When load rises the fleet follows: seven replicas serve fourteen requests a second."""
        on = await self.play(tmp_path, 7.0, 14.0)
        assert on.counts[-1] - on.places_taken >= 7, on.story()

    async def test_kills_by_the_host_move_nothing(self, tmp_path: Path) -> None:
        """The counts are those beside a pod that loads for ever and is never killed."""
        killed = await self.play(tmp_path, 7.0, 14.0)
        quiet = await self.play(tmp_path, 7.0, 14.0, killed=False)
        assert killed.counts == quiet.counts


LOADING = objects.pod("vllm-x", of="chat", created_at=START, ready_at=None, ip="127.9.200.1")


def looping(at: float) -> Json:
    """Write the pod as one whose container the host has killed again and again."""
    return objects.pod(
        "vllm-x",
        of="chat",
        created_at=START,
        ready_at=None,
        ip="127.9.200.1",
        restarts=int((at - START) // 120) + 1,
        waiting="CrashLoopBackOff",
        last_exit={"reason": "OOMKilled", "exitCode": 137, "finishedAt": stamp(at)},
    )
