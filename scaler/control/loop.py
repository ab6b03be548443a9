"""The loop: every source is followed on the tick grid, each in a task of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from scaler.control.board import Board
from scaler.control.follower import Follower
from scaler.control.ports import Clock, Cluster, Gateways, Source
from scaler.control.registry import Registry
from scaler.core.gateway import ASKED_EVERY
from scaler.core.units import TICK, Seconds, tick_at

_LONGEST_PAUSE: Seconds = 0.5


class Loop:
    """Runs the followers, so that a slow source delays nobody but its own workloads."""

    def __init__(
        self,
        *,
        registry: Registry,
        board: Board,
        sources: Mapping[str, Source],
        cluster: Cluster | None,
        clock: Clock,
        gateways: Mapping[str, Gateways] | None = None,
    ) -> None:
        """Wire the followers; nothing runs yet. `gateways` are of sources, by their names."""
        self.registry = registry
        self.board = board
        asked = gateways or {}
        self.followers = [
            Follower(source, registry, board, cluster, asked.get(name))
            for name, source in sources.items()
        ]
        self._cluster = cluster
        self._clock = clock
        self._woken = {follower.source.name: asyncio.Event() for follower in self.followers}
        self._moved: set[str] = set()
        self._ticked: Callable[[], None] = lambda: None
        registry.on_new(self.wake)
        if cluster is not None:
            cluster.on_change(self._note_moves)

    def on_ticked(self, notify: Callable[[], None]) -> None:
        """Say whom to tell that a source's tick is over."""
        self._ticked = notify

    def wake(self) -> None:
        """Look at new workloads and moved counts now instead of at the next tick."""
        for event in self._woken.values():
            event.set()

    def _note_moves(self) -> None:
        self._moved = set(self._woken)
        self.wake()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._cluster is not None:
                tasks.create_task(self._cluster.run())
            for follower in self.followers:
                tasks.create_task(follower.source.run())
                tasks.create_task(self._follow(follower))
                if follower.activation.asks:
                    tasks.create_task(self._watch_zero(follower))

    async def _follow(self, follower: Follower) -> None:
        name = follower.source.name
        woken = self._woken[name]
        done = tick_at(self._clock.now()) - TICK
        async with asyncio.TaskGroup() as background:
            day: asyncio.Task[None] | None = None
            while True:
                now = self._clock.now()
                if tick_at(now) != done:
                    done = tick_at(now)
                    self._forget_idle(now)
                    await follower.tick(done)
                    self._ticked()
                woken.clear()
                began = time.monotonic()
                if await follower.admit(done):
                    woken.set()
                if name in self._moved:
                    self._moved.discard(name)
                    await follower.review(done)
                # Thousands that register at once are taken in together, not one by one.
                await asyncio.sleep(min(_LONGEST_PAUSE, time.monotonic() - began))
                # The day's minutes may take longer than a tick, and no tick waits for them.
                if follower.wants_minutes and (day is None or day.done()):
                    day = background.create_task(follower.recall_a_day(done))
                await self._until_tick_or_woken(done + TICK, woken)

    async def _watch_zero(self, follower: Follower) -> None:
        """Ask what waits for fleets at zero, on a finer grid and whatever a tick is waiting for."""
        while True:
            round_at = (self._clock.now() // ASKED_EVERY + 1) * ASKED_EVERY
            await self._clock.sleep_until(round_at)
            if self._clock.now() >= round_at:  # else the clock was set back
                await follower.wake(round_at)

    async def _until_tick_or_woken(self, tick: Seconds, woken: asyncio.Event) -> None:
        if woken.is_set():
            await asyncio.sleep(0)
            return
        waits = [
            asyncio.create_task(self._clock.sleep_until(tick)),
            asyncio.create_task(woken.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _forget_idle(self, now: Seconds) -> None:
        if self._cluster is None:
            gone = self.registry.forget_idle(now)
        else:
            gone = self.registry.forget_idle(now, self._cluster.is_gone)
        if gone:
            self.board.post(tick_at(now), {}, gone)
