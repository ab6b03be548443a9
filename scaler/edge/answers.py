"""Turns what the board says into KEDA's messages, or into a refusal that says why not."""

from __future__ import annotations

import re
from typing import NoReturn

import grpc

from scaler.control.board import Posting, Snapshot
from scaler.control.registry import Entry
from scaler.core.reasons import EXPLANATIONS, Reason
from scaler.core.units import TICK, Seconds
from scaler.core.workload import MAX_REPLICAS
from scaler.edge.errors import Refusal
from scaler.wire.externalscaler_pb2 import (
    GetMetricSpecResponse,
    GetMetricsResponse,
    IsActiveResponse,
    MetricSpec,
    MetricValue,
)

METRIC = "vllm-desired-replicas"
"""The one metric of every workload. Constant: the HPA keeps the name that it first read."""

TARGET = 1
"""Constant too. With KEDA's default AverageValue the HPA then computes exactly the value."""

_STALE_TICKS = 4
_PREFIXED = re.compile(r"s\d{1,4}-")


def metric_spec() -> GetMetricSpecResponse:
    """Return the metric and its target: the same for every workload, whatever happens."""
    spec = MetricSpec(metricName=METRIC, targetSize=TARGET, targetSizeFloat=float(TARGET))
    return GetMetricSpecResponse(metricSpecs=[spec])


def check_metric_name(workload: str, name: str) -> None:
    """Refuse every metric but ours, with or without the prefix that KEDA gives it in the HPA."""
    if _PREFIXED.sub("", name, count=1) != METRIC:
        shown = f"{name[:80]}…" if len(name) > 80 else name  # noqa: PLR2004 - just readable
        raise Refusal(
            grpc.StatusCode.NOT_FOUND,
            f'{workload}: there is no metric "{shown}"; the only one is "{METRIC}"',
        )


def metrics_of(entry: Entry, snapshot: Snapshot, now: Seconds) -> GetMetricsResponse:
    """Return the desired count, or raise a refusal: what is not known is never a number."""
    posting = _posting(entry, snapshot, now)
    decision = posting.decision
    if decision.desired is None:
        _refuse(posting)
    replicas = checked(posting, decision.desired)
    value = MetricValue(metricName=METRIC, metricValue=replicas, metricValueFloat=float(replicas))
    return GetMetricsResponse(metricValues=[value])


def activity_of(entry: Entry, snapshot: Snapshot, now: Seconds) -> IsActiveResponse:
    """Return whether the workload is active, or raise a refusal: "not known" is not idle."""
    posting = _posting(entry, snapshot, now)
    if posting.decision.active is None:
        _refuse(posting)
    return IsActiveResponse(result=posting.decision.active)


def checked(posting: Posting, desired: object) -> int:
    """Let only a whole number of replicas out, 0 only while the fleet is at 0.

    The HPA reads a NaN as 0, a negative value as an overflow and a fraction as one more: whatever
    an error inside this process produces, it must not become a count.
    """
    lowest = 0 if posting.decision.current == 0 else 1
    whole = desired if isinstance(desired, int) and not isinstance(desired, bool) else -1
    if lowest <= whole <= MAX_REPLICAS:
        return whole
    raise Refusal(
        grpc.StatusCode.INTERNAL,
        f"{posting.key}: the scaler decided on something that is no replica count and keeps it to "
        "itself; this is a fault of the scaler, please report it",
    )


def _posting(entry: Entry, snapshot: Snapshot, now: Seconds) -> Posting:
    if entry.resolved is None:
        raise Refusal(
            grpc.StatusCode.FAILED_PRECONDITION,
            sentence(entry, Reason.UNRESOLVED, fault=entry.fault),
        )
    posting = snapshot.postings.get(entry.key)
    if posting is None:
        raise Refusal(
            grpc.StatusCode.UNAVAILABLE,
            sentence(entry, Reason.NOT_YET_SAMPLED, fault=entry.fault),
        )
    age = now - posting.decision.at
    if age > max(posting.policy.hold_for, _STALE_TICKS * TICK):
        raise Refusal(
            grpc.StatusCode.UNAVAILABLE,
            f"{entry.key}: the scaler has decided nothing for {age:.0f} s; its loop hangs or is "
            "overloaded: look at its log and its CPU limit",
        )
    return posting


def _refuse(posting: Posting) -> NoReturn:
    reason = posting.decision.reason
    raise Refusal(
        grpc.StatusCode.UNAVAILABLE,
        sentence(posting, reason, trouble=posting.complaint, fault=posting.fault),
    )


def sentence(
    workload: Entry | Posting,
    reason: Reason,
    *,
    trouble: str | None = None,
    fault: str | None = None,
) -> str:
    """Say of a workload what is the matter, what that means and what helps."""
    explanation = EXPLANATIONS[reason]
    parts = [f"{workload.key}: {reason.value}.", explanation.meaning, explanation.cure]
    if trouble:
        parts.append(f"The source says: {trouble}.")
    if fault:
        parts.append(f"The configuration says: {fault}.")
    return " ".join(parts).replace("..", ".")
