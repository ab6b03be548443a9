"""What a tick costs: from 10 to 10,000 workloads, and how many engines' pages one core can read.

Windows are full, so that every decision looks at all that it ever would. The source tells from
memory; what reading costs is measured apart: pages over HTTP here, Prometheus in its own benchmark.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import structlog
from aiohttp import web

from benchmarks._fleet import Fleet, StoredSource, registry_of
from benchmarks._measure import told
from benchmarks._results import Growth, Line, Section
from scaler.adapters.clock import WallClock
from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.control.board import Board
from scaler.control.follower import Follower
from scaler.control.heap import Heap
from scaler.core.units import TICK
from tests.fakes.clock import FakeClock

PODS, PAGES = 5, 1000
NOW = 1_800_000_000.0
PAGE = Path("tests/data/captures")


@dataclass(slots=True, kw_only=True)
class Cost:
    """What ticks cost: CPU and wall in s, stalls of the event loop in ms, the peak in MiB."""

    cpu: list[float]
    wall: list[float]
    stalls: list[float]
    allocated: float


async def stall_of(stop: asyncio.Event) -> float:
    """Return the longest time that the event loop kept another task waiting."""
    longest = 0.0
    while not stop.is_set():
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - began - 0.001)
    return longest


async def ticks(workloads: int, pods: int, count: int) -> Cost:
    """Run ticks over so many workloads."""
    clock = FakeClock(NOW)
    registry = registry_of(workloads, clock)
    follower = Follower(StoredSource(pods), registry, Board(), Fleet(pods))
    while await follower.admit(clock.now()):
        pass
    heap = Heap(clock.now)
    cost = Cost(cpu=[], wall=[], stalls=[], allocated=0.0)
    for number in range(count + 2):
        clock.set(clock.now() + TICK)
        stop = asyncio.Event()
        watch = asyncio.create_task(stall_of(stop))
        began, used = time.perf_counter(), time.process_time()
        await follower.tick(clock.now())
        spent = time.process_time() - used, time.perf_counter() - began
        stop.set()
        stalled = 1e3 * await watch
        heap.settle()
        if number > 1:  # the first ticks warm what is cached
            cost.cpu.append(spent[0])
            cost.wall.append(spent[1])
            cost.stalls.append(stalled)
    clock.set(clock.now() + TICK)
    tracemalloc.start()
    await follower.tick(clock.now())
    cost.allocated = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return cost


def serve_pages() -> None:
    """Be the engines: one port, every address of this machine, a real page."""
    page = max(PAGE.glob("*.txt"), key=lambda path: path.stat().st_size).read_bytes()

    async def answer(request: web.Request) -> web.Response:
        del request
        return web.Response(body=page, content_type="text/plain")

    application = web.Application()
    application.router.add_get("/metrics", answer)
    web.run_app(application, host="0.0.0.0", port=int(sys.argv[2]), print=lambda _: None)  # noqa: S104


async def scrapes(port: int, directory: Path, rounds: int) -> list[float]:
    """Return the CPU of one page read over HTTP, in µs, round by round."""
    groups = [
        {"targets": [f"127.0.{n // 250}.{n % 250 + 1}:{port}"], "labels": {"namespace": "llm"}}
        for n in range(PAGES)
    ]
    targets = directory / "targets.json"
    targets.write_text(json.dumps(groups), encoding="utf-8")
    source = ScrapeSource(ScrapeSettings(targets=targets, name="engines"), WallClock())
    spent = []
    async with source._client:
        for _ in range(rounds + 1):
            used = time.process_time()
            await asyncio.gather(*(source._scrape(page) for page in source._pages.values()))
            spent.append((time.process_time() - used) / PAGES * 1e6)
    if source.stats.scrapes["ok"] != PAGES * (rounds + 1):
        sys.exit(f"not all pages were read: {source.stats.scrapes}")
    return spent[1:]


def cost_of_scrapes(rounds: int) -> list[float]:
    """Start the engines, and read them."""
    port = 18_437
    command = [sys.executable, "-m", "benchmarks.tick", "--pages", str(port)]
    engines = subprocess.Popen(command)
    try:
        time.sleep(1.5)
        with tempfile.TemporaryDirectory() as directory:
            return asyncio.run(scrapes(port, Path(directory), rounds))
    finally:
        engines.kill()
        engines.wait()


def measure(*, quick: bool = False) -> Section:
    """Measure ticks of all sizes, then pages."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    sizes = (10, 100, 1000) if quick else (10, 100, 1000, 10_000)
    costs = {n: asyncio.run(ticks(n, PODS, 4 if n > PAGES else 12)) for n in sizes}
    growth = Growth(
        key="tick.growth",
        what=f"CPU of a tick by workloads with {PODS} pods each",
        unit="s",
        points=[(size, statistics.median(cost.cpu)) for size, cost in costs.items()],
        aim=1.05,
    )
    lines = [_tick_line(size, cost) for size, cost in costs.items() if size >= PAGES]
    page = cost_of_scrapes(3 if quick else 7)
    lines += [_page_line(page, statistics.median(costs[PAGES].cpu) / PAGES / PODS)]
    return Section(title="The tick", lines=lines, growth=[growth])


def _tick_line(size: int, cost: Cost) -> Line:
    stalls = told(cost.stalls, " ms", 0)
    return Line(
        key=f"tick.cpu.{size}",
        what=f"CPU of a tick, {size:,} workloads, {size * PODS:,} pods",
        ours=f"{told(cost.cpu, ' s')}; wall {told(cost.wall, ' s')}; longest stall of the event "
        f"loop {stalls}; allocates {cost.allocated:.0f} MiB at most",
        yardstick=f"{TICK:g} s, the time between two ticks",
        ratio=statistics.median(cost.cpu) / TICK,
        tolerance=2.0,
        whole_runs=size > PAGES,
    )


def _page_line(page: list[float], tick: float) -> Line:
    each = statistics.median(page) / 1e6
    held = {every: 1 / (each / every + tick / TICK) for every in (5.0, 15.0)}
    return Line(
        key="tick.engines",
        what="CPU of one engine's page read over HTTP",
        ours=f"{told(page, ' µs', 0)}: with its share of the ticks one core holds "
        f"{held[5.0]:,.0f} engines read every 5 s, {held[15.0]:,.0f} read every 15 s",
        yardstick="5 s, the time between two reads, for 1,000 engines",
        ratio=each * PAGES / 5.0,
        tolerance=2.0,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pages"]:
        serve_pages()
    else:
        print(measure(quick="--quick" in sys.argv).told())
