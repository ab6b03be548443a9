"""Objects as a cluster with KEDA holds them, for tests to put into the server's store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.kubernetes_server.resources import Json
from tests.kubernetes_server.store import stamp

NAMESPACE = "llm"
METRIC = "s0-vllm-desired-replicas"


def deployment(
    name: str,
    *,
    replicas: int = 1,
    namespace: str = NAMESPACE,
    labels: Mapping[str, str] | None = None,
    kind: str = "Deployment",
) -> Json:
    """Write a Deployment or StatefulSet that selects its pods by `app` or by `labels`."""
    selected = dict(labels or {"app": name})
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": selected}},
        },
        "status": {"replicas": replicas},
    }


def leader_worker_set(name: str, *, replicas: int = 1, namespace: str = NAMESPACE) -> Json:
    """Write a LeaderWorkerSet whose /scale selects the leaders."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": 2}},
        "status": {
            "replicas": replicas,
            "hpaPodSelector": (
                f"leaderworkerset.sigs.k8s.io/name={name},"
                "leaderworkerset.sigs.k8s.io/worker-index=0"
            ),
        },
    }


def scaled_object(
    name: str,
    *,
    target: str | None = None,
    kind: str | None = None,
    api_version: str | None = None,
    namespace: str = NAMESPACE,
    annotations: Mapping[str, str] | None = None,
    triggers: Sequence[Json] | None = None,
    **spec: object,
) -> Json:
    """Write a ScaledObject with one trigger of ours; `spec` goes into its spec as it is."""
    reference: Json = {"name": target or name}
    if kind is not None:
        reference["kind"] = kind
    if api_version is not None:
        reference["apiVersion"] = api_version
    ours: Json = {
        "type": "external",
        "metadata": {"scalerAddress": "scaler.keda:50051", "modelName": name},
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "scaleTargetRef": reference,
            "triggers": [ours] if triggers is None else list(triggers),
            **spec,
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ScaledObject"}]},
    }


def hpa(  # noqa: PLR0913 - an object has that many sides
    scaled_object: str,
    *,
    target: str | None = None,
    kind: str = "Deployment",
    api_version: str = "apps/v1",
    namespace: str = NAMESPACE,
    least: int = 1,
    most: int = 20,
    current: int = 0,
    behavior: Json | None = None,
    metric_type: str = "AverageValue",
    metric: str = METRIC,
) -> Json:
    """Write the HPA that KEDA makes of a ScaledObject."""
    spec: Json = {
        "scaleTargetRef": {
            "apiVersion": api_version,
            "kind": kind,
            "name": target or scaled_object,
        },
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": metric},
                    "target": {"type": metric_type, "averageValue": "1"},
                },
            }
        ],
    }
    if behavior is not None:
        spec["behavior"] = behavior
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": f"keda-hpa-{scaled_object}",
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "keda-operator",
                "scaledobject.keda.sh/name": scaled_object,
            },
        },
        "spec": spec,
        "status": {
            "currentReplicas": current,
            "desiredReplicas": current,
            "conditions": [
                {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}
            ],
        },
    }


def pod(  # noqa: PLR0913 - an object has that many sides
    name: str,
    *,
    of: str,
    namespace: str = NAMESPACE,
    labels: Mapping[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    created_at: float = 1_000_000_000.0,
    ready_at: float | None = 1_000_000_180.0,
    phase: str = "Running",
    ip: str | None = "10.0.0.1",
    template: str = "5d8f",
    ports: Mapping[str, int] | None = None,
    restarts: int = 0,
    last_exit: Json | None = None,
    waiting: str | None = None,
    deleted_at: float | None = None,
) -> Json:
    """Write a pod of the Deployment `of`; `ready_at=None` is a pod that is not Ready yet.

    `owner` is its controller's kind and name; the ReplicaSet of `of` and `template` if not given.
    `last_exit` is a container's `lastState.terminated`, `waiting` its `state.waiting.reason`.
    """
    kind, owning = owner or ("ReplicaSet", f"{of}-{template}")
    meta: Json = {
        "name": name,
        "namespace": namespace,
        "creationTimestamp": stamp(created_at),
        "labels": {"app": of, "pod-template-hash": template} if labels is None else dict(labels),
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": kind, "name": owning, "controller": True}
        ],
    }
    if deleted_at is not None:
        meta["deletionTimestamp"] = stamp(deleted_at)
    ready: Json = {"type": "Ready", "status": "True" if ready_at is not None else "False"}
    ready["lastTransitionTime"] = stamp(ready_at if ready_at is not None else created_at)
    state: Json = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    container: Json = {"name": "vllm", "restartCount": restarts, "state": state, "lastState": {}}
    if last_exit is not None:
        container["lastState"] = {"terminated": last_exit}
    listed = [
        {"name": key, "containerPort": port} for key, port in (ports or {"http": 8000}).items()
    ]
    status: Json = {"phase": phase, "conditions": [ready], "containerStatuses": [container]}
    if ip is not None:
        status["podIP"] = ip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "vllm", "ports": listed}]},
        "status": status,
    }
