"""The model under the same load as the real engine."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from benchmarks.engine.real import Run
from benchmarks.engine.scenarios import Scenario
from benchmarks.engine.sight import Served, Sight
from scaler.simulation.engine import Engine
from scaler.simulation.requests import Request
from scaler.simulation.shapes import EngineShape

SLICE = 0.001
"""Seconds at a time: shorter than any step, so that no step is missed."""

_NOBODY = -1
"""Whose requests come whatever becomes of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRun:
    """What the model showed after each of its steps, its requests, and the model itself."""

    sights: list[Sight]
    served: list[Served]
    engine: Engine


class Modelled:
    """A modelled engine under a scenario's load. Use `run` once.

    A client whose request has ended sends the next one `pause` seconds later.
    """

    def __init__(self, shape: EngineShape, scenario: Scenario, *, pause: float) -> None:
        self.engine = Engine(shape, on_end=self._again)
        self._scenario = scenario
        self._pause = max(pause, SLICE)
        self._requests: list[Request] = []
        self._turns: dict[int, tuple[int, int]] = {}
        self._due: list[tuple[float, int, int]] = []
        for number, arrival in enumerate(scenario.arrivals):
            heappush(self._due, (arrival.at, _NOBODY, number))
        for client in range(scenario.clients):
            heappush(self._due, (client * scenario.apart, client, 0))
        self._step = 0

    def run(self, until: float) -> ModelRun:
        """Go on until this time."""
        sights = [self._sight(0.0, after=None)]
        for taken in range(1, round(until / SLICE) + 1):
            at = taken * SLICE
            while self._due and self._due[0][0] <= at:
                self.engine.advance(self._due[0][0])
                self._send(*heappop(self._due))
            self.engine.advance(at)
            if self._step != self.engine._running.batch.step:
                sights.append(self._sight(at, after=sights[-1]))
        served = [
            Served(
                client=self._turns.get(request.number, (None, 0))[0],
                sent=request.submitted,
                first_token=request.first_token_at,
                ended=request.ended_at,
                prompt=request.prompt,
                output=request.output,
            )
            for request in self._requests
        ]
        return ModelRun(sights=sights, served=served, engine=self.engine)

    def _send(self, at: float, client: int, turn: int) -> None:
        if client == _NOBODY:
            arrival = self._scenario.arrivals[turn]
            prompt, output = arrival.prompt, arrival.output
        else:
            prompt, output = self._scenario.lengths(client, turn)
        request = Request(number=len(self._requests), arrived=at, prompt=prompt, output=output)
        self._requests.append(request)
        if client != _NOBODY:
            self._turns[request.number] = client, turn
        self.engine.submit(request, at)

    def _again(self, request: Request) -> None:
        told = self._turns.get(request.number)
        if told is not None and request.ended_at is not None:
            client, turn = told
            heappush(self._due, (request.ended_at + self._pause, client, turn + 1))

    def _sight(self, at: float, *, after: Sight | None) -> Sight:
        engine, counters = self.engine, self.engine.counters
        before, self._step = self._step, engine._running.batch.step
        steps = 0.0
        if after is not None:
            # vLLM counts no step that gave nobody a token.
            grown = counters.generation_tokens > after.generated
            steps = after.steps + (self._step - before) * grown
        return Sight(
            at=at,
            running=engine.running,
            waiting=engine.waiting,
            waiting_for_capacity=engine.waiting,
            deferred=0.0,
            usage=engine.kv_cache_usage,
            steps=steps,
            generated=counters.generation_tokens,
            prompts=counters.prompt_tokens,
            first_tokens=counters.ttft.count,
            waited=counters.ttft.total,
            finished=counters.success,
            preemptions=counters.preemptions,
            preempted=sum(request.preempted for request in self._requests),
        )


def mirrored(model: ModelRun, real: Run) -> Run:
    """Put the model in the real engine's place: looked at as rarely as that was."""
    times = [sight.at for sight in model.sights]
    looks = [
        replace(model.sights[max(0, bisect_right(times, look.at) - 1)], at=look.at)
        for look in real.sights
    ]
    return replace(real, sights=looks, served=model.served)
