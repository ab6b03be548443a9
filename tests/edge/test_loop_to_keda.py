"""From a source through the loop and the board to KEDA: in one poll, and alike on two scalers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Self

import pytest

from scaler.config.resolve import resolve
from scaler.config.sections import ScrapeSource
from scaler.config.server import ServerConfig
from scaler.control.board import Board
from scaler.control.loop import Loop
from scaler.control.ports import SourceError
from scaler.control.registry import Registry
from scaler.core.pods import Pod, Situation
from scaler.core.reading import LatencyBuckets, Reading, ReplicaReading
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale, Selection
from scaler.edge.grpc_server import GrpcServer
from scaler.edge.measures import Measures
from tests.edge.world import NOON
from tests.keda_client import Keda, scaled_object

pytestmark = pytest.mark.timeout(60)


class SteppedClock:
    """A clock that moves when it is told to, and wakes those who sleep until then."""

    def __init__(self) -> None:
        """Stand at noon."""
        self.at = NOON
        self._moved = asyncio.Condition()

    def now(self) -> Seconds:
        """Return the time."""
        return self.at

    async def sleep_until(self, instant: Seconds) -> None:
        """Return once the clock stands at the instant."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.at >= instant)

    async def move(self, by: Seconds) -> None:
        """Move on."""
        async with self._moved:
            self.at += by
            self._moved.notify_all()


class Fleet:
    """Both the engines that a source with a memory sees, and the count that the HPA sets.

    Work comes for eight replicas from the fifth minute to the twentieth, for two otherwise.
    """

    name = "engines"

    def __init__(self) -> None:
        """Start with two replicas."""
        self.counts = {0.0: 2}

    def count_at(self, at: Seconds) -> int:
        """Return how many replicas there were at an instant."""
        return self.counts[max(since for since in self.counts if since <= at)]

    def _reading(self, at: Seconds) -> Reading:
        replicas = self.count_at(at)
        demand = 8 if 300 <= at - NOON < 1200 else 2
        waiting = 12.0 * max(0, demand - replicas) / replicas
        running = min(32.0, 24.0 * demand / replicas)
        slow = 0.0 if waiting else 100.0
        return Reading(
            at=at,
            scraped_at=at,
            replicas=tuple(
                ReplicaReading(
                    name=f"chat-{index}",
                    running=running,
                    waiting=waiting,
                    kv_cache=min(0.95, 0.5 * demand / replicas),
                    first_token_rate=2.0,
                    token_rate=20.0 * running,
                )
                for index in range(replicas)
            ),
            ttft=LatencyBuckets(
                edges=(0.5, 2.5, 5.0, float("inf")), counts=(slow, slow, 100.0, 100.0)
            ),
        )

    async def run(self) -> None:
        """Do nothing."""

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """See the engines."""
        return {selection: self._reading(at) for selection in selections}

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Remember the engines; they have run for two hours."""
        del selection
        ticks = range(-(-int(max(start, NOON - 7200)) // int(step)), int(end // step) + 1)
        return [self._reading(tick * step) for tick in ticks]

    def scale(self, namespace: str, name: str) -> Scale | None:
        """Return the count."""
        assert (namespace, name) == ("prod", "chat")
        return Scale(current=self.count_at(10 * NOON), min_replicas=1, max_replicas=12)

    def pods(self, namespace: str, name: str) -> tuple[Pod, ...] | None:
        """Know no pods."""
        del namespace, name
        return None

    def situation(self, namespace: str, name: str) -> Situation | None:
        """Know nothing of KEDA."""
        del namespace, name
        return None

    def is_gone(self, namespace: str, name: str) -> bool:
        """Know of none that is gone."""
        del namespace, name
        return False

    @property
    def faults(self) -> tuple[str, ...]:
        """Have none."""
        return ()

    def on_change(self, notify: Callable[[], None]) -> None:
        """Tell nobody: the next tick sees it."""


class Scaler:
    """One scaler process, as far as this test goes."""

    def __init__(self, fleet: Fleet, clock: SteppedClock) -> None:
        """Wire the real parts."""
        section = ScrapeSource(type="scrape", targets="targets.yaml")  # type: ignore[arg-type]
        config = ServerConfig(sources={"engines": section})
        self.board = Board()
        registry = Registry(lambda trigger: resolve(trigger, config), clock.now)
        loop = Loop(
            registry=registry,
            board=self.board,
            sources={"engines": fleet},
            cluster=fleet,
            clock=clock,
        )
        self.server = GrpcServer(
            registry=registry, board=self.board, now=clock.now, measures=Measures()
        )
        self._loop = loop
        self.port = 0

    async def __aenter__(self) -> Self:
        """Start."""
        self._running = asyncio.create_task(self._loop.run())
        self.port = await self.server.serve("127.0.0.1:0")
        return self

    async def __aexit__(self, *_: object) -> None:
        """End."""
        await self.server.drain(within=1.0)
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def decided(self, at: Seconds) -> None:
        """Return once the loop has decided at a tick."""
        while self.board.snapshot.at < at:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.005)


async def test_a_workload_registers_itself_and_is_answered_before_the_next_tick() -> None:
    """KEDA's first question is enough: what can be read back answers the ones that follow."""
    clock = SteppedClock()
    async with Scaler(Fleet(), clock) as scaler, Keda(scaler.port) as keda:
        await keda.specs(scaled_object())
        await scaler.decided(NOON)
        poll = await keda.poll(scaled_object())
    assert clock.at == NOON
    assert (poll.replicas, poll.active) == (2.0, True)


async def test_two_scalers_never_disagree_and_neither_does_a_restarted_one() -> None:
    """KEDA goes round both; the fleet grows under load and shrinks after it, whoever is asked."""
    clock, fleet = SteppedClock(), Fleet()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Scaler(fleet, clock))
        second = await stack.enter_async_context(AsyncExitStack())
        other = await second.enter_async_context(Scaler(fleet, clock))
        highest = 0
        for tick in range(1, 160):
            await clock.move(TICK)
            if tick in {25, 70}:
                await second.aclose()
                other = await second.enter_async_context(Scaler(fleet, clock))
            answers = set()
            for scaler in (first, other):
                async with Keda(scaler.port) as keda:
                    await keda.specs(scaled_object())
                    await scaler.decided(clock.at)
                    answers.add((await keda.poll(scaled_object())).replicas)
            (answer,) = answers
            highest = max(highest, int(answer))
            fleet.counts[clock.at + 1] = int(answer)
    assert highest >= 6
    assert fleet.count_at(10 * NOON) <= 4
