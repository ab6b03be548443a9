"""Facts of workloads that are well or ill, for the tests of the diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scaler.core.decision import Decision
from scaler.core.diagnosis import diagnose
from scaler.core.diagnosis_facts import Facts
from scaler.core.diagnosis_finding import Diagnosis, Finding, Kind
from scaler.core.learned import Learned
from scaler.core.pods import Exit, Pod, Situation
from scaler.core.policy import Policy
from scaler.core.reading import ReplicaReading
from scaler.core.sample import Sample
from scaler.core.units import RATE_WINDOW, Seconds
from scaler.core.workload import Scale
from tests.core.histories import BUSY, NOW, decided, steady

WELL = replace(
    BUSY, preemption_rate=0.0, rejection_rate=0.0, token_rate=800.0, prompt_token_rate=2000.0
)
"""Four replicas that do well: ten requests at each, prompts of 1,000 tokens, two a second."""

LEARNED = Learned(saturation=64.0, carried=30.0, lead_time=180.0)


def replica(name: str = "chat-0", **changes: object) -> ReplicaReading:
    """Return a replica that does well, changed as told."""
    plain = ReplicaReading(
        name=name,
        running=10.0,
        waiting=0.0,
        kv_cache=0.7,
        busy_for=RATE_WINDOW,
        first_token_rate=0.5,
        token_rate=200.0,
        preemption_rate=0.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def replicas(count: int = 4, **changes: object) -> tuple[ReplicaReading, ...]:
    """Return replicas that are alike."""
    return tuple(replica(f"chat-{index}", **changes) for index in range(count))


def pod(name: str = "chat-0", **changes: object) -> Pod:
    """Return a pod that has been Ready for an hour, changed as told."""
    plain = Pod(
        name=name,
        replica=name,
        created_at=NOW - 3900,
        ready=True,
        ready_at=NOW - 3600,
        ip="10.0.0.1",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def pods(count: int = 4, **changes: object) -> tuple[Pod, ...]:
    """Return pods that are alike."""
    return tuple(pod(f"chat-{index}", **changes) for index in range(count))


def ended(
    code: int | None, reason: str = "Error", ago: Seconds | None = 120.0, message: str = ""
) -> Exit:
    """Return how a container ended."""
    at = None if ago is None else NOW - ago
    return Exit(container="vllm", reason=reason, code=code, at=at, message=message)


SITUATION = Situation(
    target_kind="Deployment",
    target_name="chat-vllm",
    min_replicas=1,
    metric_type="AverageValue",
    hpa_name="keda-hpa-chat",
    uid="1f3a",
)


def samples_of(*phases: tuple[Sample, int]) -> list[Sample]:
    """Return samples on adjacent ticks up to now: each phase for so many of them."""
    ticks = sum(count for _, count in phases)
    found: list[Sample] = []
    for sample, count in phases:
        ticks -= count
        found += steady(sample, count, end=NOW - ticks * 15.0)
    return found


def facts(
    samples: Sequence[Sample] | None = None,
    *,
    policy: Policy | None = None,
    scale: Scale | None = None,
    learned: Learned = LEARNED,
    **changes: object,
) -> Facts:
    """Return what is known of a fleet that is well, changed as told, its decision made of it."""
    policy = policy or Policy()
    scale = scale or Scale(current=4, max_replicas=20)
    samples = steady(WELL, 120) if samples is None else samples
    decision: Decision = decided(samples, policy, scale=scale, learned=learned)
    plain = Facts(
        now=NOW,
        policy=policy,
        decision=decision,
        samples=samples,
        scale=scale,
        replicas=replicas(),
        heard=frozenset(f"chat-{index}" for index in range(4)),
        looked_since=NOW - 3600,
        pods=pods(),
        situation=SITUATION,
        wakes=True,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def found(known: Facts) -> dict[Kind, Finding]:
    """Return the findings by kind."""
    return {finding.kind: finding for finding in diagnose(known).findings}


def unknown(diagnosis: Diagnosis) -> dict[Kind, str]:
    """Return what could not be looked at."""
    return dict(diagnosis.not_known)
