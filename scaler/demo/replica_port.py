"""One emulated replica's own port."""

from __future__ import annotations

import socket
from collections.abc import Callable

from aiohttp import web

from scaler.core.units import Seconds
from scaler.demo.errors import NoFreePort
from scaler.simulation.exposition import CONTENT_TYPE

LOOPBACK = "127.0.0.1"

_GOODBYE_WITHIN: Seconds = 0.2


class ReplicaPort:
    """A port that belongs to a replica from its creation, and refuses until it is opened.

    `page` writes the replica's `/metrics` when it is asked for.
    """

    def __init__(self, page: Callable[[], str]) -> None:
        """Take a port. Raises NoFreePort."""
        self._page = page
        self._runner: web.AppRunner | None = None
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Bound without listening: nobody else gets the port, and connections are refused.
            self._socket.bind((LOOPBACK, 0))
        except OSError as error:
            self._socket.close()
            raise NoFreePort(
                f"no free port on {LOOPBACK} for an emulated engine: {error.strerror}; "
                "end some other programs"
            ) from error

    @property
    def address(self) -> str:
        """Return host:port."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    @property
    def is_open(self) -> bool:
        """Say whether connections are accepted."""
        return self._runner is not None

    async def open(self) -> None:
        """Begin to serve; nothing happens when that was done before."""
        if self._runner is not None:
            return
        app = web.Application()
        app.router.add_get("/metrics", self._show)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_GOODBYE_WITHIN)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket).start()

    async def close(self) -> None:
        """Refuse again, and give the port back."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        self._socket.close()

    async def _show(self, _: web.Request) -> web.Response:
        page = self._page().encode()
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE})
