"""Tells open pages, by server-sent events, that the board has something new."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from aiohttp import web

from scaler.control.board import Board
from scaler.core.units import Seconds

MOST_PAGES = 100
"""Open pages at a time: each holds a connection, and the scaler has others to answer."""

_LOOKED_EVERY: Seconds = 1.0
_HEARTBEAT: Seconds = 15.0


class Feed:
    """One stream a page. It says that there is news, not what: the page asks for what it shows.

    The board is looked at once a second, so that a thousand postings within it are one event, and
    who posts never waits for a page. A silent stream is kept alive by comments.
    """

    def __init__(
        self,
        board: Board,
        *,
        looked_every: Seconds = _LOOKED_EVERY,
        heartbeat: Seconds = _HEARTBEAT,
        most: int = MOST_PAGES,
    ) -> None:
        """Tell of this board, at most so many pages at a time."""
        self._board = board
        self._looked_every = looked_every
        self._heartbeat = heartbeat
        self._most = most
        self._ended = asyncio.Event()
        self.pages = 0

    def add_to(self, app: web.Application) -> None:
        """Add the route, and let all streams end with the application."""
        app.router.add_get("/api/v1/events", self.stream)
        app.on_shutdown.append(self._end)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Send the present board's time at once, and again whenever there is another board."""
        if self.pages >= self._most:
            raise web.HTTPServiceUnavailable(
                text=f"{self._most} pages are open at this scaler already; close one"
            )
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        self.pages += 1
        try:
            await response.prepare(request)
            with suppress(ConnectionResetError):
                await self._tell(response)
        finally:
            self.pages -= 1
        return response

    async def _tell(self, response: web.StreamResponse) -> None:
        shown, quiet = None, 0.0
        await response.write(b"retry: 2000\n\n")
        while not self._ended.is_set():
            snapshot = self._board.snapshot
            if snapshot is not shown:
                data = json.dumps({"at": snapshot.at})
                await response.write(
                    f"id: {snapshot.at:.0f}\nevent: board\ndata: {data}\n\n".encode()
                )
                shown, quiet = snapshot, 0.0
            elif quiet >= self._heartbeat:
                await response.write(b": nothing new\n\n")
                quiet = 0.0
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._looked_every)
            quiet += self._looked_every

    async def _end(self, _: web.Application) -> None:
        self._ended.set()
