"""The fields of Kubernetes' objects that matter, decoded without building the rest.

5,000 pods take 0.04 s this way, against 0.75 s as plain JSON and 2.7 s and 270 MiB as the client's
typed models. `null` stands wherever Go has an empty list or a zero time.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from scaler.adapters.kubernetes_errors import ClusterAnswerInvalid

S = TypeVar("S", bound=msgspec.Struct)


class Fields(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of an object; keys that it does not name are skipped."""


class ManagedFields(Fields, frozen=True):
    """Who last wrote which fields."""

    manager: str = ""
    subresource: str = ""
    time: datetime | None = None
    fields_v1: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw(b"{}"))


class Owner(Fields, frozen=True):
    """An owner reference; one at most is the controller."""

    kind: str
    name: str
    controller: bool | None = None


class Meta(Fields, frozen=True):
    """`metadata`, without what only some kinds need."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodAnnotations(Fields, frozen=True):
    """The only annotation of a pod that matters; the others can be long."""

    deletion_cost: str | None = msgspec.field(
        name="controller.kubernetes.io/pod-deletion-cost", default=None
    )


class PodMeta(Fields, frozen=True):
    """A pod's `metadata`."""

    name: str
    namespace: str
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: PodAnnotations | None = None
    owner_references: list[Owner] | None = None


class TargetMeta(Fields, frozen=True):
    """The `metadata` of a scale target."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    managed_fields: list[ManagedFields] | None = None


class Condition(Fields, frozen=True):
    """A condition, of any kind."""

    type: str
    status: str = "Unknown"
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class Port(Fields, frozen=True):
    """A container's port."""

    container_port: int
    name: str | None = None


class Container(Fields, frozen=True):
    """A container, as asked for."""

    ports: list[Port] | None = None


class Terminated(Fields, frozen=True):
    """How a container ended."""

    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None
    finished_at: datetime | None = None


class Waiting(Fields, frozen=True):
    """Why a container does not run yet."""

    reason: str | None = None


class ContainerState(Fields, frozen=True):
    """One of these, or it runs."""

    terminated: Terminated | None = None
    waiting: Waiting | None = None


class ContainerStatus(Fields, frozen=True):
    """A container, as it is."""

    name: str
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodSpec(Fields, frozen=True):
    """What a pod asks for."""

    containers: list[Container] | None = None


class PodStatus(Fields, frozen=True):
    """How a pod is."""

    phase: str = ""
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodObject(Fields, frozen=True):
    """A pod."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class TargetObject(Fields, frozen=True):
    """A scale target's PartialObjectMetadata."""

    metadata: TargetMeta


class ScaleSpec(Fields, frozen=True):
    """Go leaves a zero out."""

    replicas: int = 0


class ScaleStatus(Fields, frozen=True):
    """What there is."""

    replicas: int = 0
    selector: str = ""


class ScaleObject(Fields, frozen=True):
    """The subresource /scale."""

    metadata: Meta
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class Reference(Fields, frozen=True):
    """A `scaleTargetRef`."""

    name: str
    kind: str | None = None
    api_version: str | None = None


class HpaRules(Fields, frozen=True):
    """One direction of an HPA's `behavior`; a tolerance is a quantity."""

    tolerance: str | int | float | None = None
    stabilization_window_seconds: int | None = None


class Behavior(Fields, frozen=True):
    """An HPA's `behavior`."""

    scale_up: HpaRules | None = None
    scale_down: HpaRules | None = None


class MetricName(Fields, frozen=True):
    """What a metric is called."""

    name: str = ""


class MetricTarget(Fields, frozen=True):
    """How a metric is compared."""

    type: str = ""


class ExternalMetric(Fields, frozen=True):
    """A metric that KEDA gives."""

    metric: MetricName = MetricName()
    target: MetricTarget = MetricTarget()


class Metric(Fields, frozen=True):
    """One of an HPA's metrics."""

    external: ExternalMetric | None = None


class HpaSpec(Fields, frozen=True):
    """What an HPA is told."""

    scale_target_ref: Reference
    min_replicas: int | None = None
    max_replicas: int = 1
    behavior: Behavior | None = None
    metrics: list[Metric] | None = None


class HpaStatus(Fields, frozen=True):
    """What an HPA says of itself."""

    current_replicas: int | None = None
    conditions: list[Condition] | None = None


class HpaObject(Fields, frozen=True):
    """An HPA."""

    metadata: Meta
    spec: HpaSpec
    status: HpaStatus = HpaStatus()


class Fallback(Fields, frozen=True):
    """What KEDA does when we cannot answer."""

    replicas: int = 0


class HpaConfig(Fields, frozen=True):
    """What a ScaledObject hands on to the HPA."""

    behavior: Behavior | None = None


class Advanced(Fields, frozen=True):
    """A ScaledObject's `advanced`."""

    horizontal_pod_autoscaler_config: HpaConfig | None = None


class Trigger(Fields, frozen=True):
    """One trigger of a ScaledObject."""

    type: str = ""
    metric_type: str | None = None


class ScaledObjectSpec(Fields, frozen=True):
    """What KEDA is told."""

    scale_target_ref: Reference
    min_replica_count: int | None = None
    max_replica_count: int | None = None
    idle_replica_count: int | None = None
    fallback: Fallback | None = None
    advanced: Advanced | None = None
    triggers: list[Trigger] | None = None


class ScaledObjectStatus(Fields, frozen=True):
    """What KEDA says of it."""

    external_metric_names: list[str] | None = None
    conditions: list[Condition] | None = None


class ScaledObjectObject(Fields, frozen=True):
    """A ScaledObject."""

    metadata: Meta
    spec: ScaledObjectSpec
    status: ScaledObjectStatus = ScaledObjectStatus()


class ListMeta(Fields, frozen=True):
    """Where a list stands, and how to go on."""

    resource_version: str = ""
    next: str = msgspec.field(name="continue", default="")


class Page(Fields, frozen=True):
    """A page of a list; the objects are decoded one by one, so that an odd one harms no other."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Event(Fields, frozen=True):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class Status(Fields, frozen=True):
    """Why the server does not do as it is asked."""

    code: int = 0
    reason: str | None = None


class Identity(Fields, frozen=True):
    """The part of `metadata` that every object has."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Head(Fields, frozen=True):
    """Which object it is, and at which version."""

    metadata: Identity


class ApiResource(Fields, frozen=True):
    """A row of discovery."""

    name: str
    kind: str = ""


class ApiResources(Fields, frozen=True):
    """What a group and version serve."""

    resources: list[ApiResource] | None = None


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoded(kind: type[S], body: bytes | msgspec.Raw) -> S:
    """Decode a body. Raises ClusterAnswerInvalid."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        found: S = decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ClusterAnswerInvalid(
            f"the API server's answer is no {kind.__name__} ({error}): is a proxy before it?"
        ) from error
    return found
