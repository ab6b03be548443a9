"""Pods that come and go by themselves: rollouts, evictions, readiness that is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.core.units import TICK
from tests.kubernetes_server import objects
from tests.kubernetes_server.resources import Json, section
from tests.kubernetes_server.store import stamp
from tests.scenarios.fleets import Body, PaintedFleet, SimulatedFleet
from tests.scenarios.pages import address
from tests.scenarios.stage import START, Setting, Stage, stage

pytestmark = pytest.mark.timeout(300)


class Rollout:
    """Replaces every replica of the start, one at a time, each new one before the old one goes."""

    def __init__(self, on: Stage, fleet: SimulatedFleet) -> None:
        """Have replaced none."""
        self.on, self.fleet = on, fleet
        self.old = [body.name for body in fleet.bodies()]

    def step(self) -> None:
        """Do what is due before a tick."""
        census = self.fleet.fleet.census()
        if self.on.surge and census.serving > self.on.spec:
            self.fleet.retire(self.old.pop(0), self.on.clock.now())
            self.on.surge = 0
        elif self.old and not self.on.surge and census.loading == 0:
            self.on.surge = 1


def new_template(_: Body, pod: Json) -> Json:
    """Give the pods that a rollout made another template."""
    meta = section(pod, "metadata")
    if str(meta["name"]) >= "vllm-0004":
        meta["labels"] = {"app": "chat", "pod-template-hash": "77c9"}
        meta["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-77c9", "controller": True}
        ]
    return pod


async def test_a_rollout_with_surge_moves_nothing(tmp_path: Path) -> None:
    """Five replicas for a while, some of which load or terminate, are four that are needed."""
    fleet = SimulatedFleet(lambda _: 6.0, replicas=4, start=START, start_up=60.0)
    async with stage(tmp_path, fleet, Setting(replicas=4)) as on:
        on.changed = new_template
        await on.ticks(12)
        rollout = Rollout(on, fleet)
        await on.ticks(28, rollout.step)
    assert not rollout.old, on.story()
    assert set(on.counts) == {4}, on.story()
    seen = [d.sample for d in on.decisions if d.sample is not None]
    assert max(sample.loading for sample in seen) == 1
    assert min(sample.serving for sample in seen) == 4


async def test_an_evicted_replica_is_replaced_and_no_more(tmp_path: Path) -> None:
    """While another one loads in its place, nothing is given up and nothing is asked for."""
    fleet = SimulatedFleet(lambda _: 4.0, replicas=4, start=START, start_up=120.0)
    async with stage(tmp_path, fleet, Setting(replicas=4)) as on:
        await on.ticks(8)
        fleet.evict("vllm-0002", on.clock.now())
        await on.ticks(12)
    seen = [d.sample for d in on.decisions if d.sample is not None]
    assert {sample.serving for sample in seen} == {3, 4}, on.story()
    assert set(on.counts) == {4}, on.story()


class TestReadinessIsLost:
    """Every pod fails its readiness probe for five minutes, as under overload."""

    async def play(self, directory: Path, peak: float) -> Stage:
        """Let load rise, and readiness go with it and come back."""
        fleet = SimulatedFleet(
            lambda t: 3.0 if t < 300.0 else peak, replicas=3, start=START, start_up=60.0
        )
        lost, back = START + 330.0, START + 630.0

        async with stage(directory, fleet, Setting(replicas=3)) as on:

            def unready(body: Body, pod: Json) -> Json:
                now = on.clock.now()
                if body.ready_at is None or body.ready_at > lost or now < lost:
                    return pod
                ready_at = back if now >= back else None
                made = objects.pod(
                    body.name,
                    of="chat",
                    created_at=body.created_at,
                    ready_at=ready_at,
                    deleted_at=body.deleted_at,
                    ip=address(body),
                )
                if ready_at is None:
                    conditions = section(made, "status")["conditions"]
                    assert isinstance(conditions, list)
                    conditions[0]["lastTransitionTime"] = stamp(lost)
                return made

            on.changed = unready
            await on.ticks(60)
        return on

    async def test_the_fleet_grows_all_the_same(self, tmp_path: Path) -> None:
        """What reports serves, whatever its readiness; what does not serve is no reason to hold."""
        on = await self.play(tmp_path, 9.0)
        unready = [d for d in on.decisions if START + 345 <= d.at < START + 600]
        assert all(d.sample is not None and d.sample.serving >= 3 for d in unready), on.story()
        assert on.turns == 0, on.story()
        assert on.counts[-1] >= 5, on.story()

    async def test_no_start_is_mistaken(self, tmp_path: Path) -> None:
        """A pod that is Ready anew took no hour to start."""
        on = await self.play(tmp_path, 3.0)
        ready_at = {pod.ready_at for pod in on.cluster.pods("llm", "chat") or ()}
        assert ready_at == {START + 630.0}
        times = {d.learned.lead_time for d in on.decisions if d.learned is not None}
        assert times == {60.0}, on.story()


class TestReadinessAndPagesAreLost:
    """Engines so busy that neither the probe nor the scraper is answered."""

    async def play(self, directory: Path, lost: int, ticks: int) -> Stage:
        """Have four replicas do the work of four, and lose some; whoever is left looks idle."""
        fleet = PaintedFleet(lambda: (30.0, 0.0, 0.5), START)

        def unready(body: Body, pod: Json) -> Json:
            if body.name in fleet.lost:
                conditions = section(pod, "status")["conditions"]
                assert isinstance(conditions, list)
                lost_at = stamp(START + LOST_AFTER * TICK)
                conditions[0] |= {"status": "False", "lastTransitionTime": lost_at}
            return pod

        async with stage(directory, fleet, Setting(replicas=4)) as on:
            on.changed = unready
            await on.ticks(LOST_AFTER)
            fleet.lost = {body.name for body in fleet.bodies()[:lost]}
            fleet.paint = lambda: (0.0, 0.0, 0.0)
            await on.ticks(ticks)
        return on

    async def test_all_of_them(self, tmp_path: Path) -> None:
        """Who is not heard is not idle: the count is answered and stays, for as long as it takes.

        Four times the scale-in window, and beyond the time after which a start is overdue.
        """
        on = await self.play(tmp_path, lost=4, ticks=80)
        assert set(on.counts) == {4}, on.story()
        assert on.decisions[-1].desired == 4, on.story()
        assert on.decisions[-1].active, on.story()

    async def test_most_of_them(self, tmp_path: Path) -> None:
        """One that looks idle speaks for no other before they are overdue and a window has gone."""
        on = await self.play(tmp_path, lost=3, ticks=30)
        unseen = [d for d in on.decisions if d.sample is not None and d.sample.unseen == 3]
        assert len(unseen) >= 10, on.story()
        assert set(on.counts) == {4}, on.story()


LOST_AFTER = 24
