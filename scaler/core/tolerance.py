"""The HPA ignores small steps: an answer that it would swallow becomes one that it obeys."""

from __future__ import annotations

from scaler.core.reasons import Reason
from scaler.core.workload import Scale


def obeyed(aimed: int, scale: Scale) -> tuple[int, Reason | None]:
    """Return the count to answer for the count that is aimed at, and the reason where they differ.

    The HPA compares aimed/current with 1 ± tolerance in doubles, borders included. A step up inside
    it is raised to the first count outside, a step down inside it is not taken.
    """
    current = scale.current
    if aimed > current and aimed / current <= 1 + scale.tolerance_out:
        while aimed / current <= 1 + scale.tolerance_out:
            aimed += 1
        return scale.within_bounds(aimed), Reason.TOLERANCE_ROUNDED_UP
    if aimed < current and aimed / current >= 1 - scale.tolerance_in:
        return current, Reason.TOLERANCE_HELD
    return aimed, None
