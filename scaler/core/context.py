"""What the samples before a sample add to it: slopes, means and whether the fleet just grew."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from scaler.core.sample import Sample
from scaler.core.units import RATE_WINDOW, TICK, Seconds, ticks_in

GROWTH_SPAN: Seconds = 60.0
SHORTEST_TREND: Seconds = 300.0
_TREND_LEAST = 8
_PEAK_SPAN: Seconds = 600.0

_at = attrgetter("at")
_waiting = attrgetter("waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known beside a sample from those before it.

    `waiting_growth` and `running_growth` are requests per second, never negative. `complete` says
    that of each tick of the trend's span somebody was heard. `serving_mean` and `waiting_mean` are
    over the rate window, the latter None where a tick of it is missing or nobody was heard.
    `serving_least` is the smallest fleet of the trend's span. In all of them a replica that is not
    heard counts as one, as busy as the others: it did not go.
    `just_grew`: within the rate window the fleet rose above its highest of ten minutes.
    `before` is the sample one tick earlier, if there is one.
    """

    waiting_growth: float
    running_growth: float
    complete: bool
    serving_mean: float
    serving_least: int
    waiting_mean: float | None
    just_grew: bool
    before: Sample | None


def trend_span(lead_time: Seconds) -> Seconds:
    """Return over which span the trend of `running` is taken."""
    return max(SHORTEST_TREND, lead_time)


def look_back(samples: Sequence[Sample], index: int, lead_time: Seconds) -> Context:
    """Return the context of `samples[index]`; the samples are in ascending order of time."""
    at = samples[index].at
    trend = _since(samples, index, at - trend_span(lead_time))
    rated = _since(samples, index, at - RATE_WINDOW)
    whole = len(rated) >= ticks_in(at, RATE_WINDOW) and all(s.serving for s in rated)
    before = samples[index - 1] if index and samples[index - 1].at == at - TICK else None
    return Context(
        waiting_growth=max(0.0, _slope(_since(samples, index, at - GROWTH_SPAN), _waiting)),
        running_growth=_running_growth(trend),
        complete=sum(s.serving > 0 for s in trend) >= ticks_in(at, trend_span(lead_time)),
        serving_mean=sum(map(_there, rated)) / len(rated),
        serving_least=min(map(_there, trend)),
        waiting_mean=sum(map(_waiting_of_all, rated)) / len(rated) if whole else None,
        just_grew=_just_grew(samples, index, at),
        before=before,
    )


def _since(samples: Sequence[Sample], index: int, start: Seconds) -> Sequence[Sample]:
    first = bisect_right(samples, start, hi=index + 1, key=_at)
    return samples[first : index + 1]


def _running_growth(trend: Sequence[Sample]) -> float:
    """Return the trend of what the whole fleet runs; 0 while it grew itself.

    Replicas that are not heard are taken to run as much as the others: when they are heard again
    neither the fleet nor the demand has grown.
    """
    trend = [sample for sample in trend if sample.serving]
    if len(trend) < _TREND_LEAST:
        return 0.0
    if any(_there(later) > _there(earlier) for earlier, later in pairwise(trend)):
        return 0.0
    return max(0.0, _slope(trend, _running_of_all))


def _there(sample: Sample) -> int:
    return sample.serving + sample.unseen


def _running_of_all(sample: Sample) -> float:
    return sample.running * _there(sample) / sample.serving if sample.unseen else sample.running


def _waiting_of_all(sample: Sample) -> float:
    return sample.waiting * _there(sample) / sample.serving if sample.unseen else sample.waiting


def _just_grew(samples: Sequence[Sample], index: int, at: Seconds) -> bool:
    for later in range(index, 0, -1):
        if samples[later].at <= at - RATE_WINDOW:
            return False
        there = _there(samples[later])
        if there <= _there(samples[later - 1]):
            continue
        earlier = _since(samples, later - 1, samples[later].at - _PEAK_SPAN)
        if earlier and there > max(map(_there, earlier)):
            return True
    return False


def _slope(samples: Sequence[Sample], value: Callable[[Sample], float]) -> float:
    """Return the least-squares slope per second; 0 where there is no change to see."""
    count = len(samples)
    values = [value(s) for s in samples]
    if min(values) == max(values):
        return 0.0
    origin = samples[0].at
    times = [s.at - origin for s in samples]
    mean_t, mean_v = sum(times) / count, sum(values) / count
    spread = sum((t - mean_t) ** 2 for t in times)
    return float(
        sum((t - mean_t) * (v - mean_v) for t, v in zip(times, values, strict=True)) / spread
    )
