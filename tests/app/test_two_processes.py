"""Two scaler processes behind one name, on a real Prometheus, asked as KEDA asks."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
import yaml

from tests.app.process import scaler
from tests.keda_client import Keda, scaled_object
from tests.prometheus_server import Past, prometheus

pytestmark = pytest.mark.prometheus

CHAT = scaled_object("llm", "chat", {"modelName": "chat"})


def overload() -> Past:
    """Write two replicas with a long queue, from an hour ago until well after the test."""
    past = Past()
    now = time.time()
    times = [now - 3600.0 + 15.0 * number for number in range(280)]
    for pod in ("chat-0", "chat-1"):
        base = {"namespace": "llm", "pod": pod, "engine": "0", "model_name": "chat"}
        for name, start, rate in (
            ("num_requests_running", 32.0, 0.0),
            ("num_requests_waiting", 12.0, 0.0),
            ("kv_cache_usage_perc", 0.5, 0.0),
            ("generation_tokens_total", 0.0, 900.0),
            ("time_to_first_token_seconds_count", 0.0, 4.0),
        ):
            past.add(f"vllm:{name}", base, {at: start + (at - times[0]) * rate for at in times})
    return past


async def test_they_never_disagree_and_a_restart_changes_nothing(tmp_path: Path) -> None:
    """Round robin over both, one of them killed and started anew: every answer is the same."""
    counts = tmp_path / "counts.yaml"
    row = {"namespace": "llm", "name": "chat", "replicas": 2, "maxReplicas": 20, "tolerance": 0}
    counts.write_text(yaml.safe_dump([row]), encoding="utf-8")
    (tmp_path / "server").mkdir()
    with prometheus(tmp_path / "server", overload()) as url:
        arguments = ["--source", "prometheus", "--prometheus-url", url, "--cluster", str(counts)]
        async with scaler(tmp_path, arguments) as first:
            async with scaler(tmp_path, arguments) as second:
                before = await _answers(first.grpc, second.grpc)
                second.process.kill()
                await second.process.wait()
            async with scaler(tmp_path, arguments) as again:
                after = await _answers(first.grpc, again.grpc)
    assert len(before) == len(after) == 1
    assert before == after
    assert before.pop() > 2


async def _answers(*ports: int) -> set[float]:
    """Wait until both have history, then poll in turn; return all answers."""
    for port in ports:
        async with Keda(port) as keda, asyncio.timeout(60):
            await keda.specs(CHAT)
            await asyncio.sleep(0.2)
            while (await keda.poll(CHAT)).replicas <= 2:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.2)
    async with Keda(*ports) as keda:
        return {(await keda.poll(CHAT)).replicas for _ in range(20)}
