"""An API server for tests: LIST, WATCH and writes as Kubernetes answers them, and its faults.

    async with api_server() as server:
        server.store.put(deployment("chat", replicas=3))
        server.faults.deny(PODS, "watch")
        server.drop_watches()

It speaks LIST (limit and continue, sent in chunks), WATCH (from a resourceVersion, bookmarks,
410), GET, POST, PUT (409 on a stale version), PATCH (merge) and DELETE, the subresource /scale
(with a zero count left out, as Go encodes it), PartialObjectMetadata, and discovery. Everything
but the network is in `store` (what there is) and `faults` (what goes wrong); `seen` holds each
request in the order in which it came.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from tests.kubernetes_server import answers
from tests.kubernetes_server.faults import Faults
from tests.kubernetes_server.resources import Json, Resource, at, section, selects
from tests.kubernetes_server.store import Change, Store

_CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Seen:
    """A request: `verb` is Kubernetes' word for it (get, list, watch, create, update, patch)."""

    verb: str
    path: str
    query: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a path means."""

    resource: Resource
    namespace: str | None
    name: str | None
    subresource: str
    verb: str

    @property
    def plural(self) -> str:
        return self.resource.plural + (f"/{self.subresource}" if self.subresource else "")


class ApiServer:
    """Listens on a free port of this machine; `stop` and `start` keep the port."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Prepare an empty cluster; nothing listens yet."""
        self.store = Store()
        self.faults = Faults()
        self.seen: list[Seen] = []
        self.port = 0
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self._watches: dict[asyncio.Event, web.Request] = {}
        self._bookmarked = 0

    @property
    def url(self) -> str:
        """Return the address."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def watching(self) -> int:
        """Count the watches that are open."""
        return len(self._watches)

    async def start(self) -> None:
        """Listen."""
        app = web.Application(client_max_size=16 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls).start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Refuse connections, and drop those that there are."""
        self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def drop_watches(self) -> None:
        """Cut every open watch as a dying connection would: no end of the stream, just gone."""
        for request in list(self._watches.values()):
            if request.transport is not None:
                request.transport.abort()

    def end_watches(self) -> None:
        """End every open watch in good order, as a server that restarts gracefully does."""
        for ended in self._watches:
            ended.set()

    def count(self, verb: str, part: str) -> int:
        """Count the requests with this verb whose path holds `part`."""
        return sum(1 for seen in self.seen if seen.verb == verb and part in seen.path)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        faults = self.faults
        if faults.delay:
            await asyncio.sleep(faults.delay)
        if faults.failing is not None:
            after = {"Retry-After": str(faults.retry_after)} if faults.retry_after else {}
            return answers.status(faults.failing, "Failing", "told to fail", after)
        token = request.headers.get("Authorization", "")
        if faults.token is not None and token.lower() != f"bearer {faults.token}".lower():
            self.seen.append(Seen("unauthorized", request.path, dict(request.query)))
            return answers.status(401, "Unauthorized", "Unauthorized")
        asked = self._understand(request)
        if asked is None:
            return self._discover(request)
        self.seen.append(Seen(asked.verb, request.path, dict(request.query)))
        if faults.refuses(asked.verb, asked.plural, asked.namespace):
            said = f'cannot {asked.verb} resource "{asked.plural}" in API group'
            return answers.status(403, "Forbidden", said)
        if (asked.verb, asked.plural) in faults.broken:
            return answers.status(500, "InternalError", "told to fail")
        handlers: dict[str, Callable[[web.Request, _Asked], Awaitable[web.StreamResponse]]] = {
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
        }
        return await handlers.get(asked.verb, self._one)(request, asked)

    def _understand(self, request: web.Request) -> _Asked | None:
        parts = request.path.strip("/").split("/")
        head = 2 if parts[0] == "api" else 3
        prefix, rest = "/" + "/".join(parts[:head]), parts[head:]
        namespace = None
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = self.store.resources.get((prefix, rest[0])) if rest else None
        if resource is None:
            return None
        name = rest[1] if len(rest) > 1 else None
        subresource = rest[2] if len(rest) > 2 else ""
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
            request.method, "get" if name else "list"
        )
        if verb == "list" and request.query.get("watch") in {"1", "true"}:
            verb = "watch"
        return _Asked(resource, namespace, name, subresource, verb)

    def _discover(self, request: web.Request) -> web.Response:
        self.seen.append(Seen("discover", request.path, dict(request.query)))
        found = [r for r in self.store.resources.values() if r.prefix == request.path]
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": "36", "gitVersion": "v1.36.2"})
        if not found:
            return answers.status(
                404, "NotFound", "the server could not find the requested resource"
            )
        return answers.resource_list(found)

    async def _list(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        if self.faults.garbled:
            return web.Response(text="<html>Please log in</html>", content_type="text/html")
        version, after = self._position(request.query.get("continue"))
        if version is None:
            return answers.status(410, "Expired", "The provided continue parameter is too old")
        limit = int(request.query.get("limit", "0")) or self.faults.page_at_most or 10**9
        selector = request.query.get("labelSelector", "")
        rows = [
            (key, body)
            for key, body in self.store.listed(asked.resource, asked.namespace)
            if key > after and (not selector or selects(selector, answers.labels(body)))
        ]
        page, meta = rows[:limit], dict[str, object](resourceVersion=str(version))
        if len(rows) > limit:
            meta["continue"] = json.dumps([version, *page[-1][0]])
        bodies = [body for _, body in page]
        text = answers.object_list(asked.resource, meta, bodies, slim=_slim(request))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for start in range(0, len(text), _CHUNK):
            await response.write(text[start : start + _CHUNK])
        await response.write_eof()
        return response

    def _position(self, token: str | None) -> tuple[int | None, tuple[str, str]]:
        if not token:
            return self.store.version, ("", "")
        version, namespace, name = json.loads(token)
        stale = self.faults.expired or version < self.store.compacted
        return (None if stale else version), (namespace, name)

    async def _watch(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or 0)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if since < self.store.compacted:
            await response.write(answers.ended(410, "Expired"))
            return response
        heard, ended = asyncio.Event(), asyncio.Event()
        self.store.listen(heard)
        self._watches[ended] = request
        try:
            until = asyncio.get_running_loop().time() + float(
                request.query.get("timeoutSeconds") or 300
            )
            await self._tell(request, response, asked, since, until=until, heard=heard, ended=ended)
        except ConnectionError:
            pass  # whoever watched has gone
        finally:
            self.store.unlisten(heard)
            del self._watches[ended]
        return response

    async def _tell(
        self,
        request: web.Request,
        response: web.StreamResponse,
        asked: _Asked,
        since: int,
        *,
        until: float,
        heard: asyncio.Event,
        ended: asyncio.Event,
    ) -> None:
        """Send what happens until the time is over or somebody ends it; a bookmark comes last."""
        bookmarks = request.query.get("allowWatchBookmarks") in {"1", "true"}
        bookmarked = self._bookmarked
        now = asyncio.get_running_loop().time
        while True:
            over = (now() >= until or ended.is_set()) and not self.faults.silent
            heard.clear()
            if not self.faults.silent:
                # A bookmark may only promise what was sent before it.
                reached = self.store.version
                for change in self._since(since, asked):
                    since = change.version
                    await response.write(answers.event(change, slim=_slim(request)))
                if bookmarks and (over or bookmarked < self._bookmarked):
                    bookmarked = self._bookmarked
                    await response.write(answers.bookmark(asked.resource, reached))
            if over or _gone(request):
                return
            waits = [asyncio.ensure_future(event.wait()) for event in (heard, ended)]
            left = 0.05 if self.faults.silent else min(max(0.0, until - now()), 1.0)
            try:
                await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    def bookmark(self) -> None:
        """Send a bookmark on every open watch that takes such."""
        self._bookmarked += 1
        for heard in self.store.listeners():
            heard.set()

    def _since(self, version: int, asked: _Asked) -> list[Change]:
        newer: list[Change] = []
        for change in reversed(self.store.changes):
            if change.version <= version:
                break
            if change.resource == asked.resource and asked.namespace in {None, change.namespace}:
                newer.append(change)
        return newer[::-1]

    async def _create(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        body: Json = await request.json()
        meta = section(body, "metadata")
        meta["namespace"] = asked.namespace or ""
        if not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{self.store.version:x}"
        if self.store.has(asked.resource, str(meta["name"]), str(meta["namespace"])):
            return answers.status(409, "AlreadyExists", f"{meta['name']} already exists")
        return web.json_response(self.store.put(body), status=201)

    async def _one(self, request: web.Request, asked: _Asked) -> web.StreamResponse:
        name, namespace = asked.name or "", asked.namespace or ""
        try:
            found = self.store.get(asked.resource, name, namespace)
        except KeyError:
            return answers.status(404, "NotFound", f'{asked.resource.plural} "{name}" not found')
        if asked.subresource == "scale" and asked.resource.selector is None:
            return answers.status(
                404, "NotFound", "the server could not find the requested resource"
            )
        if asked.verb == "delete":
            self.store.delete(asked.resource, name, namespace)
            return web.json_response({"kind": "Status", "status": "Success"})
        if asked.verb in {"update", "patch"}:
            body: Json = await request.json()
            if asked.subresource == "scale":
                section(found, "spec")["replicas"] = at(body, "spec.replicas") or 0
            else:
                stated = at(body, "metadata.resourceVersion")
                if stated not in {None, at(found, "metadata.resourceVersion")}:
                    return answers.status(409, "Conflict", "the object has been modified")
                if asked.verb == "patch":
                    manager = request.query.get("fieldManager", "")
                    body = answers.owned(answers.merged(found, body), body, manager)
                found = body
            found = self.store.put(found)
        shown = answers.scale(asked.resource, found) if asked.subresource == "scale" else found
        return web.json_response(shown)


@asynccontextmanager
async def api_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[ApiServer]:
    """Run an API server with an empty cluster."""
    server = ApiServer(tls)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def _slim(request: web.Request) -> bool:
    return "as=PartialObjectMetadata" in request.headers.get("Accept", "")


def _gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
