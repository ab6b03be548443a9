"""Counts and bounds: the scale target's own, whatever kind it is of, and as soon as they change."""

from __future__ import annotations

import json

import pytest

from scaler.adapters.kubernetes_cluster import KubernetesCluster
from scaler.core.workload import Scale
from tests.adapters.kubernetes.following import until
from tests.kubernetes_server.objects import (
    METRIC,
    deployment,
    hpa,
    leader_worker_set,
    pod,
    scaled_object,
)
from tests.kubernetes_server.resources import DEPLOYMENTS, HPAS, SCALED_OBJECTS, Json
from tests.kubernetes_server.server import ApiServer


def current(cluster: KubernetesCluster, name: str = "chat") -> int | None:
    """Return the count that the adapter shows."""
    found = cluster.scale("llm", name)
    return None if found is None else found.current


def test_count_bounds_and_ready_pods(cluster: KubernetesCluster) -> None:
    """The count is the target's, the bounds and the tolerance are the HPA's."""
    assert cluster.scale("llm", "chat") == Scale(
        current=3,
        min_replicas=1,
        max_replicas=20,
        tolerance_out=0.1,
        tolerance_in=0.1,
        ready=3,
    )


async def test_a_count_is_the_target_s_and_not_the_late_one_of_the_hpa(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """The HPA's status still shows what was there at its last sync."""
    server.store.put(hpa("chat", current=3))
    server.store.put(deployment("chat", replicas=8))
    await until(lambda: current(cluster) == 8)
    server.store.put(hpa("chat", current=5))
    server.store.put(deployment("chat", replicas=9))
    await until(lambda: current(cluster) == 9)


async def test_a_count_written_through_scale_is_seen(cluster: KubernetesCluster) -> None:
    """As the HPA and KEDA write it, down to zero."""
    path = "/apis/apps/v1/namespaces/llm/deployments/chat/scale"
    for count in (6, 0):
        body = json.dumps({"spec": {"replicas": count}}).encode()
        await cluster.api.send("PATCH", path, body, content_type="application/merge-patch+json")
        await until(lambda: current(cluster) == count)  # noqa: B023


async def test_only_a_changed_spec_has_the_count_read_again(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """A rollout's hundred status updates cost no request."""
    server.store.put(scaled_object("marker"))
    server.store.put(deployment("marker", replicas=1))
    await until(lambda: current(cluster, "marker") == 1)
    read = server.count("get", "chat/scale")
    for step in range(2, 8):
        found = server.store.get(DEPLOYMENTS, "chat")
        server.store.put({**found, "status": {"replicas": 3, "readyReplicas": step}})
        # The same watch tells of both, one after the other.
        server.store.put(deployment("marker", replicas=step))
        await until(lambda: current(cluster, "marker") == step)  # noqa: B023
    assert server.count("get", "chat/scale") == read
    server.store.put(deployment("chat", replicas=4))
    await until(lambda: current(cluster) == 4)
    assert server.count("get", "chat/scale") == read + 1


KINDS: dict[str, tuple[str, Json]] = {
    "StatefulSet": ("apps/v1", deployment("set", replicas=3, kind="StatefulSet")),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", leader_worker_set("set", replicas=3)),
    "LLMInferenceService": (
        "serving.kserve.io/v1alpha1",
        {
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "LLMInferenceService",
            "metadata": {"name": "set", "namespace": "llm"},
            "spec": {"replicas": 3},
            "status": {"replicas": 3, "selector": "app=set"},
        },
    ),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_target_of_any_kind_with_scale(
    server: ApiServer, cluster: KubernetesCluster, kind: str
) -> None:
    """Found by discovery, read through /scale, and its pods by the selector that is there."""
    version, target = KINDS[kind]
    owner = ("StatefulSet", "set")
    labels = {
        "app": "set",
        "leaderworkerset.sigs.k8s.io/name": "set",
        "leaderworkerset.sigs.k8s.io/group-index": "0",
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }
    server.store.put(pod("set-0", of="set", owner=owner, labels=labels))
    server.store.put(target)
    server.store.put(scaled_object("other", target="set", kind=kind, api_version=version))
    await until(lambda: current(cluster, "other") == 3)
    await until(lambda: cluster.pods("llm", "other"))
    server.store.put({**target, "spec": {**_spec(target), "replicas": 5}})
    await until(lambda: current(cluster, "other") == 5)
    assert cluster.faults == ()


def _spec(target: Json) -> Json:
    spec = target["spec"]
    assert isinstance(spec, dict)
    return spec


async def test_a_kind_that_is_not_installed_is_named(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """One ScaledObject with a typing error harms no other."""
    server.store.put(scaled_object("odd", kind="Rollout", api_version="argoproj.io/v1alpha1"))
    server.store.put(scaled_object("odder", kind="Pods", api_version="../v1"))
    await until(lambda: any("Rollout (argoproj.io/v1alpha1)" in said for said in cluster.faults))
    assert current(cluster, "odd") is None
    assert current(cluster, "odder") is None
    assert current(cluster) == 3


async def test_a_kind_without_scale_is_named(server: ApiServer, cluster: KubernetesCluster) -> None:
    """KEDA cannot scale it either."""
    server.store.put(
        scaled_object(
            "odd",
            target="keda-hpa-chat",
            kind="HorizontalPodAutoscaler",
            api_version="autoscaling/v2",
        )
    )
    await until(lambda: any("have no /scale" in said for said in cluster.faults))
    assert current(cluster, "odd") is None


@pytest.mark.parametrize(
    ("behavior", "out", "in_"),
    [
        (None, 0.1, 0.1),
        ({"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "50m"}}, 0.0, 0.05),
        ({"scaleUp": {"tolerance": "0.25"}}, 0.25, 0.1),
        ({"scaleUp": {"tolerance": 0}, "scaleDown": {"tolerance": "much"}}, 0.0, 0.1),
        ({"scaleDown": {"stabilizationWindowSeconds": 60}}, 0.1, 0.1),
    ],
)
async def test_the_tolerance_is_the_hpa_s(
    server: ApiServer,
    cluster: KubernetesCluster,
    behavior: Json | None,
    out: float,
    in_: float,
) -> None:
    """Where the HPA has none, the cluster's default of a tenth holds."""
    server.store.put(hpa("chat", most=33, behavior=behavior))
    await until(lambda: _scale(cluster).max_replicas == 33)
    assert (_scale(cluster).tolerance_out, _scale(cluster).tolerance_in) == (out, in_)


def _scale(cluster: KubernetesCluster) -> Scale:
    found = cluster.scale("llm", "chat")
    assert found is not None
    return found


async def test_without_an_hpa_the_bounds_are_those_that_keda_was_given(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """KEDA deletes the HPA of a ScaledObject that is paused."""
    server.store.put(scaled_object("chat", minReplicaCount=2, maxReplicaCount=7))
    server.store.delete(HPAS, "keda-hpa-chat")
    await until(lambda: _scale(cluster).max_replicas == 7)
    assert _scale(cluster).min_replicas == 2
    assert _scale(cluster).current == 3


async def test_a_deleted_scaled_object_is_unknown_and_comes_back_as_another(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """The new one has its own uid and target, and nothing of the old one sticks to it."""
    before = cluster.situation("llm", "chat")
    assert not cluster.is_gone("llm", "chat")
    server.store.delete(SCALED_OBJECTS, "chat")
    server.store.delete(HPAS, "keda-hpa-chat")
    await until(lambda: cluster.scale("llm", "chat") is None)
    assert cluster.is_gone("llm", "chat")
    assert cluster.pods("llm", "chat") is None
    assert cluster.situation("llm", "chat") is None
    server.store.put(deployment("chat-v2", replicas=1))
    server.store.put(pod("chat-v2-0", of="chat-v2"))
    server.store.put(scaled_object("chat", target="chat-v2"))
    await until(lambda: current(cluster) == 1)
    await until(lambda: cluster.pods("llm", "chat"))
    assert [each.name for each in cluster.pods("llm", "chat") or ()] == ["chat-v2-0"]
    after = cluster.situation("llm", "chat")
    assert not cluster.is_gone("llm", "chat")
    assert before is not None
    assert after is not None
    assert after.target_name == "chat-v2"
    assert before.uid != after.uid


async def test_a_deleted_target_has_no_count_and_a_new_one_has_its_own(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """A count of what is gone would be a lie."""
    server.store.delete(DEPLOYMENTS, "chat")
    await until(lambda: cluster.scale("llm", "chat") is None)
    server.store.put(deployment("chat", replicas=11))
    await until(lambda: current(cluster) == 11)


async def test_a_target_that_comes_after_its_scaled_object(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """The order in which things are applied does not matter."""
    server.store.put(scaled_object("late"))
    await until(lambda: server.count("list", "scaledobjects"))
    assert current(cluster, "late") is None
    server.store.put(deployment("late", replicas=2))
    await until(lambda: current(cluster, "late") == 2)


async def test_only_what_concerns_us_is_followed(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Of a ScaledObject on a queue nothing is read, until somebody asks."""
    server.store.put(deployment("consumer", replicas=2))
    server.store.put(hpa("consumer", metric="s0-kafka-lag"))
    server.store.put(scaled_object("consumer", triggers=[{"type": "kafka"}]))
    server.store.put(deployment("last", replicas=1))
    server.store.put(scaled_object("last"))
    await until(lambda: server.count("get", "last/scale"))
    assert not server.count("get", "consumer/scale")
    assert current(cluster, "consumer") is None
    await until(lambda: current(cluster, "consumer") == 2)


async def test_changes_are_told_once_and_not_one_by_one(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Hundreds of pods that change together wake the loop a few times."""
    told: list[int | None] = []
    cluster.on_change(lambda: told.append(current(cluster)))
    for number in range(300):
        server.store.put(pod(f"chat-x{number}", of="chat"))
    await until(lambda: len(cluster.pods("llm", "chat") or ()) == 303)
    await until(lambda: told)
    assert len(told) < 60


async def test_what_changes_nothing_is_not_told(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Neither somebody else's pods nor the HPA's timestamps wake the loop."""

    async def all_is_heard() -> None:
        # Each watch tells all there was before it ends, and is opened anew.
        opened = server.count("watch", "/")
        await until(lambda: server.count("watch", "/") >= opened + 8)

    await all_is_heard()
    told: list[None] = []
    cluster.on_change(lambda: told.append(None))
    server.store.put(pod("stranger", of="stranger"))
    server.store.put(hpa("chat"))
    server.store.put(pod("chat-0", of="chat"))
    await all_is_heard()
    assert not told
    server.store.put(deployment("chat", replicas=4))
    await until(lambda: told)


async def test_our_metric_is_found_by_its_name_in_the_hpa(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Without the right to read ScaledObjects it tells which HPAs are ours."""
    assert METRIC == "s0-vllm-desired-replicas"
    server.store.put(hpa("chat", metric_type="Value"))
    await until(lambda: (s := cluster.situation("llm", "chat")) and s.metric_type == "Value")
