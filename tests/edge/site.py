"""A server over a world that a test fills, and somebody who asks it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from scaler.control.follower import Follower
from scaler.edge.access import Readers
from scaler.edge.feed import Feed
from scaler.edge.hours import Records
from scaler.edge.http_server import HttpServer
from tests.edge.sources import FaultySource
from tests.edge.world import World


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, its headers and its body."""

    status: int
    headers: Mapping[str, str]
    text: str

    def at(self, *path: str | int) -> object:
        """Return what stands at a place in the body, read as strict JSON."""

        def refuse(constant: str) -> object:
            raise ValueError(f"{constant} is no JSON")

        value: object = json.loads(self.text, parse_constant=refuse)
        for step in path:
            if isinstance(step, int):
                assert isinstance(value, list)
                value = value[step]
            else:
                assert isinstance(value, dict)
                value = value[step]
        return value

    def each(self, name: str, *path: str) -> list[object]:
        """Return what stands at a place in each item of a list."""
        items = self.at(name)
        assert isinstance(items, list)
        return [self.at(name, index, *path) for index in range(len(items))]


@dataclass(slots=True)
class Site:
    """A server to ask, and what it stands on."""

    world: World
    follower: Follower
    session: aiohttp.ClientSession
    port: int
    server: HttpServer
    answering: bool = True

    async def get(self, path: str, method: str = "GET") -> Answer:
        """Ask for a path."""
        async with self.session.request(method, path) as answer:
            return Answer(answer.status, answer.headers, await answer.text())


@asynccontextmanager
async def served(
    world: World | None = None,
    *,
    feed: Feed | None = None,
    port: int = 0,
    records: Records | None = None,
    readers: Readers | None = None,
) -> AsyncIterator[Site]:
    """Serve a world over HTTP."""
    world = world or World()
    follower = Follower(FaultySource(), world.registry, world.board, None)
    states: list[Site] = []
    server = HttpServer(
        registry=world.registry,
        board=world.board,
        followers=[follower],
        now=world.clock.now,
        measures=world.measures,
        answering=lambda: states[0].answering,
        records=records,
    )
    if feed is not None:
        server.feed = feed
    if readers is not None:
        server.readers = readers
    port = await server.serve(f"127.0.0.1:{port}")
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        states.append(Site(world, follower, session, port, server))
        yield states[0]
    await server.drain()
