"""The loop on its grid, by a clock that a test sets."""

from __future__ import annotations

import asyncio

from scaler.control.board import Board
from scaler.control.loop import Loop
from scaler.control.registry import Registry
from scaler.core.policy import Policy
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Scale
from tests.adapters.kubernetes.following import until
from tests.control.conftest import resolve_with
from tests.fakes.clock import FakeClock, settle
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import FakeSource, fleet_reading


async def test_a_clock_that_is_set_back_stops_no_tick() -> None:
    """It goes on within one tick of the new time, instead of waiting for the old one."""
    clock = FakeClock()
    registry = Registry(resolve_with(Policy()), clock.now)
    source = FakeSource(lambda _, at: fleet_reading(at))
    loop = Loop(
        registry=registry,
        board=Board(),
        sources={"fake": source},
        cluster=FakeCluster(chat=Scale(current=4)),
        clock=clock,
    )
    registry.ask("llm", "chat", {"modelName": "chat"})
    running = asyncio.create_task(loop.run())
    for step in (TICK, -3600.0, TICK, -600.0, TICK, TICK):
        await until(lambda: loop.followers[0].stats.last_tick == tick_at(clock.now()))
        await settle()
        clock.set(clock.now() + step)
    await until(lambda: loop.followers[0].stats.last_tick == tick_at(clock.now()))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
