"""How far the model is from the real engine: in time, and step by step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.engine.modelled import ModelRun
from benchmarks.engine.real import Run
from benchmarks.engine.sight import Served, Sight
from scaler.simulation.shapes import StepCost

Pick = Callable[[Sight], float]

GAUGES: dict[str, Pick] = {
    "running": lambda sight: sight.running,
    "waiting": lambda sight: sight.waiting,
    "cache usage": lambda sight: sight.usage,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeError:
    """One gauge at the same instants: means, and mean absolute errors of the model.

    `spread` is the mean distance of the real gauge from its own median: the error of the best
    constant.
    """

    real: float
    spread: float
    by_step: float
    by_step_error: float
    in_time: float
    in_time_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One figure of the real engine and of the model."""

    real: float
    model: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The model against the last three quarters of a run, `looks` looks.

    By step: tokens, first tokens, preemptions; and by how much the counter of preemptions grows
    wrongly between two looks, as it counts and had it counted at once. In time: steps, and the time
    to first token, its mean as the engine counts it and percentiles as the clients see it. `pace`
    is how long the real engine's steps took while it ran something, in the first quarter and later.
    `reasons_differ` counts looks at which the gauge by reason said anything but the plain one.
    """

    cost: StepCost
    pause: float
    looks: int
    gauges: dict[str, GaugeError]
    tokens: Pair
    first_tokens: Pair
    preemptions: Pair
    growth_error: float
    growth_error_at_once: float
    pace: tuple[float, float]
    steps: Pair
    ttft_mean: Pair
    ttft_p50: Pair
    ttft_p95: Pair
    reasons_differ: int


def first_quarter(sights: Sequence[Sight]) -> Sequence[Sight]:
    """Return the sights of the first quarter of the time."""
    return sights[: bisect_right([sight.at for sight in sights], sights[-1].at / 4)]


def compared(
    real: Run, by_step: ModelRun, in_time: ModelRun, *, cost: StepCost, pause: float, step: float
) -> Comparison:
    """Compare what lies after the first quarter.

    In `by_step` each step took `step` seconds, and requests came at the step at which they came to
    the real engine.
    """
    known = first_quarter(real.sights)
    looks = real.sights[len(known) :]
    stepped = _at(by_step.sights, [look.steps * step for look in looks])
    timed = _at(in_time.sights, [look.at for look in looks])
    since, until = looks[0].at, looks[-1].at
    waits = [_ttfts(run.served, since, until) for run in (real, in_time)]
    return Comparison(
        cost=cost,
        pause=pause,
        looks=len(looks),
        gauges={name: _gauge(looks, stepped, timed, pick) for name, pick in GAUGES.items()},
        tokens=_grown(looks, stepped, lambda sight: sight.generated),
        first_tokens=_grown(looks, stepped, lambda sight: sight.first_tokens),
        preemptions=_grown(looks, stepped, lambda sight: sight.preemptions),
        growth_error=_growth_error(looks, stepped, lambda sight: sight.preemptions),
        growth_error_at_once=_growth_error(looks, stepped, _at_once),
        pace=(_pace(known), _pace(looks)),
        steps=_grown(looks, timed, lambda sight: sight.steps),
        ttft_mean=Pair(real=_wait(looks), model=_wait(timed)),
        ttft_p50=Pair(real=_percentile(waits[0], 0.5), model=_percentile(waits[1], 0.5)),
        ttft_p95=Pair(real=_percentile(waits[0], 0.95), model=_percentile(waits[1], 0.95)),
        reasons_differ=sum(
            sight.waiting_for_capacity != sight.waiting or sight.deferred != 0 for sight in looks
        ),
    )


def _gauge(
    looks: Sequence[Sight], stepped: Sequence[Sight], timed: Sequence[Sight], pick: Pick
) -> GaugeError:
    real = [pick(sight) for sight in looks]
    middle = median(real)
    return GaugeError(
        real=_mean(real),
        spread=_mean([abs(value - middle) for value in real]),
        by_step=_mean([pick(sight) for sight in stepped]),
        by_step_error=_error(looks, stepped, pick),
        in_time=_mean([pick(sight) for sight in timed]),
        in_time_error=_error(looks, timed, pick),
    )


def _at_once(sight: Sight) -> float:
    return sight.preemptions if sight.preempted is None else sight.preempted


def _at(model: Sequence[Sight], times: Sequence[float]) -> list[Sight]:
    known = [sight.at for sight in model]
    return [model[max(0, bisect_right(known, at) - 1)] for at in times]


def _grown(looks: Sequence[Sight], model: Sequence[Sight], pick: Pick) -> Pair:
    return Pair(real=pick(looks[-1]) - pick(looks[0]), model=pick(model[-1]) - pick(model[0]))


def _error(looks: Sequence[Sight], model: Sequence[Sight], pick: Pick) -> float:
    return _mean([abs(pick(a) - pick(b)) for a, b in zip(looks, model, strict=True)])


def _growth_error(looks: Sequence[Sight], model: Sequence[Sight], pick: Pick) -> float:
    grown = [
        [pick(after) - pick(before) for before, after in pairwise(sights)]
        for sights in (looks, model)
    ]
    return _mean([abs(a - b) for a, b in zip(*grown, strict=True)])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _pace(sights: Sequence[Sight]) -> float:
    busy = [
        (after.at - before.at, after.steps - before.steps)
        for before, after in pairwise(sights)
        if before.running and after.running
    ]
    steps = sum(made for _, made in busy)
    return sum(took for took, _ in busy) / steps if steps else math.nan


def _wait(sights: Sequence[Sight]) -> float:
    """Return the mean time to first token as the engine counts it."""
    first, last = sights[0], sights[-1]
    counted = last.first_tokens - first.first_tokens
    return (last.waited - first.waited) / counted if counted else math.nan


def _ttfts(served: Sequence[Served], since: float, until: float) -> list[float]:
    return sorted(
        request.first_token - request.sent
        for request in served
        if request.first_token is not None and since <= request.first_token <= until
    )


def _percentile(ordered: Sequence[float], share: float) -> float:
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
