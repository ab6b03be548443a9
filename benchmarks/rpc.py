"""Calls and streams beside a server of the same kind that answers a constant.

Each server has a process of its own with the same gRPC options; both are asked in turn.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import grpc

from benchmarks._fleet import ref
from benchmarks._measure import cpu_seconds, ratios, resident_mib, told
from benchmarks._results import Line, Section
from scaler.edge.answers import METRIC
from scaler.wire.externalscaler_pb2 import GetMetricsRequest
from scaler.wire.externalscaler_pb2_grpc import ExternalScalerStub

WORKLOADS, CALLS, AT_ONCE = 1000, 3000, 50
POLLED, SYNCED = 30.0, 15.0
"""KEDA polls a ScaledObject (three calls) every 30 s, the HPA asks for its metric every 15 s."""

Call = Callable[[ExternalScalerStub, int], Awaitable[object]]
Span = tuple[float, float]


def get_metrics(stub: ExternalScalerStub, number: int) -> Awaitable[object]:
    """Ask for the count."""
    return stub.GetMetrics(GetMetricsRequest(scaledObjectRef=ref(number), metricName=METRIC))


def is_active(stub: ExternalScalerStub, number: int) -> Awaitable[object]:
    """Ask for the activity."""
    return stub.IsActive(ref(number))


class Served:
    """A server in a process of its own."""

    def __init__(self, *role: str) -> None:
        """Start it; `port` is known once it listens."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._serving", *role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ticks: list[Span] = []
        line = self.line()
        while line.startswith("tick"):
            line = self.line()
        self.port = int(line)

    def line(self) -> str:
        """Return the next line that it says."""
        return self.process.stdout.readline() if self.process.stdout else ""

    def go(self) -> None:
        """Let it change what it says."""
        if self.process.stdin is not None:
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def cpu(self) -> float:
        """Return the CPU time that it has used."""
        return cpu_seconds(self.process.pid)

    def end(self) -> str:
        """End it; returns what it still had to say."""
        self.process.kill()
        return self.process.communicate()[0]


@contextmanager
def served(*roles: Sequence[str]) -> Iterator[list[Served]]:
    """Run servers side by side."""
    servers: list[Served] = []
    try:
        for role in roles:
            servers.append(Served(*role))  # noqa: PERF401 - those that started must end
        yield servers
    finally:
        for server in servers:
            server.process.kill()
            server.process.communicate()


async def ask(port: int, call: Call, calls: int) -> None:
    """Make calls, 50 at a time."""
    numbers = iter(range(calls))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = ExternalScalerStub(channel)

        async def worker() -> None:
            for number in numbers:
                await call(stub, number % WORKLOADS)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def cost_of_calls(*, quick: bool) -> Iterator[Line]:
    """Compare the CPU of a call, pair by pair."""
    pairs = 5 if quick else 15
    with served(("constant",), ("ours", str(WORKLOADS))) as (constant, ours):
        for name, call in (("GetMetrics", get_metrics), ("IsActive", is_active)):
            cost: dict[int, list[float]] = {constant.port: [], ours.port: []}
            for _ in range(pairs + 1):
                for server in (constant, ours):
                    before = server.cpu()
                    asyncio.run(ask(server.port, call, CALLS))
                    cost[server.port].append((server.cpu() - before) / CALLS * 1e6)
            own, least = cost[ours.port][1:], cost[constant.port][1:]
            pair = ratios(own, least)
            yield Line(
                key=f"rpc.{name}.cpu",
                what=f"CPU per `{name}`, {WORKLOADS:,} workloads",
                ours=told(own, " µs", 0),
                yardstick=f"{told(least, ' µs', 0)}, the same answer as a constant",
                ratio=statistics.median(pair),
                spread=(min(pair), max(pair)),
                aim=1.1,
                tolerance=1.2,
            )


async def pattern(port: int, workloads: int, seconds: float) -> list[Span]:
    """Call as KEDA and the HPA do for so many ScaledObjects; return when each call ran."""
    taken: list[Span] = []
    poll, sync = workloads / POLLED, workloads / SYNCED
    calls: list[Call] = [get_metrics, is_active, lambda stub, n: stub.GetMetricSpec(ref(n))]
    due = sorted(
        [(n / poll, call, n) for n in range(int(seconds * poll)) for call in calls]
        + [(n / sync, get_metrics, n) for n in range(int(seconds * sync))],
        key=lambda each: each[0],
    )
    gc.collect()
    gc.disable()  # the client's own pauses are not ours
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = ExternalScalerStub(channel)

        async def one(call: Call, number: int) -> None:
            began = time.monotonic()
            await call(stub, number % workloads)
            taken.append((began, time.monotonic()))

        start, tasks = time.monotonic(), []
        for at, call, number in due:
            if (left := start + at - time.monotonic()) > 0:
                await asyncio.sleep(left)
            tasks.append(asyncio.create_task(one(call, number)))
        await asyncio.gather(*tasks)
    gc.enable()
    return taken


def p99(spans: Sequence[Span]) -> float:
    """Return the 99th percentile of how long calls took, in ms."""
    return 1e3 * statistics.quantiles([end - began for began, end in spans], n=100)[98]


def tail_latency(
    workloads: int, speed: float, pods: int, *, aim: float | None = None, seconds: float = 60.0
) -> Line:
    """Compare the p99 of calls that overlap a tick with what the yardstick has."""
    with served(("constant",)) as (constant,):
        least = p99(asyncio.run(pattern(constant.port, workloads, seconds / 2)))
    with served(("ticking", str(workloads), str(speed), str(pods))) as (ours,):
        spans = asyncio.run(pattern(ours.port, workloads, seconds))
        said = ours.end()
    ticks = [
        (float(line.split()[1]), float(line.split()[2]))
        for line in said.splitlines()
        if line.startswith("tick") and float(line.split()[1]) > spans[0][0]
    ]
    during = [s for s in spans if any(s[0] < end and s[1] > began for began, end in ticks)]
    length = statistics.median(end - began for began, end in ticks)
    slowest = 1e3 * max(end - began for began, end in spans)
    every = f"every {15 / speed:g} s"
    met = "" if aim is None else f" (aim: below {aim:g} ms)"
    return Line(
        key=f"rpc.p99.{workloads}",
        what=f"p99 of a call during a tick, the pattern of {workloads:,} ScaledObjects, "
        f"{pods} pods each",
        ours=f"{p99(during):.1f} ms{met}; over all calls {p99(spans):.1f} ms, the slowest "
        f"{slowest:.0f} ms; {len(ticks)} ticks of {length:.2f} s, {every}",
        yardstick=f"{least:.1f} ms, the constant server without ticks",
        ratio=p99(during) / least,
        tolerance=2.5,
        whole_runs=workloads > WORKLOADS,
    )


async def change_to_all(server: Served, streams: int) -> tuple[float, float, float]:
    """Open streams, then let all change: how long (s), CPU (s), memory a stream (KiB)."""
    before = resident_mib(server.process.pid)
    heard = itertools.count(1)
    done = asyncio.Event()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = ExternalScalerStub(channel)

        async def follow(number: int) -> None:
            async for _ in stub.StreamIsActive(ref(number)):
                if next(heard) == streams:
                    done.set()

        tasks = [asyncio.create_task(follow(number)) for number in range(streams)]
        while (used := server.cpu()) and await asyncio.sleep(2.0) is None:
            if server.cpu() - used < 0.05:  # noqa: PLR2004 - all are open, nothing moves
                break
        grown = (resident_mib(server.process.pid) - before) * 1024 / streams
        used, began = server.cpu(), time.monotonic()
        server.go()
        await asyncio.wait_for(done.wait(), 60)
        took = time.monotonic() - began
        spent = server.cpu() - used
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return took, spent, grown


def streams(count: int, rounds: int) -> Iterator[Line]:
    """Compare one change to all streams."""
    own, least = [], []
    for _ in range(rounds):
        with served(("constant",), ("streams", str(count))) as (constant, ours):
            least.append(asyncio.run(change_to_all(constant, count)))
            own.append(asyncio.run(change_to_all(ours, count)))
    wall, cpu = (ratios([o[i] for o in own], [c[i] for c in least]) for i in (0, 1))
    parts = (("wall", 0, " s", wall, 2.0), ("cpu", 1, " s", cpu, 1.5))
    for name, index, unit, pair, tolerance in parts:
        yield Line(
            key=f"rpc.streams.{name}",
            what=f"one change to {count:,} streams, {name}",
            ours=told([o[index] for o in own], unit),
            yardstick=f"{told([c[index] for c in least], unit)}, one event and a constant",
            ratio=statistics.median(pair),
            spread=(min(pair), max(pair)),
            tolerance=tolerance,
            whole_runs=True,
        )
    yield Line(
        key="rpc.streams.memory",
        what="memory of an open stream",
        ours=told([o[2] for o in own], " KiB", 0),
        yardstick=told([c[2] for c in least], " KiB", 0),
        ratio=statistics.median(o[2] / c[2] for o, c in zip(own, least, strict=True)),
        tolerance=1.5,
        whole_runs=True,
    )


def shares() -> Iterator[str]:
    """Say how one client's calls spread over processes on one port, and over two addresses."""
    with served(("constant", "0")) as (first,), served(("constant", str(first.port))) as (second,):
        yield f"two processes on one port: {_shared([first, second], [first.port])}"
    with served(("constant",), ("constant",)) as both:
        yield f"two addresses, round robin: {_shared(both, [s.port for s in both])}"


def _shared(servers: Sequence[Served], ports: Sequence[int]) -> str:
    before = [server.cpu() for server in servers]
    asyncio.run(_robin(ports))
    used = [server.cpu() - b for server, b in zip(servers, before, strict=True)]
    return " and ".join(f"{100 * each / sum(used):.0f} %" for each in used) + " of the work"


async def _robin(ports: Sequence[int]) -> None:
    config = '{"loadBalancingConfig": [{"round_robin": {}}]}'
    options = [("grpc.service_config", config)]
    target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        stub = ExternalScalerStub(channel)
        await channel.channel_ready()
        for _ in range(40):
            await asyncio.gather(*(get_metrics(stub, number) for number in range(AT_ONCE)))


def measure(*, quick: bool = False) -> Section:
    """Measure calls, tails and streams."""
    lines = [
        *cost_of_calls(quick=quick),
        tail_latency(1000, 5.0, 5, aim=20.0, seconds=20.0 if quick else 60.0),
    ]
    notes: list[str] = []
    if not quick:
        lines += [tail_latency(10_000, 1.0, 1), *streams(10_000, 3)]
        spread = " and, ".join(shares())
        notes.append(
            f"KEDA's client holds one connection to each address. {spread}: more replicas behind "
            "a headless Service use more cores, more processes on one port do not."
        )
    return Section(title="Calls", lines=lines, notes=notes)


if __name__ == "__main__":
    print(measure(quick="--quick" in sys.argv).told())
