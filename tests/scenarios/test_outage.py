"""The API server is away, and meanwhile the fleet becomes another one than the scaler knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.core.decision import Decision
from scaler.core.reasons import Reason
from scaler.core.units import TICK, tick_at
from tests.adapters.kubernetes.following import until
from tests.kubernetes_server.resources import PODS
from tests.scenarios.fleets import PaintedFleet
from tests.scenarios.stage import START, Setting, Stage, stage

pytestmark = pytest.mark.timeout(300)

_CALM = 26
"""Ticks after which the default scale-in window is covered."""


class NewcomersWork(PaintedFleet):
    """The three replicas of the start idle; those that come later are busy after a second."""

    def painted(self, number: int) -> tuple[float, float, float]:
        """Show work where there is some."""
        return (0.0, 0.0, 0.0) if number < 3 else (30.0, 0.0, 0.5)


async def _answers_until_seen(on: Stage) -> list[Decision]:
    """Step time finely while the adapter finds back; return every decision that was posted."""
    posted: list[Decision] = []

    async def meanwhile() -> None:
        await on.clock.advance(0.25)
        on.engines.advance(on.clock.now())
        on.server.bookmark()
        posted.append(on.posting.decision)

    await until(on.is_seen, meanwhile)
    on.at = tick_at(on.clock.now())
    return posted


class TestReplicasThatCameMeanwhile:
    """Three idle replicas; in the outage somebody adds two, and the two do all the work."""

    async def play(self, directory: Path, away: int, pods_away: int) -> Stage:
        """Lose the API server for some ticks, and its pods for more."""
        fleet = NewcomersWork(lambda: (0.0, 0.0, 0.0), START, start_up=1.0)
        setting = Setting(replicas=3, min_replicas=3)
        async with stage(directory, fleet, setting) as on:
            await on.ticks(_CALM)
            assert on.decisions[-1].reason is Reason.AT_MIN, on.story()
            await on.server.stop()
            on.down = True
            await on.write(5)
            await on.ticks(away)
            if pods_away:
                on.server.faults.broken = {("list", PODS.plural), ("watch", PODS.plural)}
            await on.server.start()
            if pods_away:
                await until(on.is_counted, lambda: on.clock.advance(0.25))
                on.decisions.append(on.posting.decision)
                on.at = tick_at(on.clock.now())
                await on.ticks(pods_away, on.server.bookmark)
                on.server.faults.broken = set()
            on.down = False
            on.decisions += await _answers_until_seen(on)
            await on.ticks(30)
        return on

    @pytest.mark.parametrize(
        ("away", "pods_away"), [(1, 0), (2, 0), (3, 0), (12, 0), (1, 1), (3, 8), (12, 3)]
    )
    async def test_they_are_not_given_up_unseen(
        self, tmp_path: Path, away: int, pods_away: int
    ) -> None:
        """What proved calm was seen of too few pods, however long it lasted."""
        on = await self.play(tmp_path, away, pods_away)
        back = [d for d in on.decisions if d.at > START + _CALM * TICK and d.current == 5]
        assert back, on.story()
        assert all(d.desired is None or d.desired >= 5 for d in back[:40]), on.story()
        assert min(on.counts[_CALM:]) >= 3
