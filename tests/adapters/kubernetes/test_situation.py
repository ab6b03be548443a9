"""What KEDA and the HPA are told, and who else writes the count."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest

from scaler.adapters.kubernetes_cluster import KubernetesCluster
from scaler.adapters.kubernetes_scaled import hpa_view, scaled_object_view
from scaler.adapters.kubernetes_situation import situation_of
from scaler.adapters.kubernetes_targets import TargetHead, target_head
from scaler.core.pods import Condition, Situation
from tests.adapters.kubernetes.following import until
from tests.kubernetes_server.objects import hpa, scaled_object
from tests.kubernetes_server.resources import Json, section
from tests.kubernetes_server.server import ApiServer

CREATED = 1_000_000_000.0
PAUSE = "autoscaling.keda.sh/paused"
OURS: Json = {"type": "external", "metadata": {"scalerAddress": "scaler:50051"}}


def raw(found: Json) -> msgspec.Raw:
    """Encode an object."""
    return msgspec.Raw(json.dumps(found).encode())


def situation(
    scaled: Json, autoscaler: Json | None = None, head: TargetHead | None = None
) -> Situation:
    """Read objects as the adapter would."""
    section(scaled, "metadata")["creationTimestamp"] = "2001-09-09T01:46:40Z"
    view = None if autoscaler is None else hpa_view(raw(autoscaler))
    return situation_of(scaled_object_view(raw(scaled)), view, head)


def test_all_that_is_told() -> None:
    """From both objects, each condition by its name."""
    told = situation(
        scaled_object(
            "chat",
            target="chat-predictor",
            minReplicaCount=0,
            idleReplicaCount=0,
            fallback={"failureThreshold": 3, "replicas": 4},
            triggers=[{"type": "cron", "metadata": {}}, OURS],
        ),
        hpa(
            "chat",
            metric="s1-vllm-desired-replicas",
            metric_type="Value",
            behavior={"scaleDown": {"stabilizationWindowSeconds": 60}},
        ),
    )
    assert told == Situation(
        target_kind="Deployment",
        target_name="chat-predictor",
        min_replicas=0,
        idle_replicas=0,
        fallback_replicas=4,
        metric_type="Value",
        other_triggers=("cron",),
        scale_down_window=60.0,
        hpa_name="keda-hpa-chat",
        conditions={
            "ScalingActive": Condition(status=True, reason="ValidMetricFound"),
            "Ready": Condition(status=True, reason="ScaledObject"),
        },
    )


def test_without_an_hpa_nothing_is_made_up() -> None:
    """Its window and name are not known; the metric's type is what the trigger asks for."""
    told = situation(scaled_object("chat", triggers=[{**OURS, "metricType": "Value"}]))
    assert (told.hpa_name, told.scale_down_window, told.metric_type) == (None, None, "Value")
    assert situation(scaled_object("chat")).metric_type == "AverageValue"
    assert situation(scaled_object("chat", triggers=[])).metric_type is None


@pytest.mark.parametrize(
    ("annotations", "paused", "inwards", "outwards", "replicas"),
    [
        ({}, False, False, False, None),
        ({PAUSE: "true"}, True, True, True, None),
        ({PAUSE: "yes"}, True, True, True, None),
        ({PAUSE: "false"}, False, False, False, None),
        ({f"{PAUSE}-replicas": "3"}, True, True, True, 3),
        ({f"{PAUSE}-replicas": "0"}, True, True, True, 0),
        ({f"{PAUSE}-replicas": "many"}, True, True, True, None),
        ({f"{PAUSE}-replicas": "9" * 30}, True, True, True, None),
        ({f"{PAUSE}-scale-in": "true"}, True, True, False, None),
        ({f"{PAUSE}-scale-out": "true"}, True, False, True, None),
        ({f"{PAUSE}-scale-out": "false"}, False, False, False, None),
    ],
)
def test_pauses(
    annotations: Mapping[str, str],
    replicas: int | None,
    *,
    paused: bool,
    inwards: bool,
    outwards: bool,
) -> None:
    """Each of KEDA's annotations, with what KEDA takes its value for."""
    told = situation(scaled_object("chat", annotations=annotations))
    assert (told.paused, told.in_paused, told.out_paused) == (paused, inwards, outwards)
    assert told.paused_replicas == replicas


@pytest.mark.parametrize(
    ("triggers", "metrics", "others"),
    [
        ([OURS], None, ()),
        ([OURS, {"type": "cpu"}, {"type": "cron"}], None, ("cpu", "cron")),
        ([OURS, OURS], None, ()),
        ([OURS, OURS], ["s0-other", "s1-vllm-desired-replicas"], ("external",)),
        ([{"type": "external-push"}, {"type": "kafka"}], ["s1-lag"], ("kafka",)),
        ([{"type": "kafka"}], None, ("kafka",)),
    ],
)
def test_other_triggers(
    triggers: list[Json], metrics: list[str] | None, others: tuple[str, ...]
) -> None:
    """Ours are known by the metric's name where KEDA has noted it, and by their type else."""
    found = scaled_object("chat", triggers=triggers)
    if metrics is not None:
        section(found, "status")["externalMetricNames"] = metrics
    assert situation(found).other_triggers == others


def _written(by: str, at: str | None, *, subresource: str = "", what: str = "replicas") -> Json:
    entry: Json = {
        "manager": by,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {f"f:{what}": {}}},
    }
    if at is not None:
        entry["time"] = at
    if subresource:
        entry["subresource"] = subresource
    return entry


@pytest.mark.parametrize(
    ("entry", "owners"),
    [
        (_written("kubectl", "2001-09-09T02:00:00Z", subresource="scale"), ("kubectl",)),
        (_written("argocd-controller", "2001-09-09T02:00:00Z"), ("argocd-controller",)),
        (_written("helm", "2001-09-09T01:00:00Z"), ()),
        (_written("helm", None), ()),
        (_written("kube-controller-manager", "2001-09-09T02:00:00Z", subresource="scale"), ()),
        (_written("keda", "2001-09-09T02:00:00Z", subresource="scale"), ()),
        (_written("kube-x", "2001-09-09T02:00:00Z", subresource="status"), ()),
        (_written("kubectl", "2001-09-09T02:00:00Z", what="template"), ()),
    ],
)
def test_other_owners(entry: Json, owners: tuple[str, ...]) -> None:
    """Who wrote the count after the ScaledObject was made, by the API server's own record."""
    head = target_head(
        raw({"metadata": {"name": "chat", "namespace": "llm", "managedFields": [entry]}})
    )
    assert situation(scaled_object("chat"), head=head).other_owners == owners


async def test_a_pause_is_seen_as_it_is_set(server: ApiServer, cluster: KubernetesCluster) -> None:
    """And whoever asked is told."""
    told: list[None] = []
    cluster.on_change(lambda: told.append(None))
    server.store.put(scaled_object("chat", annotations={PAUSE: "true"}))
    await until(lambda: (found := cluster.situation("llm", "chat")) and found.paused)
    await until(lambda: told)


async def test_an_hpa_of_somebody_else_is_not_keda_s(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """One without KEDA's label changes nothing, even if it is sent."""
    stranger = hpa("chat", most=99)
    section(stranger, "metadata").update(
        name="mine", labels={"app.kubernetes.io/managed-by": "keda-operator"}
    )
    server.store.put(stranger)
    server.store.put(hpa("chat", most=21))
    await until(lambda: (s := cluster.scale("llm", "chat")) and s.max_replicas == 21)
    found = cluster.situation("llm", "chat")
    assert found is not None
    assert found.hpa_name == "keda-hpa-chat"
