"""CPU per GetMetrics against a server that answers a constant, in pairs within one run.

Each server has a process of its own, with the same gRPC options and 1,000 workloads on the board.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import grpc
import structlog
from _measure import cpu_seconds, machine, told

from scaler.config.resolve import resolve
from scaler.config.sections import ScrapeSource
from scaler.config.server import ServerConfig
from scaler.control.board import Board, Posting
from scaler.control.registry import Registry
from scaler.core.decision import Decision
from scaler.core.reasons import Reason
from scaler.edge.grpc_server import _OPTIONS, GrpcServer
from scaler.edge.measures import Measures
from scaler.wire.externalscaler_pb2 import (
    GetMetricsRequest,
    GetMetricsResponse,
    MetricValue,
    ScaledObjectRef,
)
from scaler.wire.externalscaler_pb2_grpc import (
    ExternalScalerServicer,
    ExternalScalerStub,
    add_ExternalScalerServicer_to_server,
)

WORKLOADS, CALLS, AT_ONCE, PAIRS = 1000, 3000, 50, 5


def ref(number: int) -> ScaledObjectRef:
    """Name one of the workloads."""
    metadata = {"scalerAddress": "scaler:50051", "modelName": f"model-{number}"}
    return ScaledObjectRef(namespace="llm", name=f"chat-{number}", scalerMetadata=metadata)


class Constant(ExternalScalerServicer):
    """The yardstick: the least that a server in Python can do."""

    async def GetMetrics(  # noqa: N802 - KEDA's name
        self, request: GetMetricsRequest, context: object
    ) -> GetMetricsResponse:
        """Answer 1."""
        del request, context
        value = MetricValue(metricName="m", metricValue=1, metricValueFloat=1.0)
        return GetMetricsResponse(metricValues=[value])


async def serve_constant() -> None:
    """Serve the yardstick."""
    server = grpc.aio.server(options=_OPTIONS)
    add_ExternalScalerServicer_to_server(Constant(), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


async def serve_ours() -> None:
    """Serve our edge with 1,000 decided workloads."""
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=sys.stderr))
    section = ScrapeSource.model_validate({"type": "scrape", "targets": "none"})
    config = ServerConfig(sources={"engines": section})
    registry = Registry(lambda trigger: resolve(trigger, config), time.time)
    board = Board()
    postings = {}
    for number in range(WORKLOADS):
        asked = ref(number)
        entry = registry.ask(asked.namespace, asked.name, asked.scalerMetadata)
        decision = Decision(
            at=time.time() + 3600, current=2, desired=3, advised=3, reason=Reason.STEADY
        )
        if entry.resolved is None:
            raise SystemExit(entry.fault)
        postings[entry.key] = Posting(
            key=entry.key,
            policy=entry.resolved.policy,
            selection=entry.resolved.selection,
            decision=replace(decision),
        )
    board.post(time.time(), postings, frozenset())
    edge = GrpcServer(registry=registry, board=board, now=time.time, measures=Measures())
    print(await edge.serve("127.0.0.1:0"), flush=True)
    await asyncio.Event().wait()


async def ask(port: int, calls: int) -> list[float]:
    """Make calls, 50 at a time; return how long each took."""
    taken: list[float] = []
    numbers = iter(range(calls))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = ExternalScalerStub(channel)

        async def worker() -> None:
            for number in numbers:
                request = GetMetricsRequest(
                    scaledObjectRef=ref(number % WORKLOADS), metricName="vllm-desired-replicas"
                )
                began = time.perf_counter()
                await stub.GetMetrics(request)
                taken.append(time.perf_counter() - began)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return taken


def main() -> None:
    """Start both servers and ask them in turn."""
    servers: dict[str, tuple[subprocess.Popen[str], int]] = {}
    cost: dict[str, list[float]] = {"constant": [], "ours": []}
    slowest: list[float] = []
    try:
        for kind in ("constant", "ours"):
            process = subprocess.Popen(
                [sys.executable, __file__, "--serve", kind],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            servers[kind] = (process, 0)
            servers[kind] = (process, int(process.stdout.readline() if process.stdout else 0))
        for _ in range(PAIRS + 1):
            for kind, (process, port) in servers.items():
                before = cpu_seconds(process.pid)
                taken = asyncio.run(ask(port, CALLS))
                cost[kind].append((cpu_seconds(process.pid) - before) / CALLS * 1e6)
                if kind == "ours":
                    slowest.append(statistics.quantiles(taken, n=100)[98] * 1e3)
    finally:
        for process, _ in servers.values():
            process.kill()
    ratios = [o / c for o, c in zip(cost["ours"][1:], cost["constant"][1:], strict=True)]
    print(machine())
    print(f"CPU per GetMetrics, constant answer: {told(cost['constant'][1:], ' µs', 0)}")
    print(f"CPU per GetMetrics, ours:            {told(cost['ours'][1:], ' µs', 0)}")
    print(f"ratio, pair by pair (aim ≤ 1.1):     {told(ratios)}")
    print(f"p99 of ours with {AT_ONCE} at once:        {told(slowest[1:], ' ms', 1)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve_ours() if sys.argv[2] == "ours" else serve_constant())
    else:
        main()
