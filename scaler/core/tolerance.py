"""The HPA ignores small steps: an answer that it would swallow becomes one that it obeys."""

from __future__ import annotations

import math

from scaler.core.reasons import Reason
from scaler.core.workload import Scale


def obeyed(aimed: int, scale: Scale) -> tuple[int, Reason | None]:
    """Return the count to answer for the count that is aimed at, and the reason where they differ.

    The HPA compares aimed/current with 1 ± tolerance in doubles, borders included. A step up inside
    it is raised to the first count outside. A step down inside it is not taken, nor is a step up
    where even the maximum lies inside. A count outside its bounds the HPA brings back by itself.
    """
    current = scale.current
    if scale.within_bounds(current) != current or _taken(aimed, scale):
        return aimed, None
    if aimed > current:
        for larger in range(aimed + 1, scale.within_bounds(math.inf) + 1):
            if _taken(larger, scale):
                return larger, Reason.TOLERANCE_ROUNDED_UP
    return current, Reason.TOLERANCE_HELD


def _taken(aimed: int, scale: Scale) -> bool:
    """Say whether the HPA takes the step to this count; no step counts as taken."""
    ratio = aimed / scale.current
    if aimed > scale.current:
        return ratio > 1 + scale.tolerance_out
    return aimed == scale.current or ratio < 1 - scale.tolerance_in
