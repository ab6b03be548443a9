"""The way in: a pod's service account, a kubeconfig, and what is said when there is none."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.adapters.clock import WallClock
from scaler.adapters.clusters import cluster_of
from scaler.adapters.kubernetes_access import find_access, gain_access
from scaler.adapters.kubernetes_api import KubernetesApi
from scaler.adapters.kubernetes_errors import (
    AccessInvalid,
    ClusterAnswerInvalid,
    ClusterConflict,
    ClusterMissing,
    ClusterUnreachable,
    RightMissing,
    TokenRefused,
)
from scaler.adapters.kubernetes_settings import KubernetesSettings
from scaler.config.sections import KubernetesSection
from tests.adapters.kubernetes.following import QUICK, following, kubeconfig, until
from tests.edge.certificates import Authority
from tests.kubernetes_server.objects import deployment, scaled_object
from tests.kubernetes_server.resources import CORE_EVENTS, EVENTS, PODS, at
from tests.kubernetes_server.server import ApiServer, api_server

SECRET = "eyJhbGciOi.c2VjcmV0.token"


@pytest.fixture
def authority() -> Authority:
    """Give a CA."""
    return Authority("cluster-ca")


@pytest.fixture
async def secured(authority: Authority, tmp_path: Path) -> AsyncIterator[ApiServer]:
    """Give an API server with TLS that lets one token in."""
    authority.issue("kubernetes").write(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with api_server(context) as server:
        server.faults.token = SECRET
        server.store.put(scaled_object("chat"))
        server.store.put(deployment("chat", replicas=3))
        yield server


@pytest.fixture
def account(
    secured: ApiServer,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> KubernetesSettings:
    """Put us into a pod with a service account: its mounted files and its environment."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "localhost")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(secured.port))
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "ca.crt").write_bytes(authority.certificate)
    (folder / "token").write_text(SECRET + "\n", encoding="utf-8")
    return replace(QUICK, service_account=folder)


async def test_a_pod_uses_its_service_account(account: KubernetesSettings) -> None:
    """Address, CA and token come from where Kubernetes puts them."""
    async with KubernetesApi(account) as api:
        assert b"gitVersion" in await api.get("/version")


async def test_a_rotated_service_account_token_is_picked_up(
    secured: ApiServer, account: KubernetesSettings
) -> None:
    """The kubelet swaps the file; the old token is refused some time later."""
    async with KubernetesApi(account) as api:
        await api.get("/version")
        secured.faults.token = "next"
        (account.service_account / "token").write_text("next", encoding="utf-8")
        await api.get("/version")
        assert [seen.verb for seen in secured.seen] == ["discover", "unauthorized", "discover"]


async def test_a_token_that_stays_refused_is_told_without_it(
    secured: ApiServer, account: KubernetesSettings
) -> None:
    """Asked twice, and no more."""
    secured.faults.token = "other"
    async with KubernetesApi(account) as api:
        with pytest.raises(TokenRefused) as refused:
            await api.get("/version")
        assert SECRET not in str(refused.value)
    assert len(secured.seen) == 2


async def test_a_certificate_that_nobody_trusts(
    account: KubernetesSettings, authority: Authority
) -> None:
    """Another CA is told as such; once the right one is mounted, all is well."""
    mounted = account.service_account / "ca.crt"
    mounted.write_bytes(Authority("another").certificate)
    async with KubernetesApi(account) as api:
        with pytest.raises(ClusterUnreachable, match="certificate is not trusted: check the CA"):
            await api.get("/version")
        mounted.write_bytes(authority.certificate)
        await api.get("/version")


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
async def test_a_service_account_that_is_not_mounted(
    account: KubernetesSettings, missing: str
) -> None:
    """automountServiceAccountToken: false, as hardened clusters have it."""
    (account.service_account / missing).unlink()
    with pytest.raises(AccessInvalid, match="cannot be used"):
        await gain_access(account)


async def test_a_service_account_without_a_token_is_mended_while_we_run(
    account: KubernetesSettings,
) -> None:
    """The adapter waits for it."""
    (account.service_account / "token").write_text("", encoding="utf-8")
    with pytest.raises(AccessInvalid, match="cannot be used"):
        await gain_access(account)
    (account.service_account / "token").write_text(SECRET, encoding="utf-8")
    access = await gain_access(account)
    (value,) = (await access.headers()).values()
    assert value.split() == ["bearer", SECRET]


async def test_a_kubeconfig_with_tls_and_a_token(secured: ApiServer, tmp_path: Path) -> None:
    """What it says of the server's certificate is obeyed."""
    path = kubeconfig(tmp_path, secured, token=SECRET)
    async with following(path) as cluster:
        await until(lambda: cluster.scale("llm", "chat"))


@pytest.mark.parametrize(
    "text", ["", "[", "{}", "clusters: 3", "current-context: nowhere\nclusters: []\n", "\x00"]
)
async def test_a_faulty_kubeconfig_is_told(tmp_path: Path, text: str) -> None:
    """One sentence, whatever the client's parser raises."""
    path = tmp_path / "kubeconfig"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AccessInvalid, match="--kubeconfig"):
        await gain_access(replace(QUICK, kubeconfig=path))


async def test_an_unknown_context_is_told(server: ApiServer, tmp_path: Path) -> None:
    """By the client's own words."""
    settings = replace(QUICK, kubeconfig=kubeconfig(tmp_path, server), context="prod")
    with pytest.raises(AccessInvalid, match="cannot be used"):
        await gain_access(settings)


async def test_credentials_of_a_kubeconfig_s_command(server: ApiServer, tmp_path: Path) -> None:
    """A managed cluster's kubeconfig names a program that gives a token."""
    said = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": SECRET},
    }
    path = kubeconfig(tmp_path, server)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "echo",
            "args": [json.dumps(said)],
            "interactiveMode": "Never",
        }
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    server.faults.token = SECRET
    async with KubernetesApi(replace(QUICK, kubeconfig=path)) as api:
        await api.get("/version")


def test_no_cluster_at_all_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a pod nor a kubeconfig: the cure is told at the start, not in a log."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AccessInvalid, match="--kubeconfig, or set --cluster none"):
        find_access(KubernetesSettings())
    with pytest.raises(AccessInvalid, match="is no kubeconfig"):
        cluster_of("kubernetes", KubernetesSection(kubeconfig=tmp_path / "none"), WallClock())
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("{}", encoding="utf-8")
    find_access(KubernetesSettings())


async def test_writing(server: ApiServer, config: Path) -> None:
    """Events and annotations are written through the same session."""
    async with KubernetesApi(replace(QUICK, kubeconfig=config)) as api:
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": "chat-"},
            "note": "host memory ran out",
        }
        path = "/apis/events.k8s.io/v1/namespaces/llm/events"
        made = json.loads(await api.send("POST", path, json.dumps(event).encode()))
        assert str(made["metadata"]["name"]).startswith("chat-")
        assert at(server.store.all_of(EVENTS)[0], "note") == "host memory ran out"
        cost = b'{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"7"}}}'
        await api.send(
            "PATCH",
            "/api/v1/namespaces/llm/pods/chat-0",
            cost,
            content_type="application/merge-patch+json",
        )
        annotations = at(server.store.get(PODS, "chat-0"), "metadata.annotations")
        assert annotations == {"controller.kubernetes.io/pod-deletion-cost": "7"}


async def test_what_a_write_can_be_answered(server: ApiServer, config: Path) -> None:
    """No right, no such object, a name that is taken, a version that is old."""
    pods = "/api/v1/namespaces/llm/pods"
    async with KubernetesApi(replace(QUICK, kubeconfig=config)) as api:
        server.faults.deny(CORE_EVENTS, "create")
        with pytest.raises(RightMissing):
            await api.send("POST", "/api/v1/namespaces/llm/events", b"{}")
        with pytest.raises(ClusterMissing):
            await api.send("PATCH", f"{pods}/nobody", b"{}")
        old = server.store.get(PODS, "chat-0")
        with pytest.raises(ClusterConflict):
            await api.send("POST", pods, json.dumps(old).encode())
        server.store.put(old)
        with pytest.raises(ClusterConflict):
            await api.send("PUT", f"{pods}/chat-0", json.dumps(old).encode())


async def test_an_answer_of_any_size_is_bounded(server: ApiServer, config: Path) -> None:
    """One that never ends must not fill the memory."""
    del server
    async with KubernetesApi(replace(QUICK, kubeconfig=config, largest_answer=100)) as api:
        with pytest.raises(ClusterAnswerInvalid, match="more than 100 bytes"):
            await api.get("/api/v1/namespaces/llm/pods")
