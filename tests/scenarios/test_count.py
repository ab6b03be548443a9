"""The count itself: moved by others, read late, unread for an hour, and in whole HPA steps."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from scaler.core.policy import Policy
from scaler.core.reasons import Reason
from scaler.core.units import TICK
from scaler.simulation.hpa_types import Behavior
from tests.scenarios.fleets import PaintedFleet, SimulatedFleet
from tests.scenarios.stage import START, Setting, Stage, cluster_of, stage

pytestmark = pytest.mark.timeout(300)


async def test_a_count_that_somebody_raised_is_given_back(tmp_path: Path) -> None:
    """The move is named and held while its replicas load; then calm, proven long ago, decides."""
    fleet = SimulatedFleet(lambda _: 1.0, replicas=1, start=START, start_up=60.0)
    async with stage(tmp_path, fleet, Setting(replicas=1)) as on:
        await on.ticks(40)
        await on.write(6)
        await on.ticks(20)
    moved = on.decisions[40]
    assert (moved.current, moved.desired) == (6, 6), on.story()
    assert moved.reason is Reason.MOVED_BY_OTHERS, on.story()
    assert set(on.counts[40:43]) == {6}, on.story()
    assert on.counts[-1] == 1, on.story()
    assert on.turns == 1, on.story()


async def test_a_count_that_somebody_lowered_is_raised_again(tmp_path: Path) -> None:
    """Demand is the owner: what it needs comes back within minutes."""
    fleet = SimulatedFleet(lambda _: 7.0, replicas=5, start=START, start_up=60.0)
    async with stage(tmp_path, fleet, Setting(replicas=5)) as on:
        await on.ticks(12)
        await on.write(2)
        await on.ticks(16)
    assert on.counts[-1] >= 4, on.story()


async def test_an_api_server_that_is_down_for_an_hour(tmp_path: Path) -> None:
    """Half a minute is bridged; then nothing is answered; afterwards the fleet goes on."""
    fleet = SimulatedFleet(
        lambda t: 3.0 if t < 3600.0 else 9.0, replicas=3, start=START, start_up=60.0
    )
    async with stage(tmp_path, fleet, Setting(replicas=3)) as on:
        await on.ticks(20)
        held = on.spec
        await on.server.stop()
        on.down = True
        await on.ticks(240)
        assert on.cluster.pods("llm", "chat") is None
        lost = on.decisions[20:]
        assert [d.reason is Reason.CURRENT_UNKNOWN for d in lost[:4]] == [False, False, True, True]
        assert all(d.desired is None for d in lost[2:]), on.story()
        assert set(on.counts[20:]) == {held}, on.story()
        assert set(on.statuses[:22]) == {grpc.StatusCode.OK}
        assert set(on.statuses[22:]) == {grpc.StatusCode.UNAVAILABLE}
        await on.server.start()
        on.down = False
        await on.recover()
        await on.ticks(12)
    back = on.decisions[260]
    assert back.current == held, on.story()
    assert back.sample is not None
    assert back.sample.serving == held, on.story()
    assert set(on.statuses[260:]) == {grpc.StatusCode.OK}
    assert min(on.counts[260:]) >= held, on.story()
    assert on.counts[-1] > held, on.story()
    times = {d.learned.lead_time for d in on.decisions if d.learned is not None}
    assert times == {60.0}


async def test_a_count_that_is_read_late(tmp_path: Path) -> None:
    """Every change of the count is seen a tick late, and the fleet goes up once and down once."""
    fleet = SimulatedFleet(
        lambda t: 9.0 if 300.0 <= t < 900.0 else 1.0, replicas=1, start=START, start_up=30.0
    )
    async with stage(tmp_path, fleet, Setting(replicas=1)) as on:
        on.late = True
        await on.ticks(130)
    pairs = zip(on.counts, on.decisions[1:], strict=False)
    assert any(decision.current != count for count, decision in pairs), "nothing was read late"
    assert max(on.counts) >= 5, on.story()
    assert on.counts[-1] == 1, on.story()
    assert on.turns == 1, on.story()


class TestRestart:
    """A scaler that ends at the peak, and another one that takes over."""

    async def test_it_gives_nothing_up(self, tmp_path: Path) -> None:
        """The new one knows the count and the lead time at once, and holds until it has seen."""
        fleet = SimulatedFleet(
            lambda t: 2.0 if t < 300.0 else 9.0, replicas=2, start=START, start_up=60.0
        )
        async with cluster_of(tmp_path, fleet, Setting(replicas=2)) as on:
            async with on.scaler():
                await on.ticks(40)
            peak, learned = on.spec, on.decisions[-1].learned
            async with on.scaler():
                await on.ticks(16)
        fresh = on.decisions[40].learned
        assert peak >= 5, on.story()
        assert min(on.counts[40:]) >= peak, on.story()
        assert learned is not None
        assert fresh is not None
        assert (fresh.lead_time, fresh.lead_time_observed) == (learned.lead_time, True)

    async def test_calm_is_proven_anew(self, tmp_path: Path) -> None:
        """Load that falls at the restart gives nothing up before the new one has seen a window."""
        fleet = SimulatedFleet(
            lambda t: 9.0 if t < 600.0 else 1.0, replicas=6, start=START, start_up=60.0
        )
        async with cluster_of(tmp_path, fleet, Setting(replicas=6)) as on:
            async with on.scaler():
                await on.ticks(40)
            peak = on.spec
            async with on.scaler():
                await on.ticks(60)
        covered = 40 + int(max(Policy().scale_in_window, 2 * 60.0) / TICK)
        assert peak >= 5, on.story()
        assert set(on.counts[40 : covered - 1]) == {peak}, on.story()
        said = {s for d in on.decisions[42 : covered - 1] for s in (d.reason, *d.notes)}
        assert Reason.WARMING_UP in said, on.story()
        assert on.counts[-1] < peak, on.story()


class TestTolerance:
    """An HPA with its default tolerance, and one without any."""

    async def play(
        self,
        directory: Path,
        count: int,
        needed: float,
        tolerance: float | None,
        ticks: int = 5,
    ) -> Stage:
        """Paint a cache so full that so many replicas are needed; return after some minutes."""
        setting = Setting(
            replicas=count,
            max_replicas=200,
            tolerance=tolerance,
            behavior=Setting(replicas=1).behavior if tolerance is not None else Behavior(),
            metadata={"signals": "kvCache", "kvCacheHigh": "0.5", "kvCacheLow": "0.499"},
        )
        fleet = PaintedFleet(lambda: (4.0, 0.0, min(1.0, 0.499 * needed / count)), START)
        async with stage(directory, fleet, setting) as on:
            await on.ticks(ticks)
        return on

    @pytest.mark.parametrize("count", [9, 10, 20, 100])
    async def test_a_step_out_is_obeyed(self, tmp_path: Path, count: int) -> None:
        """Where the HPA would swallow a step, it is asked for the first count that it obeys."""
        on = await self.play(tmp_path, count, count + 0.9, None)
        assert on.counts[-1] == on.decisions[-1].desired, on.story()
        assert on.counts[-1] > count, on.story()
        assert on.counts[-1] <= max(count + 1, 1.1 * count + 2), on.story()

    @pytest.mark.parametrize(("count", "kept"), [(9, False), (10, True), (20, True), (100, True)])
    async def test_a_step_in_that_would_be_swallowed_is_not_asked_for(
        self, tmp_path: Path, count: int, *, kept: bool
    ) -> None:
        """One replica too many stays where the HPA would keep it, and the reason says so."""
        on = await self.play(tmp_path, count, count - 1.1, None, ticks=44)
        held = [d for d in on.decisions if d.reason is Reason.TOLERANCE_HELD]
        assert bool(held) == kept, on.story()
        assert on.counts[-1] == (count if kept else count - 1), on.story()

    @pytest.mark.parametrize("count", [9, 10, 20, 100])
    async def test_without_tolerance_steps_are_exact(self, tmp_path: Path, count: int) -> None:
        """One more is one more, whatever the size of the fleet."""
        on = await self.play(tmp_path, count, count + 0.9, 0.0)
        assert on.counts[-1] == count + 1, on.story()
