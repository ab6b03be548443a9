"""What reading the signals costs the user's Prometheus: ours beside KEDA's own Prometheus scaler.

A real server with the series of 5,000 engines. The yardstick is one KEDA trigger for each signal
and workload, with the queries that users write; KEDA asks each of them every 30 s, and the HPA
through it every 15 s. Ours asks once a tick for all workloads. CPU is that of the server.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks._measure import cpu_seconds, ratios, told
from benchmarks._results import Line, Section
from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Selection
from tests.prometheus_server import Past, prometheus

WORKLOADS, PODS, NAMESPACES = 1000, 5, 20
IN_SHORT = 100
SCRAPED_EVERY, POINTS = 15.0, 24
KEDA_A_MINUTE, OURS_A_MINUTE = 60 / 30 + 60 / 15, 60 / TICK
EDGES = (
    *("0.001", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08", "0.1", "0.25", "0.5", "0.75"),
    *("1.0", "2.5", "5.0", "7.5", "10.0", "20.0", "40.0", "80.0", "160.0", "640.0", "2560.0"),
    "+Inf",
)
"""vLLM's own buckets."""
GROWING = {
    "generation_tokens_total": 50.0,
    "prompt_tokens_total": 500.0,
    "num_preemptions_total": 0.0,
    "time_to_first_token_seconds_count": 2.0,
}
STANDING = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
TRIGGERS = (
    "sum(vllm:num_requests_waiting{{{where}}})",
    "avg(vllm:kv_cache_usage_perc{{{where}}})",
    (
        "histogram_quantile(0.95, sum by (le) "
        "(rate(vllm:time_to_first_token_seconds_bucket{{{where}}}[2m])))"
    ),
)


def namespace_of(workload: int) -> str:
    """Return where a workload lives: neighbours share a namespace."""
    return f"team-{workload * NAMESPACES // WORKLOADS}"


def past_of(end: float) -> Past:
    """Write the last minutes of all engines down."""
    past = Past()
    times = [end - SCRAPED_EVERY * back for back in reversed(range(POINTS))]
    still = dict.fromkeys(times, 0.0)
    growth = {rate: {at: (at - times[0]) * rate for at in times} for rate in GROWING.values()}
    for workload in range(WORKLOADS):
        for number in range(PODS):
            labels = {
                "namespace": namespace_of(workload),
                "pod": f"chat-{workload}-6b4d9c7f5d-{number}",
                "engine": "0",
                "model_name": f"m{workload}",
            }
            for name in STANDING:
                past.add(f"vllm:{name}", labels, still)
            for name, rate in GROWING.items():
                past.add(f"vllm:{name}", labels, growth[rate])
            for edge in EDGES:
                name = "vllm:time_to_first_token_seconds_bucket"
                past.add(name, {**labels, "le": edge}, growth[2.0])
    return past


def server_pid() -> int:
    """Return the Prometheus among our children."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8").split()
    return next(
        int(pid)
        for pid in children
        if "prometheus" in Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
    )


def ask_as_keda(url: str, workloads: int, at: float, threads: ThreadPoolExecutor) -> None:
    """Ask once for each signal and workload."""

    def ask(query: str) -> None:
        form = urllib.parse.urlencode({"query": query, "time": at})
        with urllib.request.urlopen(f"{url}/api/v1/query?{form}") as answer:  # noqa: S310 - ours
            answer.read()

    wheres = [f'namespace="{namespace_of(n)}",model_name="m{n}"' for n in range(workloads)]
    list(threads.map(ask, (t.format(where=where) for where in wheres for t in TRIGGERS)))


def compare(url: str, workloads: int, end: float, rounds: int) -> Iterator[Line]:
    """Compare queries and CPU a minute."""
    source = PrometheusSource(PrometheusSettings(url=url, settle=0.0, timeout=60.0))
    selections = [
        Selection(source="prometheus", namespace=namespace_of(n), model_name=f"m{n}")
        for n in range(workloads)
    ]
    pid, own, theirs = server_pid(), [], []
    heard: list[int] = []

    async def read(at: float) -> None:
        found = await source.read(selections, at)
        heard.append(sum(len(getattr(reading, "replicas", ())) for reading in found.values()))

    with ThreadPoolExecutor(8) as threads, asyncio.Runner() as runner:
        for number in range(rounds + 1):
            at = end - number * SCRAPED_EVERY
            before = cpu_seconds(pid)
            runner.run(read(at))
            between = cpu_seconds(pid)
            ask_as_keda(url, workloads, at, threads)
            own.append((between - before) * OURS_A_MINUTE)
            theirs.append((cpu_seconds(pid) - between) * KEDA_A_MINUTE)
            time.sleep(0.2)
    if set(heard) != {workloads * PODS}:
        sys.exit(f"of {workloads * PODS} replicas {set(heard)} were read: nothing to compare")
    asked = sum(kind.asked for kind in source.stats().values()) / (rounds + 1)
    ours, keda = asked * OURS_A_MINUTE, len(TRIGGERS) * workloads * KEDA_A_MINUTE
    yield Line(
        key=f"prometheus.queries.{workloads}",
        what=f"queries a minute, {workloads:,} workloads",
        ours=f"{ours:.0f}",
        yardstick=f"{keda:,.0f}, a KEDA trigger for each signal and workload",
        ratio=ours / keda,
        aim=0.1 if workloads == WORKLOADS else None,
        tolerance=1.01,
        whole_runs=workloads != IN_SHORT,
    )
    pair = ratios(own[1:], theirs[1:])
    yield Line(
        key=f"prometheus.cpu.{workloads}",
        what=f"the server's CPU a minute, {workloads:,} workloads with {PODS} pods each",
        ours=told(own[1:], " s"),
        yardstick=told(theirs[1:], " s"),
        ratio=statistics.median(pair),
        spread=(min(pair), max(pair)),
        aim=1.0,
        tolerance=1.3,
        whole_runs=workloads != IN_SHORT,
    )


def measure(*, quick: bool = False) -> Section:
    """Measure for 10, 100 and 1,000 workloads on a server that always has all series."""
    end = tick_at(time.time() - 3600.0)
    with (
        tempfile.TemporaryDirectory() as directory,
        prometheus(Path(directory), past_of(end)) as url,
    ):
        sizes = (IN_SHORT,) if quick else (10, IN_SHORT, WORKLOADS)
        lines = [line for size in sizes for line in compare(url, size, end, 3 if quick else 5)]
    return Section(title="What the user's Prometheus pays", lines=lines)


if __name__ == "__main__":
    print(measure(quick="--quick" in sys.argv).told())
