"""Runs the adapter against the test API server, and waits for what it should come to see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from scaler.adapters.clock import WallClock
from scaler.adapters.kubernetes_cluster import KubernetesCluster
from scaler.adapters.kubernetes_settings import KubernetesSettings
from scaler.control.ports import Clock
from tests.kubernetes_server.server import ApiServer

QUICK = KubernetesSettings(
    watch_for=1.0,
    grace=0.5,
    settle=0.1,
    answer_within=20.0,
    connect_within=5.0,
    poll_every=0.2,
    denied_every=0.2,
)
"""Everything that takes seconds takes tenths of one."""


def kubeconfig(directory: Path, server: ApiServer, **user: str) -> Path:
    """Write a kubeconfig for the server; `user` are the user's fields, as `token`."""
    cluster: dict[str, object] = {"server": server.url}
    if server.url.startswith("https"):
        cluster["insecure-skip-tls-verify"] = True
    path = directory / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "test", "user": user}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            }
        ),
        encoding="utf-8",
    )
    return path


@asynccontextmanager
async def following(
    config: Path, settings: KubernetesSettings = QUICK, clock: Clock | None = None
) -> AsyncIterator[KubernetesCluster]:
    """Run the adapter on a kubeconfig."""
    cluster = KubernetesCluster(replace(settings, kubeconfig=config), clock or WallClock())
    running = asyncio.create_task(cluster.run())
    try:
        yield cluster
        assert not running.done(), "the adapter ended by itself"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(
    met: Callable[[], object],
    meanwhile: Callable[[], Awaitable[None]] | None = None,
    within: float = 60.0,
) -> None:
    """Return as soon as the condition is met, doing `meanwhile` between two looks at it.

    Fails when it is not met in time: so many seconds of the wall clock, which sockets take.
    """
    try:
        async with asyncio.timeout(within):
            while not met():
                if meanwhile is not None:
                    await meanwhile()
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"did not come about within {within:g} s") from None


def current(cluster: KubernetesCluster, name: str = "chat") -> int | None:
    """Return the count that the adapter shows."""
    found = cluster.scale("llm", name)
    return None if found is None else found.current


def known(cluster: KubernetesCluster) -> bool:
    """Say whether the adapter knows all there is to know of `chat`."""
    return (
        current(cluster) is not None
        and cluster.pods("llm", "chat") is not None
        and cluster.situation("llm", "chat") is not None
    )
