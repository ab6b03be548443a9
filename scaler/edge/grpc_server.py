"""The gRPC server: KEDA's service, health and reflection, and an end that disturbs nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import structlog
from grpc_health.v1 import health, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_health.v1.health_pb2 import HealthCheckResponse  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from scaler.control.board import Board
from scaler.control.registry import Registry
from scaler.core.units import Seconds
from scaler.edge.callers import Callers
from scaler.edge.errors import ListenFailed
from scaler.edge.measures import Measures
from scaler.edge.service import ExternalScaler
from scaler.edge.tls import Certificates, TlsFiles
from scaler.wire.externalscaler_pb2 import DESCRIPTOR
from scaler.wire.externalscaler_pb2_grpc import add_ExternalScalerServicer_to_server

SERVICE = DESCRIPTOR.services_by_name["ExternalScaler"].full_name

_LARGEST_MESSAGE = 1 << 20
_STRAGGLERS_WITHIN: Seconds = 0.5
_PAUSE: Seconds = 0.1

_OPTIONS: list[tuple[str, int]] = [
    # Two processes that share a port by accident would answer in turn.
    ("grpc.so_reuseport", 0),
    # KEDA reconnecting is a burst; past its own limits gRPC cancels what waits.
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 200_000),
    # Clients written in Go ping idle connections and take the default answer as an error.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    # A client whose node died never closes its streams.
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A ScaledObject is far smaller.
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
    ("grpc.max_send_message_length", _LARGEST_MESSAGE),
]

_log = structlog.get_logger(__name__)


class GrpcServer:
    """Serves KEDA on one address."""

    def __init__(
        self,
        *,
        registry: Registry,
        board: Board,
        now: Callable[[], Seconds],
        measures: Measures,
        tls: TlsFiles | None = None,
    ) -> None:
        """Put the services together; nothing listens yet. Raises CertificateInvalid."""
        self._board = board
        self._service = ExternalScaler(registry=registry, board=board, now=now, measures=measures)
        self._credentials = Certificates(tls).credentials() if tls is not None else None
        allowed = tls.allowed if tls is not None else ()
        self._interceptors = [Callers(allowed, measures)] if allowed else []
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._answering = False

    @property
    def answering(self) -> bool:
        """Say whether calls are answered: started, and not about to end."""
        return self._answering

    async def serve(self, address: str) -> int:
        """Listen on `address` (host:port; port 0 picks one) and return the port.

        Raises ListenFailed.
        """
        server = grpc.aio.server(options=_OPTIONS, interceptors=self._interceptors)
        add_ExternalScalerServicer_to_server(self._service, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        port = self._bind(server, address)
        await self._health.set(SERVICE, HealthCheckResponse.SERVING)
        await server.start()
        self._server, self._answering = server, True
        _log.info("grpc-listening", address=address, port=port, tls=self._credentials is not None)
        return port

    async def drain(self, within: Seconds = 5.0) -> None:
        """End: streams with OK, calls with their answers, and whatever is left after `within`.

        KEDA takes a stream that ends with any other status for a failure and waits for longer at
        each, and a server that stops cancels the calls that it has not looked at yet. So streams
        and calls end before the server does.
        """
        if self._server is None:
            return
        self._answering = False
        await self._health.enter_graceful_shutdown()
        self._board.close()
        try:
            async with asyncio.timeout(max(0.0, within - _STRAGGLERS_WITHIN)):
                await self._service.until_quiet(_PAUSE)
        except TimeoutError:
            _log.warning("calls-cut-off", after=within)
        await self._server.stop(_STRAGGLERS_WITHIN)
        self._server = None

    def _bind(self, server: grpc.aio.Server, address: str) -> int:
        cure = "is the port in use, the host this machine's, the form host:port?"
        try:
            if self._credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, self._credentials)
        except RuntimeError as error:
            raise ListenFailed(f"cannot listen for gRPC on {address}: {cure}") from error
        if port == 0:
            raise ListenFailed(f"cannot listen for gRPC on {address}: {cure}")
        return port
