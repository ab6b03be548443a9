"""Load for tests: a closed loop of clients, and the recorded pages of a real engine."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from scaler.simulation.engine import Engine
from scaler.simulation.requests import Request
from scaler.simulation.shapes import EngineShape, StepCost

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


class Gauges(NamedTuple):
    """What one scrape of an engine showed."""

    at: float
    running: float
    waiting: float
    usage: float
    preemptions: float


class State(NamedTuple):
    """What an engine, or several together, showed for some steps: counts, no time."""

    running: int
    waiting: int
    blocks: int
    preemptions: int


class Sending(NamedTuple):
    """One request, sent when the engine has made (or could have made) so many steps."""

    step: int
    prompt: int
    output: int


ONE_STEP = 0.01
EVEN = StepCost(base=ONE_STEP, per_token=0.0, per_sequence=0.0, per_context_token=0.0)
"""Every step takes the same, so that time counts steps."""


def recorded(name: str) -> list[Gauges]:
    """Read the series of a real vLLM under a known load, up to where it stopped answering."""
    with (CAPTURES / f"{name}.series.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.reader(lines) if row[1] != "ERR"]
    return [Gauges(*(float(cell) for cell in row[:5])) for row in rows]


def states(series: Iterable[Gauges], *, blocks: int) -> list[State]:
    """Reduce a series to the states that it passes through; preemptions from its beginning on."""
    passed: list[State] = []
    before = None
    for gauges in series:
        before = gauges.preemptions if before is None else before
        state = State(
            running=round(gauges.running),
            waiting=round(gauges.waiting),
            blocks=round(gauges.usage * blocks),
            preemptions=round(gauges.preemptions - before),
        )
        if state not in passed[-1:]:
            passed.append(state)
    return passed


def stepped(engine: Engine, sendings: Sequence[Sending]) -> Iterator[Gauges]:
    """Send requests to an engine of even steps and look after each step until nothing is left."""
    number, step = 0, 0
    while number < len(sendings) or engine.in_flight:
        while number < len(sendings) and sendings[number].step <= step:
            _, prompt, output = sendings[number]
            at = step * ONE_STEP
            request = Request(number=number, arrived=at, prompt=prompt, output=output)
            engine.submit(request, at)
            number += 1
        step += 1
        engine.advance(step * ONE_STEP)
        preemptions = engine.counters.preemptions
        yield Gauges(
            step * ONE_STEP, engine.running, engine.waiting, engine.kv_cache_usage, preemptions
        )


class ClosedLoop:
    """Clients that each send a request, wait for its end, and send the next one."""

    def __init__(self, shape: EngineShape, *, clients: int, prompt: int, output: int) -> None:
        self.engine = Engine(shape, on_end=self._again)
        self._clients = clients
        self._lengths = prompt, output
        self._sent = 0
        self._pause = 0.0

    def start(self, at: float, *, apart: float, pause: float) -> None:
        """Send each client's first request, `apart` seconds from each other.

        After an end a client takes `pause` seconds to send again.
        """
        self._pause = pause
        for client in range(self._clients):
            self._send(at + client * apart)

    def scrape(self, at: float) -> Gauges:
        """Advance and read the gauges."""
        engine = self.engine
        engine.advance(at)
        preemptions = engine.counters.preemptions
        return Gauges(at, engine.running, engine.waiting, engine.kv_cache_usage, preemptions)

    def every(self, step: float, until: float) -> Iterator[Gauges]:
        """Scrape in even steps."""
        for index in range(1, round(until / step) + 1):
            yield self.scrape(index * step)

    def _send(self, at: float) -> None:
        prompt, output = self._lengths
        request = Request(number=self._sent, arrived=at, prompt=prompt, output=output)
        self._sent += 1
        self.engine.submit(request, at)

    def _again(self, request: Request) -> None:
        if request.ended_at is not None:
            self._send(request.ended_at + self._pause)
