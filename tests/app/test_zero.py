"""A real scaler, a fleet at zero, and a Prometheus beside the scraped engines: the way back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import yaml
from aiohttp import web

from tests.app.process import engines, scaler
from tests.keda_client import Keda, Poll, scaled_object

CHAT = scaled_object("prod", "chat", {"modelName": "tiny", "activationQuery": "sum(queue)"})

pytestmark = pytest.mark.timeout(90)


class Gateway:
    """A Prometheus that knows one gateway; what waits there a test sets, None for silence."""

    def __init__(self) -> None:
        """Nobody waits."""
        self.waiting: float | None = 0.0
        self.asked: list[str] = []
        self.seen = asyncio.Event()
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer each query with what waits."""
        self.asked.append(str((await request.post())["query"]))
        known = [] if self.waiting is None else [{"metric": {}, "value": [0, str(self.waiting)]}]
        self.seen.set()
        data = {"resultType": "vector", "result": known}
        return web.Response(text=json.dumps({"status": "success", "data": data}))


@asynccontextmanager
async def served(gateway: Gateway) -> AsyncIterator[None]:
    """Serve the Prometheus on a port of this machine."""
    app = web.Application()
    app.router.add_post("/api/v1/query", gateway.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    gateway.port = int(runner.addresses[0][1])
    yield
    await runner.cleanup()


def configured(directory: Path, targets: Path, gateway: Gateway) -> Path:
    """Write a configuration: engines scraped, gateways asked, counts in a file."""
    counts, file = directory / "counts.yaml", directory / "scaler.yaml"
    row = {"namespace": "prod", "name": "chat", "replicas": 0, "minReplicas": 0, "maxReplicas": 9}
    counts.write_text(yaml.safe_dump([row]), encoding="utf-8")
    beside = {"url": f"http://127.0.0.1:{gateway.port}"}
    source = {"type": "scrape", "targets": str(targets), "prometheus": beside}
    config = {"cluster": str(counts), "sources": {"engines": source}}
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


async def test_keda_is_told_when_somebody_comes(tmp_path: Path) -> None:
    """Nobody waits: inactive. The gateway is silent: not known. Somebody waits: pushed, and 1."""
    gateway = Gateway()
    async with served(gateway), engines(tmp_path, {}) as pages:
        file = configured(tmp_path, pages.targets, gateway)
        async with scaler(tmp_path, ["--config", str(file)]) as running, Keda(running.grpc) as keda:
            await keda.specs(CHAT)
            activity, _ = keda.push(CHAT)
            async with asyncio.timeout(30):
                await gateway.seen.wait()
                while (poll := await answered(keda)) is None:  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(0.1)
            assert (poll.replicas, poll.active, activity.activations) == (0, False, 0)
            gateway.waiting = 3.0
            async with asyncio.timeout(30):
                await activity.until(lambda: activity.activations == 1)
            gateway.waiting = None
            woken = await keda.poll(CHAT)
            assert (woken.replicas, woken.active) == (1, True)
            assert set(gateway.asked) == {'sum(queue{namespace="prod"})'}
            _, metrics = await running.get("/metrics")
            assert 'operation="activation",outcome="ok"' in metrics
            ended = 'source_requests_total{outcome="ok",request="%s",source="engines"} '
            assert ended % "scrape" in metrics
            assert float(metrics.partition(ended % "query")[2].split()[0]) >= 1
            assert 'vllm_scaler_activation_demand{namespace="prod"' in metrics


async def answered(keda: Keda) -> Poll | None:
    """Poll; None while the scaler says that it does not know yet."""
    try:
        return await keda.poll(CHAT)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return None
