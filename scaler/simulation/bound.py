"""A proven lower bound on replica-hours for an SLO attainment.

**Claim.** No policy, with whatever knowledge of the future, router or batching order, serves a
share `a` of a world's requests within the SLO and pays fewer replica-seconds than
`LowerBound.seconds(a)`.

**Proof.** Let m(t) be the number of replicas that serve or drain at t, within the traffic's span.

1. *Work.* A served request i needs p_i seconds of some replica's steps before its first token and
   d_i after it (`work.least_work`; a step is never shared out for more than it lasts). If it is
   served within the SLO, the first part falls into [arrival, arrival + TTFT] and both into
   [arrival, arrival + TTFT + TPOT × (outputs − 1)]. What one replica does in a second is at most a
   second of work, so the work done in any span is at most the integral of m over it.
2. *Pay.* A replica that was not there at the start is paid for at least S seconds before it
   serves, S being the shortest start-up that can be drawn (`StartUp` cuts its draws).
3. *Floor.* At least `min_replicas` replicas serve at every instant, for the fleet takes away those
   that load before those that serve.
4. *Prices (weak duality).* Take any prices y(t), x(t) >= 0, piecewise constant, 0 after the
   traffic's end, such that Y(t) = integral of (y + x − 1) stays within [0, S] and begins at S. A
   replica that serves in [b, e] then costs no less than it earns at these prices:
   e − b − (integral of y + x over [b, e]) = Y(b) − Y(e) >= −S, to which the S of its start-up is
   added; one that was there at the start has Y(0) = S and needs none. So the cost of all replicas
   is at least the integral of y·m + x·m, which by 1 and 3 is at least

       sum over served i of  p_i × min y over its first window + d_i × min y over its whole window
       + min_replicas × integral of x.

5. *Choice.* Which requests are served within the SLO is free but for their number: the sum over the
   ⌈a × arrived⌉ cheapest ones is a lower bound for every choice. QED

Any prices give a valid bound; good ones make it tight. Those used here are optimal, on a grid, for
the relaxation in which work stays in the bin of its arrival (a path Y through the band, found by
dynamic programming on the need smoothed over some span), for several grids and spans, and again
after the dearest requests were let go; y = 1 is always tried too. The bound is fluid: it knows no
whole replicas, no latency within a step's reach, and perfect packing. What lies between it and a
policy is that, and headroom, windows and ignorance of the future.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from scaler.core.units import Seconds
from scaler.simulation.priced import Demand, Prices
from scaler.simulation.trial import World
from scaler.simulation.work import Sharing, least_work

GRIDS: tuple[tuple[Seconds, Seconds], ...] = (
    *((60.0, 300.0), (150.0, 0.0), (150.0, 600.0)),
    *((300.0, 0.0), (300.0, 1200.0), (600.0, 0.0)),
)
"""Bins, and the spans over which the need is smoothed before prices are sought for it."""

_LEVELS = 16
_REFINEMENTS = 2
_KEPT = 2
_ROUNDING = 1e-9


class LowerBound:
    """The bound for one world; `seconds` for one attainment. Costs a pass over the requests."""

    def __init__(self, world: World) -> None:
        start_up = world.fleet.start_up
        self.start_up: Seconds = start_up.median * math.exp(-3.0 * start_up.spread)
        self.arrived = 0
        self._span = world.workload.length
        self._floor = world.bounds.min_replicas
        self._demands = {
            grid: Demand(grid=grid, bins=math.ceil(self._span / grid - _ROUNDING))
            for grid, _ in GRIDS
        }
        self._tried = GRIDS
        self._known: dict[int, Seconds] = {}
        self.sharing = _best_sharing(world)
        self._fill(world)

    def _fill(self, world: World) -> None:
        slo, started = world.fleet.slo, world.workload.started
        for request in world.workload.requests():
            self.arrived += 1
            work = least_work(world.fleet.engine, request.prompt, request.output, self.sharing)
            if work is None:
                continue
            since = request.arrived - started
            first_by = since + slo.ttft
            done_by = first_by + slo.tpot * (request.output - 1)
            for demand in self._demands.values():
                demand.add(since, first_by, done_by, work)
        for demand in self._demands.values():
            demand.close()

    def hours(self, attainment: float) -> float:
        """Return the bound in replica-hours for this share of all arrived requests (0..1)."""
        return self.seconds(attainment) / 3600.0

    def seconds(self, attainment: float) -> Seconds:
        """Return the bound in replica-seconds for this share of all arrived requests (0..1)."""
        served = math.ceil(attainment * self.arrived - _ROUNDING * max(1, self.arrived))
        if served not in self._known:
            found = [
                (self._with(grid, smooth, served), (grid, smooth)) for grid, smooth in self._tried
            ]
            found.sort(reverse=True)
            # Where prices do well at one attainment they do at others: only those are tried again.
            self._tried = tuple(way for _, way in found[:_KEPT])
            self._known[served] = max(self._floor * self._span, found[0][0])
        return self._known[served]

    def _with(self, grid: Seconds, smooth: Seconds, served: int) -> Seconds:
        demand = self._demands[grid]
        whole = int((self._span + _ROUNDING) // grid)
        # A last bin that reaches beyond the traffic is worth nothing, as is what comes after.
        flat = [1.0] * whole + [0.0] * (demand.bins - whole)
        prices = Prices(work=flat, floor=[0.0] * demand.bins)
        best, dearest = demand.value(prices, served, self._floor)
        for _ in range(_REFINEMENTS):
            need = _smoothed(demand.need(prices.work, dearest), round(smooth / grid / 2))
            prices = self._prices(need, grid, whole)
            value, dearest = demand.value(prices, served, self._floor)
            best = max(best, value)
        return best

    def _prices(self, need: list[float], grid: Seconds, whole: int) -> Prices:
        """Return the best prices for this need per bin."""
        floor = float(self._floor)
        rise = [max(each, floor) for each in need[:whole]]
        path = best_path(rise, grid=grid, height=self.start_up)
        total = [max(0.0, 1.0 + (after - before) / grid) for before, after in pairwise(path)]
        total += [0.0] * (len(need) - whole)
        busy = [each >= floor for each in need]
        return Prices(
            work=[each if some else 0.0 for each, some in zip(total, busy, strict=True)],
            floor=[0.0 if some else each for each, some in zip(total, busy, strict=True)],
        )


def best_path(need: list[float], *, grid: Seconds, height: Seconds) -> list[float]:
    """Return the path Y, one point more than bins, that maximises the sum of need × rise.

    It begins at `height`, stays within [0, height] on evenly spaced levels, and falls by at most
    `grid` a bin, so that prices are never negative.
    """
    levels = [height * level / _LEVELS for level in range(_LEVELS + 1)]
    value = [-math.inf] * _LEVELS + [0.0]
    came: list[list[int]] = []
    for each in need:
        step = [_best_from(value, levels, level, each, grid) for level in levels]
        value = [gain for gain, _ in step]
        came.append([where for _, where in step])
    index = max(range(_LEVELS + 1), key=value.__getitem__)
    path = [levels[index]]
    for source in reversed(came):
        index = source[index]
        path.append(levels[index])
    return path[::-1]


def _best_from(
    value: list[float], levels: list[float], level: float, need: float, grid: Seconds
) -> tuple[float, int]:
    """Return the best value of reaching a level in one bin, and from which level."""
    return max(
        (value[index] + need * (level - before), index)
        for index, before in enumerate(levels)
        if before - level <= grid + _ROUNDING
    )


def _smoothed(values: list[float], reach: int) -> list[float]:
    """Return means over `reach` neighbours each way, fewer at the ends."""
    if reach < 1:
        return values
    return [
        _mean(values[max(0, index - reach) : index + reach + 1]) for index in range(len(values))
    ]


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)


def _best_sharing(world: World) -> Sharing:
    totals = dict.fromkeys(Sharing, 0.0)
    for request in world.workload.requests():
        for sharing in Sharing:
            work = least_work(world.fleet.engine, request.prompt, request.output, sharing)
            if work is not None:
                totals[sharing] += work.prefill + work.decode
    return max(Sharing, key=totals.__getitem__)
