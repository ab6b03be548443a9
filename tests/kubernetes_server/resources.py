"""The kinds that the test API server knows, and where each keeps its count and its selector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Json: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind: its group ("" for the core), version, plural and name.

    `selector` is the path of the label selector that /scale shows; `None` means no /scale. A path
    that ends at a mapping is read as a Kubernetes `LabelSelector`, else it is the text itself.
    """

    group: str
    version: str
    plural: str
    kind: str
    selector: str | None = None

    @property
    def api_version(self) -> str:
        """Return what stands in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        """Return the path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


PODS = Resource("", "v1", "pods", "Pod")
CORE_EVENTS = Resource("", "v1", "events", "Event")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", "spec.selector")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", "spec.selector")
HPAS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
SCALED_OBJECTS = Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LEADER_WORKER_SETS = Resource(
    "leaderworkerset.x-k8s.io",
    "v1",
    "leaderworkersets",
    "LeaderWorkerSet",
    "status.hpaPodSelector",
)
INFERENCE_SERVICES = Resource(
    "serving.kserve.io",
    "v1alpha1",
    "llminferenceservices",
    "LLMInferenceService",
    "status.selector",
)

KNOWN = (
    PODS,
    CORE_EVENTS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    HPAS,
    SCALED_OBJECTS,
    EVENTS,
    LEASES,
    LEADER_WORKER_SETS,
    INFERENCE_SERVICES,
)


def at(value: object, path: str) -> object:
    """Follow a path of keys; `None` where it ends early."""
    for step in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def section(of: Json, key: str) -> Json:
    """Return a mapping inside an object, which is made where it is missing."""
    inner = of.setdefault(key, {})
    assert isinstance(inner, dict), f"{key} is no mapping"
    return inner


def selector_text(resource: Resource, found: Json) -> str:
    """Write the selector as /scale's `status.selector` has it; "" while there is none."""
    value = at(found, resource.selector or "")
    if not isinstance(value, dict):
        return str(value or "")
    labels = value.get("matchLabels") or {}
    terms = [f"{key}={labels[key]}" for key in sorted(labels)]
    for row in value.get("matchExpressions") or []:
        values = ",".join(row.get("values") or [])
        terms.append(
            {
                "In": f"{row['key']} in ({values})",
                "NotIn": f"{row['key']} notin ({values})",
                "Exists": row["key"],
                "DoesNotExist": f"!{row['key']}",
            }[row["operator"]]
        )
    return ",".join(terms)


def selects(text: str, labels: Mapping[str, str]) -> bool:
    """Say whether a label selector of equalities matches; that is all that tests list by."""
    for term in filter(None, text.split(",")):
        key, _, value = term.partition("=")
        if labels.get(key) != value.lstrip("="):
            return False
    return True
