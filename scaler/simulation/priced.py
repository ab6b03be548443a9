"""Requests on a time grid, and what the cheapest of them are worth at given prices."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate

from scaler.core.units import Seconds
from scaler.simulation.work import Work

_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """For each bin, what a second of work earns, and what each replica of the floor earns."""

    work: list[float]
    floor: list[float]


class Demand:
    """The work of requests, by the bins in which it must be done.

    A request whose whole window lies in one bin is worth that bin's price times its work: those are
    kept sorted, bin by bin, with running totals, so that the cheapest of all bins are added up
    without looking at each. The others (`_crossing`) are looked at one by one.
    """

    def __init__(self, *, grid: Seconds, bins: int) -> None:
        self.grid = grid
        self.bins = bins
        self._inside: dict[int, array[float]] = defaultdict(lambda: array("d"))
        self._totals: dict[int, array[float]] = {}
        self._crossing: list[tuple[int, int, int, float, float]] = []

    def add(self, since: Seconds, first_by: Seconds, done_by: Seconds, work: Work) -> None:
        """Add a request: its arrival and the ends of its two windows, in seconds."""
        begin = min(int(since // self.grid), self.bins)
        end = min(int(done_by // self.grid), self.bins)
        if begin == end:
            self._inside[begin].append(work.prefill + work.decode)
        else:
            first = min(int(first_by // self.grid), self.bins)
            self._crossing.append((begin, first, end, work.prefill, work.decode))

    def close(self) -> None:
        """Sort; after this nothing may be added."""
        for index, works in self._inside.items():
            self._inside[index] = array("d", sorted(works))
            self._totals[index] = array("d", accumulate(self._inside[index], initial=0.0))

    def value(self, prices: Prices, served: int, floor: int) -> tuple[Seconds, float]:
        """Return what the cheapest `served` requests and the floor are worth at these prices.

        Also what the dearest of those requests is worth.
        """
        crossing = sorted(self._crossing_values(prices.work))
        sums = list(accumulate(crossing, initial=0.0))
        low, high = 0.0, self._dearest(prices.work, crossing)
        if served < self._count(prices.work, crossing, high):
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                if self._count(prices.work, crossing, middle) < served:
                    low = middle
                else:
                    high = middle
            high = low  # so that fewer than `served` are cheaper: the others cost at least this
        below = self._count(prices.work, crossing, high)
        worth = self._sum(prices.work, crossing, sums, high)
        worth += max(0, served - below) * high
        return worth + floor * self.grid * math.fsum(prices.floor), high

    def need(self, prices: list[float], dearest: float) -> list[float]:
        """Return each bin's work per second, without requests that are worth more than that."""
        total = [0.0] * (self.bins + 1)
        beyond = [*prices, 0.0]
        for index, works in self._inside.items():
            price = beyond[index]
            kept = bisect_right(works, dearest / price) if price > 0 else len(works)
            total[index] += self._totals[index][kept]
        values = self._crossing_values(prices)
        for (begin, _, _, prefill, decode), value in zip(self._crossing, values, strict=True):
            if value <= dearest:
                total[begin] += prefill + decode
        return [work / self.grid for work in total[: self.bins]]

    def _crossing_values(self, prices: list[float]) -> list[float]:
        beyond = [*prices, 0.0]
        lows: dict[tuple[int, int, int], tuple[float, float]] = {}
        values = []
        for begin, first, end, prefill, decode in self._crossing:
            key = (begin, first, end)
            if key not in lows:
                lows[key] = min(beyond[begin : first + 1]), min(beyond[begin : end + 1])
            low, lowest = lows[key]
            values.append(low * prefill + lowest * decode)
        return values

    def _dearest(self, prices: list[float], crossing: list[float]) -> float:
        beyond = [*prices, 0.0]
        inside = (beyond[index] * works[-1] for index, works in self._inside.items())
        return max([0.0, *inside, *crossing[-1:]])

    def _count(self, prices: list[float], crossing: list[float], limit: float) -> int:
        """Count the requests worth at most `limit`."""
        beyond = [*prices, 0.0]
        count = bisect_right(crossing, limit)
        for index, works in self._inside.items():
            price = beyond[index]
            count += bisect_right(works, limit / price) if price > 0 else len(works)
        return count

    def _sum(
        self, prices: list[float], crossing: list[float], sums: list[float], limit: float
    ) -> float:
        """Add up the requests worth at most `limit`."""
        beyond = [*prices, 0.0]
        parts = [sums[bisect_right(crossing, limit)]]
        for index, works in self._inside.items():
            price = beyond[index]
            if price > 0:
                parts.append(price * self._totals[index][bisect_right(works, limit / price)])
        return math.fsum(parts)
