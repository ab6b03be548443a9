"""The whole way: engines that serve pages, a real Prometheus that scrapes them, our source."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
import yaml

from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.core.reading import Reading
from scaler.core.workload import Selection
from tests.app.process import engines
from tests.prometheus_server import Past, prometheus

pytestmark = pytest.mark.prometheus

PAGES = Path(__file__).parents[2] / "data" / "captures"


def scraped(port: int, pods: dict[str, bytes]) -> str:
    """Write a configuration that scrapes each pod's page every second."""
    jobs = [
        {
            "job_name": pod,
            "metrics_path": f"/{pod}",
            "static_configs": [
                {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": "prod", "pod": pod}}
            ],
        }
        for pod in pods
    ]
    return yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs})


async def test_scraped_pages_arrive_as_they_stand(tmp_path: Path) -> None:
    """A real engine's pages, scraped by a real Prometheus, give the values that stand on them."""
    pods = {
        "chat-0": (PAGES / "saturated-waiting.txt").read_bytes(),
        "chat-1": (PAGES / "dp2-loaded.txt").read_bytes(),
        "chat-2": b"vllm:num_requests_running NaN\n",
    }
    past = Past()
    past.add("unused", {}, {time.time() - 7200.0: 1.0})
    selection = Selection(source="p", namespace="prod", model_name="tiny")
    async with engines(tmp_path, pods) as served:
        with prometheus(tmp_path, past, scraped(served.port, pods)) as url:
            source = PrometheusSource(PrometheusSettings(url=url, settle=0.0))
            async with asyncio.timeout(60):
                while True:
                    found = (await source.read([selection], time.time()))[selection]
                    assert isinstance(found, Reading)
                    rated = [r for r in found.replicas if r.token_rate is not None]
                    if len(rated) == 2:
                        break
                    await asyncio.sleep(0.2)
    assert [(r.name, r.running, r.waiting, r.engines) for r in found.replicas] == [
        ("chat-0", 4.0, 20.0, 1),
        ("chat-1", 8.0, 32.0, 2),
    ]
    assert [r.token_rate for r in found.replicas] == [0.0, 0.0]
    assert found.ttft is not None
    assert found.ttft.edges[-1] == float("inf")
