"""All workloads at a glance: what each one has, gets and why, and how near a threshold it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from scaler.control.board import Posting, Snapshot
from scaler.control.registry import Registry
from scaler.core.decision import Decision
from scaler.core.diagnosis_finding import Kind, Severity
from scaler.core.policy import Mode, Policy, Signal
from scaler.core.quantile import ENOUGH_OBSERVATIONS
from scaler.core.reasons import EXPLANATIONS, Reason
from scaler.core.sample import Sample
from scaler.core.units import Seconds
from scaler.core.workload import WorkloadKey
from scaler.edge.explained import policy_of, undecided

_PENDING = frozenset({Reason.SCALE_OUT_PENDING, Reason.SCALE_IN_PENDING, Reason.NOT_YET_SAMPLED})
_TROUBLED = frozenset({Reason.AT_MAX, Reason.SOURCE_SILENT, Reason.GATEWAY_SILENT})
_HALFWAY = 0.5


class Standing(StrEnum):
    """How much a workload wants to be looked at, the most urgent first.

    Critical: nothing is answered, or replicas are lost. Warning: requests suffer, or something is
    not known. Moving: the count is about to change. Pending: a window is filling. Steady: none.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    MOVING = "moving"
    PENDING = "pending"
    STEADY = "steady"


class Side(StrEnum):
    """Which threshold of a pair is meant: High, beyond which a fleet grows, or Low."""

    OUT = "out"
    IN = "in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The threshold that decides next: that of the signal that stands highest between its two.

    A fleet grows for any one signal above High and shrinks only with all of them below Low, so
    it is the highest that keeps it from the one or is nearest to the other. `fraction` is the
    value as a share of the threshold.
    """

    signal: Signal
    value: float
    low: float
    high: float
    threshold: float
    fraction: float
    side: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One workload in a list. `diagnosis` are the kinds of its findings, the gravest first."""

    namespace: str
    name: str
    trigger: str
    at: Seconds
    mode: Mode
    current: int | None
    desired: int | None
    advised: int | None
    floor: int | None
    ceiling: int | None
    active: bool | None
    standing: Standing
    reason: Reason
    meaning: str
    nearest: Nearest | None
    diagnosis: tuple[Kind, ...]
    trouble: str | None
    fault: str | None


def summaries(
    registry: Registry, snapshot: Snapshot, *, namespace: str | None, after: str, limit: int
) -> tuple[list[Summary], str | None]:
    """Return up to `limit` workloads from behind `after`, and from where there are more."""
    keys = {*snapshot.postings, *(entry.key for entry in registry)}
    places = sorted(
        (_place(key), key) for key in keys if namespace is None or key.namespace == namespace
    )
    rest = [(place, key) for place, key in places if place > after]
    page = rest[:limit]
    found = [_summary(registry, snapshot, key) for _, key in page]
    return found, page[-1][0] if len(rest) > limit else None


def nearest(policy: Policy, sample: Sample) -> Nearest | None:
    """Return the threshold that decides next; None where no signal in use is known."""
    found = [level for level in _levels(policy, sample) if level.signal in policy.signals]
    return max(found, key=_height, default=None)


def _place(key: WorkloadKey) -> str:
    return f"{key.namespace}/{key.name}/{key.trigger}"


def _levels(policy: Policy, sample: Sample) -> Iterator[Nearest]:
    if sample.serving:
        value = sample.waiting_per_replica
        yield _level(Signal.WAITING, value, policy.waiting_low, policy.waiting_high)
    if sample.ttft is not None and sample.ttft.observations >= ENOUGH_OBSERVATIONS:
        value = sample.ttft.value
        yield _level(Signal.TTFT, value, policy.ttft_p95_low, policy.ttft_p95_high)
    if sample.kv_cache is not None:
        value = sample.kv_cache
        yield _level(Signal.KV_CACHE, value, policy.kv_cache_low, policy.kv_cache_high)


def _level(signal: Signal, value: float, low: float, high: float) -> Nearest:
    outward = (value - low) / (high - low) >= _HALFWAY
    threshold = high if outward else low
    return Nearest(
        signal=signal,
        value=value,
        low=low,
        high=high,
        threshold=threshold,
        fraction=value / threshold if threshold else math.inf,
        side=Side.OUT if outward else Side.IN,
    )


def _height(level: Nearest) -> float:
    """Say where a value stands between its two thresholds: 0 at Low, 1 at High."""
    return (level.value - level.low) / (level.high - level.low)


def _summary(registry: Registry, snapshot: Snapshot, key: WorkloadKey) -> Summary:
    posting, entry = snapshot.postings.get(key), registry.get(key)
    decision = posting.decision if posting is not None else undecided(entry)
    registered = posting if posting is not None else entry
    fault = registered.fault if registered is not None else None
    policy = policy_of(registry, snapshot, key)
    sample = decision.sample
    found = posting.diagnosis.findings if posting is not None and posting.diagnosis else ()
    return Summary(
        namespace=key.namespace,
        name=key.name,
        trigger=key.trigger,
        at=decision.at,
        mode=policy.mode,
        current=decision.current,
        desired=decision.desired,
        advised=decision.advised,
        floor=decision.floor,
        ceiling=decision.proven_ceiling,
        active=decision.active,
        standing=_standing(decision, posting, fault),
        reason=decision.reason,
        meaning=EXPLANATIONS[decision.reason].meaning,
        nearest=nearest(policy, sample) if sample is not None else None,
        diagnosis=tuple(finding.kind for finding in found),
        trouble=posting.complaint if posting is not None else None,
        fault=fault,
    )


def _standing(decision: Decision, posting: Posting | None, fault: str | None) -> Standing:
    diagnosis = posting.diagnosis if posting is not None else None
    found = {finding.severity for finding in diagnosis.findings} if diagnosis is not None else set()
    complaint = posting.complaint if posting is not None else None
    unanswered = decision.desired is None and decision.reason is not Reason.NOT_YET_SAMPLED
    if unanswered or Severity.CRITICAL in found:
        return Standing.CRITICAL
    if Severity.WARNING in found or complaint or fault or decision.reason in _TROUBLED:
        return Standing.WARNING
    if decision.advised != decision.current:
        return Standing.MOVING
    return Standing.PENDING if decision.reason in _PENDING else Standing.STEADY
