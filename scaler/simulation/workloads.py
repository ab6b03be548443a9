"""Traffic: a trace of about an hour, stretched to any length and bent into a profile.

The trace is repeated end to end, and each request is kept with the probability that the profile
gives for its instant: the trace's own bursts stay, its rate follows the profile. A load above the
trace's own rate lays several copies over each other, each begun at another point of the trace.
Everything drawn comes from the seed; the same arguments give the same requests to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from random import Random

from scaler.core.units import Seconds
from scaler.simulation.errors import ShapeInvalid
from scaler.simulation.profiles import Profile
from scaler.simulation.requests import Request
from scaler.simulation.traces import Trace

LONG_CONTEXT = (12_000, 30_000)
"""Prompt tokens of the requests that grow in a long-context burst."""

GENERATIONS: dict[str, float] = {"as-traced": 1.0, "short": 0.25, "long": 4.0}
"""Variants of the output length, as factors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """How clients behave: when they go away, and how many conversations there are.

    `sessions` > 0 gives every request a session; low numbers are the busy ones (the square of a
    uniform draw), as some conversations and tenants are.
    """

    patience: Seconds = 60.0
    timeout: Seconds = math.inf
    sessions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A trace under a profile.

    At the profile's peak requests come at `load` times the trace's mean rate. `duration` is in
    seconds (the profile's own by default); the first request may come at `started`.
    `output_scale` stretches or shortens every output, to at least one token.
    """

    trace: Trace
    profile: Profile
    seed: int = 0
    load: float = 1.0
    duration: Seconds | None = None
    started: Seconds = 0.0
    output_scale: float = 1.0
    clients: Clients = field(default_factory=Clients)

    def __post_init__(self) -> None:
        for name in ("load", "output_scale", "length"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ShapeInvalid(f"a workload's {name} is {value}: it must be above 0")

    @property
    def length(self) -> Seconds:
        """Return how long the traffic lasts."""
        return self.profile.duration if self.duration is None else self.duration

    def requests(self) -> Iterator[Request]:
        """Generate the requests in order of time; nothing is kept."""
        copies = max(1, math.ceil(self.load))
        streams = [self._stream(copy, self.load / copies) for copy in range(copies)]
        for number, request in enumerate(merge(*streams, key=attrgetter("arrived"))):
            request.number = number
            yield request

    def rate_at(self, since: Seconds) -> float:
        """Return the mean requests per second that the profile asks for, `since` seconds in."""
        return self.trace.rate * self.load * self.profile.level_at(since / self.length)

    def _stream(self, copy: int, share: float) -> Iterator[Request]:
        """Generate one copy of the repeated trace, thinned to the profile times `share`."""
        random = Random(f"workload:{self.seed}:{copy}")  # noqa: S311 - not a secret
        offset = random.random() * self.trace.duration if copy else 0.0
        for at, prompt, output in self._repeated(offset):
            if at >= self.length:
                return
            # Always three draws a request: what is kept does not shift what the others get.
            keep, grow, who = random.random(), random.random(), random.random()
            moment = at / self.length
            if keep >= share * self.profile.level_at(moment):
                continue
            yield Request(
                number=0,
                arrived=self.started + at,
                prompt=self._prompt(prompt, grow, self.profile.long_context_at(moment)),
                output=max(1, round(output * self.output_scale)),
                patience=self.clients.patience,
                timeout=self.clients.timeout,
                session=int(self.clients.sessions * who * who) if self.clients.sessions else None,
            )

    def _repeated(self, offset: Seconds) -> Iterator[tuple[Seconds, int, int]]:
        begin = -offset
        while True:
            for row in self.trace.rows:
                at = begin + row.at
                if at >= 0:
                    yield at, row.prompt, row.output
            begin += self.trace.duration

    @staticmethod
    def _prompt(prompt: int, grow: float, share: float) -> int:
        """Return the prompt, grown for the share of requests that a long-context burst hits."""
        if grow >= share:
            return prompt
        low, high = LONG_CONTEXT
        return low + int((high - low + 1) * grow / share)
