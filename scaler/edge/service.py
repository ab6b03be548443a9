"""KEDA's five calls. Every answer comes from memory: no handler waits for anything outside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import grpc
import structlog

from scaler.config.trigger import TriggerInvalid
from scaler.control.board import Board
from scaler.control.registry import Entry, Registry, RegistryFull
from scaler.core.units import Seconds
from scaler.edge.answers import activity_of, check_metric_name, metric_spec, metrics_of
from scaler.edge.errors import Refusal
from scaler.edge.measures import Measures
from scaler.wire.externalscaler_pb2 import (
    GetMetricSpecResponse,
    GetMetricsRequest,
    GetMetricsResponse,
    IsActiveResponse,
    ScaledObjectRef,
)
from scaler.wire.externalscaler_pb2_grpc import ExternalScalerServicer

_Answer = TypeVar("_Answer")
_Context: TypeAlias = "grpc.aio.ServicerContext[object, object]"

_log = structlog.get_logger(__name__)


class ExternalScaler(ExternalScalerServicer):
    """Answers KEDA from the registry and the board."""

    def __init__(
        self, *, registry: Registry, board: Board, now: Callable[[], Seconds], measures: Measures
    ) -> None:
        """Answer from `registry` and `board`; `now` is the wall clock."""
        self._registry = registry
        self._board = board
        self._now = now
        self._measures = measures
        # Looking the labels up anew would be a fifth of what an answer costs us.
        self._answered = {
            method: measures.calls.labels(method, grpc.StatusCode.OK.name)
            for method in ("GetMetricSpec", "GetMetrics", "IsActive")
        }
        self._in_flight = 0
        self._arrived = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def until_quiet(self, pause: Seconds) -> None:
        """Return when nothing is in flight and nothing has arrived through a pause.

        What waits inside gRPC for its turn is not yet counted here; hence the pause.
        """
        arrived = -1
        while arrived != self._arrived:
            arrived = self._arrived
            await self._quiet.wait()
            await asyncio.sleep(pause)

    async def GetMetricSpec(  # noqa: N802 - KEDA's name
        self, request: ScaledObjectRef, context: _Context
    ) -> GetMetricSpecResponse:
        """Return the spec; fails only for metadata that is invalid in itself.

        KEDA's fallback cannot act while this call fails, so even a full registry is no reason.
        """
        return await self._answer("GetMetricSpec", context, lambda: self._spec(request))

    async def GetMetrics(  # noqa: N802 - KEDA's name
        self, request: GetMetricsRequest, context: _Context
    ) -> GetMetricsResponse:
        """Return the desired number of replicas."""
        return await self._answer("GetMetrics", context, lambda: self._metrics(request))

    async def IsActive(  # noqa: N802 - KEDA's name
        self, request: ScaledObjectRef, context: _Context
    ) -> IsActiveResponse:
        """Return whether the workload has anything to do."""
        return await self._answer("IsActive", context, lambda: self._activity(request))

    async def StreamIsActive(  # noqa: N802 - KEDA's name
        self, request: ScaledObjectRef, context: _Context
    ) -> AsyncIterator[IsActiveResponse]:
        """Send true on open if active, then at each change from inactive to active.

        Each true starts KEDA's cooldown anew, so nothing is ever repeated.
        """
        with self._stream("StreamIsActive") as ended:
            try:
                with self._held(self._ask(request)) as entry:
                    async for _ in self._board.activations(entry.key):
                        yield IsActiveResponse(result=True)
                ended("OK")
            except Exception as error:  # noqa: BLE001 - told apart and logged in _refusal
                refusal = _refusal("StreamIsActive", error)
                ended(refusal.code.name)
                await context.abort(refusal.code, str(refusal))

    async def StreamMetricSpec(  # noqa: N802 - KEDA's name
        self, request: ScaledObjectRef, context: _Context
    ) -> AsyncIterator[GetMetricSpecResponse]:
        """Send the spec, which never changes, and stay open."""
        with self._stream("StreamMetricSpec") as ended:
            try:
                with self._held(self._ask(request)):
                    yield metric_spec()
                    await self._board.until_closed()
                ended("OK")
            except Exception as error:  # noqa: BLE001 - told apart and logged in _refusal
                refusal = _refusal("StreamMetricSpec", error)
                ended(refusal.code.name)
                await context.abort(refusal.code, str(refusal))

    def _spec(self, request: ScaledObjectRef) -> GetMetricSpecResponse:
        try:
            self._ask(request)
        except RegistryFull:
            _log.warning("registry-full", namespace=request.namespace, scaled_object=request.name)
        return metric_spec()

    def _metrics(self, request: GetMetricsRequest) -> GetMetricsResponse:
        entry = self._ask(request.scaledObjectRef)
        check_metric_name(str(entry.key), request.metricName)
        return metrics_of(entry, self._board.snapshot, self._now())

    def _activity(self, request: ScaledObjectRef) -> IsActiveResponse:
        return activity_of(self._ask(request), self._board.snapshot, self._now())

    def _ask(self, ref: ScaledObjectRef) -> Entry:
        return self._registry.ask(ref.namespace, ref.name, ref.scalerMetadata)

    async def _answer(
        self, method: str, context: _Context, answer: Callable[[], _Answer]
    ) -> _Answer:
        started = time.perf_counter()
        self._enter()
        code = grpc.StatusCode.CANCELLED
        try:
            try:
                answered = answer()
            except Exception as error:  # noqa: BLE001 - told apart and logged in _refusal
                refusal = _refusal(method, error)
                code = refusal.code
                await context.abort(refusal.code, str(refusal))
            code = grpc.StatusCode.OK
            return answered
        finally:
            self._leave()
            taken = time.perf_counter() - started
            if code is grpc.StatusCode.OK:
                self._answered[method].observe(taken)
            else:
                self._measures.calls.labels(method, code.name).observe(taken)

    @contextmanager
    def _stream(self, method: str) -> Iterator[Callable[[str], None]]:
        """Count a stream; the caller says how it ended, unless the client just left."""
        code = grpc.StatusCode.CANCELLED.name

        def ended(name: str) -> None:
            nonlocal code
            code = name

        self._enter()
        self._measures.streams.labels(method).inc()
        try:
            yield ended
        finally:
            self._leave()
            self._measures.streams.labels(method).dec()
            self._measures.ended_streams.labels(method, code).inc()

    @contextmanager
    def _held(self, entry: Entry) -> Iterator[Entry]:
        """Keep a workload registered while a stream is open, and for the usual time after."""
        entry.streams += 1
        try:
            yield entry
        finally:
            entry.streams -= 1
            entry.asked_at = max(entry.asked_at, self._now())

    def _enter(self) -> None:
        self._arrived += 1
        self._in_flight += 1
        self._quiet.clear()

    def _leave(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._quiet.set()


def _refusal(method: str, error: Exception) -> Refusal:
    """Give every error its status code. What nobody foresaw is logged and told in a plain sentence.

    An error's own text could hold anything, a secret too: it never leaves the process.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, TriggerInvalid):
        return Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    if isinstance(error, RegistryFull):
        return Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
    _log.error("call-failed", method=method, exc_info=error)
    return Refusal(
        grpc.StatusCode.INTERNAL,
        f"{method} failed through a fault of the scaler; its log says more. Please report it",
    )
