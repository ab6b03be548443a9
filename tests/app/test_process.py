"""The command as a user runs it: a real process, real sockets, a client that behaves as KEDA."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import grpc
import pytest
import yaml

from scaler.adapters.decision_file import DecisionFile
from scaler.config.trigger import parse_trigger
from scaler.control.archive import Change
from scaler.core.reasons import Reason
from scaler.core.units import tick_at
from tests.app.process import Process, engines, scaler
from tests.keda_client import Keda, scaled_object

PAGES = Path(__file__).parents[1] / "data" / "captures"
SATURATED = (PAGES / "saturated-waiting.txt").read_bytes()
CHAT = scaled_object("prod", "chat", {"modelName": "tiny"})


def write_counts(path: Path, **counts: int) -> None:
    """Write the file with the replica counts."""
    rows = [
        {"namespace": "prod", "name": name, "replicas": count, "maxReplicas": 20, "tolerance": 0}
        for name, count in counts.items()
    ]
    path.write_text(yaml.safe_dump(rows), encoding="utf-8")


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return as soon as something holds; fail after half a minute."""
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110 - another process tells no event
            await asyncio.sleep(0.1)


async def workload(running: Process) -> dict[str, object]:
    """Return the workload's explanation once there is one with a sample."""
    found: dict[str, object] = {}

    async def sampled() -> bool:
        status, text = await running.get("/api/v1/workloads/prod/chat")
        if status == 200 and (triggers := json.loads(text)["triggers"]):
            found.update(triggers[0])
        return bool(found.get("signals"))

    await until(sampled)
    return found


async def forever(_: float) -> None:
    """Wait for longer than any test takes: a stream is not opened anew."""
    await asyncio.Event().wait()


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    """Write counts of two replicas."""
    path = tmp_path / "counts.yaml"
    write_counts(path, chat=2)
    return path


async def test_keda_gets_an_answer_from_real_pages(tmp_path: Path, counts: Path) -> None:
    """The first polls hold the count; explanation, metrics and health show what was seen."""
    async with engines(tmp_path, {"chat-0": SATURATED, "chat-1": SATURATED}) as served:
        arguments = ["--source", "scrape", "--targets", str(served.targets)]
        async with (
            scaler(tmp_path, [*arguments, "--cluster", str(counts)]) as running,
            Keda(running.grpc) as keda,
        ):
            await keda.specs(CHAT)
            explained = await workload(running)
            poll = await keda.poll(CHAT)
            assert poll.replicas == 2
            assert poll.active
            assert explained["current"] == 2
            _, metrics = await running.get("/metrics")
            assert 'vllm_scaler_waiting_requests{namespace="prod"' in metrics
            assert (await running.get("/healthz"))[0] == 200


async def test_sigterm_ends_streams_with_ok_and_the_process_with_zero(
    tmp_path: Path, counts: Path
) -> None:
    """Streams end cleanly, calls in flight are answered, and the exit status is 0."""
    async with engines(tmp_path, {"chat-0": SATURATED, "chat-1": SATURATED}) as served:
        arguments = ["--source", "scrape", "--targets", str(served.targets)]
        async with (
            scaler(tmp_path, [*arguments, "--cluster", str(counts)]) as running,
            Keda(running.grpc, pause=forever) as keda,
        ):
            await keda.specs(CHAT)
            await workload(running)
            pairs = [keda.push(CHAT) for _ in range(20)]
            for activity, specs in pairs:
                await activity.until(partial(lambda a: a.activations == 1, activity))
                await specs.until(partial(lambda s: len(s.specs) == 1, specs))
            calls = [asyncio.create_task(keda.poll(CHAT)) for _ in range(50)]
            await asyncio.sleep(0)
            async with asyncio.timeout(5):
                assert await running.terminate() == 0
            for stream in [stream for pair in pairs for stream in pair]:
                assert stream.endings == [grpc.StatusCode.OK]
            polls = await asyncio.gather(*calls, return_exceptions=True)
            assert all(getattr(poll, "replicas", None) == 2 for poll in polls)


async def test_bad_metadata_disturbs_nobody_else(tmp_path: Path, counts: Path) -> None:
    """One error names every fault of a trigger; its neighbour goes on being answered."""
    async with engines(tmp_path, {"chat-0": SATURATED, "chat-1": SATURATED}) as served:
        arguments = ["--source", "scrape", "--targets", str(served.targets)]
        async with (
            scaler(tmp_path, [*arguments, "--cluster", str(counts)]) as running,
            Keda(running.grpc) as keda,
        ):
            await keda.specs(CHAT)
            await workload(running)
            bad = {"modelNam": "tiny", "kvCacheHigh": "85", "gpuUtilization": "80"}
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await keda.specs(scaled_object("prod", "bad", bad))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            told = refused.value.details() or ""
            assert "modelName" in told
            assert "0.85" in told
            assert "gpuUtilization" in told
            assert (await keda.poll(CHAT)).replicas == 2


async def test_a_reload_loses_no_workload(tmp_path: Path, counts: Path) -> None:
    """A profile that vanishes from the file leaves its workload in force, with the fault shown."""
    async with engines(tmp_path, {"chat-0": SATURATED, "chat-1": SATURATED}) as served:
        config = tmp_path / "scaler.yaml"
        content: dict[str, object] = {
            "cluster": str(counts),
            "sources": {"engines": {"type": "scrape", "targets": str(served.targets)}},
            "profiles": {"careful": {"waitingHigh": 9}},
        }
        config.write_text(yaml.safe_dump(content), encoding="utf-8")
        # However slow the machine is, the saturated engines move nothing meanwhile.
        slow = {"modelName": "tiny", "profile": "careful", "scaleOutWindow": "1h"}
        careful = scaled_object("prod", "chat", slow)
        async with (
            scaler(tmp_path, ["--config", str(config)]) as running,
            Keda(running.grpc) as keda,
        ):
            await keda.specs(careful)
            await workload(running)
            del content["profiles"]
            config.write_text(yaml.safe_dump(content), encoding="utf-8")
            running.process.send_signal(signal.SIGHUP)

            async def shown() -> bool:
                return "careful" in (await running.get("/api/v1/workloads/prod/chat"))[1]

            await until(shown)
            assert (await keda.poll(careful)).replicas == 2
            config.write_text("sources: [", encoding="utf-8")

            async def told() -> bool:
                return "config-invalid" in running.logged()

            await until(told)
            assert (await keda.poll(careful)).replicas == 2


async def test_a_faulty_start_says_every_fault_and_ends(tmp_path: Path) -> None:
    """A configuration that cannot work ends the command at once, with one message."""
    with pytest.raises(AssertionError, match="the scaler ended") as ended:
        async with scaler(tmp_path, ["--source", "scrape", "--cluster", "/nowhere.yaml"]):
            pass
    assert "targets" in str(ended.value)
    assert "Traceback" not in str(ended.value)


async def test_a_restart_remembers_why_the_fleet_moved(tmp_path: Path, counts: Path) -> None:
    """What an earlier process has kept is shown behind what this one knows, which is kept too."""
    path = tmp_path / "decisions.db"
    earlier = Change(
        at=tick_at(time.time()) - 3600,
        current=1,
        desired=2,
        advised=2,
        floor=2,
        ceiling=None,
        reason=Reason.SCALE_OUT_TTFT,
    )
    key = parse_trigger("prod", "chat", dict(CHAT.scalerMetadata)).key
    file = DecisionFile(path)
    file.note(key, earlier)
    await file.flush()
    async with engines(tmp_path, {"chat-0": SATURATED, "chat-1": SATURATED}) as served:
        arguments = ["--source", "scrape", "--targets", str(served.targets)]
        arguments += ["--cluster", str(counts), "--history-file", str(path)]
        async with scaler(tmp_path, arguments) as running, Keda(running.grpc) as keda:
            await keda.specs(CHAT)
            await workload(running)
            _, text = await running.get("/api/v1/workloads/prod/chat/decisions")
            assert await running.terminate() == 0
    answer = json.loads(text)
    assert answer["fault"] is None
    *now, before = answer["decisions"]
    assert {found["kept_by"] for found in now} == {"memory"}
    assert (before["kept_by"], before["at"]) == ("file", earlier.at)
    assert before["reason"] == "scale-out-ttft"
    kept = await DecisionFile(path).changes(key, 0.0, earlier.at + 86_400, 100)
    assert {found["at"] for found in answer["decisions"]} <= {change.at for change in kept}
