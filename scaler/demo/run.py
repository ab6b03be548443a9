"""Runs the demo's parts beside a scaler that is already serving."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scaler.control.board import Posting
from scaler.control.ports import Clock
from scaler.core.units import Seconds, tick_at
from scaler.demo.clock import after_next_tick
from scaler.demo.fleet_server import FleetServer
from scaler.demo.load import Load
from scaler.demo.scene import Scene
from scaler.demo.stand_in import StandIn
from scaler.demo.story import Story, Verdict
from scaler.demo.table import HEADER, Line, heading, legend, text_of
from scaler.simulation.requests import Ending

SHOWN_AFTER_TICK: Seconds = 4.0
"""When the tick is decided on, and before KEDA's stand-in acts on it."""

_RATE_SPAN: Seconds = 60.0
_LEAD_IN: Seconds = 45.0
"""Simulated time, at least, for the scaler to start in before the first request comes."""

_MINUTE: Seconds = 60.0


def fleet_for(clock: Clock, directory: Path, *, scene: Scene | None = None) -> FleetServer:
    """Make the demo's fleet; its files appear in `directory` when it is entered."""
    # On a full minute, so that every run meets the grids of ticks and minutes alike.
    started = math.ceil((clock.now() + _LEAD_IN) / _MINUTE) * _MINUTE
    load = Load(started=started)
    return FleetServer(clock=clock, load=load, directory=directory, scene=scene)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """The scaler as the demo sees it: two addresses, and its newest decision for the workload."""

    grpc: str
    http: str
    newest: Callable[[], Posting | None]


async def run_demo(
    fleet: FleetServer,
    scaler: Scaler,
    *,
    clock: Clock,
    speed: float,
    say: Callable[[str], None],
    once: bool = False,
) -> int:
    """Show cycle after cycle until cancelled; with `once` end after one and return its status.

    The status is 0 when the fleet grew under the burst and shrank after it, else 1.
    """
    stand_in = StandIn(scene=fleet.scene, fleet=fleet, address=scaler.grpc, clock=clock)
    watch = Watch(fleet, scaler.newest, clock=clock, say=say, trouble=lambda: stand_in.trouble)
    targets = str(fleet.targets_file)
    say(
        legend(
            fleet.scene,
            fleet.load,
            speed=speed,
            http=scaler.http,
            grpc=scaler.grpc,
            targets=targets,
        )
    )
    async with asyncio.TaskGroup() as tasks:
        beside = [tasks.create_task(fleet.run()), tasks.create_task(stand_in.run())]
        while True:
            verdict = await watch.cycle()
            say(f"\n{verdict.sentence}\n")
            if once:
                break
        for task in beside:
            task.cancel()
    return 0 if verdict.good else 1


class Watch:
    """Looks at every tick, shows it and follows the cycle's story."""

    def __init__(
        self,
        fleet: FleetServer,
        newest: Callable[[], Posting | None],
        *,
        clock: Clock,
        say: Callable[[str], None],
        trouble: Callable[[], str | None],
    ) -> None:
        """Start before the first cycle."""
        self._fleet = fleet
        self._newest = newest
        self._clock = clock
        self._say = say
        self._trouble = trouble
        self._phase = -1
        self._arrived: deque[tuple[Seconds, int]] = deque()
        self._ends = fleet.load.started

    async def cycle(self) -> Verdict:
        """Show one cycle to its end."""
        story = Story()
        self._ends += self._fleet.load.cycle
        outcomes = self._fleet.outcomes
        served, arrived = outcomes.ended[Ending.SERVED], outcomes.arrived
        while True:
            now = self._clock.now()
            await self._clock.sleep_until(after_next_tick(now, SHOWN_AFTER_TICK))
            now = self._clock.now()
            if now >= self._ends:
                break
            line = self.look(now)
            self._show(line)
            story.note(line)
        outcomes = self._fleet.outcomes
        return story.verdict(
            served=outcomes.ended[Ending.SERVED] - served, arrived=outcomes.arrived - arrived
        )

    def look(self, now: Seconds) -> Line:
        """Return what is to be seen now."""
        census, load = self._fleet.census(), self._fleet.load
        index, phase = load.phase_at(now)
        return Line(
            since=tick_at(now) - load.started,
            phase=index,
            name=phase.name,
            rate=self._rate(now),
            current=census.spec,
            loading=census.loading,
            posting=self._newest(),
            trouble=self._trouble(),
        )

    def _rate(self, now: Seconds) -> float | None:
        """Return the requests per second that came within the last minute, or less at first."""
        self._arrived.append((now, self._fleet.outcomes.arrived))
        while self._arrived[0][0] < now - _RATE_SPAN:
            self._arrived.popleft()
        since, before = self._arrived[0]
        return (self._arrived[-1][1] - before) / (now - since) if now > since else None

    def _show(self, line: Line) -> None:
        if line.phase != self._phase:
            self._phase = line.phase
            script = self._fleet.load.script
            self._say(f"\n{heading(script[line.phase % len(script)])}\n{HEADER}")
        self._say(text_of(line))
