"""Events and deletion costs on a real socket: what stands in the cluster, and what is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from scaler.adapters.clusters import deletion_costs_of, notices_of
from scaler.adapters.kubernetes_api import KubernetesApi
from scaler.adapters.kubernetes_cluster import KubernetesCluster
from scaler.adapters.kubernetes_deletion_cost import ANNOTATION, KubernetesDeletionCosts
from scaler.adapters.kubernetes_events import KubernetesEvents
from scaler.adapters.kubernetes_writes import MERGE_PATCH
from scaler.app import scribes_of
from scaler.config.sections import KubernetesSection
from scaler.control.board import Board
from scaler.control.deletion_costs import CostRemover, CostWriter
from scaler.control.notices import Notifier
from scaler.control.ports import MarkedPod, WriteDenied, WriteFailed, WriteMissing
from scaler.core.diagnosis_notice import Notice
from scaler.core.policy import Policy
from scaler.core.reading import Reading
from scaler.core.units import tick_at
from scaler.core.workload import Selection
from tests.adapters.kubernetes.following import QUICK, following, until
from tests.control.conftest import House, build
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import fleet_reading
from tests.kubernetes_server.objects import pod
from tests.kubernetes_server.resources import CORE_EVENTS, PODS, Json, at, section
from tests.kubernetes_server.server import ApiServer

NOTICE = Notice(
    namespace="llm",
    name="chat",
    uid="1f3a-77",
    reason="HostOomKill",
    message="Killed by the host: container vllm of chat-0.",
    at=1_000_000_000.0,
)
LATER = replace(NOTICE, message="Killed once more.", at=1_000_000_600.0)
DATE = "2001-09-09T01:46:40Z"


@pytest.fixture
async def api(config: Path) -> AsyncIterator[KubernetesApi]:
    """Give an open session."""
    async with KubernetesApi(replace(QUICK, kubeconfig=config)) as opened:
        yield opened


def events(server: ApiServer) -> list[Json]:
    """Return the Events that there are."""
    return server.store.all_of(CORE_EVENTS)


async def test_an_event_stands_on_its_scaled_object(server: ApiServer, api: KubernetesApi) -> None:
    """It is an Event as Kubernetes' own schema has it, and `kubectl describe` finds it by uid."""
    await KubernetesEvents(api).tell(NOTICE)
    (event,) = events(server)
    kubernetes_validate.validate(event, "1.33", strict=True)
    assert at(event, "involvedObject") == {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "namespace": "llm",
        "name": "chat",
        "uid": "1f3a-77",
    }
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "HostOomKill", 1)
    assert event["message"] == NOTICE.message
    assert event["firstTimestamp"] == event["lastTimestamp"] == DATE


async def test_what_recurs_is_counted_on_one_event(server: ApiServer, api: KubernetesApi) -> None:
    """The message and the time are the newest, the first time stays, the count rises."""
    told = KubernetesEvents(api)
    for notice in (NOTICE, LATER, LATER):
        await told.tell(notice)
    (event,) = events(server)
    assert (event["count"], event["message"]) == (3, "Killed once more.")
    assert (event["firstTimestamp"], event["lastTimestamp"]) == (DATE, "2001-09-09T01:56:40Z")


async def test_two_scalers_and_a_restart_tell_a_thing_once(
    server: ApiServer, api: KubernetesApi
) -> None:
    """The second finds the Event of the first and goes on from its count."""
    first, second = KubernetesEvents(api), KubernetesEvents(api)
    await first.tell(NOTICE)
    await second.tell(NOTICE)
    assert [event["count"] for event in events(server)] == [1]
    await first.tell(LATER)
    await second.tell(LATER)
    assert [event["count"] for event in events(server)] == [2]


async def test_an_event_that_expired_is_written_anew(server: ApiServer, api: KubernetesApi) -> None:
    """Kubernetes keeps Events for an hour; what comes after that is a first time again."""
    told = KubernetesEvents(api)
    await told.tell(NOTICE)
    server.store.delete(CORE_EVENTS, str(at(events(server)[0], "metadata.name")))
    await told.tell(LATER)
    assert [(event["count"], event["message"]) for event in events(server)] == [(1, LATER.message)]


@pytest.mark.parametrize(
    "changed", [{"reason": "CrashLoop"}, {"name": "other"}, {"uid": "a-new-one"}]
)
async def test_other_things_are_other_events(
    server: ApiServer, api: KubernetesApi, changed: dict[str, str]
) -> None:
    """Another kind, another ScaledObject, or the same name made anew."""
    told = KubernetesEvents(api)
    await told.tell(NOTICE)
    await told.tell(replace(NOTICE, **changed))  # type: ignore[arg-type]
    assert len(events(server)) == 2


async def test_the_longest_names_make_valid_names(server: ApiServer, api: KubernetesApi) -> None:
    """A ScaledObject may have a name of 253 characters, and so may an Event."""
    await KubernetesEvents(api).tell(replace(NOTICE, name="a" * 253))
    assert len(str(at(events(server)[0], "metadata.name"))) <= 253


async def test_a_missing_right_is_one_sentence(server: ApiServer, api: KubernetesApi) -> None:
    """It names what is lost and which right gives it back."""
    server.faults.deny(CORE_EVENTS, "create")
    server.faults.deny(PODS, "patch")
    with pytest.raises(
        WriteDenied, match=r"kubectl describe scaledobject \(grant create and patch"
    ):
        await KubernetesEvents(api).tell(NOTICE)
    with pytest.raises(WriteDenied, match=r"busy replica before an idle one \(grant patch on pods"):
        await KubernetesDeletionCosts(api).write("llm", "chat-0", 7)


async def test_an_api_server_that_fails_is_told_as_that(
    server: ApiServer, api: KubernetesApi
) -> None:
    """No right is missing then, and nothing but WriteFailed comes out."""
    server.faults.failing = 500
    with pytest.raises(WriteFailed, match="could not be written") as raised:
        await KubernetesEvents(api).tell(NOTICE)
    assert not isinstance(raised.value, WriteDenied)
    await server.stop()
    with pytest.raises(WriteFailed, match="cannot be reached"):
        await KubernetesDeletionCosts(api).write("llm", "chat-0", 7)


async def test_a_cost_is_written_and_taken_away(server: ApiServer, api: KubernetesApi) -> None:
    """Other annotations stay; what is not there may be taken away too; a pod that went is told."""
    server.store.put(pod("chat-0", of="chat"))
    costs = KubernetesDeletionCosts(api)
    await costs.write("llm", "chat-0", -998)
    assert at(server.store.get(PODS, "chat-0"), "metadata.annotations") == {ANNOTATION: "-998"}
    await costs.write("llm", "chat-0", None)
    await costs.write("llm", "chat-0", None)
    assert not at(server.store.get(PODS, "chat-0"), "metadata.annotations")
    with pytest.raises(WriteMissing):
        await costs.write("llm", "nobody", -998)


async def test_only_what_we_wrote_is_marked(server: ApiServer, api: KubernetesApi) -> None:
    """The API server notes who wrote a field; the same value by somebody else is not ours."""
    costs = KubernetesDeletionCosts(api, replace(QUICK, page=2))
    names = ["chat-0", "chat-1", "chat-2", "chat-3", "chat-4"]
    for name in names:
        server.store.put(pod(name, of="chat"))
        await costs.write("llm", name, -998)
    other = {"metadata": {"annotations": {ANNOTATION: "-998"}}}
    await costs.write("llm", "chat-1", None)
    for name, query in (("chat-1", {}), ("chat-2", {"fieldManager": "kubectl-annotate"})):
        path = f"/api/v1/namespaces/llm/pods/{name}"
        body = json.dumps(other).encode()
        await api.send("PATCH", path, body, content_type=MERGE_PATCH, query=query)
    ended = server.store.get(PODS, "chat-3")
    section(ended, "metadata")["deletionTimestamp"] = DATE
    server.store.put(ended)
    assert await costs.marked() == [
        MarkedPod("llm", name, stray=False) for name in ("chat-0", "chat-4")
    ]
    server.faults.deny(PODS, "list")
    with pytest.raises(WriteDenied, match=r"workloads that are gone .* \(grant list on pods"):
        await costs.marked()


async def test_the_remedy_for_a_cost_that_stays_is_named(
    server: ApiServer, api: KubernetesApi
) -> None:
    """Without the right to take it away, a person can."""
    server.faults.deny(PODS, "patch")
    with pytest.raises(WriteDenied, match=rf"`kubectl annotate pods NAME {ANNOTATION}-`"):
        await KubernetesDeletionCosts(api).write("llm", "chat-0", None)


# --- the whole way --------------------------------------------------------------------------------


def house_on(cluster: KubernetesCluster, clock: FakeClock, idle: str) -> House:
    """Wire a follower to the cluster and to a source that sees three replicas, one of them idle.

    Until 25 minutes ago they had four times as much to do, so that they are known to be too many.
    """
    began = clock.now()

    def script(_: Selection, at_: float) -> Reading:
        now = 1.0 if at_ > began - 1500.0 else 4.0
        seen = fleet_reading(at_, replicas=3, running=0.0, prefix="chat", first_token_rate=0.1)
        busy = [each if each.name == idle else replace(each, running=now) for each in seen.replicas]
        return replace(seen, replicas=tuple(busy))

    house = build(script, FakeCluster(), policy=Policy(concurrency_per_replica=64.0))
    house.clock = clock
    house.follower = type(house.follower)(house.source, house.registry, house.board, cluster)
    house.ask()
    return house


async def test_a_host_kill_is_told_on_its_scaled_object(server: ApiServer, config: Path) -> None:
    """A container that was killed for memory becomes an Event that names it."""
    killed: Json = {
        "exitCode": 137,
        "reason": "OOMKilled",
        "finishedAt": "2001-09-09T01:46:00Z",
    }
    server.store.put(pod("chat-1", of="chat", restarts=1, last_exit=killed))
    clock = FakeClock()
    async with following(config, clock=clock) as cluster:
        await until(lambda: cluster.pods("llm", "chat") and cluster.situation("llm", "chat"))
        house = house_on(cluster, clock, "chat-1")
        notices = notices_of(cluster, KubernetesSection())
        assert notices is not None
        notifier = Notifier(house.board, cluster, notices)
        await house.follower.admit(tick_at(clock.now()))
        for _ in range(2):
            await notifier.look(clock.now())
        told = {str(event["reason"]): event for event in events(server)}
        # The fixture's minReplicaCount is 0, and nothing wakes it.
        assert told.keys() == {"HostOomKill", "NoWayToWake"}
        event = told["HostOomKill"]
        assert "container vllm of chat-1 (OOMKilled, exit code 137)" in str(event["message"])


async def test_the_idle_replica_goes_first(server: ApiServer, config: Path) -> None:
    """When a scale-in is asked for, the pod with the fewest requests is marked."""
    clock = FakeClock()
    async with following(config, clock=clock) as cluster:
        await until(lambda: cluster.pods("llm", "chat") and cluster.situation("llm", "chat"))
        house = house_on(cluster, clock, "chat-2")
        costs = deletion_costs_of(cluster)
        assert costs is not None
        writer = CostWriter(house.board, cluster, costs)
        await house.follower.admit(tick_at(clock.now()))
        assert (house.posting().decision.desired or 9) < 3
        await writer.look(clock.now())
        assert at(server.store.get(PODS, "chat-2"), "metadata.annotations") == {ANNOTATION: "-1000"}
        await until(
            lambda: any(p.deletion_cost == -1000 for p in cluster.pods("llm", "chat") or ())
        )


async def test_what_is_left_of_a_scaled_object_that_went_is_taken_away(
    server: ApiServer, config: Path, api: KubernetesApi
) -> None:
    """A scaler that never knew it finds its pods; those of a ScaledObject that is there keep it."""
    server.store.put(pod("gone-0", of="gone"))
    server.store.put(pod("away-0", of="away", namespace="apart"))
    for namespace, name in (("llm", "chat-2"), ("llm", "gone-0"), ("apart", "away-0")):
        await KubernetesDeletionCosts(api).write(namespace, name, -1000)
    clock = FakeClock()
    blind = KubernetesCluster(replace(QUICK, kubeconfig=config), clock)
    found = await KubernetesDeletionCosts(api, QUICK, blind.pods_in).marked()
    assert [each.stray for each in found] == [False] * 3
    async with following(config, clock=clock) as cluster:
        costs = deletion_costs_of(cluster)
        assert costs is not None
        await until(lambda: cluster.pods("llm", "chat"))
        writer = CostWriter(Board(), cluster, costs)
        await writer.look(clock.now())
        await writer.look(clock.now() + 60.0)
    left = {
        name: at(server.store.get(PODS, name, namespace), "metadata.annotations")
        for namespace, name in (("llm", "chat-2"), ("llm", "gone-0"), ("apart", "away-0"))
    }
    assert left == {"chat-2": {ANNOTATION: "-1000"}, "gone-0": {}, "away-0": {}}


async def test_a_namespace_that_is_half_seen_has_no_strays(server: ApiServer, config: Path) -> None:
    """While the pods of one workload are not known, any pod may be its."""
    server.faults.deny(PODS, "list")
    async with following(config) as cluster:
        await until(lambda: cluster.scale("llm", "chat") and cluster.pods_in("apart") is not None)
        assert cluster.pods_in("llm") is None
        server.faults.denied.clear()
        await until(lambda: cluster.pods_in("llm") is not None)
        known = {each.name for each in cluster.pods("llm", "chat") or ()}
        assert cluster.pods_in("llm") == frozenset(known)
        assert "chat-2" in known


def test_what_is_written_is_what_is_wanted(config: Path) -> None:
    """Events are on unless said otherwise; deletion costs are then only taken away."""
    cluster = KubernetesCluster(replace(QUICK, kubeconfig=config), FakeClock())
    plain, other = (
        KubernetesSection(),
        KubernetesSection.model_validate({"events": False, "deletionCost": True}),
    )
    assert notices_of(cluster, plain) is not None
    assert notices_of(cluster, other) is None
    assert deletion_costs_of(cluster) is not None
    assert notices_of(None, plain) is None
    assert deletion_costs_of(None) is None
    made = {scribes_of(Board(), cluster, each)[-1].__class__ for each in (plain, other)}
    assert made == {CostRemover, CostWriter}
