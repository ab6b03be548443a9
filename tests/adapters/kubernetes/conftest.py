"""A cluster with one ScaledObject, `llm/chat`, at three replicas, and the adapter on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scaler.adapters.kubernetes_cluster import KubernetesCluster
from tests.adapters.kubernetes.following import following, kubeconfig, until
from tests.kubernetes_server.objects import deployment, hpa, pod, scaled_object
from tests.kubernetes_server.server import ApiServer, api_server


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Give an API server with `chat` and its three Ready pods."""
    async with api_server() as served:
        served.store.put(scaled_object("chat", minReplicaCount=0))
        served.store.put(hpa("chat"))
        served.store.put(deployment("chat", replicas=3))
        for number in range(3):
            served.store.put(pod(f"chat-{number}", of="chat"))
        yield served


@pytest.fixture
def config(server: ApiServer, tmp_path: Path) -> Path:
    """Give a kubeconfig for the server."""
    return kubeconfig(tmp_path, server)


@pytest.fixture
async def cluster(config: Path) -> AsyncIterator[KubernetesCluster]:
    """Give the adapter, once it knows count, pods and situation."""
    async with following(config) as followed:
        await until(lambda: followed.pods("llm", "chat"))
        await until(lambda: followed.situation("llm", "chat"))
        yield followed
