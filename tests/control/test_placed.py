"""The follower beside a cluster that shows pods: whose engines they are, and how they fare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scaler.config.trigger import Resolved, Trigger
from scaler.control.board import Board
from scaler.control.follower import Follower
from scaler.control.registry import Registry
from scaler.core.pods import Pod
from scaler.core.policy import Policy, Signal
from scaler.core.reading import Reading
from scaler.core.reasons import Reason
from scaler.core.units import tick_at
from scaler.core.workload import Scale, Selection
from tests.control.conftest import House, build
from tests.core.illness import SITUATION
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import FakeSource, Script, fleet_reading

FOUR = Scale(current=4, max_replicas=20)
STARTED = 1_000_000_000.0


def pods(prefix: str, count: int = 4, *, took: float = 100.0, **changes: object) -> list[Pod]:
    """Return Ready pods, two hours old."""
    return [
        replace(
            Pod(
                name=f"{prefix}-{index}",
                replica=f"{prefix}-{index}",
                created_at=STARTED - 7200.0,
                ready=True,
                ready_at=STARTED - 7200.0 + took,
            ),
            **changes,  # type: ignore[arg-type]
        )
        for index in range(count)
    ]


def both(_: Selection, at: float) -> Reading:
    """Show two fleets of one model: `calm` has nothing to do, `busy` a queue."""
    calm = fleet_reading(at, running=0.0, first_token_rate=0.0, prefix="calm")
    busy = fleet_reading(at, running=30.0, waiting=12.0, prefix="busy")
    return replace(busy, replicas=(*calm.replicas, *busy.replicas))


def shared(
    script: Script,
    cluster: FakeCluster,
    *,
    model: str | None = "one-model",
    remembers: bool = True,
) -> House:
    """Wire a follower in which every trigger selects the same series."""

    def resolve(trigger: Trigger) -> Resolved:
        namespace = trigger.key.namespace
        selection = Selection(source="fake", namespace=namespace, model_name=model)
        return Resolved(policy=Policy(), selection=selection)

    clock = FakeClock()
    registry, board = Registry(resolve, clock.now), Board()
    source = FakeSource(script, remembers=remembers)
    return House(
        clock, registry, board, source, cluster, Follower(source, registry, board, cluster)
    )


class TestTwoFleetsOfOneModel:
    """Two ScaledObjects whose triggers select the same series."""

    @pytest.fixture
    def cluster(self) -> FakeCluster:
        """Give both fleets' counts."""
        return FakeCluster(calm=FOUR, busy=FOUR)

    @pytest.fixture
    async def house(self, cluster: FakeCluster) -> House:
        """Let both be known for a while, with their pods."""
        house = shared(both, cluster)
        cluster.place("calm", *pods("calm"))
        cluster.place("busy", *pods("busy"))
        house.ask("calm")
        house.ask("busy")
        await house.ticks(2)
        return house

    async def test_are_told_apart_by_their_pods(self, house: House) -> None:
        """The one shrinks while the other grows, and neither is in the other's way."""
        calm, busy = house.posting("calm"), house.posting("busy")
        assert (calm.decision.desired, calm.decision.reason) == (1, Reason.SCALE_IN)
        assert (busy.decision.desired or 0) > 4
        assert {replica.name[:4] for replica in calm.replicas} == {"calm"}

    async def test_one_question_serves_both(self, house: House) -> None:
        """The source is asked for the selection once a tick."""
        await house.ticks(1)
        assert len(house.source.reads[-1][1]) == 1

    async def test_stay_apart_while_the_cluster_cannot_be_read(
        self, house: House, cluster: FakeCluster
    ) -> None:
        """The names that the pods had tell whose a series is."""
        cluster.placed.clear()
        await house.ticks(3)
        assert house.posting("calm").decision.desired == 1
        assert (house.posting("busy").decision.desired or 0) > 4

    async def test_are_contested_where_nobody_knows_the_pods(self, cluster: FakeCluster) -> None:
        """Both claim all of it, so neither may move."""
        house = shared(both, cluster)
        house.ask("calm")
        house.ask("busy")
        await house.ticks(2)
        for name in ("calm", "busy"):
            assert house.posting(name).decision.reason is Reason.SHARED_SERIES

    async def test_one_that_knows_its_pods_is_sure(self, cluster: FakeCluster) -> None:
        """Only the one that cannot be sure of its replicas is silent."""
        house = shared(both, cluster)
        cluster.place("calm", *pods("calm"))
        house.ask("calm")
        house.ask("busy")
        await house.ticks(2)
        assert house.posting("calm").decision.desired == 1
        assert house.posting("busy").decision.reason is Reason.SHARED_SERIES

    async def test_two_of_one_deployment_are_contested_all_the_same(
        self, cluster: FakeCluster
    ) -> None:
        """Two ScaledObjects with the same pods are two owners of one count."""
        house = shared(both, cluster)
        cluster.place("calm", *pods("busy"))
        cluster.place("busy", *pods("busy"))
        house.ask("calm")
        house.ask("busy")
        await house.ticks(2)
        for name in ("calm", "busy"):
            assert house.posting(name).decision.reason is Reason.SHARED_SERIES

    async def test_what_was_mixed_is_forgotten_when_the_pods_are_known(
        self, cluster: FakeCluster
    ) -> None:
        """A scaler that hears of the engines first ends up as one that heard of the pods first."""
        house = shared(both, cluster)
        house.ask("calm")
        await house.ticks(3)
        assert house.posting("calm").decision.desired != 1
        cluster.place("calm", *pods("calm"))
        await house.ticks(1)
        decision = house.posting("calm").decision
        assert (decision.desired, decision.reason) == (1, Reason.SCALE_IN)
        assert decision.sample is not None
        assert decision.sample.serving == 4

    async def test_history_read_back_is_told_apart_by_names(self, cluster: FakeCluster) -> None:
        """Pods that have gone count for their own workload in the windows of one that starts."""

        def rolled(selection: Selection, at: float) -> Reading:
            seen = both(selection, at)
            if at < STARTED - 60.0:
                gone = [replace(r, name=r.name.replace("-", "-9")) for r in seen.replicas]
                return replace(seen, replicas=tuple(gone))
            return seen

        house = shared(rolled, cluster)
        cluster.place("calm", *pods("calm"))
        house.ask("calm")
        await house.follower.admit(tick_at(house.clock.now()))
        assert house.posting("calm").decision.desired == 1


async def test_pods_alone_tell_which_series_are_meant() -> None:
    """A trigger without modelName and selector is silent until the pods are known."""
    cluster = FakeCluster(calm=FOUR)
    house = shared(both, cluster, model=None)
    house.ask("calm")
    await house.ticks(1)
    posting = house.posting("calm")
    assert posting.decision.reason in {Reason.NOT_YET_SAMPLED, Reason.SOURCE_SILENT}
    assert posting.trouble is not None
    assert "neither modelName nor selector" in posting.trouble
    cluster.place("calm", *pods("calm"))
    await house.ticks(2)
    assert house.posting("calm").trouble is None
    assert house.posting("calm").decision.desired == 1


async def test_at_zero_the_target_s_name_tells_whose_the_past_is() -> None:
    """A fleet without a pod has a past all the same, and learns from its own alone."""
    cluster = FakeCluster(calm=replace(FOUR, current=0))
    cluster.situations["llm", "calm"] = replace(
        SITUATION, target_kind="StatefulSet", target_name="calm"
    )
    cluster.place("calm")

    def two(selection: Selection, at: float) -> Reading:
        light = fleet_reading(at, running=6.0, prefix="calm")
        seen = both(selection, at)
        return replace(seen, replicas=(*light.replicas, *seen.replicas[4:]), ttft=None)

    house = shared(two, cluster)
    house.ask("calm")
    await house.follower.admit(tick_at(house.clock.now()))
    learned = house.posting("calm").decision.learned
    assert learned is not None
    assert learned.carried == 6.0


class TestLeadTime:
    """What the pods' own timestamps teach."""

    @staticmethod
    async def learned(
        make_house: Callable[..., House], cluster: FakeCluster, policy: Policy | None = None
    ) -> float:
        """Return the lead time of a follower that has just started."""
        house = make_house(calm_alone, cluster, policy=policy)
        house.ask("calm")
        await house.ticks(1)
        learned = house.posting("calm").decision.learned
        assert learned is not None
        return learned.lead_time

    async def test_is_known_at_once(self, make_house: Callable[..., House]) -> None:
        """A scaler that restarts learns the same from the same pods, whatever it has seen."""
        cluster = FakeCluster(calm=FOUR)
        cluster.place("calm", *pods("calm", took=240.0))
        assert await self.learned(make_house, cluster) == 240.0
        assert await self.learned(make_house, cluster) == 240.0

    async def test_yields_to_what_is_stated(self, make_house: Callable[..., House]) -> None:
        """A stated leadTime is taken as stated."""
        cluster = FakeCluster(calm=FOUR)
        cluster.place("calm", *pods("calm", took=240.0))
        assert await self.learned(make_house, cluster, Policy(lead_time=60.0)) == 60.0

    async def test_is_assumed_until_a_pod_was_seen(self, make_house: Callable[..., House]) -> None:
        """Without a pod that became Ready it is three minutes."""
        cluster = FakeCluster(calm=FOUR)
        cluster.place("calm", *pods("calm", ready=False, ready_at=None))
        assert await self.learned(make_house, cluster) == 180.0

    async def test_outlasts_an_outage(self, make_house: Callable[..., House]) -> None:
        """What was learned stays while the cluster cannot be read."""
        cluster = FakeCluster(calm=FOUR)
        cluster.place("calm", *pods("calm", took=240.0))
        house = make_house(calm_alone, cluster)
        house.ask("calm")
        await house.ticks(1)
        cluster.placed.clear()
        await house.ticks(3)
        learned = house.posting("calm").decision.learned
        assert learned is not None
        assert learned.lead_time == 240.0


def calm_alone(_: Selection, at: float) -> Reading:
    """Show the calm fleet."""
    return fleet_reading(at, running=0.0, first_token_rate=0.0, prefix="calm")


class TestStates:
    """Replicas that do not serve, in the loop."""

    async def test_a_pod_that_terminates_counts_no_more(self) -> None:
        """It reports to its end, and is neither serving nor unseen."""
        house = build(calm_alone, cluster := FakeCluster(calm=replace(FOUR, current=3)))
        cluster.place("calm", *pods("calm", 3), *pods("calm", 4, terminating=True)[3:])
        house.ask("calm")
        await house.ticks(1)
        sample = house.posting("calm").decision.sample
        assert sample is not None
        assert (sample.serving, sample.unseen, sample.loading) == (3, 0, 0)

    async def test_a_pod_that_never_comes_is_given_up(self) -> None:
        """It keeps a place for three lead times, is then named, and keeps none any more."""

        def half_full(_: Selection, at: float) -> Reading:
            return fleet_reading(at, kv_cache=0.3, prefix="calm")

        cluster = FakeCluster(calm=replace(FOUR, current=5))
        house = build(half_full, cluster, policy=Policy(signals=frozenset({Signal.KV_CACHE})))
        late = Pod(name="calm-9", replica="calm-9", created_at=house.clock.now())
        cluster.place("calm", *pods("calm", took=100.0), late)
        house.ask("calm")
        await house.ticks(20)
        waiting = house.posting("calm").decision
        assert (waiting.desired, Reason.LOADING in waiting.notes) == (3, True)
        await house.ticks(1)
        given_up = house.posting("calm").decision
        assert (given_up.desired, Reason.OVERDUE in given_up.notes) == (2, True)

    async def test_a_stated_lead_time_is_the_usual_one(self) -> None:
        """Whoever says that a replica takes ten minutes need not hear of it after nine."""
        cluster = FakeCluster(calm=replace(FOUR, current=5))
        house = build(calm_alone, cluster, policy=Policy(lead_time=600.0))
        late = Pod(name="calm-9", replica="calm-9", created_at=house.clock.now())
        cluster.place("calm", *pods("calm", took=100.0), late)
        house.ask("calm")
        await house.ticks(100)
        assert Reason.OVERDUE not in house.posting("calm").decision.notes


async def test_pods_without_a_count_are_no_answer() -> None:
    """What the scale target asks for is not known by counting pods: nothing is answered."""
    house = build(calm_alone, cluster := FakeCluster(calm=FOUR))
    cluster.place("calm", *pods("calm"))
    house.ask("calm")
    await house.ticks(2)
    del cluster.scales["llm", "calm"]
    await house.ticks(1)
    decision = house.posting("calm").decision
    assert (decision.desired, decision.active) == (None, None)
    assert decision.reason is Reason.CURRENT_UNKNOWN


async def test_another_scale_target_is_another_fleet() -> None:
    """What the old one's replicas ran, and how long they took, says nothing of the new one's."""
    cluster, fresh = FakeCluster(chat=FOUR), False

    def idle(_: Selection, at: float) -> Reading:
        prefix = "new" if fresh else "old"
        return fleet_reading(at, running=0.0, first_token_rate=0.0, prefix=prefix)

    house = shared(idle, cluster, remembers=False)
    cluster.situations["llm", "chat"] = replace(SITUATION, target_name="old")
    cluster.place("chat", *pods("old"))
    house.ask("chat")
    await house.ticks(60)
    before = house.posting("chat").decision
    assert (before.desired, before.reason) == (1, Reason.SCALE_IN)
    assert before.learned is not None
    assert before.learned.lead_time == 100.0
    cluster.situations["llm", "chat"] = replace(SITUATION, target_name="new")
    cluster.place("chat", *pods("new", took=30.0))
    fresh = True
    await house.ticks(2)
    after = house.posting("chat").decision
    assert after.desired == 4
    assert after.learned is None or after.learned.lead_time == 30.0
    await house.ticks(60)
    assert house.posting("chat").decision.desired == 1
