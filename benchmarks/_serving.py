"""The servers that benchmarks/rpc.py asks, each in a process of its own.

`constant` answers what ours would, and does nothing else: the least that a server in Python costs.
`ours` is our edge before a board that stands still; `ticking` has the loop behind it, too, and says
after each tick when it began and ended; `streams` and `constant-streams` change at a line on stdin.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator

import grpc
import structlog

from benchmarks._fleet import SOURCE, Fleet, StoredSource, registry_of
from scaler.control.board import Board, Posting
from scaler.control.heap import Heap
from scaler.control.loop import Loop
from scaler.control.registry import Registry
from scaler.core.decision import Decision
from scaler.core.reasons import Reason
from scaler.core.units import Seconds
from scaler.core.workload import WorkloadKey
from scaler.demo.clock import FastClock
from scaler.edge.answers import METRIC, metric_spec
from scaler.edge.grpc_server import _OPTIONS, GrpcServer
from scaler.edge.measures import Measures
from scaler.wire.externalscaler_pb2 import (
    GetMetricSpecResponse,
    GetMetricsRequest,
    GetMetricsResponse,
    IsActiveResponse,
    MetricValue,
    ScaledObjectRef,
)
from scaler.wire.externalscaler_pb2_grpc import (
    ExternalScalerServicer,
    add_ExternalScalerServicer_to_server,
)

PODS = 5


class Constant(ExternalScalerServicer):
    """The yardstick."""

    def __init__(self) -> None:
        """Have no news yet."""
        self.changed = asyncio.Event()

    async def GetMetricSpec(  # noqa: N802 - KEDA's name
        self, request: ScaledObjectRef, context: object
    ) -> GetMetricSpecResponse:
        """Answer the spec."""
        del request, context
        return metric_spec()

    async def GetMetrics(  # noqa: N802 - KEDA's name
        self, request: GetMetricsRequest, context: object
    ) -> GetMetricsResponse:
        """Answer 5."""
        del request, context
        value = MetricValue(metricName=METRIC, metricValue=PODS, metricValueFloat=float(PODS))
        return GetMetricsResponse(metricValues=[value])

    async def IsActive(  # noqa: N802 - KEDA's name
        self, request: ScaledObjectRef, context: object
    ) -> IsActiveResponse:
        """Answer yes."""
        del request, context
        return IsActiveResponse(result=True)

    async def StreamIsActive(  # noqa: N802 - KEDA's name
        self, request: ScaledObjectRef, context: object
    ) -> AsyncIterator[IsActiveResponse]:
        """Send one message to all at once."""
        del request, context
        await self.changed.wait()
        yield IsActiveResponse(result=True)
        await asyncio.Event().wait()


async def constant(*, reuse: bool = False, port: int = 0) -> None:
    """Serve the yardstick; its streams change at a line on stdin."""
    options = [(key, int(reuse)) if key == "grpc.so_reuseport" else (key, v) for key, v in _OPTIONS]
    server, service = grpc.aio.server(options=options), Constant()
    add_ExternalScalerServicer_to_server(service, server)
    print(server.add_insecure_port(f"127.0.0.1:{port}"), flush=True)
    await server.start()
    await asyncio.to_thread(sys.stdin.readline)
    service.changed.set()
    await server.wait_for_termination()


def postings_of(registry: Registry, *, active: bool) -> dict[WorkloadKey, Posting]:
    """Decide the same for all; an hour ahead, so that no answer is too old."""
    decision = Decision(
        at=time.time() + 3600,
        current=PODS,
        desired=PODS,
        advised=PODS,
        reason=Reason.STEADY,
        active=active,
    )
    return {
        entry.key: Posting(
            key=entry.key,
            policy=entry.resolved.policy,
            selection=entry.resolved.selection,
            decision=decision,
        )
        for entry in registry
        if entry.resolved is not None
    }


async def ours(workloads: int, *, active: bool = True) -> None:
    """Serve our edge with decided workloads; they become active at a line on stdin."""
    registry, board = registry_of(workloads, FastClock(1.0)), Board()
    board.post(time.time(), postings_of(registry, active=active), frozenset())
    edge = GrpcServer(registry=registry, board=board, now=time.time, measures=Measures())
    print(await edge.serve("127.0.0.1:0"), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    board.post(time.time(), postings_of(registry, active=True), frozenset())
    await asyncio.Event().wait()


async def ticking(workloads: int, speed: float, pods: int = PODS) -> None:
    """Serve our edge with the loop behind it, on a clock `speed` times as fast."""
    clock, board = FastClock(speed), Board()
    registry = registry_of(workloads, clock)
    loop = Loop(
        registry=registry,
        board=board,
        sources={SOURCE: StoredSource(pods)},
        cluster=Fleet(pods),
        clock=clock,
    )
    loop.on_ticked(Heap(time.monotonic).settle)
    follower = loop.followers[0]
    tick = follower.tick

    async def told(at: Seconds) -> None:
        began = time.monotonic()
        await tick(at)
        print(f"tick {began} {time.monotonic()}", flush=True)

    follower.tick = told  # type: ignore[method-assign]
    edge = GrpcServer(registry=registry, board=board, now=clock.now, measures=Measures())
    port = await edge.serve("127.0.0.1:0")
    running = asyncio.create_task(loop.run())
    while len(follower._admitted) < workloads:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.1)
    print(port, flush=True)
    await running


def main(role: str, *rest: str) -> None:
    """Be one of the servers."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    roles = {
        "constant": lambda: constant(reuse=len(rest) > 0, port=int(rest[0]) if rest else 0),
        "ours": lambda: ours(int(rest[0])),
        "streams": lambda: ours(int(rest[0]), active=False),
        "ticking": lambda: ticking(int(rest[0]), float(rest[1]), int(rest[2])),
    }
    asyncio.run(roles[role]())


if __name__ == "__main__":
    main(*sys.argv[1:])
