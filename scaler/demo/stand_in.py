"""A stand-in for KEDA and the HPA: asks the scaler over gRPC and sets the fleet's size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import grpc

from scaler.control.ports import Clock
from scaler.core.units import Seconds
from scaler.demo.clock import after_next_tick
from scaler.demo.errors import AnswerInvalid
from scaler.demo.scene import Scene
from scaler.simulation.fleet import Census
from scaler.simulation.hpa_types import PodCount, TargetScale
from scaler.simulation.keda import Keda
from scaler.simulation.keda_types import MetricSpec, Observation
from scaler.wire.externalscaler_pb2 import GetMetricsRequest, ScaledObjectRef
from scaler.wire.externalscaler_pb2_grpc import ExternalScalerStub

if TYPE_CHECKING:
    from scaler.wire.externalscaler_pb2_grpc import ExternalScalerAsyncStub

ASKS_AFTER_TICK: Seconds = 8.0
"""Late enough for the tick's decision to be there, also on a busy machine."""

_ANSWER_WITHIN: Seconds = 10.0  # of real time; KEDA itself waits without a limit

_Answer = TypeVar("_Answer")


class Scalable(Protocol):
    """A fleet whose count can be read and set."""

    def census(self) -> Census:
        """Count the replicas as they are now."""

    async def scale(self, replicas: int) -> None:
        """Set the count that is wanted."""


class StandIn:
    """Asks every 15 simulated seconds, in KEDA's order, and lets the modelled HPA decide.

    `trouble` says why the newest round brought no number, `None` while all is well.
    """

    def __init__(self, *, scene: Scene, fleet: Scalable, address: str, clock: Clock) -> None:
        """Take the scaler's gRPC address (host:port); nothing is asked yet."""
        self.trouble: str | None = None
        self._scaled_object = scene.scaled_object()
        self._keda = Keda(self._scaled_object, created=clock.now())
        self._fleet = fleet
        self._address = address
        self._clock = clock
        self._ref = ScaledObjectRef(
            namespace=scene.namespace,
            name=scene.name,
            scalerMetadata={"scalerAddress": address, **scene.metadata},
        )

    async def run(self) -> None:
        """Ask after every tick until cancelled."""
        async with grpc.aio.insecure_channel(self._address) as channel:
            stub = ExternalScalerStub(channel)
            while True:
                await self.round(stub)
                now = self._clock.now()
                await self._clock.sleep_until(after_next_tick(now, ASKS_AFTER_TICK))

    async def round(self, stub: ExternalScalerAsyncStub) -> None:
        """Ask once, and set the count to what KEDA and the HPA make of the answer."""
        seen = await self._observe(stub)
        now, census = self._clock.now(), self._fleet.census()
        if self._keda.hpa is None and not self._keda.reconcile(self._scaled_object, [seen.spec]):
            return
        pods = PodCount(matching=census.spec, ready=census.serving)
        scale = TargetScale(spec=census.spec, status=census.spec)
        polled = self._keda.poll(now, [seen], scale, pods)
        scale = TargetScale(spec=polled, status=census.spec)
        wanted = self._keda.sync(now, [seen], scale, pods)
        if wanted != census.spec:
            await self._fleet.scale(wanted)

    async def _observe(self, stub: ExternalScalerAsyncStub) -> Observation:
        self.trouble = None
        spec = await self._twice(lambda: self._spec(stub))
        if spec is None:
            return Observation(spec=None, values=None)
        answer = await self._twice(lambda: self._answer(stub, spec.name))
        if answer is None:
            return Observation(spec=spec, values=None)
        values, active = answer
        return Observation(spec=spec, values=values, active=active)

    async def _spec(self, stub: ExternalScalerAsyncStub) -> MetricSpec:
        answer = await stub.GetMetricSpec(self._ref, timeout=_ANSWER_WITHIN)
        if len(answer.metricSpecs) != 1:
            raise AnswerInvalid(f"{len(answer.metricSpecs)} metrics where the scaler has one")
        spec = answer.metricSpecs[0]
        target = spec.targetSizeFloat if spec.targetSizeFloat > 0 else float(spec.targetSize)
        return MetricSpec(name=spec.metricName, target=target)

    async def _answer(
        self, stub: ExternalScalerAsyncStub, metric: str
    ) -> tuple[tuple[float, ...], bool]:
        """Return the values and the activity; where the latter fails, KEDA drops the former."""
        request = GetMetricsRequest(scaledObjectRef=self._ref, metricName=metric)
        metrics = await stub.GetMetrics(request, timeout=_ANSWER_WITHIN)
        active = await stub.IsActive(self._ref, timeout=_ANSWER_WITHIN)
        values = tuple(
            v.metricValueFloat if v.metricValueFloat > 0 else float(v.metricValue)
            for v in metrics.metricValues
        )
        return values, active.result

    async def _twice(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer | None:
        """Ask again at once, once, as KEDA does after a failure."""
        for _ in range(2):
            try:
                answer = await ask()
            except grpc.aio.AioRpcError as error:
                self.trouble = f"{error.code().name}: {error.details()}"
            except AnswerInvalid as error:
                self.trouble = str(error)
            else:
                self.trouble = None
                return answer
        return None
