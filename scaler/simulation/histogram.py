"""Histograms with vLLM's bucket edges."""

from __future__ import annotations

import math
from bisect import bisect_left

# vLLM 0.32's default edges in seconds, from its /metrics page.
TTFT_EDGES: tuple[float, ...] = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0, math.inf),
)
ITL_EDGES: tuple[float, ...] = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, math.inf),
)
E2E_EDGES: tuple[float, ...] = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0, math.inf),
)


class Histogram:
    """Counts per bucket (not cumulative inside), and the sum of what was observed."""

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = edges
        self.counts = [0] * len(edges)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value` in the first bucket whose edge is not below it."""
        self.counts[bisect_left(self.edges, value)] += times
        self.total += value * times

    def observe_ramp(self, first: float, rise: float, steps: int, times: int) -> None:
        """Count the `steps` values first, first + rise, first + 2 rise, ..., each `times` times.

        `rise` is not negative. Costs one look-up per bucket that the ramp crosses.
        """
        last = first + rise * (steps - 1)
        index = bisect_left(self.edges, first)
        done = 0
        while self.edges[index] < last:
            upto = math.floor((self.edges[index] - first) / rise) + 1
            upto = min(max(upto, done), steps)
            self.counts[index] += (upto - done) * times
            done = upto
            index += 1
        self.counts[index] += (steps - done) * times
        self.total += (first + last) / 2 * steps * times

    @property
    def count(self) -> int:
        """Return how many values were observed."""
        return sum(self.counts)

    def cumulative(self) -> tuple[int, ...]:
        """Return the counts at or below each edge, as Prometheus has them."""
        running, result = 0, []
        for count in self.counts:
            running += count
            result.append(running)
        return tuple(result)
