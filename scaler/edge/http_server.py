"""The HTTP server: probes, metrics, and every decision explained as JSON."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import structlog
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from scaler.control.board import Board
from scaler.control.follower import Follower
from scaler.control.registry import Registry
from scaler.core.diagnosis_text import WORST_HEADER, worst
from scaler.core.diagnosis_text import to_text as diagnosis_text
from scaler.core.rendering import Plain, to_plain, to_text
from scaler.core.units import Seconds
from scaler.edge.access import Access, Readers
from scaler.edge.desk import MOST_HOURS, Desk, DeskBusy, NothingRecorded
from scaler.edge.diagnosed import diagnosed_of
from scaler.edge.errors import ListenFailed
from scaler.edge.explained import NoSuchWorkload, explained_of
from scaler.edge.feed import Feed
from scaler.edge.glance import summaries
from scaler.edge.hours import Records
from scaler.edge.liveness import Liveness
from scaler.edge.measures import Measures
from scaler.edge.metrics import exposition, register
from scaler.edge.page import Page
from scaler.edge.past import NotRemembered, Past, PastBusy, Then

_LARGEST_PAGE, _USUAL_PAGE = 1000, 200
_END_OF_TIME: Seconds = 1e11
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
T = TypeVar("T")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = structlog.get_logger(__name__)


class HttpServer:
    """Serves people, Prometheus and the kubelet on one address."""

    def __init__(
        self,
        *,
        registry: Registry,
        board: Board,
        followers: Sequence[Follower],
        now: Callable[[], Seconds],
        measures: Measures,
        answering: Callable[[], bool],
        faults: Callable[[], tuple[str, ...]] = tuple,
        records: Records | None = None,
    ) -> None:
        """Put the routes together; nothing listens yet.

        `answering` says whether KEDA's calls are answered, `faults` what of the cluster cannot be
        read or written, `records` keeps what was seen where the board does not.
        `feed` (how pages are told of news), `readers` (who may read) and what `past` has `kept` may
        be set before `serve`.
        """
        self._registry = registry
        self._board = board
        self._answering = answering
        self._faults = faults
        self._liveness = Liveness(followers, now)
        self._metrics = register(
            measures, registry=registry, board=board, followers=followers, now=now
        )
        self._page = Page()
        self.feed = Feed(board)
        self.readers = Readers()
        self._desk = Desk(registry, board, board.archive if records is None else records)
        self.past = Past(registry, board)
        self._runner: web.AppRunner | None = None

    def application(self) -> web.Application:
        """Return the routes. Raises TokenInvalid."""
        guard = Access(self.readers).guard
        app = web.Application(middlewares=[_errors_as_json, guard], client_max_size=1 << 16)
        app.on_response_prepare.append(_with_headers)
        app.router.add_get("/metrics", self._show_metrics)
        app.router.add_get("/healthz", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/api/v1/workloads", self._list)
        app.router.add_get("/api/v1/workloads/{namespace}/{name}", self._explain)
        app.router.add_get("/api/v1/workloads/{namespace}/{name}/diagnosis", self._diagnose)
        app.router.add_get("/api/v1/workloads/{namespace}/{name}/rehearsal", self._rehearse)
        app.router.add_get("/api/v1/workloads/{namespace}/{name}/history", self._history)
        app.router.add_get("/api/v1/workloads/{namespace}/{name}/decisions", self._decisions)
        self._page.add_to(app)
        self.feed.add_to(app)
        return app

    async def serve(self, address: str) -> int:
        """Listen on `address` (host:port; port 0 picks one) and return the port.

        Raises ListenFailed and TokenInvalid.
        """
        host, port = _host_and_port(address)
        runner = web.AppRunner(
            self.application(), access_log=None, keepalive_timeout=75.0, shutdown_timeout=1.0
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host or None, port).start()
        except OSError as error:
            await runner.cleanup()
            raise ListenFailed(
                f"cannot listen for HTTP on {address}: {error.strerror or 'no such host'}; "
                "is the port in use, the host this machine's?"
            ) from error
        self._runner = runner
        bound = int(runner.addresses[0][1])
        _log.info("http-listening", address=address, port=bound)
        return bound

    async def drain(self) -> None:
        """Stop listening and let requests that are being answered end."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _show_metrics(self, _: web.Request) -> web.Response:
        # Thousands of workloads take a while to write, and the loop must not wait for it.
        body = await asyncio.to_thread(exposition, self._metrics)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _live(self, _: web.Request) -> web.Response:
        late = self._liveness.late()
        if not late:
            return _json({"status": "ok"})
        told = ", ".join(f'source "{name}" for {span:.0f} s' for name, span in late.items())
        raise web.HTTPServiceUnavailable(text=f"the loop has not ticked: {told}")

    async def _ready(self, _: web.Request) -> web.Response:
        if self._answering():
            return _json({"status": "ok"})
        raise web.HTTPServiceUnavailable(text="KEDA's calls are not answered yet, or no more")

    async def _list(self, request: web.Request) -> web.Response:
        limit = _limit(request.query.get("limit", str(_USUAL_PAGE)))
        after = request.query.get("after", "")
        namespace = request.query.get("namespace")
        snapshot = self._board.snapshot
        found, following = summaries(
            self._registry, snapshot, namespace=namespace, after=after, limit=limit
        )
        return _json({"at": snapshot.at, "workloads": to_plain(found), "next": following})

    async def _explain(self, request: web.Request) -> web.Response:
        asked = _asked(request)
        if "at" in request.query:
            return await self._explain_past(request, asked, _instant(request, "at", 0.0))
        with _missing_as_404():
            found = explained_of(self._registry, self._board.snapshot, *asked)
        return _told(request, found, to_text)

    async def _explain_past(
        self, request: web.Request, asked: tuple[str, str, str | None], at: Seconds
    ) -> web.Response:
        try:
            with _missing_as_404():
                found = await self.past.at(*asked, at)
        except NotRemembered as error:
            raise web.HTTPNotFound(text=str(error)) from error
        except PastBusy as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error
        if request.query.get("format") == "text":
            return web.Response(text="\n".join(map(Then.to_text, found)))
        namespace, name, _ = asked
        plain: list[Plain] = [then.to_plain() for then in found]
        return _json({"namespace": namespace, "name": name, "triggers": plain})

    async def _history(self, request: web.Request) -> web.Response:
        with _missing_as_404():
            return _json(await self.past.history(*_asked(request), _span(request)))

    async def _decisions(self, request: web.Request) -> web.Response:
        limit = _limit(request.query.get("limit", str(_USUAL_PAGE)))
        with _missing_as_404():
            return _json(await self.past.decisions(*_asked(request), _span(request), limit))

    async def _diagnose(self, request: web.Request) -> web.Response:
        asked, cannot = _asked(request), self._faults()
        with _missing_as_404():
            found = diagnosed_of(self._registry, self._board.snapshot, *asked, cannot=cannot)
        answer = _told(request, found, diagnosis_text)
        answer.headers[WORST_HEADER] = worst(found)
        return answer

    async def _rehearse(self, request: web.Request) -> web.Response:
        keys = dict(request.query)
        trigger, hours = keys.pop("trigger", None), _hours(keys.pop("hours", str(MOST_HOURS)))
        try:
            with _missing_as_404():
                return _json(await self._desk.rehearse(*_place(request), trigger, hours, keys))
        except (DeskBusy, NothingRecorded) as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error


def _place(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["name"]


def _span(request: web.Request) -> tuple[Seconds, Seconds]:
    """Return from when to when history is asked for; all of it where nothing is said."""
    return _instant(request, "from", 0.0), _instant(request, "to", math.inf)


def _instant(request: web.Request, name: str, otherwise: Seconds) -> Seconds:
    text = request.query.get(name)
    if text is None:
        return otherwise
    try:
        instant = float(text)
    except ValueError:
        instant = math.nan
    if not 0 <= instant < _END_OF_TIME:
        raise web.HTTPBadRequest(text=f"{name} is a time in seconds since 1970, such as 1800000000")
    return instant


def _asked(request: web.Request) -> tuple[str, str, str | None]:
    """Return namespace, name and trigger of a question about one ScaledObject."""
    if request.query.get("format", "json") not in {"json", "text"}:
        raise web.HTTPBadRequest(text='format is "json" or "text"')
    return (*_place(request), request.query.get("trigger"))


@contextmanager
def _missing_as_404() -> Iterator[None]:
    try:
        yield
    except NoSuchWorkload as error:
        raise web.HTTPNotFound(text=str(error)) from error


def _told(request: web.Request, found: list[T], write: Callable[[T], str]) -> web.Response:
    """Answer with one object of all triggers, or with text."""
    if request.query.get("format") == "text":
        return web.Response(text="\n".join(write(each) for each in found))
    namespace, name = _place(request)
    return _json({"namespace": namespace, "name": name, "triggers": to_plain(found)})


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= _LARGEST_PAGE:
        raise web.HTTPBadRequest(text=f"limit is a whole number from 1 to {_LARGEST_PAGE}")
    return int(text)


def _hours(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= MOST_HOURS:
        raise web.HTTPBadRequest(text=f"hours is a whole number from 1 to {MOST_HOURS}")
    return int(text)


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:  # noqa: PLR2004
        raise ListenFailed(f'cannot listen for HTTP on "{address}": the form is host:port')
    return host.removeprefix("[").removesuffix("]"), int(port)


def _json(value: Plain, status: int = 200) -> web.Response:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return web.json_response(text=text + "\n", status=status)


async def _with_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "vllm-keda-scaler"


@web.middleware
async def _errors_as_json(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer every error as JSON; what nobody foresaw is logged, and its text stays inside."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        response = _error(error.status, error.text or error.reason)
        for name in {"Allow", "WWW-Authenticate"} & error.headers.keys():
            response.headers[name] = error.headers[name]
        return response
    except Exception:  # noqa: BLE001 - logged with its trace
        _log.exception("request-failed", path=request.path)
        return _error(500, "the request failed through a fault of the scaler; its log says more")


def _error(status: int, message: str) -> web.Response:
    plain = message.removeprefix(f"{status}: ")
    return _json({"error": {"status": status, "message": plain}}, status)
