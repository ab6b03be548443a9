"""A tick over 1,000 workloads and 5,000 pods: CPU, wall, the longest stall, memory.

From the scrape source's memory, and from a real Prometheus on a backfilled history. Histories are
full, so that every decision looks at whole windows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import structlog
from _measure import machine, resident_mib, told

sys.path.insert(0, str(Path(__file__).parents[1]))

from scaler.adapters.page_memory import remember
from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.config.resolve import resolve
from scaler.config.sections import ScrapeSource as Section
from scaler.config.server import ServerConfig
from scaler.control.board import Board
from scaler.control.follower import Follower
from scaler.control.ports import Source
from scaler.control.registry import Registry
from scaler.core.pods import Pod
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Scale
from tests.fakes.clock import FakeClock
from tests.prometheus_server import Past, prometheus

WORKLOADS, PODS, TICKS = 1000, 5, 12
EDGES = ("0.25", "0.5", "0.75", "1.0", "2.5", "5.0", "7.5", "10.0", "20.0", "+Inf")


def pod_name(number: int) -> str:
    """Name a pod as a ReplicaSet does: those of a workload share all but the end."""
    return f"chat-{number // PODS}-6b4d9c7f5d-{number % PODS}"


def placed(number: int) -> tuple[Pod, ...]:
    """Return the pods of a workload."""
    names = [pod_name(each) for each in range(number * PODS, (number + 1) * PODS)]
    return tuple(
        Pod(name=name, replica=name, created_at=0.0, ready=True, ready_at=60.0) for name in names
    )


PLACED = [placed(number) for number in range(WORKLOADS)]


class Fleet:
    """Every ScaledObject has five replicas."""

    def scale(self, namespace: str, name: str) -> Scale:
        """Return the count."""
        del namespace, name
        return Scale(current=PODS, max_replicas=40)

    def pods(self, namespace: str, name: str) -> tuple[Pod, ...]:
        """Return the pods."""
        del namespace
        return PLACED[int(name.removeprefix("chat-"))]

    def situation(self, namespace: str, name: str) -> None:
        """Know nothing of KEDA."""
        del namespace, name

    def is_gone(self, namespace: str, name: str) -> bool:
        """Know of none that is gone."""
        del namespace, name
        return False

    def on_change(self, notify: object) -> None:
        """Never change."""

    async def run(self) -> None:
        """Do nothing."""


def page(model: str, number: int) -> bytes:
    """Write the families that matter; the rest of a page costs only the search."""
    of = f'{{engine="0",model_name="{model}"'
    lines = [
        f"vllm:num_requests_running{of}}} {number % 9}",
        f"vllm:num_requests_waiting{of}}} 0",
        f"vllm:kv_cache_usage_perc{of}}} 0.4",
        f"vllm:generation_tokens_total{of}}} {number * 500}",
        f"vllm:time_to_first_token_seconds_count{of}}} {number * 20}",
        *(
            f'vllm:time_to_first_token_seconds_bucket{of},le="{edge}"}} {number * 20}'
            for edge in EDGES
        ),
    ]
    return ("\n".join(lines) + "\n").encode()


def follower_of(source: Source, clock: FakeClock) -> tuple[Follower, Registry]:
    """Put a loop around a source, with 1,000 registered workloads."""
    section = Section.model_validate({"type": "scrape", "targets": "none"})
    config = ServerConfig(sources={source.name: section})
    registry = Registry(lambda trigger: resolve(trigger, config), clock.now)
    for number in range(WORKLOADS):
        registry.ask("llm", f"chat-{number}", {"modelName": f"m{number}"})
    return Follower(source, registry, Board(), Fleet()), registry


async def stall_of(stop: asyncio.Event) -> float:
    """Return the longest time that the event loop kept another task waiting."""
    longest = 0.0
    while not stop.is_set():
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - began - 0.001)
    return longest


async def measure(follower: Follower, at: float, prepare: object = None) -> None:
    """Run ticks and print what they cost."""
    cpu, wall, stalls = [], [], []
    for number in range(TICKS):
        if callable(prepare):
            prepare(at)
        stop = asyncio.Event()
        watch = asyncio.create_task(stall_of(stop))
        began, used = time.perf_counter(), time.process_time()
        await follower.tick(at)
        while await follower.admit(at):
            pass
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
        stop.set()
        stalls.append(await watch)
        at += TICK
        if number == 0:
            print(f"  first tick, history read back: {wall[0]:.2f} s wall, {cpu[0]:.2f} s CPU")
    share = 100 * statistics.median(cpu[1:]) / TICK
    print(f"  CPU a tick:    {told(cpu[1:], ' s')}, {share:.1f} % of a core")
    print(f"  wall a tick:   {told(wall[1:], ' s')}")
    print(f"  longest stall: {told([1e3 * s for s in stalls[1:]], ' ms', 0)}")


async def from_scrapes(directory: Path) -> None:
    """Measure on the scrape source's memory, without the network."""
    clock = FakeClock(tick_at(time.time()) - 3600.0)
    groups = [
        f'{{"targets": ["10.0.{n // 250}.{n % 250}:8000"], '
        f'"labels": {{"namespace": "llm", "pod": "{pod_name(n)}"}}}}'
        for n in range(WORKLOADS * PODS)
    ]
    targets = directory / "targets.json"
    targets.write_text(f"[{','.join(groups)}]", encoding="utf-8")
    before = resident_mib(os.getpid())
    source = ScrapeSource(ScrapeSettings(targets=targets, name="engines"), clock)
    pages = list(source._pages.values())
    scans = 0.0

    def scrape(at: float) -> None:
        nonlocal scans
        for seconds in (5.0, 10.0, 15.0):
            clock.set(at - TICK + seconds)
            began = time.process_time()
            for number, each in enumerate(pages):
                text = page(f"m{number // PODS}", int(at) % 997)
                remember(each.models, source._scanner.scan(text), clock.now())
                each.answered.append(clock.now())
            scans += time.process_time() - began

    follower, _ = follower_of(source, clock)
    at = tick_at(clock.now())
    for _ in range(125):
        scrape(at)
        await follower.tick(at)
        while await follower.admit(at):
            pass
        at += TICK
    print(f"scrape source, {WORKLOADS} workloads, {WORKLOADS * PODS} pods:")
    scans = 0.0
    await measure(follower, at, scrape)
    print(f"  CPU of reading {WORKLOADS * PODS} pages: {scans / TICKS / 3:.2f} s a scrape")
    grown = resident_mib(os.getpid()) - before
    print(f"  memory: {grown:.0f} MiB, {1024 * grown / WORKLOADS:.0f} KiB a workload with its pods")


async def from_prometheus(directory: Path) -> None:
    """Measure on a real server, in a process of its own."""
    end = tick_at(time.time() - 3600.0)
    past = Past()
    times = [end - 15.0 * back for back in range(24)]
    for number in range(WORKLOADS * PODS):
        base = {
            "namespace": "llm",
            "pod": pod_name(number),
            "engine": "0",
            "model_name": f"m{number // PODS}",
        }
        for name, rate in (
            ("num_requests_running", 0.0),
            ("num_requests_waiting", 0.0),
            ("kv_cache_usage_perc", 0.0),
            ("generation_tokens_total", 50.0),
            ("time_to_first_token_seconds_count", 2.0),
        ):
            past.add(f"vllm:{name}", base, {at: (at - times[-1]) * rate for at in times})
        for edge in EDGES:
            grown = {at: (at - times[-1]) * 2.0 for at in times}
            past.add("vllm:time_to_first_token_seconds_bucket", {**base, "le": edge}, grown)
    with prometheus(directory, past) as url:
        clock = FakeClock(end - TICKS * TICK)
        settings = PrometheusSettings(url=url, name="engines", settle=0.0, timeout=60.0)
        source = PrometheusSource(settings)
        follower, _ = follower_of(source, clock)
        print(f"Prometheus source, {WORKLOADS} workloads, {WORKLOADS * PODS} pods:")
        selections = [e.resolved.selection for e in follower._registry if e.resolved]
        cpu, wall = [], []
        for number in range(6):
            began, used = time.perf_counter(), time.process_time()
            found = await source.read(selections, end - number * TICK)
            wall.append(time.perf_counter() - began)
            cpu.append(time.process_time() - used)
        replicas = sum(len(getattr(reading, "replicas", ())) for reading in found.values())
        print(f"  {replicas} replicas read; queries a tick: {len(source.stats())}")
        print(f"  our CPU a tick: {told(cpu[1:], ' s')}; wall: {told(wall[1:], ' s')}")


def main() -> None:
    """Run both."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(machine())
    for measured in (from_scrapes, from_prometheus):
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(measured(Path(directory)))


main()
