"""What KEDA and its HPA are told about a scale target, out of their objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from scaler.adapters.kubernetes_objects import (
    Behavior,
    HpaObject,
    HpaRules,
    Meta,
    Reference,
    ScaledObjectObject,
    Trigger,
    decoded,
)
from scaler.adapters.kubernetes_objects import Condition as ConditionFields
from scaler.adapters.kubernetes_pods import epoch
from scaler.adapters.kubernetes_reflector import Kind
from scaler.adapters.kubernetes_selectors import Target
from scaler.core.pods import Condition
from scaler.core.units import Seconds
from scaler.simulation.quantity import QuantityInvalid, approximate

METRIC = "vllm-desired-replicas"
DEFAULT_TOLERANCE = 0.1
_DEFAULT_WINDOW: Seconds = 300.0
_DEFAULT_MAXIMUM = 100
_INDEX = re.compile(r"[0-9]{1,4}")
_OURS = frozenset({"external", "external-push"})
_PAUSE = "autoscaling.keda.sh/paused"
_STATUS = {"True": True, "False": False}
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
"""What Go reads as false; KEDA takes everything else for a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaView:
    """One of KEDA's HPAs.

    `ours` has the trigger's index and the metric type of each metric that is ours. `current` is
    the count at the HPA's last sync: late by up to half a minute.
    """

    name: str
    scaled_object: str
    target: Target
    min_replicas: int
    max_replicas: int
    tolerance_out: float
    tolerance_in: float
    scale_down_window: Seconds
    ours: Mapping[int, str]
    current: int | None
    conditions: Mapping[str, Condition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledObjectView:
    """A ScaledObject.

    `triggers` are (type, metric type) pairs in their order, `metrics` the names of those that give
    one; `asks_us` says whether a trigger may be ours, since KEDA knows us as an external scaler.
    """

    target: Target
    uid: str
    created_at: Seconds | None
    min_replicas: int
    max_replicas: int
    idle_replicas: int | None
    fallback_replicas: int | None
    paused: bool
    in_paused: bool
    out_paused: bool
    paused_replicas: int | None
    tolerance_out: float
    tolerance_in: float
    triggers: tuple[tuple[str, str], ...]
    metrics: tuple[str, ...]
    asks_us: bool
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    def ours(self, hpa: HpaView | None) -> frozenset[int]:
        """Return the indices of our triggers: by the metric's name where one tells, or all such."""
        told = frozenset(hpa.ours) if hpa is not None else frozenset()
        if not told:
            told = frozenset(n for name in self.metrics if (n := _number(name)) is not None)
        return told or frozenset(n for n, (kind, _) in enumerate(self.triggers) if kind in _OURS)


def hpa_view(item: msgspec.Raw) -> HpaView | None:
    """Decode an HPA; None for one that names no ScaledObject. Raises ClusterAnswerInvalid."""
    found = decoded(HpaObject, item)
    meta, spec = found.metadata, found.spec
    scaled_object = (meta.labels or {}).get("scaledobject.keda.sh/name")
    if scaled_object is None:
        return None
    out, in_ = _rules(spec.behavior)
    window = in_.stabilization_window_seconds if in_ is not None else None
    external = [m.external for m in spec.metrics or () if m.external is not None]
    return HpaView(
        name=meta.name,
        scaled_object=scaled_object,
        target=_target(meta.namespace, spec.scale_target_ref),
        min_replicas=1 if spec.min_replicas is None else spec.min_replicas,
        max_replicas=spec.max_replicas,
        tolerance_out=_tolerance(out),
        tolerance_in=_tolerance(in_),
        scale_down_window=_DEFAULT_WINDOW if window is None else float(window),
        ours={
            number: metric.target.type
            for metric in external
            if (number := _number(metric.metric.name)) is not None
        },
        current=found.status.current_replicas,
        conditions=_conditions(found.status.conditions),
    )


def scaled_object_view(item: msgspec.Raw) -> ScaledObjectView:
    """Decode a ScaledObject. Raises ClusterAnswerInvalid."""
    found = decoded(ScaledObjectObject, item)
    meta, spec = found.metadata, found.spec
    config = spec.advanced.horizontal_pod_autoscaler_config if spec.advanced is not None else None
    out, in_ = _rules(config.behavior if config is not None else None)
    most = spec.max_replica_count
    pauses = _pauses(meta)
    whole = bool(pauses & {"", "-replicas"})
    return ScaledObjectView(
        target=_target(meta.namespace, spec.scale_target_ref),
        uid=meta.uid,
        created_at=epoch(meta.creation_timestamp),
        min_replicas=spec.min_replica_count or 0,
        max_replicas=_DEFAULT_MAXIMUM if most is None else most,
        idle_replicas=spec.idle_replica_count,
        fallback_replicas=spec.fallback.replicas if spec.fallback is not None else None,
        paused=bool(pauses),
        in_paused=whole or "-scale-in" in pauses,
        out_paused=whole or "-scale-out" in pauses,
        paused_replicas=_paused_replicas(meta),
        tolerance_out=_tolerance(out),
        tolerance_in=_tolerance(in_),
        triggers=tuple(_trigger(trigger) for trigger in spec.triggers or ()),
        asks_us=any(trigger.type in _OURS for trigger in spec.triggers or ()),
        metrics=tuple(found.status.external_metric_names or ()),
        conditions=_conditions(found.status.conditions),
    )


HPAS: Kind[HpaView] = Kind(
    resource="horizontalpodautoscalers",
    prefix="/apis/autoscaling/v2",
    decode=hpa_view,
    labels="app.kubernetes.io/managed-by=keda-operator",
)
SCALED_OBJECTS: Kind[ScaledObjectView] = Kind(
    resource="scaledobjects", prefix="/apis/keda.sh/v1alpha1", decode=scaled_object_view
)


def _target(namespace: str, reference: Reference) -> Target:
    return Target(
        namespace=namespace,
        api_version=reference.api_version or "apps/v1",
        kind=reference.kind or "Deployment",
        name=reference.name,
    )


def _number(metric: str) -> int | None:
    """Return the trigger's index out of the name that KEDA gave our metric; None for another's."""
    number = metric.removeprefix("s").removesuffix(f"-{METRIC}")
    return int(number) if len(number) < len(metric) and _INDEX.fullmatch(number) else None


def _trigger(trigger: Trigger) -> tuple[str, str]:
    return trigger.type, trigger.metric_type or "AverageValue"


def _rules(behavior: Behavior | None) -> tuple[HpaRules | None, HpaRules | None]:
    return (behavior.scale_up, behavior.scale_down) if behavior is not None else (None, None)


def _tolerance(rules: HpaRules | None) -> float:
    """Read a tolerance; what is missing, or no quantity, is the cluster's default of 10 %."""
    if rules is None or rules.tolerance is None:
        return DEFAULT_TOLERANCE
    try:
        return max(0.0, approximate(str(rules.tolerance)))
    except QuantityInvalid:
        return DEFAULT_TOLERANCE


def _pauses(meta: Meta) -> frozenset[str]:
    """Return which of KEDA's pauses are asked for, by the end of their annotation's name."""
    annotations = meta.annotations or {}
    found = {
        end
        for end in ("", "-scale-in", "-scale-out")
        if (value := annotations.get(f"{_PAUSE}{end}")) is not None and value not in _FALSE
    }
    if f"{_PAUSE}-replicas" in annotations:
        found.add("-replicas")
    return frozenset(found)


def _paused_replicas(meta: Meta) -> int | None:
    value = (meta.annotations or {}).get(f"{_PAUSE}-replicas", "")
    return int(value) if value.isdecimal() and len(value) < 10 else None  # noqa: PLR2004 - 32 bits


def _conditions(found: Iterable[ConditionFields] | None) -> Mapping[str, Condition]:
    return {
        c.type: Condition(
            status=_STATUS.get(c.status), reason=c.reason or "", message=c.message or ""
        )
        for c in found or ()
    }
