"""Where engines' pages are: an address for each pod, and the source that reads them on command."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web

from scaler.adapters.scrape import ScrapeSource
from scaler.control.ports import Gateways, SourceError
from scaler.core.reading import Reading
from scaler.core.workload import Selection
from tests.scenarios.fleets import Body


class Stepped:
    """A source that scrapes when it is told to, and asks the gateways at each tick."""

    def __init__(self, pages: ScrapeSource, gateways: Gateways | None) -> None:
        """Stand over the real one."""
        self.pages = pages
        self._gateways = gateways

    @property
    def name(self) -> str:
        """Return the source's name."""
        return self.pages.name

    async def run(self) -> None:
        """Leave it to the stage."""

    async def read(
        self, selections: Collection[Selection], at: float
    ) -> Mapping[Selection, Reading | SourceError]:
        """Read what was scraped, and what waits."""
        seen = await self.pages.read(selections, at)
        if self._gateways is None:
            return seen
        waiting = await self._gateways.demands(selections, at)
        return {
            selection: replace(reading, activation=demand)
            if isinstance(reading, Reading) and isinstance(demand := waiting[selection], float)
            else reading
            for selection, reading in seen.items()
        }

    async def recall(
        self, selection: Selection, start: float, end: float, step: float
    ) -> Sequence[Reading]:
        """Remember nothing."""
        return await self.pages.recall(selection, start, end, step)


class Pages:
    """Serves each body's page at an address of its own, all at one port."""

    def __init__(self) -> None:
        """Serve nobody."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = int(found.getsockname()[1])
        self._shown: dict[str, Callable[[], str]] = {}
        self._sites: dict[str, web.TCPSite] = {}
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def show(self, bodies: Sequence[Body]) -> None:
        """Serve these, and refuse at every other address."""
        self._shown = {address(body): body.page for body in bodies if body.page is not None}
        for ip in [ip for ip in self._sites if ip not in self._shown]:
            await self._sites.pop(ip).stop()
        for ip in self._shown:
            if ip not in self._sites:
                self._sites[ip] = web.TCPSite(self._runner, ip, self.port)
                await self._sites[ip].start()

    async def _answer(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        ip = request.transport.get_extra_info("sockname")[0]
        return web.Response(text=self._shown[ip]())

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve until left."""
        await self._runner.setup()
        try:
            yield
        finally:
            await self._runner.cleanup()


def address(body: Body) -> str:
    """Return the pod's address, one of this machine."""
    return f"127.9.{body.number // 250}.{body.number % 250 + 1}"
