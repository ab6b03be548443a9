"""How much a replica's step slows for each request that it runs beside the others.

A half-empty replica decodes faster, so a fleet that is twice as large does not run half as many
requests per replica but fewer: taken as linear, an oversized fleet looks smaller than it is. And a
prompt is computed between the others' tokens, so the longer the prompts, the slower they all get.

A replica that has work makes one step after another, so a step takes `running / token_rate`. That
is close to `a + b × running + c × running × ratio` of what one replica runs, `ratio` being prompt
tokens per generated token. The two slopes over the base a are all that the decision needs to see
through both; they are learned from what the fleet showed under different loads.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from scaler.core.minutes import MINUTE, Minutes
from scaler.core.units import Seconds

_SPAN: Seconds = 6 * 3600.0
_BIN_WIDTH = math.log(1.25)
_IN_A_BIN, _LEAST_IN_A_BIN = 10, 2
_WIDEST_APART = 2.0
_LEAST_BASE = 0.1
_RATED_MINUTES = 2
_SINGULAR = 1e-9
_COLUMNS = ((0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """By which share of its base a step slows for each request that the replica runs.

    `running` is that share whatever the requests are, `prompt` what comes to it for each prompt
    token that goes with a generated one. Both 0 while history does not tell.
    """

    running: float = 0.0
    prompt: float = 0.0

    def per_request(self, prompt_rate: float | None, token_rate: float | None) -> float:
        """Return the share at the present rates (tokens per second), rates not known left out."""
        if not prompt_rate or not token_rate:
            return self.running
        return self.running + self.prompt * prompt_rate / token_rate


NO_SLOWDOWN = Slowdown()


@dataclass(frozen=True, slots=True)
class _Point:
    """What a bin of minutes showed: requests of one replica, those times the ratio, a step."""

    each: float
    prompts: float
    step: Seconds


def slowdown(minutes: Minutes, now: Seconds) -> Slowdown:
    """Learn from the last six hours.

    Minutes are put in bins of what a replica ran and of the ratio of prompt to generated tokens:
    the newest ten of each bin, so that a load seen often does not outweigh the others.
    """
    bins: defaultdict[tuple[int, int], list[_Point]] = defaultdict(list)
    for point in _points(minutes, now):
        place = int(math.log(point.each) / _BIN_WIDTH)
        ratio = int(math.log1p(point.prompts / point.each) / _BIN_WIDTH)
        found = bins[place, ratio]
        if len(found) < _IN_A_BIN:
            found.append(point)
    points = [
        _Point(
            median(p.each for p in found),
            median(p.prompts for p in found),
            median(p.step for p in found),
        )
        for found in bins.values()
        if len(found) >= _LEAST_IN_A_BIN
    ]
    if not points or max(p.each for p in points) < _WIDEST_APART * min(p.each for p in points):
        return NO_SLOWDOWN
    return _slopes_over_base(points)


def _points(minutes: Minutes, now: Seconds) -> Iterator[_Point]:
    """Go back through the minutes in which the fleet kept its size for the rates' window.

    Rates are over two minutes, so what ran is averaged over the same: a momentary peak beside a
    mean rate would look like a slow step.
    """
    first = bisect_left(minutes.at, now - _SPAN)
    for index in range(bisect_right(minutes.at, now) - 1, first + _RATED_MINUTES - 1, -1):
        before = index - _RATED_MINUTES
        if minutes.at[index] - minutes.at[before] != _RATED_MINUTES * MINUTE:
            continue
        serving, tokens = minutes.serving[index], minutes.tokens[index]
        running = math.fsum(minutes.running[before : index + 1]) / (_RATED_MINUTES + 1)
        same = all(minutes.serving[other] == serving for other in (before, before + 1))
        if not same or serving == 0 or running < serving or not tokens > 0:
            continue
        prompts = minutes.prompts[index]
        ratio = prompts / tokens if prompts > 0 else 0.0
        each = running / serving
        yield _Point(each, each * ratio, running / tokens)


def _slopes_over_base(points: Sequence[_Point]) -> Slowdown:
    """Fit the plane with the least relative error whose base and slopes are not negative.

    The best such plane is the best of one choice of columns, the others being nothing.
    """
    best, least = NO_SLOWDOWN, math.inf
    base = _LEAST_BASE * median(point.step for point in points)
    for columns in _COLUMNS:
        rows = [tuple((1.0, p.each, p.prompts)[c] / p.step for c in columns) for p in points]
        solution = _least_squares(rows)
        if solution is None or min(solution) < 0:
            continue
        error = math.fsum(
            (math.fsum(s * value for s, value in zip(solution, row, strict=True)) - 1) ** 2
            for row in rows
        )
        if error < least - _SINGULAR:
            found = dict(zip(columns, solution, strict=True))
            # Noise can put the base near zero; a step always costs something.
            over = max(found.get(0, 0.0), base)
            least = error
            best = Slowdown(running=found.get(1, 0.0) / over, prompt=found.get(2, 0.0) / over)
    return best


def _least_squares(rows: Sequence[tuple[float, ...]]) -> list[float] | None:
    """Solve rows · x ≈ 1 by its normal equations; None where the rows do not determine x."""
    size = len(rows[0])
    columns = [[row[i] for row in rows] for i in range(size)]
    matrix = [[_dot(a, b) for b in columns] + [math.fsum(a)] for a in columns]
    for pivot in range(size):
        scale = _dot(columns[pivot], columns[pivot])
        if matrix[pivot][pivot] <= _SINGULAR * scale:
            return None
        for row in range(size):
            if row != pivot:
                factor = matrix[row][pivot] / matrix[pivot][pivot]
                matrix[row] = [
                    a - factor * b for a, b in zip(matrix[row], matrix[pivot], strict=True)
                ]
    return [matrix[i][size] / matrix[i][i] for i in range(size)]


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
