"""The best schedule found: counts written down with knowledge of the future.

A search result, not a bound: another schedule may be cheaper. It shows what a fleet of whole
replicas that really queue and really load can do, so it lies between the proven lower bound and any
policy that has to find out. The schedule follows the work that requests need, times a factor,
rounded up; it orders replicas a start-up ahead, and keeps what it would soon order again. A search
halves the factor's range for the attainment that is asked for, then tries to do with one replica
less at one level or another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from scaler.core.units import Seconds
from scaler.simulation.policies.fixed import SchedulePolicy
from scaler.simulation.results import Result
from scaler.simulation.trial import World, run_trial
from scaler.simulation.work import Sharing, least_work

BIN: Seconds = 60.0
NAME = "best-schedule-found"

_LEAST_FACTOR, _MOST_FACTOR = 1.0, 2.5
_SPREADS_AHEAD = 1.5

Step = tuple[Seconds, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A schedule, the fleet that it begins with, and what it came to."""

    replicas: int
    steps: tuple[Step, ...]
    result: Result


def need_over_time(world: World) -> list[float]:
    """Return for each minute of the traffic how many replicas the requests' least work fills."""
    workload = world.workload
    totals = {sharing: [0.0] * math.ceil(workload.length / BIN) for sharing in Sharing}
    for request in workload.requests():
        index = int((request.arrived - workload.started) // BIN)
        for sharing, total in totals.items():
            work = least_work(world.fleet.engine, request.prompt, request.output, sharing)
            if work is not None:
                total[index] += work.prefill + work.decode
    most = max(totals.values(), key=sum)
    return [work / BIN for work in most]


def counts_for(need: Sequence[float], factor: float, start_up: Seconds, least: int) -> list[int]:
    """Return the replicas that serve in each minute, valleys shorter than a start-up filled."""
    counts = [max(least, math.ceil(each * factor - 1e-9)) for each in need]
    # Ready a minute before the rise, for bins do not say when in them it came.
    counts = [max(counts[index : index + 2]) for index in range(len(counts))]
    reach = math.ceil(start_up / BIN)
    filled = list(counts)
    for level in range(least + 1, max(counts) + 1):
        high = [index for index, count in enumerate(counts) if count >= level]
        for before, after in pairwise(high):
            if 1 < after - before <= reach:
                for index in range(before + 1, after):
                    filled[index] = max(filled[index], level)
    return filled


def steps_for(counts: Sequence[int], started: Seconds, start_up: Seconds) -> tuple[Step, ...]:
    """Return when to ask for how many, so that they serve when they are counted."""
    ahead = math.ceil(start_up / BIN)
    wanted = [max(counts[index : index + ahead + 1]) for index in range(len(counts))]
    steps: list[Step] = []
    for index, count in enumerate(wanted):
        if not steps or steps[-1][1] != count:
            steps.append((started + index * BIN, count))
    return tuple(steps)


def best_schedule(world: World, attainment: float, *, trials: int = 8) -> Found | None:
    """Return the cheapest schedule found that reaches the attainment, or None.

    Half of the `trials` look for the factor, the others try to do with less.
    """
    search = _Search(world, attainment)
    if not search.reaches(search.counts(_MOST_FACTOR)):
        return None
    low, high = _LEAST_FACTOR, _MOST_FACTOR
    for _ in range(max(1, trials // 2) - 1):
        middle = (low + high) / 2
        if search.reaches(search.counts(middle)):
            high = middle
        else:
            low = middle
    for counts in islice(search.thinner(), trials - trials // 2):
        search.reaches(counts)
    return search.best


class _Search:
    """Tries schedules, and keeps the cheapest that reaches the attainment."""

    def __init__(self, world: World, attainment: float) -> None:
        self.best: Found | None = None
        self._best_counts: list[int] = []
        self._world = world
        self._attainment = attainment
        self._need = need_over_time(world)
        start_up = world.fleet.start_up
        self._ahead = start_up.median * math.exp(_SPREADS_AHEAD * start_up.spread)

    def counts(self, factor: float) -> list[int]:
        """Return what serves at a factor on the need."""
        return counts_for(self._need, factor, self._ahead, self._world.bounds.min_replicas)

    def reaches(self, counts: list[int]) -> bool:
        """Try a schedule; keep it where it is the best so far."""
        steps = steps_for(counts, self._world.workload.started, self._ahead)
        first = steps[0][1]
        result = run_trial(self._world, SchedulePolicy(NAME, steps), replicas=first)
        if result.slo_attainment < self._attainment:
            return False
        if self.best is None or result.replica_hours < self.best.result.replica_hours:
            self.best = Found(replicas=first, steps=steps, result=result)
            self._best_counts = counts
        return True

    def thinner(self) -> Iterator[list[int]]:
        """Yield the best counts with one replica less wherever they stand at some level."""
        least = self._world.bounds.min_replicas
        for level in sorted({count for count in self._best_counts if count > least}):
            yield [count - 1 if count == level else count for count in self._best_counts]
