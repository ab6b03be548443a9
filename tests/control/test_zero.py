"""Fleets at zero: asked every five seconds, woken at once, reported where nothing wakes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
import structlog

from scaler.config.trigger import Resolved, Trigger
from scaler.control.activation import NO_NUMBER, Activation
from scaler.control.board import Board, Posting
from scaler.control.loop import Loop
from scaler.control.ports import SourceError, SourceUnreachable
from scaler.control.registry import Registry
from scaler.core.gateway import ASKED_EVERY, LATCHED_FOR
from scaler.core.policy import Mode, Policy
from scaler.core.reading import Reading
from scaler.core.reasons import Reason
from scaler.core.units import TICK
from scaler.core.workload import Scale, Selection
from tests.fakes.clock import FakeClock, settle
from tests.fakes.cluster import FakeCluster
from tests.fakes.gateways import FakeGateways
from tests.fakes.source import FakeSource, fleet_reading

ZERO = Scale(current=0, min_replicas=0, max_replicas=20, ready=0)
DOWN = SourceUnreachable('source "prometheus" refuses the connection: is it running?')
START = 1_000_000_005.0


def nobody(_: Selection, at: float) -> Reading | SourceError:
    """Show no replica at all."""
    return Reading(at=at, scraped_at=at)


def engines_silent(_: Selection, at: float) -> Reading | SourceError:
    """Fail, as a list of targets does of which none is there."""
    del at
    return SourceUnreachable("none of 2 targets answered")


@dataclass
class House:
    """A loop over fakes with a stream of KEDA's open on each workload."""

    policy: Policy = field(default_factory=Policy)
    query: str | None = "queue"
    clock: FakeClock = field(default_factory=lambda: FakeClock(START))
    gateways: FakeGateways = field(default_factory=FakeGateways)
    cluster: FakeCluster = field(default_factory=lambda: FakeCluster(chat=ZERO))
    source: FakeSource = field(default_factory=lambda: FakeSource(nobody))
    board: Board = field(default_factory=Board)
    pushed: list[tuple[str, float]] = field(default_factory=list)

    def resolve(self, trigger: Trigger) -> Resolved:
        """Give a trigger the house's policy and query."""
        name = trigger.key.name
        selection = Selection(
            source="fake", namespace="llm", model_name=name, activation_query=self.query
        )
        return Resolved(policy=self.policy, selection=selection)

    @asynccontextmanager
    async def running(self, *names: str) -> AsyncIterator[House]:
        """Run the loop, and the streams of these ScaledObjects."""
        registry = Registry(self.resolve, self.clock.now)
        loop = Loop(
            registry=registry,
            board=self.board,
            sources={"fake": self.source},
            cluster=self.cluster,
            clock=self.clock,
            gateways={"fake": self.gateways},
        )
        tasks = [asyncio.create_task(loop.run())]
        for name in names or ("chat",):
            entry = registry.ask("llm", name, {"modelName": name})
            tasks.append(asyncio.create_task(self._stream(entry.key.name, registry)))
        await self.until(lambda: len(self.board.snapshot.postings) == max(1, len(names)))
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stream(self, name: str, registry: Registry) -> None:
        entry = registry.ask("llm", name, {"modelName": name})
        async for _ in self.board.activations(entry.key):
            self.pushed.append((name, self.clock.now()))

    async def until(self, holds: object) -> None:
        """Let tasks run until something holds, without any time going by."""
        assert callable(holds)
        while not holds():
            await settle()
            await asyncio.sleep(0.001)

    async def passes(self, seconds: float) -> None:
        """Let time go by in steps of a second."""
        for _ in range(round(seconds)):
            await self.clock.advance(1.0)
            await settle()

    def posting(self, name: str = "chat") -> Posting:
        """Return what the board says."""
        return self.board.snapshot.of("llm", name)[0]

    def decided_at(self) -> list[float]:
        """Return when each workload was last decided on."""
        return [posting.decision.at for posting in self.board.snapshot.postings.values()]

    def said(self) -> tuple[int | None, bool | None, Reason]:
        """Return count, activity and reason."""
        decision = self.posting().decision
        return decision.desired, decision.active, decision.reason


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep what is logged out of the tests' output."""
    with structlog.testing.capture_logs():
        yield


# --- asking and waking ----------------------------------------------------------------------------


async def test_demand_is_pushed_in_the_second_in_which_it_is_seen() -> None:
    """The first round after the queue has filled tells KEDA, between two ticks of fifteen."""
    async with House().running() as house:
        await house.passes(20)
        assert house.said() == (0, False, Reason.AT_ZERO)
        assert house.pushed == []
        await house.passes(1)
        house.gateways.waiting["chat"] = 3.0
        await house.passes(10)
        seen = next(at for at, _ in house.gateways.rounds if at > START + 21)
        assert house.pushed == [("chat", seen)]
        assert seen % TICK != 0
        assert house.said() == (1, True, Reason.WOKEN)
        assert house.posting().decision.demand == 3.0


async def test_rounds_come_every_five_seconds_and_ask_only_for_fleets_at_zero() -> None:
    """One round for all of them, on a grid; whoever has replicas is not in it."""
    house = House(cluster=FakeCluster(chat=ZERO, code=ZERO, busy=replace(ZERO, current=2)))
    async with house.running("chat", "code", "busy"):
        await house.passes(60)
    instants = [at for at, _ in house.gateways.rounds]
    assert instants == [START + ASKED_EVERY * n for n in range(1, 13)]
    asked = {frozenset(each.model_name for each in round_) for _, round_ in house.gateways.rounds}
    assert asked == {frozenset({"chat", "code"})}


async def test_nothing_is_pushed_twice_and_a_new_demand_again() -> None:
    """Each true starts KEDA's cooldown anew: one for each time that somebody comes."""
    async with House().running() as house:
        house.gateways.waiting["chat"] = 1.0
        await house.passes(60)
        assert len(house.pushed) == 1
        house.gateways.waiting["chat"] = 0.0
        await house.passes(LATCHED_FOR + 10)
        assert house.said() == (0, False, Reason.AT_ZERO)
        house.gateways.waiting["chat"] = 1.0
        await house.passes(6)
        assert len(house.pushed) == 2


async def test_a_fleet_that_comes_to_zero_while_somebody_waits_is_woken() -> None:
    """A person takes the last replica away: active before and after, and yet there is news."""
    house = House(cluster=FakeCluster(chat=replace(ZERO, current=1, ready=1)))
    house.source.script = lambda _, at: fleet_reading(at, replicas=1)
    house.gateways.waiting["chat"] = 5.0
    async with house.running():
        await house.passes(20)
        assert [name for name, _ in house.pushed] == ["chat"]
        house.source.script = nobody
        house.cluster.move("chat", 0)
        await house.passes(6)
        assert house.said() == (1, True, Reason.WOKEN)
        assert len(house.pushed) == 2


async def test_what_came_and_went_between_polls_still_wakes_the_fleet() -> None:
    """Seen in one round and gone in the next, it is there at KEDA's next polls, and then over."""
    async with House().running() as house:
        await house.passes(10)
        house.gateways.waiting["chat"] = 1.0
        await house.passes(5)
        house.gateways.waiting["chat"] = 0.0
        last = max(at for at, _ in house.gateways.rounds)
        while house.clock.now() < last + LATCHED_FOR - 1:
            await house.passes(1)
            assert house.said() == (1, True, Reason.WOKEN)
        await house.passes(2 * ASKED_EVERY)
        assert house.said() == (0, False, Reason.AT_ZERO)
        assert len(house.pushed) == 1


async def test_engines_that_are_silent_keep_nobody_asleep() -> None:
    """At zero the engines' source may have nothing to say: the gateway is asked all the same."""
    house = House(source=FakeSource(engines_silent))
    async with house.running():
        house.gateways.waiting["chat"] = 2.0
        await house.passes(6)
        assert house.said() == (1, True, Reason.WOKEN)


async def test_a_tick_that_hangs_delays_no_waking() -> None:
    """The rounds do not wait for a slow source."""
    async with House().running() as house:
        house.source.hangs = True
        await house.passes(16)
        house.gateways.waiting["chat"] = 2.0
        await house.passes(6)
        assert house.said() == (1, True, Reason.WOKEN)


async def test_demand_wakes_where_the_count_cannot_be_read() -> None:
    """The count may be zero for all we know: KEDA is told that somebody waits."""
    async with House().running() as house:
        await house.passes(10)
        del house.cluster.scales["llm", "chat"]
        house.gateways.waiting["chat"] = 2.0
        await house.passes(16)
        assert house.said() == (None, True, Reason.CURRENT_UNKNOWN)
        assert len(house.pushed) == 1


# --- silence --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "fault"), [(None, NO_NUMBER), (DOWN, str(DOWN))], ids=["no-number", "unreachable"]
)
async def test_silence_neither_wakes_nor_says_that_nobody_waits(
    answer: SourceError | None, fault: str
) -> None:
    """Once the last answer is half a minute old nothing is known; nothing is sent either."""
    async with House().running() as house:
        await house.passes(10)
        house.gateways.waiting["chat"] = answer
        await house.passes(20)
        assert house.said() == (0, False, Reason.AT_ZERO)
        await house.passes(30)
        assert house.said() == (0, None, Reason.GATEWAY_SILENT)
        assert house.posting().query_fault == fault
        assert house.pushed == []
        house.gateways.waiting["chat"] = 1.0
        await house.passes(6)
        assert house.said() == (1, True, Reason.WOKEN)
        assert house.posting().query_fault is None


async def test_silence_ends_no_demand_that_was_seen() -> None:
    """Somebody waited; that nobody answers now does not mean that they have left."""
    async with House().running() as house:
        house.gateways.waiting["chat"] = 1.0
        await house.passes(6)
        house.gateways.waiting["chat"] = DOWN
        await house.passes(LATCHED_FOR - 10)
        assert house.said() == (1, True, Reason.WOKEN)
        await house.passes(20)
        assert house.said() == (0, None, Reason.GATEWAY_SILENT)


async def test_a_round_that_breaks_ends_nothing() -> None:
    """A fault of whoever asks is told of each workload; the next round is asked."""
    async with House().running() as house:
        house.gateways.breaks = ZeroDivisionError("secret")
        await house.passes(6)
        assert house.posting().query_fault == "asking the gateways failed: ZeroDivisionError"
        house.gateways.breaks = None
        house.gateways.waiting["chat"] = 1.0
        await house.passes(6)
        assert house.said() == (1, True, Reason.WOKEN)


async def test_a_clock_that_is_set_back_forgets_the_future() -> None:
    """What was heard at an hour that has not come yet wakes nobody in it."""
    house, asked = House(), FakeGateways(chat=1.0)
    registry = Registry(house.resolve, house.clock.now)
    entry = registry.ask("llm", "chat", {"modelName": "chat"})
    assert entry.resolved is not None
    selection, activation = entry.resolved.selection, Activation(asked)
    await activation.ask([(entry, selection)], START + 3600)
    asked.waiting["chat"] = 0.0
    await activation.ask([(entry, selection)], START)
    known = activation.gateway(entry.key, selection, ZERO, START)
    assert known.answers == ((START, 0.0),)


# --- no way to wake -------------------------------------------------------------------------------


async def test_a_fleet_at_zero_that_nothing_can_wake_is_reported() -> None:
    """Without an activationQuery nobody is asked; the reason says what is missing."""
    house = House(query=None)
    async with house.running():
        await house.passes(31)
        assert house.said() == (0, None, Reason.NO_WAY_TO_WAKE)
        assert house.gateways.rounds == []


@pytest.mark.parametrize(
    ("query", "least", "notes"),
    [
        pytest.param(None, 0, (Reason.NO_WAY_TO_WAKE,), id="would-not-come-back"),
        pytest.param("queue", 0, (Reason.GATEWAY_SILENT,), id="might-not-come-back"),
        pytest.param(None, 1, (), id="never-goes-to-zero"),
    ],
)
async def test_a_fleet_that_may_go_to_zero_is_warned_of_it(
    query: str | None, least: int, notes: tuple[Reason, ...]
) -> None:
    """It is noted while there are still replicas, not when the last one has gone."""
    scale = replace(ZERO, current=1, min_replicas=least, ready=1)
    house = House(query=query, cluster=FakeCluster(chat=scale))
    house.source.script = lambda _, at: fleet_reading(at, replicas=1)
    async with house.running():
        await house.passes(31)
        zero = {Reason.NO_WAY_TO_WAKE, Reason.GATEWAY_SILENT}
        assert tuple(n for n in house.posting().decision.notes if n in zero) == notes


async def test_advice_wakes_nobody() -> None:
    """In the mode advise the demand is published, and KEDA is told of none."""
    house = House(policy=Policy(mode=Mode.ADVISE))
    async with house.running():
        house.gateways.waiting["chat"] = 9.0
        await house.passes(20)
        assert house.said() == (0, False, Reason.WOKEN)
        assert house.posting().decision.advised == 1
        assert house.pushed == []


# --- many -----------------------------------------------------------------------------------------


async def test_a_thousand_fleets_are_woken_in_one_round() -> None:
    """Only those are decided on whose gateway has news."""
    names = [f"m{number}" for number in range(1000)]
    house = House(cluster=FakeCluster(**dict.fromkeys(names, ZERO)))
    async with house.running(*names):
        await house.until(lambda: sum(len(read) for _, read in house.source.reads) >= len(names))
        await house.passes(16)
        await house.until(lambda: all(at >= START + 10 for at in house.decided_at()))
        before = house.board.snapshot.postings
        house.gateways.waiting.update(dict.fromkeys(names[::10], 1.0))
        rounds, began = len(house.gateways.rounds), house.clock.now()
        while len(house.gateways.rounds) == rounds:
            await house.passes(1)
        assert house.clock.now() - began <= 5.0
        # Others get their turns while so many are decided on; no simulated time goes by meanwhile.
        await house.until(lambda: len(house.pushed) >= 100)
        assert len(house.pushed) == 100
        assert len({at for _, at in house.pushed}) == 1
        after = house.board.snapshot.postings
        decided = [key for key, posting in after.items() if posting is not before[key]]
        assert len(decided) == 100
