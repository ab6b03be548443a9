"""What one External metric proposes: the autoscaler's arithmetic before window, rate and bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scaler.simulation.hpa_types import (
    MetricTarget,
    MetricType,
    MetricValue,
    PodCount,
    TargetScale,
)
from scaler.simulation.quantity import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A count of replicas, and what the status shows as the metric's value, in thousandths."""

    replicas: int
    current: int


def propose(
    target: MetricTarget,
    value: MetricValue | None,
    *,
    scale: TargetScale,
    pods: PodCount,
    tolerances: tuple[float, float],
) -> Proposal | None:
    """Return what a metric proposes, or `None` when it is not available.

    `tolerances` are upwards and downwards; their borders belong to them. All ratios are doubles,
    as in the controller, since at a border the last bit decides.
    """
    if value is None or not value.items:
        return None
    total = wrapped(sum(value.items), 64)
    if target.type is MetricType.AVERAGE_VALUE:
        return _average(target.milli, total, scale.status, tolerances)
    return _plain(target.milli, total, scale.spec, pods, tolerances)


def largest(proposals: Sequence[Proposal | None], spec: int) -> int | None:
    """Return the largest proposal, or `None` when it must not be acted upon.

    One failed metric forbids what the others would take away: it might have asked for more.
    """
    known = [proposal.replicas for proposal in proposals if proposal is not None]
    if not known:
        return None
    # The controller takes any later proposal over a 0, also a negative one.
    best = known[0]
    for replicas in known[1:]:
        if best == 0 or replicas > best:
            best = replicas
    return None if len(known) < len(proposals) and best < spec else best


def _average(target: int, total: int, status: int, tolerances: tuple[float, float]) -> Proposal:
    """Divide the total by the target; near the target, answer what exists: status, not spec."""
    if not 0 <= total < INT64_MAX:  # the controller takes a negative sum for an overflow
        return Proposal(replicas=INT32_MAX, current=INT64_MAX)
    current = math.ceil(total / status) if status else INT64_MIN
    if status and _within(total / (float(target) * status), tolerances):
        return Proposal(replicas=status, current=current)
    return Proposal(replicas=_int32(math.ceil(total / target)), current=current)


def _plain(
    target: int, total: int, spec: int, pods: PodCount, tolerances: tuple[float, float]
) -> Proposal | None:
    """Multiply the ready pods by the ratio; near the target, stay at spec."""
    ratio = total / target
    if spec == 0:
        return Proposal(replicas=_int32(math.ceil(ratio)), current=total)
    if _within(ratio, tolerances):
        return Proposal(replicas=spec, current=total)
    if pods.matching == 0:
        return None
    return Proposal(replicas=_int32(math.ceil(ratio * pods.ready)), current=total)


def _within(ratio: float, tolerances: tuple[float, float]) -> bool:
    up, down = tolerances
    return 1.0 - down <= ratio <= 1.0 + up


def _int32(count: int) -> int:
    return max(INT32_MIN, min(count, INT32_MAX))
