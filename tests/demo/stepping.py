"""What the demo's tests stand on: time that steps, a scaler that is scripted, a small fleet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc

from scaler.core.units import Seconds
from scaler.simulation.fleet import Census
from scaler.wire.externalscaler_pb2 import (
    GetMetricSpecResponse,
    GetMetricsRequest,
    GetMetricsResponse,
    IsActiveResponse,
    MetricSpec,
    MetricValue,
    ScaledObjectRef,
)
from scaler.wire.externalscaler_pb2_grpc import (
    ExternalScalerServicer,
    add_ExternalScalerServicer_to_server,
)

NOON: Seconds = 1_800_000_000.0


class SteppingClock:
    """Fulfils the port `Clock`: once all `parties` wait, the time jumps to the first of them."""

    def __init__(self, parties: int) -> None:
        """Start at noon."""
        self._now = NOON
        self._parties = parties
        self._waiting: list[tuple[Seconds, asyncio.Event]] = []

    def now(self) -> Seconds:
        """Return the time."""
        return self._now

    async def sleep_until(self, instant: Seconds) -> None:
        """Return when nobody has anything to do before the instant."""
        woken = asyncio.Event()
        self._waiting.append((instant, woken))
        if len(self._waiting) == self._parties:
            self._jump()
        await woken.wait()

    def _jump(self) -> None:
        first = min(self._waiting, key=lambda waiter: waiter[0])
        self._waiting.remove(first)
        self._now = max(self._now, first[0])
        first[1].set()


@dataclass(slots=True)
class FakeFleet:
    """A fleet that is whatever size it was set to; it fulfils `Scalable`."""

    replicas: int = 2
    writes: list[int] = field(default_factory=list)

    def census(self) -> Census:
        """Count: everything serves at once."""
        return Census(spec=self.replicas, loading=0, serving=self.replicas, draining=0)

    async def scale(self, replicas: int) -> None:
        """Remember the write."""
        self.replicas = replicas
        self.writes.append(replicas)


class ScriptedScaler(ExternalScalerServicer):
    """Answers KEDA with `desired`, or refuses where that is None; remembers what it was asked."""

    def __init__(self, desired: Callable[[], int | None]) -> None:
        """Take what to answer from now on."""
        self.desired = desired
        self.asked: list[str] = []
        self.refs: list[ScaledObjectRef] = []
        self.specs = 1
        self.as_fraction = True

    async def GetMetricSpec(  # noqa: N802 - KEDA's name
        self, request: ScaledObjectRef, _: grpc.aio.ServicerContext[object, object]
    ) -> GetMetricSpecResponse:
        """Say the metric."""
        self.asked.append("GetMetricSpec")
        self.refs.append(request)
        spec = MetricSpec(metricName="replicas", targetSize=1, targetSizeFloat=1.0)
        return GetMetricSpecResponse(metricSpecs=[spec] * self.specs)

    async def GetMetrics(  # noqa: N802 - KEDA's name
        self, request: GetMetricsRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> GetMetricsResponse:
        """Say the value."""
        self.asked.append(f"GetMetrics {request.metricName}")
        desired = self.desired()
        if desired is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "nobody knows")
        fraction = float(desired) if self.as_fraction else 0.0
        value = MetricValue(metricValue=desired, metricValueFloat=fraction)
        return GetMetricsResponse(metricValues=[value])

    async def IsActive(  # noqa: N802 - KEDA's name
        self, _: ScaledObjectRef, __: grpc.aio.ServicerContext[object, object]
    ) -> IsActiveResponse:
        """Say that there is something to do."""
        self.asked.append("IsActive")
        return IsActiveResponse(result=True)

    def StreamIsActive(  # noqa: N802 - KEDA's name
        self, _: ScaledObjectRef, __: grpc.aio.ServicerContext[object, object]
    ) -> AsyncIterator[IsActiveResponse]:
        """Not called by the stand-in."""
        raise NotImplementedError

    def StreamMetricSpec(  # noqa: N802 - KEDA's name
        self, _: ScaledObjectRef, __: grpc.aio.ServicerContext[object, object]
    ) -> AsyncIterator[GetMetricSpecResponse]:
        """Not called by the stand-in."""
        raise NotImplementedError


@asynccontextmanager
async def served(scaler: ScriptedScaler) -> AsyncIterator[str]:
    """Serve a scripted scaler and give its address."""
    server = grpc.aio.server()
    add_ExternalScalerServicer_to_server(scaler, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
