"""A server of engine pages that does to each what a test says: on raw sockets, so that it can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.outages.cells import Fault

PAGE = "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n"
STATUS = {
    Fault.UNAUTHORIZED: 401,
    Fault.FORBIDDEN: 403,
    Fault.BUSY: 429,
    Fault.FAILING: 503,
}
LOGIN = b"<!doctype html><html><body>Please log in</body></html>"

Answer = tuple[bytes, Fault | None]


def head(status: int, length: int, kind: str = "text/plain", more: str = "") -> bytes:
    """Write the head of an answer."""
    return PAGE.format(status=status, kind=kind, length=length, more=more).encode()


async def answer(writer: asyncio.StreamWriter, body: bytes, fault: Fault | None) -> None:
    """Answer one request, or do not."""
    if fault is Fault.SILENT:
        await asyncio.sleep(3600)
    elif fault is Fault.TRICKLE:
        writer.write(head(200, len(body)))
        for position in range(len(body)):
            writer.write(body[position : position + 1])
            await writer.drain()
            await asyncio.sleep(0.05)
    elif fault in STATUS:
        more = "Retry-After: 0\r\n" if fault is Fault.BUSY else ""
        writer.write(head(STATUS[fault], 0, more=more))
    elif fault is Fault.HTML:
        writer.write(head(200, len(LOGIN), "text/html") + LOGIN)
    elif fault is Fault.TRUNCATED:
        writer.write(head(200, len(body)) + body[: len(body) // 2])
        writer.close()
    else:
        writer.write(head(200, len(body)) + body)
    with suppress(ConnectionError):
        await writer.drain()


class PageServer:
    """Serves a page for each address of this machine, all at one port; some at ports of their own.

    An address that refuses needs a port of its own, where nobody listens for a while.
    """

    def __init__(self) -> None:
        """Serve nothing."""
        self.shown: dict[tuple[str, int], Answer] = {}
        self.port = 0
        self._server: asyncio.Server | None = None
        self._own: dict[int, asyncio.Server] = {}
        self._calls: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve until left."""
        self._server = await asyncio.start_server(self._serve, "0.0.0.0", 0, backlog=4096)  # noqa: S104 - every 127.x.y.z
        self.port = self._server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            for server in (self._server, *self._own.values()):
                server.close()
            for call in self._calls:
                call.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)

    async def open(self, ip: str, port: int) -> int:
        """Listen at a port of its own; port 0 finds one."""
        server = await asyncio.start_server(self._serve, ip, port)
        found = int(server.sockets[0].getsockname()[1])
        self._own[found] = server
        return found

    def refuse(self, port: int) -> None:
        """Listen there no more."""
        self._own.pop(port).close()

    def refuses(self, port: int) -> bool:
        """Say whether nobody listens there."""
        return port != self.port and port not in self._own

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            place = writer.get_extra_info("sockname")[:2]
            while not writer.is_closing():
                await reader.readuntil(b"\r\n\r\n")
                body, fault = self.shown.get(place, (b"", Fault.FAILING))
                await answer(writer, body, fault)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # whoever asked has gone, or the server ends
        finally:
            self._calls.discard(task)
            writer.close()
