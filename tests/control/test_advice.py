"""A fleet that something else scales is watched: nobody asks, nothing is moved, all is kept."""

from __future__ import annotations

from scaler.config.trigger import parse_trigger
from scaler.control.registry import FORGOTTEN_AFTER
from scaler.core.policy import Mode, Policy
from scaler.core.reading import Reading
from scaler.core.units import TICK
from scaler.core.workload import Scale, Selection
from tests.control.conftest import House, build
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import fleet_reading

ADVISE = Policy(mode=Mode.ADVISE)


def busy(_: Selection, at: float) -> Reading:
    """Show four replicas with a queue of eight each."""
    return fleet_reading(at, waiting=8.0, running=30.0)


def watching(**scales: Scale) -> House:
    """Build a loop that is told by its configuration alone to watch llm/chat."""
    house = build(busy, FakeCluster(**scales), policy=ADVISE)
    house.registry.watch([parse_trigger("llm", "chat", {"modelName": "chat", "mode": "advise"})])
    return house


async def test_a_watched_fleet_is_advised_on_and_left_alone() -> None:
    """The answer is the count that there is; what would have been is beside it, in the past too."""
    house = watching(chat=Scale(current=4, max_replicas=20))
    await house.ticks(20)
    posting = house.posting()
    decision = posting.decision
    assert (decision.current, decision.desired, decision.active) == (4, 4, True)
    assert (decision.advised or 0) > 4
    rows = [row for row, _ in house.board.archive.rows(posting.key, 0.0, house.clock.now())]
    assert len(rows) >= 20
    assert (rows[-1].current, rows[-1].advised) == (4, decision.advised)


async def test_nobody_needs_to_ask_for_what_is_watched() -> None:
    """It stays for as long as the configuration lists it, and goes when nobody asks afterwards."""
    house = watching(chat=Scale(current=4, max_replicas=20))
    await house.ticks(1)
    assert not house.registry.forget_idle(house.clock.now() + 2 * FORGOTTEN_AFTER)
    house.registry.watch([])
    gone = house.registry.forget_idle(house.clock.now() + 2 * FORGOTTEN_AFTER)
    assert {str(key) for key in gone} == {"llm/chat"}


async def test_advice_follows_the_count_that_others_set() -> None:
    """When somebody else scales out, the difference is of the count that there is then."""
    house = watching(chat=Scale(current=4, max_replicas=20))
    await house.ticks(20)
    assert house.cluster is not None
    house.cluster.move("chat", 20)
    await house.ticks(1)
    decision = house.posting().decision
    assert (decision.current, decision.desired) == (20, 20)
    assert decision.at == house.clock.now() // TICK * TICK
