"""What a diagnosis can find: one word a finding for metrics, Events, JSON and docs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from scaler.core.units import Seconds

_MINUTE, _HOUR = 60.0, 3600.0
_NAMED = 3
_QUOTED = 240


class Kind(StrEnum):
    """Everything that can be found; which memory ran out comes first."""

    HOST_OOM_KILL = "host-oom-kill"
    DEVICE_OOM = "device-oom"
    KV_CACHE_PRESSURE = "kv-cache-pressure"
    SLOT_LIMITED = "slot-limited"
    QUEUE_BOUND = "queue-bound"
    PREFILL_BOUND = "prefill-bound"
    STALLED_ENGINE = "stalled-engine"
    HIDDEN_DEMAND = "hidden-demand"
    HOT_REPLICA = "hot-replica"
    SCRAPING_BLOCKED = "scraping-blocked"
    SOURCE_SILENT = "source-silent"
    CRASH_LOOP = "crash-loop"
    STUCK_LOADING = "stuck-loading"
    PAUSED = "paused"
    AT_MAX = "at-max"
    METRIC_TYPE = "metric-type"
    SECOND_OWNER = "second-owner"
    HPA_NOT_SCALING = "hpa-not-scaling"
    KEDA_NOT_READY = "keda-not-ready"
    NO_WAY_TO_WAKE = "no-way-to-wake"


class Severity(StrEnum):
    """How much a finding matters, the gravest first.

    Critical: replicas are lost, or the fleet cannot be steered. Warning: requests suffer, or soon
    will. Note: good to know; nobody need act.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a check found: one sentence of evidence with its figures.

    `advice` replaces what `ADVICE` says of the kind. `occurrence` tells two happenings of one
    lasting finding apart, as two kills of one hour. `pods` are those concerned.
    """

    severity: Severity
    evidence: str
    advice: str | None = None
    occurrence: str = ""
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnown:
    """Why a check can say neither yes nor no."""

    why: str


Verdict: TypeAlias = Found | NotKnown | None
"""None is knowledge: it was looked at, and there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing: the evidence for it and what to do."""

    kind: Kind
    severity: Severity
    evidence: str
    advice: str
    occurrence: str = ""
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is found of a workload, the gravest first, and what could not be looked at, and why."""

    at: Seconds
    findings: tuple[Finding, ...] = ()
    not_known: tuple[tuple[Kind, str], ...] = ()

    def verdicts(self) -> dict[Kind, bool]:
        """Say of each kind that could be looked at whether it was found."""
        unknown = {kind for kind, _ in self.not_known}
        found = {finding.kind for finding in self.findings}
        return {kind: kind in found for kind in Kind if kind not in unknown}

    def verdict(self, kind: Kind) -> bool | None:
        """Say whether a kind was found; None where it could not be looked at."""
        return self.verdicts().get(kind)


def span(seconds: Seconds) -> str:
    """Write a span of time as a person would."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h"


def named(names: tuple[str, ...] | list[str]) -> str:
    """List the first few names."""
    listed = ", ".join(names[:_NAMED])
    more = len(names) - _NAMED
    return f"{listed} and {more} more" if more > 0 else listed


def quoted(text: str) -> str:
    """Bring what others wrote onto one line of bounded length."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= _QUOTED else f"{flat[:_QUOTED]}…"


def counted(count: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


ADVICE: dict[Kind, str] = {
    Kind.HOST_OOM_KILL: (
        "This is host memory, not the GPU's, and not demand: it never moves the fleet, and more "
        "replicas would be killed alike. Compare resources.limits.memory of that container with "
        "what it needs: weights pass through host memory while they load; --cpu-offload-gb and an "
        "emptyDir with medium Memory (/dev/shm) count too."
    ),
    Kind.DEVICE_OOM: (
        "The GPU's memory, not the host's. Lower --gpu-memory-utilization, --max-model-len, "
        "--max-num-seqs or --max-num-batched-tokens, or spread a replica over more GPUs; look "
        "whether something else uses the same GPU. terminationMessagePolicy: "
        "FallbackToLogsOnError lets this diagnosis read the engine's last words."
    ),
    Kind.KV_CACHE_PRESSURE: (
        "Longer requests need cache, not only replicas. Bound them with --max-model-len or at "
        "the gateway, admit fewer at once with --max-num-seqs, or send long contexts to a pool of "
        "their own. kvCacheHigh says from where on replicas are added."
    ),
    Kind.SLOT_LIMITED: (
        "The engines run as many requests as --max-num-seqs lets them while the cache has room: "
        "raise --max-num-seqs (and concurrencyPerReplica, where it is set), or let the fleet grow."
    ),
    Kind.QUEUE_BOUND: (
        "Demand exceeds what these replicas serve, and more replicas help. If the scaler does not "
        "ask for them, scaler explain says what it waits for; at maxReplicaCount raise it or "
        "admit fewer requests."
    ),
    Kind.PREFILL_BOUND: (
        "More replicas help little: the time goes into reading prompts, not into waiting. Look at "
        "prompt lengths, chunked prefill and --max-num-batched-tokens, prefix caching with a "
        "router that knows prefixes, or separate prefill replicas; or raise ttftP95High to what "
        "such prompts can reach."
    ),
    Kind.STALLED_ENGINE: (
        "Delete the pods: a stalled engine does not recover, and replicas cure no livelock. A "
        "liveness probe on /health does not see it; one that generates a token does."
    ),
    Kind.HIDDEN_DEMAND: (
        "Refused requests are demand that no gauge shows. Raise --max-num-queued-reqs or the "
        "gateway's bound if they should wait instead; the scaler counts them while the fleet is "
        "loaded."
    ),
    Kind.HOT_REPLICA: (
        "A fault of routing, which replicas do not cure. Look at the router: least-loaded "
        "instead of random, sticky sessions, prefix affinity without a load limit, replicas left "
        "out, long-lived connections through a plain Service."
    ),
    Kind.SCRAPING_BLOCKED: (
        "Look, in this order: the port and path of the target; a NetworkPolicy that does not "
        "admit the scraper; a mesh with strict mTLS (exclude the metrics port from the sidecar); "
        "https where http is asked, or an unknown CA; --disable-log-stats, which empties the "
        "page; a modelName that is not the first --served-model-name."
    ),
    Kind.SOURCE_SILENT: (
        "Repair the source: while it is silent the count is kept, then the scaler answers "
        "UNAVAILABLE and KEDA's fallback may act."
    ),
    Kind.CRASH_LOOP: (
        "Read the log of the container's last run (kubectl logs --previous). A liveness probe "
        "that is shorter than a model load kills pods for ever: give them a startupProbe."
    ),
    Kind.STUCK_LOADING: (
        "Such a pod no longer counts as a replica to come. Look at kubectl describe pod: no free "
        "GPU or quota, an image that cannot be pulled, a volume, weights that do not download."
    ),
    Kind.PAUSED: (
        "Somebody paused this ScaledObject. Remove the annotation autoscaling.keda.sh/paused… "
        "when the fleet should follow demand again."
    ),
    Kind.AT_MAX: (
        "Raise maxReplicaCount where GPUs and quota allow it, or admit fewer requests: beyond "
        "this the queue grows."
    ),
    Kind.METRIC_TYPE: (
        "Remove metricType from the trigger (AverageValue is the default): with Value the HPA "
        "multiplies the count by the Ready pods."
    ),
    Kind.SECOND_OWNER: (
        "Let one thing own the count: remove a second HPA or ScaledObject of the same target, "
        "leave spec.replicas out of what Argo CD or Helm apply (ignoreDifferences), and turn "
        "another operator's scaling off."
    ),
    Kind.HPA_NOT_SCALING: (
        "Look at kubectl describe hpa. FailedGetExternalMetric means that KEDA got no answer: its "
        "operator's log and scaler explain say which; FailedGetScale means that the scale target "
        "is gone or has another name."
    ),
    Kind.KEDA_NOT_READY: (
        "Look at kubectl describe scaledobject and the log of KEDA's operator: the address of "
        "this scaler, its TLS, and the other triggers of the same ScaledObject."
    ),
    Kind.NO_WAY_TO_WAKE: (
        "Set activationQuery to the queue of the gateway or router, or keep minReplicaCount at 1: "
        "engines that do not run show no demand, so the fleet would stay at zero."
    ),
}
"""What to do about each kind, unless the evidence says better."""
