"""A percentile out of histogram buckets, with the bucket that it is known to lie in."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from scaler.core.reading import LatencyBuckets

ENOUGH_OBSERVATIONS = 20
"""Fewer than this many say nothing about a 95th percentile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """A percentile in seconds: somewhere in (lower, upper], estimated as `value`.

    Above the last finite edge nothing is known but that: `value` is that edge, `upper` is inf.
    """

    value: float
    lower: float
    upper: float
    observations: float


def percentile(buckets: LatencyBuckets, share: float = 0.95) -> Percentile | None:
    """Return the percentile by Prometheus' linear rule, or None where nothing was observed.

    Bucket layouts that differ between replicas can make the merged counts dip; the running
    maximum repairs that, as Prometheus does.
    """
    counts = _monotone(buckets.counts)
    total = counts[-1] if counts else 0.0
    if not math.isfinite(total) or total <= 0.0 or len(counts) != len(buckets.edges):
        return None
    rank = share * total
    index = bisect_left(counts, rank)
    upper = buckets.edges[index]
    lower = buckets.edges[index - 1] if index > 0 else 0.0
    if math.isinf(upper):
        return Percentile(value=lower, lower=lower, upper=math.inf, observations=total)
    below = counts[index - 1] if index > 0 else 0.0
    inside = counts[index] - below
    part = (rank - below) / inside if inside > 0 else 1.0
    value = lower + (upper - lower) * part
    return Percentile(value=value, lower=lower, upper=upper, observations=total)


def _monotone(counts: tuple[float, ...]) -> list[float]:
    highest, result = 0.0, []
    for count in counts:
        highest = max(highest, count)
        result.append(highest)
    return result
