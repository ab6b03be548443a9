"""The keys of a trigger's metadata: the one place that names, describes and reads each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scaler.config import hardware, quantities
from scaler.config.faults import Unreadable, shortened
from scaler.config.matchers import matchers
from scaler.config.promql import QueryInvalid, named_query, parse_query, selectors
from scaler.config.quantities import DAY, HOUR, span
from scaler.core.units import TICK


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataKey:
    """One key. `field` is its name in the settings, `read` raises Unreadable."""

    name: str
    field: str
    default: str
    meaning: str
    read: Callable[[str], object]


def query(text: str) -> str:
    """Read PromQL, or `name:x` for a query of the server's configuration. Raises Unreadable."""
    name = named_query(text)
    if name is not None:
        return f"name:{quantities.profile_name(name)}"
    try:
        refused = hardware.first_hardware_metric(selectors(parse_query(text)))
    except QueryInvalid as error:
        raise Unreadable(
            f"cannot be asked: {shortened(str(error), 200)}",
            "or name a query of the server's configuration: name:…",
        ) from error
    if refused is not None:
        raise Unreadable(f"reads {refused}, which {hardware.REASON}", hardware.CURE)
    return text


_window = span(TICK, DAY, ": one sample is taken every 15s")

KEYS: tuple[MetadataKey, ...] = (
    MetadataKey(
        name="source",
        field="source",
        default="the only one",
        meaning="Name of a source in the server's configuration. Never an address.",
        read=quantities.source_name,
    ),
    MetadataKey(
        name="modelName",
        field="model_name",
        default="–",
        meaning="Value of the engines' `model_name` label. May be left out where `selector` says "
        "which series are meant.",
        read=quantities.model_name,
    ),
    MetadataKey(
        name="selector",
        field="selector",
        default="–",
        meaning='PromQL label matchers, such as `app="chat",tier=~"gold|silver"`. The namespace '
        "is always the ScaledObject's.",
        read=matchers,
    ),
    MetadataKey(
        name="waitingHigh",
        field="waiting_high",
        default="5",
        meaning="Waiting requests per serving replica from which the fleet is overloaded.",
        read=quantities.number_above_zero,
    ),
    MetadataKey(
        name="waitingLow",
        field="waiting_low",
        default="1",
        meaning="Waiting requests per serving replica up to which the fleet may shrink.",
        read=quantities.number,
    ),
    MetadataKey(
        name="ttftP95High",
        field="ttft_p95_high",
        default="2.5s",
        meaning="Time to first token, 95th percentile, above which the fleet is overloaded.",
        read=quantities.latency,
    ),
    MetadataKey(
        name="ttftP95Low",
        field="ttft_p95_low",
        default="1s",
        meaning="Time to first token, 95th percentile, up to which the fleet may shrink.",
        read=quantities.latency,
    ),
    MetadataKey(
        name="kvCacheHigh",
        field="kv_cache_high",
        default="0.85",
        meaning="Used fraction of the KV cache to stay below, 0 to 1.",
        read=quantities.fraction,
    ),
    MetadataKey(
        name="kvCacheLow",
        field="kv_cache_low",
        default="0.6",
        meaning="Used fraction of the KV cache that a shrunken fleet may reach, 0 to 1.",
        read=quantities.fraction,
    ),
    MetadataKey(
        name="signals",
        field="signals",
        default="waiting,ttft,kvCache",
        meaning="Which signals may move the fleet.",
        read=quantities.signals,
    ),
    MetadataKey(
        name="scaleOutWindow",
        field="scale_out_window",
        default="45s",
        meaning="How long demand must last before replicas are added; 15s to 24h.",
        read=_window,
    ),
    MetadataKey(
        name="scaleInWindow",
        field="scale_in_window",
        default="5m",
        meaning="How long calm must last before replicas are removed; 15s to 24h, and in effect "
        "never less than twice the lead time.",
        read=_window,
    ),
    MetadataKey(
        name="drainTime",
        field="drain_time",
        default="half the lead time",
        meaning="Time within which a backlog should be gone; 1s to 24h. Where it is not given, "
        "half the lead time, at least 1m.",
        read=span(1.0, DAY),
    ),
    MetadataKey(
        name="concurrencyPerReplica",
        field="concurrency_per_replica",
        default="learned",
        meaning="Requests that a full replica runs at once, about vLLM's `--max-num-seqs`.",
        read=quantities.count,
    ),
    MetadataKey(
        name="headroom",
        field="headroom",
        default="0.4",
        meaning="Share of that concurrency to keep free, from 0 to below 1.",
        read=quantities.share_to_keep,
    ),
    MetadataKey(
        name="leadTime",
        field="lead_time",
        default="learned",
        meaning="Time from a replica's creation until it serves; 1s to 2h.",
        read=span(1.0, 2 * HOUR),
    ),
    MetadataKey(
        name="activationQuery",
        field="activation_query",
        default="–",
        meaning="PromQL for the demand that waits at a gateway: what wakes a fleet of zero "
        "replicas. Held to the ScaledObject's namespace; or `name:…`, a query of the server's "
        "configuration.",
        read=query,
    ),
    MetadataKey(
        name="rejectionQuery",
        field="rejection_query",
        default="–",
        meaning="PromQL for what a gateway refuses per second for want of capacity; as "
        "`activationQuery`.",
        read=query,
    ),
    MetadataKey(
        name="holdFor",
        field="hold_for",
        default="5m",
        meaning="How long a silent source is answered with the present count; 0s to 24h. Then the "
        "scaler answers UNAVAILABLE.",
        read=span(0.0, DAY),
    ),
    MetadataKey(
        name="mode",
        field="mode",
        default="act",
        meaning="`act`, or `advise`: answers the present count and publishes what it would have "
        "done. As the only trigger.",
        read=quantities.mode,
    ),
    MetadataKey(
        name="profile",
        field="profile",
        default="–",
        meaning="A named set of these keys from the server's configuration. Keys given in the "
        "trigger win.",
        read=quantities.profile_name,
    ),
)

BY_NAME = {key.name: key for key in KEYS}
BY_FIELD = {key.field: key for key in KEYS}

FROM_ENV = "FromEnv"
"""KEDA resolves `fooFromEnv` from the scale target's container and keeps the suffix."""

TLS_KEYS = ("caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile")
"""KEDA reads them from a TriggerAuthentication only; in the metadata they do nothing."""

KEDA_KEYS = frozenset({"scalerAddress", "enableTLS", "unsafeSsl", *TLS_KEYS})
"""What KEDA forwards of its own: ignored."""

_BESIDE_TYPE = "it stands beside the trigger's `type`, not in its metadata"
_IN_SPEC = "it belongs into the ScaledObject's spec"
_THRESHOLDS = "the thresholds are waitingHigh, ttftP95High and kvCacheHigh"
_NO_ADDRESS = "name a source of the server's configuration with `source`"
_WAKING = "a fleet of zero replicas wakes by `activationQuery`"

MISPLACED = {
    "metricType": f"{_BESIDE_TYPE}; leave it out, the default AverageValue is right",
    "useCachedMetrics": _BESIDE_TYPE,
    "name": _BESIDE_TYPE,
    "authenticationRef": _BESIDE_TYPE,
    "type": _BESIDE_TYPE,
    "pollingInterval": _IN_SPEC,
    "cooldownPeriod": _IN_SPEC,
    "minReplicaCount": _IN_SPEC,
    "maxReplicaCount": _IN_SPEC,
    "idleReplicaCount": _IN_SPEC,
    "fallback": _IN_SPEC,
    "threshold": _THRESHOLDS,
    "value": _THRESHOLDS,
    "targetValue": _THRESHOLDS,
    "metricThreshold": _THRESHOLDS,
    "activationThreshold": _WAKING,
    "activationValue": _WAKING,
    "query": "the scaler knows its own queries; demand at a gateway is `activationQuery`",
    "metricName": "the scaler knows the engines' metrics itself",
    "serverAddress": _NO_ADDRESS,
    "prometheusAddress": _NO_ADDRESS,
    "url": _NO_ADDRESS,
    "namespace": "the namespace is the ScaledObject's own",
}
"""Keys of KEDA's other places and scalers that land in the metadata, and what to do instead."""

_IN_WORDS = {"–", "learned", "the only one", "half the lead time"}


def metadata_table() -> str:
    """Return the table of keys as Markdown."""
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for key in KEYS:
        meaning = key.meaning.replace("|", "\\|")
        default = key.default if key.default in _IN_WORDS else f"`{key.default}`"
        rows.append(f"| `{key.name}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"
