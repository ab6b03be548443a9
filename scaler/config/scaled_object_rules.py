"""Rules for a ScaledObject that holds a trigger of ours: its bounds, fallback and HPA behaviour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scaler.config import hardware
from scaler.config.findings import Finding, Manifest, integer, mapping
from scaler.config.keys import FROM_ENV
from scaler.config.promql import (
    QueryInvalid,
    named_query,
    parse_query,
    pin_to_namespace,
    selectors,
)
from scaler.core.gateway import LATCHED_FOR

GUARD = 60
"""Seconds of scale-down stabilisation that guard against a late read of the count."""

_HPA_DEFAULT_WINDOW = 300
_UNNAMED = "default"
"""What a manifest without a namespace has; where it is applied, it may get another one."""
_BEHAVIOR = ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior")
_HARDWARE_TRIGGERS = {"cpu", "memory"}

Triggers = Sequence[Mapping[str, object]]


def object_findings(
    manifest: Manifest, triggers: Triggers, ours: Sequence[int]
) -> Iterator[Finding]:
    """Yield what is wrong with the object around the triggers at the places `ours`."""
    yield from _zero(manifest, triggers, ours)
    yield from _foreign(manifest, triggers, ours)
    yield from _fallback(manifest)
    yield from _beside(manifest, triggers, ours)
    yield from _advise(manifest, triggers, ours)
    behavior = mapping(manifest.spec)
    for step in _BEHAVIOR[1:]:
        behavior = mapping(behavior.get(step))
    yield from _tolerance(manifest, behavior)
    yield from _windows(manifest, behavior)


def _reaches_zero(manifest: Manifest) -> bool:
    idle = manifest.spec.get("idleReplicaCount")
    return integer(manifest.spec.get("minReplicaCount"), 0) == 0 or idle == 0


def _metadata(trigger: Mapping[str, object]) -> Mapping[str, object]:
    return mapping(trigger.get("metadata"))


def _has(trigger: Mapping[str, object], key: str) -> bool:
    metadata = _metadata(trigger)
    return bool(metadata.get(key) or metadata.get(f"{key}{FROM_ENV}"))


def _zero(manifest: Manifest, triggers: Triggers, ours: Sequence[int]) -> Iterator[Finding]:
    if not _reaches_zero(manifest):
        return
    waking = [index for index in ours if _has(triggers[index], "activationQuery")]
    if waking:
        yield from _woken_by_poll(manifest, triggers, waking)
        return
    others = [t for i, t in enumerate(triggers) if i not in ours]
    if any(str(trigger.get("type")) not in _HARDWARE_TRIGGERS for trigger in others):
        return
    given = "minReplicaCount" in manifest.spec
    message = (
        f"the fleet may go to zero replicas{'' if given else ' (minReplicaCount is not given)'}, "
        "where no engine is left to show demand: nothing wakes it"
    )
    cure = "set minReplicaCount: 1, or give activationQuery, the demand at a gateway"
    place = ("spec", "minReplicaCount") if given else ("spec",)
    if any(_has(triggers[index], "profile") for index in ours):
        message = f"{message}, unless the profile has an activationQuery"
        yield manifest.warning("zero-without-wake", message, cure, *place)
    else:
        yield manifest.error("zero-without-wake", message, cure, *place)


def _woken_by_poll(
    manifest: Manifest, triggers: Triggers, waking: Sequence[int]
) -> Iterator[Finding]:
    if any(triggers[index].get("type") == "external-push" for index in waking):
        return
    seconds = integer(manifest.spec.get("pollingInterval"), 30)
    missed = ", and misses who has left by then" if seconds >= LATCHED_FOR else ""
    yield manifest.warning(
        "woken-by-poll",
        f"type external wakes a fleet of zero only at KEDA's next poll, up to {seconds}s "
        f"later{missed}",
        "use type external-push",
        *("spec", "triggers", waking[0], "type"),
    )


def _foreign(manifest: Manifest, triggers: Triggers, ours: Sequence[int]) -> Iterator[Finding]:
    """Find queries that name a namespace themselves: the scaler refuses all but their own."""
    if manifest.namespace == _UNNAMED:
        return
    for index in ours:
        for key in ("activationQuery", "rejectionQuery"):
            query = _metadata(triggers[index]).get(key)
            if not isinstance(query, str) or named_query(query) is not None:
                continue
            try:
                parse_query(query)
            except QueryInvalid:
                continue  # told as a fault of the metadata
            try:
                pin_to_namespace(query, manifest.namespace)
            except QueryInvalid as error:
                yield manifest.warning(
                    "foreign-namespace",
                    f"{key}: {error}",
                    "leave the label out, or have the operator name the query: name:…",
                    *("spec", "triggers", index, "metadata", key),
                )


def _fallback(manifest: Manifest) -> Iterator[Finding]:
    fallback = manifest.spec.get("fallback")
    if not isinstance(fallback, dict):
        yield manifest.warning(
            "no-fallback",
            "there is no fallback: while the scaler cannot answer, the count stays as it is",
            "set fallback.failureThreshold and fallback.replicas, with behavior: "
            "currentReplicasIfHigher",
            "spec",
        )
    elif fallback.get("replicas") == 0 and _reaches_zero(manifest):
        yield manifest.error(
            "fallback-to-zero",
            "fallback.replicas 0 with a minimum of 0 takes the whole fleet down when the scaler "
            "cannot answer",
            "set fallback.replicas to 1 or more",
            *("spec", "fallback", "replicas"),
        )


def _beside(manifest: Manifest, triggers: Triggers, ours: Sequence[int]) -> Iterator[Finding]:
    for index, trigger in enumerate(triggers):
        if index in ours:
            continue
        kind = str(trigger.get("type"))
        metric = None if kind in _HARDWARE_TRIGGERS else _hardware_metric(trigger)
        if kind not in _HARDWARE_TRIGGERS and metric is None:
            continue
        reads = f"a {kind} trigger" if metric is None else f"a trigger on {metric}"
        yield manifest.warning(
            "hardware-trigger",
            f"{reads} stands beside ours, and the HPA follows the larger: it {hardware.REASON}"
            if kind != "memory"
            else "a memory trigger stands beside ours, and the HPA follows the larger: an engine "
            "takes its memory at the start, whatever it has to do",
            "remove it",
            *("spec", "triggers", index),
        )


def _hardware_metric(trigger: Mapping[str, object]) -> str | None:
    query = _metadata(trigger).get("query")
    if not isinstance(query, str):
        return None
    try:
        return hardware.first_hardware_metric(selectors(parse_query(query)))
    except QueryInvalid:
        return None


def _advise(manifest: Manifest, triggers: Triggers, ours: Sequence[int]) -> Iterator[Finding]:
    for index in ours:
        if _metadata(triggers[index]).get("mode") == "advise" and len(triggers) > 1:
            yield manifest.warning(
                "advise-beside-others",
                "a trigger that advises answers the present count: beside others it keeps them "
                "from ever removing a replica",
                "list the workload under watch in the server's configuration instead",
                *("spec", "triggers", index, "metadata", "mode"),
            )


def _tolerance(manifest: Manifest, behavior: Mapping[str, object]) -> Iterator[Finding]:
    for direction in ("scaleUp", "scaleDown"):
        value = mapping(behavior.get(direction)).get("tolerance")
        if value is not None and _is_zero(value):
            continue
        said = "has no tolerance" if value is None else f"has the tolerance {str(value)[:20]}"
        yield manifest.warning(
            "tolerance",
            f"behavior.{direction} {said}: within it (the HPA's default is 10 %) the HPA swallows "
            "steps of a large fleet",
            f"set behavior.{direction}.tolerance: 0 (Kubernetes 1.35 and later)",
            *_BEHAVIOR,
            direction,
            "tolerance",
        )


def _is_zero(value: object) -> bool:
    try:
        return float(str(value).strip("mkuni")) == 0
    except ValueError:
        return False


def _windows(manifest: Manifest, behavior: Mapping[str, object]) -> Iterator[Finding]:
    down = mapping(behavior.get("scaleDown")).get("stabilizationWindowSeconds")
    seconds = integer(down, _HPA_DEFAULT_WINDOW)
    if seconds > GUARD:
        said = "is not given, so it is the HPA's 300" if down is None else f"is {seconds}"
        yield manifest.warning(
            "doubled-window",
            f"behavior.scaleDown.stabilizationWindowSeconds {said}: it comes on top of "
            "scaleInWindow",
            f"set it to {GUARD}, and scaleInWindow to the calm you want",
            *_BEHAVIOR,
            "scaleDown",
            "stabilizationWindowSeconds",
        )
    up = integer(mapping(behavior.get("scaleUp")).get("stabilizationWindowSeconds"), 0)
    if up > 0:
        yield manifest.warning(
            "doubled-window",
            f"behavior.scaleUp.stabilizationWindowSeconds is {up}: it comes on top of "
            "scaleOutWindow",
            "leave it out, and set scaleOutWindow to what you want",
            *_BEHAVIOR,
            "scaleUp",
            "stabilizationWindowSeconds",
        )
