"""The rights in the manifests are what the scaler asks the API server for: no more, no less."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from scaler.adapters.kubernetes_api import KubernetesApi
from scaler.adapters.kubernetes_deletion_cost import KubernetesDeletionCosts
from scaler.adapters.kubernetes_events import KubernetesEvents
from scaler.control.ports import WriteDenied
from scaler.core.diagnosis_notice import Notice
from tests.adapters.kubernetes.following import QUICK, following, kubeconfig, until
from tests.kubernetes_server.faults import Faults
from tests.kubernetes_server.objects import (
    NAMESPACE,
    deployment,
    hpa,
    leader_worker_set,
    pod,
    scaled_object,
)
from tests.kubernetes_server.resources import (
    CORE_EVENTS,
    DEPLOYMENTS,
    HPAS,
    LEADER_WORKER_SETS,
    PODS,
    SCALED_OBJECTS,
    STATEFUL_SETS,
)
from tests.kubernetes_server.server import ApiServer, api_server
from tests.manifests.built import Json, at, compose, objects_of, of_kind, only, rows, texts

NOTICE = Notice(
    namespace=NAMESPACE,
    name="chat",
    uid="1f3a-77",
    reason="HostOomKill",
    message="Killed by the host: container vllm of chat-0.",
    at=1_000_000_000.0,
)

Right = tuple[str, str, str]
"""Verb, group and resource."""

GROUPS = {
    resource.plural: resource.group
    for resource in (
        *(DEPLOYMENTS, STATEFUL_SETS, LEADER_WORKER_SETS),
        *(HPAS, PODS, SCALED_OBJECTS, CORE_EVENTS),
    )
}


def rights_of(role: Json) -> set[Right]:
    """Return all that a Role or ClusterRole grants."""
    return {
        (verb, group, resource)
        for rule in rows(role, "rules")
        for verb in texts(rule, "verbs")
        for group in texts(rule, "apiGroups")
        for resource in texts(rule, "resources")
    }


class Granted(Faults):
    """Refuses what a role does not grant, or that lies outside of its namespace."""

    rights: frozenset[Right] = frozenset()
    within: str | None = None

    def refuses(self, verb: str, plural: str, namespace: str | None) -> bool:
        """Say whether a request is answered with 403."""
        if self.within is not None and namespace != self.within:
            return True
        return (verb, GROUPS[plural.partition("/")[0]], plural) not in self.rights


def asked_of(server: ApiServer) -> Iterator[Right]:
    """Go through the rights that the requests so far needed; discovery is everybody's."""
    for seen in server.seen:
        if seen.verb == "discover":
            continue
        parts = re.sub(r"^/api(s/[^/]+)?/[^/]+/", "", seen.path).split("/")
        if parts[0] == "namespaces":
            parts = parts[2:]
        plural = parts[0] + (f"/{parts[2]}" if len(parts) > 2 else "")
        yield seen.verb, GROUPS[parts[0]], plural


def fleets(server: ApiServer) -> None:
    """Put in one fleet of each kind of scale target."""
    targets = {
        "chat": deployment("chat", replicas=2),
        "sets": deployment("sets", replicas=1, kind="StatefulSet"),
        "giant": leader_worker_set("giant", replicas=1),
    }
    for name, target in targets.items():
        kind, version = str(target["kind"]), str(target["apiVersion"])
        server.store.put(target)
        server.store.put(scaled_object(name, kind=kind, api_version=version))
        server.store.put(hpa(name, kind=kind, api_version=version))
    server.store.put(pod("chat-0", of="chat"))


SCOPES = [("cluster-wide", "ClusterRole", None), ("namespaces", "Role", NAMESPACE)]


@pytest.mark.parametrize(("scope", "kind", "within"), SCOPES)
async def test_the_rights_are_those_that_are_used(
    scope: str, kind: str, within: str | None, tmp_path: Path
) -> None:
    """With just these the scaler misses nothing, and every one of them is asked for."""
    built = objects_of(compose(tmp_path / "install", scope, "leaderworkersets"))
    granted = rights_of(only(built, kind))
    async with api_server() as server:
        server.faults = faults = Granted()
        faults.rights, faults.within = frozenset(granted), within
        fleets(server)
        settings = replace(QUICK, namespaces=(within,) if within else ())
        async with following(kubeconfig(tmp_path, server), settings) as cluster:
            for name in ("chat", "sets", "giant"):
                await until(partial(cluster.scale, NAMESPACE, name))
                await until(partial(cluster.situation, NAMESPACE, name))
            await until(partial(cluster.pods, NAMESPACE, "chat"))
            await until(lambda: granted <= set(asked_of(server)))
            assert cluster.faults == ()
        assert set(asked_of(server)) == granted


@pytest.mark.parametrize(("scope", "kind", "within"), SCOPES)
def test_a_right_is_bound_to_the_scaler_alone(
    scope: str, kind: str, within: str | None, tmp_path: Path
) -> None:
    """The binding names the role and the pods' service account, and where it holds."""
    built = objects_of(compose(tmp_path / "install", scope))
    role, binding = only(built, kind), only(built, f"{kind}Binding")
    account, pods = only(built, "ServiceAccount"), only(built, "Deployment")
    assert at(role, "metadata", "namespace") == at(binding, "metadata", "namespace") == within
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": kind,
        "name": at(role, "metadata", "name"),
    }
    assert binding["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": at(account, "metadata", "name"),
            "namespace": at(account, "metadata", "namespace"),
        }
    ]
    assert at(pods, "spec", "template", "spec", "serviceAccountName") == at(
        account, "metadata", "name"
    )


PIECES: dict[str, set[Right]] = {
    "leaderworkersets": {
        ("list", "leaderworkerset.x-k8s.io", "leaderworkersets"),
        ("watch", "leaderworkerset.x-k8s.io", "leaderworkersets"),
        ("get", "leaderworkerset.x-k8s.io", "leaderworkersets/scale"),
    },
    "events": {("create", "", "events"), ("patch", "", "events")},
    "pod-deletion-cost": {("patch", "", "pods")},
}


@pytest.mark.parametrize(("scope", "kind", "within"), SCOPES)
@pytest.mark.parametrize("piece", PIECES)
def test_a_further_right_is_a_piece_of_its_own(
    piece: str, scope: str, kind: str, within: str | None, tmp_path: Path
) -> None:
    """Each piece adds its own right to either kind of role, and nothing else."""
    plain = only(objects_of(compose(tmp_path / "plain", scope)), kind)
    more = only(objects_of(compose(tmp_path / "more", scope, piece)), kind)
    assert at(more, "metadata", "namespace") == within
    assert rights_of(more) - rights_of(plain) == PIECES[piece]
    assert rights_of(plain) <= rights_of(more)


@pytest.mark.parametrize(("scope", "kind", "within"), SCOPES)
async def test_what_is_written_needs_its_piece_and_no_more(
    scope: str, kind: str, within: str | None, tmp_path: Path
) -> None:
    """Events and deletion costs are written with their two pieces, and refused without."""
    parts = ("events", "pod-deletion-cost")
    granted = rights_of(only(objects_of(compose(tmp_path / "more", scope, *parts)), kind))
    plain = rights_of(only(objects_of(compose(tmp_path / "plain", scope)), kind))
    async with api_server() as server:
        server.faults = faults = Granted()
        faults.rights, faults.within = frozenset(granted), within
        fleets(server)
        namespaces = (within,) if within else ()
        settings = replace(QUICK, kubeconfig=kubeconfig(tmp_path, server), namespaces=namespaces)
        async with KubernetesApi(settings) as api:
            told, costs = KubernetesEvents(api), KubernetesDeletionCosts(api, settings)
            await told.tell(NOTICE)
            await told.tell(replace(NOTICE, at=NOTICE.at + 600))
            await costs.write(NAMESPACE, "chat-0", -998)
            assert set(asked_of(server)) == granted - plain
            faults.rights = frozenset(plain)
            assert [marked.name for marked in await costs.marked()] == ["chat-0"]
            with pytest.raises(WriteDenied):
                await told.tell(replace(NOTICE, reason="CrashLoop"))
            with pytest.raises(WriteDenied):
                await costs.write(NAMESPACE, "chat-0", 4)


def test_only_events_are_written_and_no_secret_is_read() -> None:
    """What an installation grants is reading, and Events; in namespaces nothing cluster-wide."""
    for folder in ("install/cluster-wide", "install/namespaces"):
        for role in of_kind(objects_of(folder), "Role", "ClusterRole"):
            rights = rights_of(role)
            writing = {right for right in rights if right[0] not in {"get", "list", "watch"}}
            assert writing == PIECES["events"]
            assert not [resource for _, _, resource in rights if "secret" in resource]
    assert of_kind(objects_of("install/namespaces"), "ClusterRole", "ClusterRoleBinding") == []
