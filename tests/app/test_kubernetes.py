"""The command beside a cluster: counts and bounds come from its API server."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.adapters.kubernetes.following import kubeconfig
from tests.app.process import engines, scaler
from tests.app.test_process import until
from tests.keda_client import Keda, scaled_object
from tests.kubernetes_server import objects
from tests.kubernetes_server.server import api_server

PAGES = Path(__file__).parents[1] / "data" / "captures"
SATURATED = (PAGES / "saturated-waiting.txt").read_bytes()
CHAT = scaled_object("prod", "chat", {"modelName": "tiny"})


async def test_keda_is_answered_with_the_cluster_s_count(tmp_path: Path) -> None:
    """The count that somebody sets is answered, and an API server that goes away ends nothing."""
    async with engines(tmp_path, {"chat-0": SATURATED}) as served, api_server() as server:
        server.store.put(objects.scaled_object("chat", namespace="prod"))
        server.store.put(objects.hpa("chat", namespace="prod", most=9))
        server.store.put(objects.deployment("chat", namespace="prod", replicas=3))
        arguments = ["--source", "scrape", "--targets", str(served.targets)]
        arguments += ["--cluster", "kubernetes", "--namespaces", "prod"]
        arguments += ["--kubeconfig", str(kubeconfig(tmp_path, server))]
        async with scaler(tmp_path, arguments) as running, Keda(running.grpc) as keda:
            await keda.specs(CHAT)

            async def counted(count: int) -> bool:
                _, text = await running.get("/api/v1/workloads/prod/chat")
                return any(t["current"] == count for t in json.loads(text)["triggers"])

            await until(lambda: counted(3))
            assert (await keda.poll(CHAT)).replicas == 3
            server.store.put(objects.deployment("chat", namespace="prod", replicas=5))
            await until(lambda: counted(5))
            listed = [seen.path for seen in server.seen if seen.verb in {"list", "watch"}]
            assert listed
            assert all("/namespaces/prod/" in path for path in listed)
            await server.stop()
            assert (await running.get("/healthz"))[0] == 200
            assert await running.terminate() == 0


async def test_no_cluster_to_be_found_ends_the_start_with_the_cure(tmp_path: Path) -> None:
    """Nothing listens before that is told."""
    missing = tmp_path / "no-kubeconfig"
    log = await _refused(tmp_path, ["--cluster", "kubernetes", "--kubeconfig", str(missing)])
    assert f"{missing} is no kubeconfig: correct --kubeconfig" in log


async def _refused(directory: Path, arguments: list[str]) -> str:
    targets = directory / "targets.json"
    targets.write_text("[]", encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "scaler", "serve", "--source", "scrape", "--targets", str(targets)],
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 1
    return said.decode()
