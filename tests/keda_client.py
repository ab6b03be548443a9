"""A client that behaves as KEDA's operator does towards an external scaler.

What it follows: one connection for all ScaledObjects, round robin over the addresses, no deadline;
a poll is GetMetricSpec, then GetMetrics for each metric, then IsActive, each repeated once at once
when it fails; the fraction counts where it is above zero, the whole number otherwise; streams are
opened anew with a pause that doubles up to 60 s and is reset by nothing but a clean end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import grpc

from scaler.wire.externalscaler_pb2 import (
    GetMetricSpecResponse,
    GetMetricsRequest,
    MetricSpec,
    ScaledObjectRef,
)
from scaler.wire.externalscaler_pb2_grpc import ExternalScalerStub

_T = TypeVar("_T")

FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0

_ROUND_ROBIN = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})


def scaled_object(
    namespace: str = "prod", name: str = "chat", metadata: Mapping[str, str] | None = None
) -> ScaledObjectRef:
    """Name a ScaledObject as KEDA does, with the address that it never strips."""
    given = {"modelName": "llama"} if metadata is None else metadata
    everything = {"scalerAddress": "scaler.keda:9090", **given}
    return ScaledObjectRef(namespace=namespace, name=name, scalerMetadata=everything)


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """What KEDA knows of a ScaledObject after one poll; `metrics` is by the name in the HPA."""

    targets: Mapping[str, float]
    metrics: Mapping[str, float]
    active: bool

    @property
    def replicas(self) -> float:
        """Return what the HPA makes of the one metric as AverageValue, before rounding up."""
        ((name, value),) = self.metrics.items()
        return value / self.targets[name]


@dataclass(slots=True, kw_only=True)
class Stream:
    """What one push stream has brought: the messages, and how each connection ended."""

    activations: int = 0
    specs: list[GetMetricSpecResponse] = field(default_factory=list)
    endings: list[grpc.StatusCode] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return as soon as something holds of the stream."""
        while not holds():
            self.changed.clear()
            await self.changed.wait()


class Keda:
    """One connection pool to one or several scalers."""

    def __init__(
        self,
        *ports: int,
        credentials: grpc.ChannelCredentials | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Connect lazily to ports of this machine; `pause` waits before a stream is reopened.

        With credentials there is one port, and the server must be called localhost.
        """
        options = [("grpc.service_config", _ROUND_ROBIN), ("grpc.use_local_subchannel_pool", 1)]
        self._pause = pause
        self._tasks: list[asyncio.Task[None]] = []
        if credentials is None:
            target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
            self.channel = grpc.aio.insecure_channel(target, options=options)
        else:
            (port,) = ports
            target = f"localhost:{port}"
            self.channel = grpc.aio.secure_channel(target, credentials, options=options)
        self.stub = ExternalScalerStub(self.channel)

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the streams and the connection up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.channel.close()

    async def poll(self, ref: ScaledObjectRef, trigger: int = 0) -> Poll:
        """Poll as the operator does; raises grpc.aio.AioRpcError where it gives up."""
        specs = await self.specs(ref)
        targets = {f"s{trigger}-{s.metricName}": _target(s) for s in specs}
        metrics: dict[str, float] = {}
        active = False
        for spec in specs:
            asked = spec.metricName
            value, seen = await _twice(partial(self._value_and_activity, ref, asked))
            metrics[f"s{trigger}-{asked}"] = value
            active = active or seen
        return Poll(targets=targets, metrics=metrics, active=active)

    async def specs(self, ref: ScaledObjectRef) -> Sequence[MetricSpec]:
        """Ask for the metrics; an empty answer is an error to KEDA."""

        async def ask() -> Sequence[MetricSpec]:
            specs = (await self.stub.GetMetricSpec(ref)).metricSpecs
            if not specs:
                raise ValueError("got empty metric spec")
            return specs

        return await _twice(ask)

    async def _value_and_activity(self, ref: ScaledObjectRef, name: str) -> tuple[float, bool]:
        request = GetMetricsRequest(scaledObjectRef=ref, metricName=name)
        values = (await self.stub.GetMetrics(request)).metricValues
        # An error of IsActive throws the values away that were just read.
        active = (await self.stub.IsActive(ref)).result
        if not values:
            raise ValueError("no matching metrics found")
        total = sum(
            v.metricValueFloat if v.metricValueFloat > 0 else float(v.metricValue) for v in values
        )
        return total, active

    def push(self, ref: ScaledObjectRef) -> tuple[Stream, Stream]:
        """Open the two streams of an external-push trigger: activity and specs."""
        activity, specs = Stream(), Stream()
        self._tasks += [
            asyncio.create_task(self._reopen(activity, lambda: self._read_activity(ref, activity))),
            asyncio.create_task(self._reopen(specs, lambda: self._read_specs(ref, specs))),
        ]
        return activity, specs

    async def _read_activity(self, ref: ScaledObjectRef, stream: Stream) -> None:
        async for message in self.stub.StreamIsActive(ref):
            if message.result:
                stream.activations += 1
                stream.changed.set()

    async def _read_specs(self, ref: ScaledObjectRef, stream: Stream) -> None:
        async for message in self.stub.StreamMetricSpec(ref):
            stream.specs.append(message)
            stream.changed.set()

    async def _reopen(self, stream: Stream, read: Callable[[], Awaitable[None]]) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await read()
            except grpc.aio.AioRpcError as error:
                stream.endings.append(error.code())
            else:
                stream.endings.append(grpc.StatusCode.OK)
                pause = FIRST_PAUSE
            stream.pauses.append(pause)
            stream.changed.set()
            await self._pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _target(spec: MetricSpec) -> float:
    return spec.targetSizeFloat if spec.targetSizeFloat > 0 else float(spec.targetSize)


async def _twice(ask: Callable[[], Awaitable[_T]]) -> _T:
    """Ask again at once, once, as KEDA does after it has built its scalers anew."""
    try:
        return await ask()
    except (grpc.aio.AioRpcError, ValueError):
        return await ask()
