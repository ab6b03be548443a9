"""Which values of a workload are published as metrics, under which names."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scaler.control.board import Posting
from scaler.core.corridor import Window
from scaler.core.decision import scale_in_span
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import Seconds
from scaler.edge.families import PREFIX, WORKLOAD_LABELS, Family

_BLIND = frozenset({Reason.GAP, Reason.WARMING_UP, Reason.TOO_FEW_SCRAPES})


@dataclass(frozen=True, slots=True)
class WorkloadGauge:
    """One gauge of every workload; `of` gives None where the value is not known."""

    suffix: str
    meaning: str
    of: Callable[[Posting, Seconds], float | None]

    @property
    def family(self) -> Family:
        """Return the metric family."""
        return Family(PREFIX + self.suffix, "gauge", self.meaning, WORKLOAD_LABELS)


def _sample(read: Callable[[Sample], float | None]) -> Callable[[Posting, Seconds], float | None]:
    def of(posting: Posting, _: Seconds) -> float | None:
        sample = posting.decision.sample
        return read(sample) if sample is not None else None

    return of


def _always(read: Callable[[Posting], float | None]) -> Callable[[Posting, Seconds], float | None]:
    return lambda posting, _: read(posting)


def _floor(posting: Posting) -> float | None:
    lines = posting.decision.corridor
    blind = lines is None or lines.floor_reason in _BLIND
    return None if blind else posting.decision.floor


def _ceiling(posting: Posting) -> float | None:
    lines = posting.decision.corridor
    return posting.decision.ceiling if lines and math.isfinite(lines.ceiling) else None


def _difference(posting: Posting) -> float | None:
    """Return what mode act would answer less what there is; None while either is not known."""
    advised, current = posting.decision.advised, posting.decision.current
    return None if advised is None or current is None else advised - current


def _coverage(window: Window | None) -> float | None:
    return window.present / window.ticks if window is not None else None


def _out_window(posting: Posting) -> Window | None:
    lines = posting.decision.corridor
    return lines.out_window if lines is not None else None


def _in_window(posting: Posting) -> Window | None:
    lines = posting.decision.corridor
    return lines.in_window if lines is not None else None


def _activation(posting: Posting) -> float | None:
    """Return what waits at the gateway; of a fleet at zero, what its answer rests on."""
    demand, sample = posting.decision.demand, posting.decision.sample
    if demand is not None or sample is None:
        return demand
    return sample.activation


def _needed(posting: Posting, end: str) -> float | None:
    need = posting.decision.need
    if need is None:
        return None
    return need.low if end == "low" else need.high


def _ttft(sample: Sample) -> float | None:
    return sample.ttft.value if sample.ttft is not None else None


def _waiting(sample: Sample) -> float | None:
    return sample.waiting_per_replica if sample.serving else None


def _age(posting: Posting, now: Seconds) -> float | None:
    sample = posting.decision.sample
    return max(0.0, now - sample.scraped_at) if sample is not None else None


def _in_span(posting: Posting, _: Seconds) -> float | None:
    learned = posting.decision.learned
    return scale_in_span(posting.policy, learned) if learned is not None else None


def _learned(posting: Posting, name: str) -> float | None:
    learned = posting.decision.learned
    if learned is None:
        return None
    values = {
        "saturation": learned.saturation,
        "carried": learned.carried,
        "lead": learned.lead_time,
    }
    return values[name]


WORKLOAD_GAUGES = (
    WorkloadGauge(
        "current_replicas",
        "Replicas that the scale target asks for (spec.replicas).",
        _always(lambda p: p.decision.current),
    ),
    WorkloadGauge(
        "desired_replicas",
        "Replicas that the scaler answers; absent while it answers nothing.",
        _always(lambda p: p.decision.desired),
    ),
    WorkloadGauge(
        "advised_replicas",
        "Replicas that mode act would answer.",
        _always(lambda p: p.decision.advised),
    ),
    WorkloadGauge(
        "advised_difference_replicas",
        "Replicas that mode act would answer, less those that the scale target asks for.",
        _always(_difference),
    ),
    WorkloadGauge(
        "floor_replicas",
        "Least replicas on the evidence of sustained overload; absent while unproven.",
        _always(_floor),
    ),
    WorkloadGauge(
        "ceiling_replicas",
        "Most replicas on the evidence of sustained calm; absent while unproven.",
        _always(_ceiling),
    ),
    WorkloadGauge(
        "need_low_replicas",
        "Replicas that the newest sample needs at least, before rounding and bounds.",
        _always(lambda p: _needed(p, "low")),
    ),
    WorkloadGauge(
        "need_high_replicas",
        "Replicas that the newest sample needs at most; absent where it says nothing.",
        _always(lambda p: _needed(p, "high")),
    ),
    WorkloadGauge(
        "active",
        "1 while there is work, 0 when idleness is proven, absent while neither is known.",
        _always(lambda p: p.decision.active),
    ),
    WorkloadGauge(
        "serving_replicas", "Replicas that report and serve.", _sample(lambda s: s.serving)
    ),
    WorkloadGauge(
        "unseen_replicas",
        "Replicas that the source knows of and that do not report.",
        _sample(lambda s: s.unseen),
    ),
    WorkloadGauge(
        "stalled_replicas",
        "Replicas that hold requests and produce no token.",
        _sample(lambda s: s.stalled),
    ),
    WorkloadGauge("asleep_replicas", "Replicas that sleep.", _sample(lambda s: s.asleep)),
    WorkloadGauge(
        "loading_replicas",
        "Replicas that were asked for and have not reported yet.",
        _sample(lambda s: s.loading),
    ),
    WorkloadGauge(
        "overdue_replicas",
        "Replicas that have been loading for so long that they no longer count as coming.",
        _sample(lambda s: s.overdue),
    ),
    WorkloadGauge(
        "waiting_requests",
        "Requests that wait for capacity, over all serving replicas.",
        _sample(lambda s: s.waiting),
    ),
    WorkloadGauge(
        "running_requests",
        "Requests that run, over all serving replicas.",
        _sample(lambda s: s.running),
    ),
    WorkloadGauge(
        "waiting_per_replica",
        "Requests that wait for capacity, per serving replica.",
        _sample(_waiting),
    ),
    WorkloadGauge(
        "waiting_per_replica_high",
        "waitingHigh of the policy.",
        _always(lambda p: p.policy.waiting_high),
    ),
    WorkloadGauge(
        "waiting_per_replica_low",
        "waitingLow of the policy.",
        _always(lambda p: p.policy.waiting_low),
    ),
    WorkloadGauge(
        "ttft_p95_seconds", "95th percentile of the time to first token.", _sample(_ttft)
    ),
    WorkloadGauge(
        "ttft_p95_high_seconds",
        "ttftP95High of the policy.",
        _always(lambda p: p.policy.ttft_p95_high),
    ),
    WorkloadGauge(
        "ttft_p95_low_seconds",
        "ttftP95Low of the policy.",
        _always(lambda p: p.policy.ttft_p95_low),
    ),
    WorkloadGauge(
        "kv_cache_ratio",
        "Used share of the KV cache, mean over engines, 0 to 1.",
        _sample(lambda s: s.kv_cache),
    ),
    WorkloadGauge(
        "kv_cache_high_ratio",
        "kvCacheHigh of the policy.",
        _always(lambda p: p.policy.kv_cache_high),
    ),
    WorkloadGauge(
        "kv_cache_low_ratio",
        "kvCacheLow of the policy.",
        _always(lambda p: p.policy.kv_cache_low),
    ),
    WorkloadGauge(
        "first_tokens_per_second",
        "Requests per second that got their first token.",
        _sample(lambda s: s.first_token_rate),
    ),
    WorkloadGauge(
        "tokens_per_second", "Tokens generated per second.", _sample(lambda s: s.token_rate)
    ),
    WorkloadGauge(
        "preemptions_per_second",
        "Requests per second that lost their place.",
        _sample(lambda s: s.preemption_rate),
    ),
    WorkloadGauge(
        "rejections_per_second",
        "Requests per second that were refused.",
        _sample(lambda s: s.rejection_rate),
    ),
    WorkloadGauge(
        "activation_demand",
        "Demand that waits at the gateway (activationQuery).",
        _always(_activation),
    ),
    WorkloadGauge(
        "saturation_requests",
        "Requests that a full replica runs at once; absent until learned or stated.",
        _always(lambda p: _learned(p, "saturation")),
    ),
    WorkloadGauge(
        "carried_requests",
        "Most requests that a replica has carried in calm; absent until learned.",
        _always(lambda p: _learned(p, "carried")),
    ),
    WorkloadGauge(
        "lead_time_seconds",
        "From a replica's creation to serving.",
        _always(lambda p: _learned(p, "lead")),
    ),
    WorkloadGauge(
        "overload_seconds",
        "How long the newest samples have asked for more replicas than there are.",
        _always(lambda p: p.decision.overload_for if p.decision.corridor else None),
    ),
    WorkloadGauge(
        "calm_seconds",
        "How long the newest samples have needed fewer replicas than there are.",
        _always(lambda p: p.decision.calm_for if p.decision.corridor else None),
    ),
    WorkloadGauge(
        "scale_out_window_seconds",
        "How long overload must last: scaleOutWindow of the policy.",
        _always(lambda p: p.policy.scale_out_window),
    ),
    WorkloadGauge(
        "scale_in_window_seconds",
        "How long calm must last: scaleInWindow, or twice the lead time where that is longer.",
        _in_span,
    ),
    WorkloadGauge(
        "scale_out_coverage_ratio",
        "Share of the scale-out window's ticks that have a sample.",
        _always(lambda p: _coverage(_out_window(p))),
    ),
    WorkloadGauge(
        "scale_in_coverage_ratio",
        "Share of the scale-in window's ticks that have a sample.",
        _always(lambda p: _coverage(_in_window(p))),
    ),
    WorkloadGauge("sample_age_seconds", "Age of the newest value that the answer rests on.", _age),
    WorkloadGauge(
        "decision_age_seconds",
        "Age of the answer.",
        lambda p, now: max(0.0, now - p.decision.at),
    ),
    WorkloadGauge(
        "source_trouble",
        "1 while the source cannot say anything of the workload, 0 otherwise.",
        _always(lambda p: p.trouble is not None),
    ),
    WorkloadGauge(
        "query_trouble",
        "1 while the trigger's own queries (activationQuery, rejectionQuery) fail, 0 otherwise.",
        _always(lambda p: p.query_fault is not None),
    ),
    WorkloadGauge(
        "configuration_fault",
        "1 while the server's configuration does not support the trigger any more, 0 otherwise.",
        _always(lambda p: p.fault is not None),
    ),
)
