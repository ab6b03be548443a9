"""Pods: what of them counts, whose they are, and what they say about how they ended."""

from __future__ import annotations

import json

import msgspec
import pytest

from scaler.adapters.kubernetes_cluster import KubernetesCluster
from scaler.adapters.kubernetes_errors import ClusterAnswerInvalid
from scaler.adapters.kubernetes_pods import placed_pod
from scaler.core.pods import Exit, Pod
from tests.adapters.kubernetes.following import until
from tests.kubernetes_server.objects import deployment, leader_worker_set, pod, scaled_object
from tests.kubernetes_server.resources import PODS, Json, section
from tests.kubernetes_server.server import ApiServer

CREATED, READY = 1_000_000_000.0, 1_000_000_180.0


def read(found: Json) -> Pod | None:
    """Decode a pod."""
    placed = placed_pod(msgspec.Raw(json.dumps(found).encode()))
    return placed.pod if placed is not None else None


def names(cluster: KubernetesCluster, name: str = "chat") -> list[str] | None:
    """Return the names of a ScaledObject's pods."""
    found = cluster.pods("llm", name)
    return None if found is None else [each.name for each in found]


def test_a_ready_pod_says_all_there_is() -> None:
    """Times are seconds since the epoch, ports go by their names."""
    found = pod("chat-0", of="chat", ports={"http": 8000, "metrics": 9090}, restarts=2)
    assert read(found) == Pod(
        name="chat-0",
        replica="chat-0",
        created_at=CREATED,
        ready=True,
        ready_at=READY,
        revision="5d8f",
        restarts=2,
        ip="10.0.0.1",
        ports={"http": 8000, "metrics": 9090},
        labels={"app": "chat", "pod-template-hash": "5d8f"},
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_is_gone(phase: str) -> None:
    """An evicted pod stays listed for days."""
    assert read(pod("chat-0", of="chat", phase=phase)) is None


def test_a_loading_pod_is_not_ready_and_has_no_time_of_that() -> None:
    """The condition's time is then when it was found not to be."""
    found = read(pod("chat-0", of="chat", ready_at=None))
    assert found is not None
    assert (found.ready, found.ready_at) == (False, None)


def test_a_terminating_pod_says_so() -> None:
    """It is still there, and often still Ready."""
    found = read(pod("chat-0", of="chat", deleted_at=READY + 60))
    assert found is not None
    assert (found.terminating, found.ready) == (True, True)


@pytest.mark.parametrize(
    ("waiting", "told"),
    [
        ("CrashLoopBackOff", "CrashLoopBackOff"),
        ("ImagePullBackOff", "ImagePullBackOff"),
        ("ContainerCreating", None),
        ("PodInitializing", None),
        (None, None),
    ],
)
def test_what_keeps_a_pod_from_running(waiting: str | None, told: str | None) -> None:
    """In Kubernetes' own word; what every pod goes through is nothing."""
    found = read(pod("chat-0", of="chat", ready_at=None, waiting=waiting))
    assert found is not None
    assert found.blocked == told


def test_a_pod_without_a_place_is_blocked() -> None:
    """No node has the GPU that it asks for."""
    found = pod("chat-0", of="chat", ready_at=None, phase="Pending", ip=None)
    section(found, "status")["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    ]
    section(found, "status").pop("containerStatuses")
    shown = read(found)
    assert shown is not None
    assert (shown.blocked, shown.ip, shown.ready) == ("Unschedulable", None, False)


def test_the_last_exit_is_the_newest_of_all_containers() -> None:
    """An init container that did its work is no exit."""
    found = pod(
        "chat-0",
        of="chat",
        restarts=3,
        last_exit={"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2001-09-09T01:50:00Z"},
    )
    status = section(found, "status")
    status["initContainerStatuses"] = [
        {
            "name": "download",
            "restartCount": 1,
            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
            "lastState": {
                "terminated": {
                    "exitCode": 1,
                    "reason": "Error",
                    "finishedAt": "2001-09-09T01:47:00Z",
                }
            },
        }
    ]
    shown = read(found)
    assert shown is not None
    assert shown.restarts == 4
    assert shown.last_exit == Exit(
        container="vllm", reason="OOMKilled", code=137, at=1_000_000_200.0
    )


def test_a_container_s_last_words_are_kept_short() -> None:
    """The end of them says why it ended."""
    words = "x" * 5000 + "CUDA out of memory"
    found = read(pod("c", of="c", last_exit={"exitCode": 1, "reason": "Error", "message": words}))
    assert found is not None
    assert found.last_exit is not None
    assert found.last_exit.message.endswith("CUDA out of memory")
    assert len(found.last_exit.message) < 3000


@pytest.mark.parametrize(
    ("cost", "told"), [("100", 100), ("-5", -5), ("", None), ("much", None), (None, None)]
)
def test_the_deletion_cost_is_a_number_or_unknown(cost: str | None, told: int | None) -> None:
    """Whoever wrote something else wrote nothing."""
    found = pod("chat-0", of="chat")
    if cost is not None:
        section(found, "metadata")["annotations"] = {
            "controller.kubernetes.io/pod-deletion-cost": cost,
            "other": "x",
        }
    shown = read(found)
    assert shown is not None
    assert shown.deletion_cost == told


def test_a_group_is_one_replica_and_its_leader_serves() -> None:
    """A LeaderWorkerSet counts groups; the replica is called as the group's leader is."""

    def member(name: str, index: str) -> Pod:
        prefix = "leaderworkerset.sigs.k8s.io"
        labels = {
            f"{prefix}/name": "big",
            f"{prefix}/group-index": "1",
            f"{prefix}/worker-index": index,
            f"{prefix}/template-revision-hash": "r7",
            "controller-revision-hash": "x",
        }
        found = read(pod(name, of="big", labels=labels))
        assert found is not None
        return found

    leader, worker = member("big-1", "0"), member("big-1-3", "3")
    assert (leader.replica, leader.leader, leader.revision) == ("big-1", True, "r7")
    assert (worker.replica, worker.leader, worker.revision) == ("big-1", False, "r7")


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": {"name": "x", "namespace": "llm"}, "status": {"phase": 3}},
        {"metadata": {"name": "x", "namespace": "llm", "labels": ["a"]}},
        {"spec": {}},
        [],
    ],
)
def test_an_object_that_is_no_pod_is_refused(odd: object) -> None:
    """It is told, not guessed at."""
    with pytest.raises(ClusterAnswerInvalid, match="is no PodObject"):
        placed_pod(msgspec.Raw(json.dumps(odd).encode()))


def test_null_stands_for_nothing() -> None:
    """Go writes null where a list has nothing in it."""
    found = read(
        {
            "metadata": {
                "name": "x",
                "namespace": "llm",
                "labels": None,
                "ownerReferences": None,
                "annotations": None,
            },
            "spec": {"containers": None},
            "status": {"phase": "Pending", "conditions": None, "containerStatuses": None},
        }
    )
    assert found == Pod(name="x", replica="x", created_at=0.0)


async def test_pods_come_and_go(server: ApiServer, cluster: KubernetesCluster) -> None:
    """A created pod is seen, a deleted one is forgotten, one that fails too."""
    server.store.put(pod("chat-3", of="chat", ready_at=None))
    await until(lambda: names(cluster) == ["chat-0", "chat-1", "chat-2", "chat-3"])
    server.store.delete(PODS, "chat-1")
    server.store.put(pod("chat-2", of="chat", phase="Failed"))
    await until(lambda: names(cluster) == ["chat-0", "chat-3"])
    found = cluster.scale("llm", "chat")
    assert found is not None
    assert found.ready == 1


async def test_two_deployments_that_select_the_same_labels_never_mix(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Whose pod it is, its ReplicaSet says; a person's copy of a pod is nobody's."""
    server.store.put(deployment("canary", replicas=1, labels={"app": "chat"}))
    server.store.put(scaled_object("canary"))
    labels = {"app": "chat", "pod-template-hash": "9c1"}
    owner = ("ReplicaSet", "canary-9c1")
    server.store.put(pod("canary-0", of="chat", labels=labels, owner=owner))
    copy = pod("chat-0-debug", of="chat")
    section(copy, "metadata")["ownerReferences"] = []
    server.store.put(copy)
    await until(lambda: names(cluster, "canary") == ["canary-0"])
    assert names(cluster) == ["chat-0", "chat-1", "chat-2"]


async def test_a_changed_selector_finds_other_pods(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """As when a Deployment is made anew with other labels; the pods were there before."""
    labels = {"model": "b", "pod-template-hash": "5d8f"}
    server.store.put(pod("chat-9", of="chat", labels=labels))
    server.store.put(deployment("chat", replicas=3, labels={"model": "b"}))
    await until(lambda: names(cluster) == ["chat-9"])


async def test_a_target_without_a_selector_yet_has_unknown_pods(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Unknown, not none: an operator fills the status a moment after the object is made."""
    target: Json = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "LLMInferenceService",
        "metadata": {"name": "isvc", "namespace": "llm"},
        "spec": {"replicas": 2},
    }
    server.store.put(target)
    server.store.put(pod("isvc-0", of="isvc"))
    server.store.put(
        scaled_object("isvc", kind="LLMInferenceService", api_version="serving.kserve.io/v1alpha1")
    )
    await until(lambda: cluster.scale("llm", "isvc"))
    assert cluster.pods("llm", "isvc") is None
    server.store.put({**target, "status": {"replicas": 2, "selector": "app=isvc"}})
    await until(lambda: names(cluster, "isvc") == ["isvc-0"])


async def test_of_a_leader_worker_set_the_workers_are_seen_too(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Its /scale selects the leaders, but a worker's end matters as much."""
    prefix = "leaderworkerset.sigs.k8s.io"
    for name, index in (("big-0", "0"), ("big-0-1", "1")):
        labels = {
            f"{prefix}/name": "big",
            f"{prefix}/group-index": "0",
            f"{prefix}/worker-index": index,
        }
        server.store.put(pod(name, of="big", labels=labels, owner=("StatefulSet", "big")))
    server.store.put(leader_worker_set("big", replicas=1))
    server.store.put(
        scaled_object("big", kind="LeaderWorkerSet", api_version="leaderworkerset.x-k8s.io/v1")
    )
    await until(lambda: names(cluster, "big") == ["big-0", "big-0-1"])
    found = cluster.scale("llm", "big")
    assert found is not None
    assert (found.current, found.ready) == (1, 1)


async def test_pods_of_other_namespaces_are_not_even_listed(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Only namespaces with a scale target are looked at."""
    assert names(cluster) == ["chat-0", "chat-1", "chat-2"]
    assert {seen.path for seen in server.seen if seen.path.endswith("/pods")} == {
        "/api/v1/namespaces/llm/pods"
    }


async def test_beyond_many_namespaces_one_watch_sees_all(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """A hundred namespaces cost no hundred watches."""
    for number in range(60):
        namespace = f"team-{number}"
        server.store.put(deployment("m", namespace=namespace))
        server.store.put(pod("m-0", of="m", namespace=namespace))
        server.store.put(scaled_object("m", namespace=namespace))
    await until(lambda: all(cluster.pods(f"team-{n}", "m") for n in range(60)))
    assert names(cluster) == ["chat-0", "chat-1", "chat-2"]
    await until(lambda: server.watching == 4)
