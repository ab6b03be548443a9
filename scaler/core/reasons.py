"""Why an answer is what it is: one word each for metrics, logs, pages, `explain` and docs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Every reason that an answer, a hold or a refusal can carry."""

    SCALE_OUT_QUEUE = "scale-out-queue"
    SCALE_OUT_CONCURRENCY = "scale-out-concurrency"
    SCALE_OUT_KV_CACHE = "scale-out-kv-cache"
    SCALE_OUT_TTFT = "scale-out-ttft"
    SCALE_IN = "scale-in"
    WITHIN_BOUNDS = "within-bounds"
    WOKEN = "woken"
    STEADY = "steady"
    SCALE_OUT_PENDING = "scale-out-pending"
    SCALE_IN_PENDING = "scale-in-pending"
    AT_MAX = "at-max"
    AT_MIN = "at-min"
    TOLERANCE_ROUNDED_UP = "tolerance-rounded-up"
    TOLERANCE_HELD = "tolerance-held"
    MOVED_BY_OTHERS = "moved-by-others"
    COUNT_LATE = "count-late"
    SETTLING = "settling"
    PODS_LATE = "pods-late"
    GAP = "gap"
    WARMING_UP = "warming-up"
    TOO_FEW_SCRAPES = "too-few-scrapes"
    UNSEEN = "unseen"
    LOADING = "loading"
    OVERDUE = "overdue"
    NOTHING_SERVING = "nothing-serving"
    SKEWED = "skewed"
    PREFILL_BOUND = "prefill-bound"
    STALLED = "stalled"
    REJECTIONS_WITHOUT_LOAD = "rejections-without-load"
    SOURCE_SILENT = "source-silent"
    SILENT_TOO_LONG = "silent-too-long"
    SHARED_SERIES = "shared-series"
    CURRENT_UNKNOWN = "current-unknown"
    AT_ZERO = "at-zero"
    GATEWAY_SILENT = "gateway-silent"
    NO_WAY_TO_WAKE = "no-way-to-wake"
    NOT_YET_SAMPLED = "not-yet-sampled"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a reason means and what a person can do about it."""

    meaning: str
    cure: str


EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.SCALE_OUT_QUEUE: Explanation(
        "Requests have waited for capacity through the whole scale-out window.",
        "Nothing, if the growth is wanted. To react later raise waitingHigh or scaleOutWindow.",
    ),
    Reason.SCALE_OUT_CONCURRENCY: Explanation(
        "The replicas run so many requests that the headroom is used up.",
        "Nothing, if the growth is wanted. To keep less in reserve lower headroom.",
    ),
    Reason.SCALE_OUT_KV_CACHE: Explanation(
        "The KV cache has been fuller than kvCacheHigh through the whole scale-out window.",
        "Nothing, if the growth is wanted. Longer prompts do this at an unchanged request rate.",
    ),
    Reason.SCALE_OUT_TTFT: Explanation(
        "The TTFT p95 has been above ttftP95High through the whole scale-out window.",
        "Nothing, if the growth is wanted. To react later raise ttftP95High.",
    ),
    Reason.SCALE_IN: Explanation(
        "Through the whole scale-in window demand needed fewer replicas than there are.",
        "Nothing, if the saving is wanted. To keep replicas longer raise scaleInWindow.",
    ),
    Reason.WITHIN_BOUNDS: Explanation(
        "The count was outside minReplicaCount and maxReplicaCount and is brought back.",
        "Look who set the count: the autoscaler never leaves its bounds.",
    ),
    Reason.WOKEN: Explanation(
        "The fleet was at zero, and requests wait at the gateway.",
        "Nothing: replicas are on their way.",
    ),
    Reason.STEADY: Explanation(
        "The count lies between the floor and the ceiling.",
        "Nothing.",
    ),
    Reason.SCALE_OUT_PENDING: Explanation(
        "The newest samples ask for more replicas, but not yet for the whole scale-out window.",
        "Wait, or shorten scaleOutWindow if bursts should be answered sooner.",
    ),
    Reason.SCALE_IN_PENDING: Explanation(
        "The newest samples need fewer replicas, but not yet for the whole scale-in window.",
        "Wait, or shorten scaleInWindow if calm should be answered sooner.",
    ),
    Reason.AT_MAX: Explanation(
        "Demand needs more replicas than maxReplicaCount allows.",
        "Raise maxReplicaCount, or admit fewer requests.",
    ),
    Reason.AT_MIN: Explanation(
        "Demand needs no more than minReplicaCount.",
        "Nothing; lower minReplicaCount if fewer should do.",
    ),
    Reason.TOLERANCE_ROUNDED_UP: Explanation(
        "The step up was too small for the HPA's tolerance and was raised to one that it obeys.",
        "Set behavior.scaleUp.tolerance to 0 in the ScaledObject for exact steps.",
    ),
    Reason.TOLERANCE_HELD: Explanation(
        "No step this way within the bounds is larger than the HPA's tolerance: the count is kept.",
        "Set the tolerance of behavior.scaleDown and scaleUp to 0 in the ScaledObject.",
    ),
    Reason.MOVED_BY_OTHERS: Explanation(
        "Somebody else changed the count, and demand does not speak against it.",
        "Look for a second trigger, a person or KEDA's fallback; one owner is best.",
    ),
    Reason.COUNT_LATE: Explanation(
        "Replicas that were given up are gone while the count still has them: it is read late.",
        "Nothing, if it passes; else look at the scaler's connection to the API server.",
    ),
    Reason.SETTLING: Explanation(
        "The count rose, or became known again, half a minute ago at most: its pods may not be "
        "known yet, so no replica is given up.",
        "Nothing, if it passes; else look at the scaler's connection to the API server.",
    ),
    Reason.PODS_LATE: Explanation(
        "Within the scale-in window pods served of which the API server had not told, so that calm "
        "is not proven and no replica is given up.",
        "Wait for a scale-in window; look at the scaler's connection to the API server.",
    ),
    Reason.GAP: Explanation(
        "Samples are missing, so calm is not proven and no replica is given up.",
        "Look at the source: its errors and ages are in the scaler's own metrics.",
    ),
    Reason.WARMING_UP: Explanation(
        "The scaler has not yet seen a whole window of this workload.",
        "Wait. The Prometheus source reads history back and needs no warm-up.",
    ),
    Reason.TOO_FEW_SCRAPES: Explanation(
        "Too few distinct scrapes are known to call an overload sustained.",
        "Scrape the engines more often, or use the scrape source.",
    ),
    Reason.UNSEEN: Explanation(
        "Replicas that are Ready are silent. Each keeps its place; above half, none is given up.",
        "Look at the silent replicas: crashed, overloaded, or blocked by a NetworkPolicy or mesh?",
    ),
    Reason.LOADING: Explanation(
        "Replicas asked for do not report yet. Each keeps its place; above half, none is given up.",
        "Wait. If it lasts far beyond the usual start, look at the pods.",
    ),
    Reason.OVERDUE: Explanation(
        "A replica has been loading for three times as long as usual: it no longer counts.",
        "Look at its pod: no node with a free GPU, an image that cannot be pulled, a crash loop?",
    ),
    Reason.NOTHING_SERVING: Explanation(
        "No replica serves: those that report, if any do, sleep or are stalled.",
        "Wake or restart the engines; where none reports, are modelName and selector right?",
    ),
    Reason.SKEWED: Explanation(
        "Requests wait at fewer than half of the replicas while others are free.",
        "Look at the router: least-loaded routing, sticky sessions, a replica left out.",
    ),
    Reason.PREFILL_BOUND: Explanation(
        "TTFT is high, but a smaller fleet was as fast with as many requests.",
        "Look at prompt lengths, chunked prefill and --max-num-batched-tokens, not at replicas.",
    ),
    Reason.STALLED: Explanation(
        "Replicas hold requests but have produced no token for two minutes.",
        "Restart them: a stalled engine does not recover by more replicas.",
    ),
    Reason.REJECTIONS_WITHOUT_LOAD: Explanation(
        "Requests are refused although the replicas are neither queued nor full.",
        "Look for a rate limit in front of the engines.",
    ),
    Reason.SOURCE_SILENT: Explanation(
        "The source says nothing at present, so the count is kept.",
        "Are modelName and selector those of the engines? The source's error is shown, if any.",
    ),
    Reason.SILENT_TOO_LONG: Explanation(
        "The source has been silent for longer than holdFor; the scaler answers UNAVAILABLE.",
        "Repair the source, or modelName. The HPA keeps the count; KEDA's fallback may act.",
    ),
    Reason.SHARED_SERIES: Explanation(
        "Another ScaledObject selects the same replicas, so neither may move its fleet.",
        "Make modelName or selector of the two triggers tell their replicas apart.",
    ),
    Reason.CURRENT_UNKNOWN: Explanation(
        "The scale target's replica count is not known.",
        "Check that the scaler can read the count (--cluster) and that the names agree.",
    ),
    Reason.AT_ZERO: Explanation(
        "The fleet is at zero, and nothing is known to wait at a gateway.",
        "Nothing: the first request wakes it, where activationQuery shows that it waits.",
    ),
    Reason.GATEWAY_SILENT: Explanation(
        "The activationQuery has no answer: neither demand nor idleness is known.",
        "Ask it of Prometheus: it must give a number, 0 where nothing waits.",
    ),
    Reason.NO_WAY_TO_WAKE: Explanation(
        "The fleet may go to zero, and the trigger has no activationQuery to wake it by.",
        "Set activationQuery to the demand at the gateway, or keep minReplicaCount at 1.",
    ),
    Reason.NOT_YET_SAMPLED: Explanation(
        "The workload was registered a moment ago and has no sample yet.",
        "Wait for the next tick.",
    ),
    Reason.UNRESOLVED: Explanation(
        "The trigger names something that the server's configuration does not have.",
        "Correct the trigger, or the server's configuration.",
    ),
}
