"""What became of the requests, added up as they end: memory does not grow with their number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scaler.core.units import Seconds
from scaler.simulation.requests import Ending, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """What a user was promised: a first token, and then a pace, both in seconds."""

    ttft: Seconds = 2.0
    tpot: Seconds = 0.1

    def attained(self, request: Request) -> bool:
        """Say whether a request that has ended kept the promise; one not served never did."""
        ttft, tpot = request.ttft, request.tpot
        return ttft is not None and tpot is not None and ttft <= self.ttft and tpot <= self.tpot


class Sketch:
    """Quantiles of positive values within 1 %: counts in bins that are 2 % wide."""

    __slots__ = ("_bins", "_zeros", "count")

    _WIDTH = math.log(1.02)
    _SMALLEST = 1e-6

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self._zeros = 0
        self.count = 0

    def add(self, value: float) -> None:
        """Count a value; anything below a microsecond counts as 0."""
        self.count += 1
        if value < self._SMALLEST:
            self._zeros += 1
            return
        index = math.floor(math.log(value) / self._WIDTH)
        self._bins[index] = self._bins.get(index, 0) + 1

    def quantile(self, share: float) -> float | None:
        """Return the value at this share (0..1, nearest rank); None where nothing was counted."""
        if self.count == 0:
            return None
        rank = max(1, math.ceil(share * self.count))
        seen = self._zeros
        if seen >= rank:
            return 0.0
        for index in sorted(self._bins):
            seen += self._bins[index]
            if seen >= rank:
                return math.exp((index + 0.5) * self._WIDTH)
        raise AssertionError("the bins hold every value that was counted")


class Outcomes:
    """Endings counted, latencies sketched, the promise checked.

    `ttft` is over all requests that got a first token, served or not; `tpot` over those served
    with more than one token. A request counts as attained or missed when it ends.
    """

    def __init__(self, slo: Slo | None = None) -> None:
        self.slo = slo or Slo()
        self.arrived = 0
        self.attained = 0
        self.preempted = 0
        """How often requests that have ended were preempted."""
        self.ended: dict[Ending, int] = dict.fromkeys(Ending, 0)
        self.ttft = Sketch()
        self.tpot = Sketch()
        self.tokens = 0
        """Output tokens of served requests."""

    def arrive(self) -> None:
        """Count a request that was sent."""
        self.arrived += 1

    def record(self, request: Request) -> None:
        """Count a request that has ended."""
        if request.ending is None:
            raise AssertionError(f"{request!r} has not ended")
        self.ended[request.ending] += 1
        self.preempted += request.preempted
        if request.ttft is not None:
            self.ttft.add(request.ttft)
        if request.ending is Ending.SERVED:
            self.tokens += request.output
            if request.output > 1 and request.tpot is not None:
                self.tpot.add(request.tpot)
        if self.slo.attained(request):
            self.attained += 1

    @property
    def total_ended(self) -> int:
        """Count the requests that have ended in whatever way."""
        return sum(self.ended.values())

    @property
    def open(self) -> int:
        """Count the requests that have arrived and not ended."""
        return self.arrived - self.total_ended

    @property
    def slo_attainment(self) -> float | None:
        """Return the share of arrived requests that kept the promise; None before the first.

        A request that is still open counts as a miss: read this when all have ended.
        """
        return self.attained / self.arrived if self.arrived else None
