"""How much a replica's step slows for each request that it runs beside the others.

A half-empty replica decodes faster, so a fleet that is twice as large does not run half as many
requests per replica but fewer: taken as linear, an oversized fleet looks smaller than it is. The
time per step, `running / token_rate`, is close to a straight line `a + b × running` of what one
replica runs; its slope over its base, b/a, is all that the decision needs to see through that.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from statistics import median

from scaler.core.minutes import Minutes
from scaler.core.units import Seconds

_SPAN: Seconds = 6 * 3600.0
_BIN_WIDTH = math.log(1.25)
_IN_A_BIN, _LEAST_IN_A_BIN = 10, 3
_WIDEST_APART = 1.5
_LEAST_BASE = 0.1


def slowdown(minutes: Minutes, now: Seconds) -> float:
    """Return b/a, per request of one replica; 0 where history does not tell.

    Looked at are calm minutes of the last six hours, in bins of what a replica ran: the newest ten
    of each bin, so that a load seen often does not outweigh the others.
    """
    bins: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    first = bisect_left(minutes.at, now - _SPAN)
    for index in range(bisect_right(minutes.at, now) - 1, first - 1, -1):
        serving, running = minutes.serving[index], minutes.running[index]
        tokens = minutes.tokens[index]
        if running < serving or serving == 0 or not tokens > 0 or minutes.waiting[index] > serving:
            continue
        each = running / serving
        found = bins[int(math.log(each) / _BIN_WIDTH)]
        if len(found) < _IN_A_BIN:
            found.append((each, running / tokens))
    points = [
        (median(each for each, _ in found), median(step for _, step in found))
        for found in bins.values()
        if len(found) >= _LEAST_IN_A_BIN
    ]
    return _slope_over_base(points)


def _slope_over_base(points: list[tuple[float, float]]) -> float:
    if not points or max(x for x, _ in points) < _WIDEST_APART * min(x for x, _ in points):
        return 0.0
    mean_x = math.fsum(x for x, _ in points) / len(points)
    mean_y = math.fsum(y for _, y in points) / len(points)
    spread = math.fsum((x - mean_x) ** 2 for x, _ in points)
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    # Noise can put the line's base below zero; a step always costs something.
    return max(0.0, slope) / max(mean_y - slope * mean_x, _LEAST_BASE * mean_y)
