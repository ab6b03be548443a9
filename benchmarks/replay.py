"""A week of one workload, replayed from a real Prometheus: reading and deciding, on one core.

Two to six engines by the time of day are scraped every 15 s, with vLLM's own TTFT buckets. The
command runs as users run it; it and the Prometheus share a single core, and the time is the CPU
time of both.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks._measure import cpu_seconds
from benchmarks._results import Line, Section
from benchmarks.prometheus_cost import EDGES, server_pid
from scaler.core.units import TICK, Seconds
from tests.prometheus_server import Past, prometheus

DAY: Seconds = 86_400.0
BLOCK: Seconds = 7_200.0
"""As long as a block of a Prometheus; a file is as long, so that none has to be held in whole."""

DAYS, QUICK = (1, 7), (2,)
AIM: Seconds = 60.0
_BEFORE: Seconds = DAY + BLOCK
"""What a replay learns from before its range, and a little more."""

_BEFORE_A_TICK: Seconds = 7.0
_FEWEST, _MORE = 2, 4
_LOAD, _LOAD_BY_DAY = 30.0, 150.0
_TAKES: Seconds = 90.0
_USUAL_TTFT: Seconds = 0.3
_OBJECT = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat, namespace: llm}
spec:
  scaleTargetRef: {name: chat}
  minReplicaCount: 1
  maxReplicaCount: 20
  triggers:
    - type: external-push
      metadata: {scalerAddress: "vllm-keda-scaler:50051", modelName: llama}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What one replay took, in seconds: CPU of the command and of the Prometheus, and in all."""

    command: Seconds
    server: Seconds
    wall: Seconds

    @property
    def cpu(self) -> Seconds:
        """Return the time on one core."""
        return self.command + self.server


def daylight(at: Seconds) -> float:
    """Return how high the day's load stands, 0 to 1."""
    return max(0.0, math.sin(2 * math.pi * at / DAY))


def scraped(begin: Seconds, end: Seconds) -> Past:
    """Write down what was scraped in (begin, end]."""
    past = Past()
    ticks = round((end - begin) / TICK)
    for at in (begin + (tick + 1) * TICK - _BEFORE_A_TICK for tick in range(ticks)):
        count = _FEWEST + round(_MORE * daylight(at))
        own = {"namespace": "llm", "scaled_object": "chat", "trigger": "ab"}
        past.add("vllm_scaler_current_replicas", own, {at: float(count)})
        for number in range(count):
            _engine(past, number, at, (_LOAD + _LOAD_BY_DAY * daylight(at)) / count)
    return past


def _engine(past: Past, number: int, at: Seconds, load: float) -> None:
    """Add one scrape of one engine; those beyond the fewest come anew each day."""
    day = at // DAY if number >= _FEWEST else 0
    pod = f"chat-6b4d9c7f5d-{number}d{day:.0f}"
    labels = {"namespace": "llm", "pod": pod, "model_name": "llama", "engine": "0"}
    running = load + (at * 0.618 + number) % 3.0
    counted = (at - number) % 1e7
    told = {
        "num_requests_running": round(running),
        "num_requests_waiting": max(0, round(running - 24.0)),
        "kv_cache_usage_perc": min(1.0, running / 36.0),
        "generation_tokens_total": counted * 500.0,
        "prompt_tokens_total": counted * 900.0,
        "num_preemptions_total": counted // 600.0,
        "time_to_first_token_seconds_count": counted * 2.0,
    }
    for name, value in told.items():
        past.add(f"vllm:{name}", labels, {at: float(value)})
    for edge in EDGES:
        share = 1.0 - math.exp(-float(edge) / _USUAL_TTFT)
        name = "vllm:time_to_first_token_seconds_bucket"
        past.add(name, {**labels, "le": edge}, {at: counted * 2.0 * share})
    where = {"namespace": "llm", "pod": pod}
    past.add("kube_pod_created", where, {at: day * DAY})
    past.add("kube_pod_status_ready_time", where, {at: day * DAY + _TAKES})


def backfill(directory: Path, begin: Seconds, end: Seconds) -> None:
    """Write blocks for what was scraped in (begin, end], a file a block."""
    file, data = directory / "block.txt", directory / "data"
    tool = shutil.which("promtool") or "promtool"
    for number in range(round((end - begin) / BLOCK)):
        file.write_text(
            scraped(begin + number * BLOCK, begin + (number + 1) * BLOCK).text(), encoding="utf-8"
        )
        words = [tool, "tsdb", "create-blocks-from", "openmetrics", str(file), str(data)]
        subprocess.run(words, check=True, capture_output=True)
    file.unlink()


def replayed(directory: Path, url: str, end: Seconds, days: float) -> Took:
    """Replay so many days up to `end`. Stops where a tick is missing or nothing changed."""
    out = directory / "replay.csv"
    (directory / "chat.yaml").write_text(_OBJECT, encoding="utf-8")
    begin, until = (datetime.fromtimestamp(at, UTC).isoformat() for at in (end - days * DAY, end))
    words = [str(directory / "chat.yaml"), "--prometheus", url, "--from", begin, "--to", until]
    words += ["--format", "csv", "--out", str(out)]
    pid = server_pid()
    before, began = cpu_seconds(pid), time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "scaler", "replay", *words], stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if child.returncode:
        sys.exit(f"the replay of {days:g} days failed")
    rows = out.read_text(encoding="utf-8").splitlines()[1:]
    answered = {row.split(",")[3] for row in rows}
    if len(rows) != round(days * DAY / TICK) + 1 or len(answered) <= _MORE:
        sys.exit(f"{len(rows)} ticks with the answers {sorted(answered)}: nothing to time")
    return Took(
        command=usage.ru_utime + usage.ru_stime,
        server=cpu_seconds(pid) - before,
        wall=wall,
    )


def _lines(days: int, took: Took) -> Iterator[Line]:
    yield Line(
        key="replay-reading",
        what=f"{days} days of one workload: CPU of the command beside that of the Prometheus",
        ours=f"{took.command:.1f} s",
        yardstick=f"{took.server:.1f} s, the Prometheus that is read",
        ratio=took.command / took.server,
        tolerance=1.5,
    )
    if days == DAYS[-1]:
        yield Line(
            key="replay-week",
            what=f"{days} days of one workload: CPU of both, all on one core",
            ours=f"{took.cpu:.1f} s",
            yardstick=f"{AIM:.0f} s, the aim",
            ratio=took.cpu / AIM,
            aim=1.0,
            tolerance=1.5,
            whole_runs=True,
        )


def measure(*, quick: bool) -> Section:
    """Let a Prometheus remember, and replay spans of it."""
    spans = QUICK if quick else DAYS
    end = time.time() // BLOCK * BLOCK - BLOCK
    core = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        backfill(directory, end - spans[-1] * DAY - _BEFORE, end)
        os.sched_setaffinity(0, {core})  # ours from here on, and our children's
        with prometheus(directory, scraped(end, end + BLOCK)) as url:
            took = {days: replayed(directory, url, end, days) for days in spans}
    return Section(
        title="A replay",
        lines=list(_lines(spans[-1], took[spans[-1]])),
        notes=[
            f"A range of {days} × 24 h takes {each.cpu:.1f} s of CPU, and the day before it is "
            f"read by the minute; by the clock it was {each.wall:.1f} s beside what else ran."
            for days, each in took.items()
        ],
    )
