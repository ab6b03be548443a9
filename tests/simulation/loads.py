"""Load for tests: a closed loop of clients, and the recorded pages of a real engine."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scaler.simulation.engine import Engine
from scaler.simulation.requests import Request
from scaler.simulation.shapes import EngineShape

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


class Gauges(NamedTuple):
    """What one scrape of an engine showed."""

    at: float
    running: float
    waiting: float
    usage: float
    preemptions: float


def recorded(name: str) -> list[Gauges]:
    """Read the series of a real vLLM under a known load."""
    with (CAPTURES / f"{name}.series.csv").open(encoding="utf-8", newline="") as lines:
        return [Gauges(*(float(cell) for cell in row[:5])) for row in csv.reader(lines)]


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
