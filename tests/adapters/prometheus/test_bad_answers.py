"""What becomes of a Prometheus that answers badly: a clear error, and nothing else disturbed."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.control.ports import (
    SelectionInvalid,
    SourceAnswerInvalid,
    SourceBusy,
    SourceDenied,
    SourceError,
    SourceUnreachable,
)
from scaler.core.reading import Reading
from scaler.core.workload import Selection

CANARY = "canary-51c0ffee"
CHAT = Selection(source="prometheus", namespace="prod", model_name="m")
AT = 1_000_000_005.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """A Prometheus that does whatever a test tells it."""

    def __init__(self) -> None:
        """Answer every query with nothing."""
        self.handler: Handler = reply(vector())
        self.forms: list[Mapping[str, str]] = []
        self.headers: list[Mapping[str, str]] = []
        self.sources: list[PrometheusSource] = []
        self.port = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Note what was asked, and do as told."""
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.forms.append(form)
        self.headers.append(dict(request.headers))
        return await self.handler(request)

    def source(self, **settings: object) -> PrometheusSource:
        """Make a source that asks this server."""
        url = f"http://127.0.0.1:{self.port}"
        wanted: dict[str, object] = {"timeout": 20.0, **settings}
        source = PrometheusSource(PrometheusSettings(url=url, **wanted))  # type: ignore[arg-type]
        self.sources.append(source)
        return source


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """Serve on a port of this machine."""
    served = Server()
    app = web.Application()
    app.router.add_post("/api/v1/{endpoint}", served.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.port = int(runner.addresses[0][1])
    yield served
    for source in served.sources:
        source.close()
    await runner.cleanup()


def vector(*values: str, **more: object) -> dict[str, object]:
    """Write an instant vector of the running gauge, one pod a value."""
    result = [
        {
            "metric": {
                "__name__": f"vllm:num_requests_{name}",
                "namespace": "prod",
                "model_name": "m",
                "pod": f"p{index}",
                "engine": "0",
            },
            "value": [AT - 5.0, "0" if name == "waiting" else value],
        }
        for index, value in enumerate(values)
        for name in ("running", "waiting")
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


def reply(content: object, status: int = 200, **headers: str) -> Handler:
    """Answer with JSON, or with the text itself."""
    text = content if isinstance(content, str) else json.dumps(content)

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status, headers=headers)

    return handle


_INVALID = SourceAnswerInvalid


def _with_one(series: str) -> str:
    """Write an answer of one series, as text, so that it can hold what JSON's writer would not."""
    head = '{"status":"success","data":{"resultType":"vector","result":[{"metric":'
    return head + series + "}]}}"


def only_gauges(server: Server, content: object) -> Handler:
    """Answer the query for gauges so, and all others with nothing."""
    nothing, gauges = reply(vector()), reply(content)

    async def handle(request: web.Request) -> web.StreamResponse:
        asked = server.forms[-1]["query"]
        return await (gauges if asked.startswith("max by (__name__") else nothing)(request)

    return handle


async def test_labels_that_are_lost_on_the_way_are_told(server: Server) -> None:
    """A proxy that answers every query alike is an invalid answer, not a crash."""
    server.handler = reply(vector("1"))
    found = await read(server.source())
    assert isinstance(found, SourceAnswerInvalid)
    assert "rewriting labels" in str(found)


async def read(source: PrometheusSource) -> Reading | SourceError:
    """Read the one selection."""
    return (await source.read([CHAT], AT))[CHAT]


@pytest.mark.parametrize(
    ("handler", "kind", "told"),
    [
        pytest.param(reply("<html>login</html>"), SourceAnswerInvalid, "", id="html-with-200"),
        pytest.param(reply('{"status":"succ'), SourceAnswerInvalid, "", id="truncated"),
        pytest.param(reply("[]"), SourceAnswerInvalid, "", id="another-json"),
        pytest.param(
            reply({"status": "error", "errorType": "internal", "error": "oops"}),
            SourceAnswerInvalid,
            "oops",
            id="error-with-200",
        ),
        pytest.param(reply("no", 401), SourceDenied, "401", id="401"),
        pytest.param(reply("no", 403), SourceDenied, "403", id="403"),
        pytest.param(
            reply({"status": "error", "errorType": "bad_data", "error": "parse error"}, 400),
            SelectionInvalid,
            "parse error",
            id="400",
        ),
        pytest.param(
            reply({"status": "error", "errorType": "execution", "error": "too many"}, 422),
            SelectionInvalid,
            "too many",
            id="422",
        ),
        pytest.param(reply("slow down", 429, **{"Retry-After": "30"}), SourceBusy, "", id="429"),
        pytest.param(reply("<html>bad gateway</html>", 502), SourceUnreachable, "502", id="502"),
        pytest.param(reply("moved", 302, Location="/x"), SourceError, "", id="redirect"),
        pytest.param(
            reply(_with_one('{},"value":[1,1%s]' % ("0" * 400))), _INVALID, "", id="digits"
        ),
        pytest.param(reply(_with_one('{"pod":["a"]},"value":[1,"1"]')), _INVALID, "", id="list"),
        pytest.param(reply("x" * 300_000), SourceAnswerInvalid, "", id="too-large"),
    ],
)
async def test_a_bad_answer_is_an_error_of_ours(
    server: Server, handler: Handler, kind: type[SourceError], told: str
) -> None:
    """Each names the source, and none is a number."""
    server.handler = handler
    found = await read(server.source(largest_answer=200_000))
    assert isinstance(found, kind)
    assert told in str(found)
    assert '"prometheus"' in str(found)
    assert found.__cause__ is None or isinstance(found.__cause__, Exception)


async def test_a_server_that_asks_for_patience_is_left_alone(server: Server) -> None:
    """After a 429 with Retry-After the next tick asks nothing, and does not wait either."""
    server.handler = reply("slow down", 429, **{"Retry-After": "30"})
    source = server.source()
    assert isinstance(await read(source), SourceBusy)
    asked = len(server.forms)
    assert isinstance(await read(source), SourceBusy)
    assert len(server.forms) == asked


async def test_a_fault_that_passes_is_tried_again(server: Server) -> None:
    """A 503 now and then costs an attempt, not a tick."""
    good, bad = reply(vector()), reply("busy", 503)
    seen: set[str] = set()

    async def every_first(request: web.Request) -> web.StreamResponse:
        query = server.forms[-1]["query"]
        fresh = query not in seen
        seen.add(query)
        return await (bad if fresh else good)(request)

    server.handler = every_first
    source = server.source()
    assert not isinstance(await read(source), SourceUnreachable)
    work = source.work()
    told = list(work.requests.values())
    assert sum(each.retried for each in told) == len(seen) == len(server.forms) / 2
    assert sum((Counter(each.ended) for each in told), Counter()) == {"ok": len(seen)}
    assert work.received == len(seen) * (len("busy") + len(json.dumps(vector())))


async def test_silence_and_trickle_end_at_the_deadline(server: Server) -> None:
    """A server that says nothing, or one byte at a time, is given up at the timeout."""
    released = asyncio.Event()

    async def silent(_: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while not released.is_set():
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response

    for handler in (silent, trickle):
        server.handler = handler
        found = await read(server.source(timeout=1.0))
        assert isinstance(found, SourceUnreachable)
    released.set()


async def test_nobody_there_is_unreachable() -> None:
    """A refused connection names the address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    source = PrometheusSource(PrometheusSettings(url=f"http://127.0.0.1:{port}", timeout=1.0))
    error = await read(source)
    assert isinstance(error, SourceUnreachable)
    assert str(port) in str(error)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1"])
async def test_a_value_that_cannot_be_is_no_report(server: Server, value: str) -> None:
    """Such a replica is unseen; it never counts as calm or as endless."""
    server.handler = only_gauges(server, vector(value, "1"))
    found = await read(server.source())
    assert isinstance(found, Reading)
    assert all(replica.running == 1.0 for replica in found.replicas)
    assert found.unseen >= 1


async def test_a_partial_answer_allows_no_scale_in(server: Server) -> None:
    """With a warning beside the answer more than half of the fleet counts as unseen."""
    server.handler = only_gauges(server, vector("1", "1", warnings=["a store did not answer"]))
    found = await read(server.source())
    assert isinstance(found, Reading)
    assert 2 * found.unseen > len(found.replicas) + found.unseen


async def test_the_tenant_and_the_token_are_sent_and_never_told(
    server: Server, tmp_path: Path
) -> None:
    """Headers, parameters and a rotated token reach the server; no message holds the secret."""
    token = tmp_path / "token"
    token.write_text(f"{CANARY}-1\n", encoding="utf-8")
    server.handler = reply(f"bad token {CANARY}-1", 401)
    source = server.source(
        bearer_token_file=token, headers={"X-Scope-OrgID": "team"}, parameters={"tenant": "a"}
    )
    first = await read(source)
    assert server.headers[-1]["Authorization"] == f"Bearer {CANARY}-1"
    assert server.headers[-1]["X-Scope-OrgID"] == "team"
    token.write_text(f"{CANARY}-2\n", encoding="utf-8")
    second = await read(source)
    assert server.headers[-1]["Authorization"] == f"Bearer {CANARY}-2"
    for error in (first, second):
        assert isinstance(error, SourceDenied)
        assert CANARY not in str(error)
        assert CANARY not in repr(error.__cause__)


async def test_all_queries_of_a_tick_look_at_one_instant(server: Server) -> None:
    """Two scalers that ask at one tick see the same."""
    await read(server.source())
    assert {form["time"] for form in server.forms} == {f"{AT - 5.0:.3f}"}


_PART = re.compile(r'label_replace\(sum\((\w+)\{.*?\}\), "__query__", "(\d+)", "", ""\)')


def asked_of(demands: Mapping[str, Sequence[str] | None]) -> Handler:
    """Answer workloads' own queries by the names in them, alone or joined; None never answers."""

    async def handle(request: web.Request) -> web.StreamResponse:
        query = str((await request.post())["query"])
        parts = _PART.findall(query) or [(query.partition("{")[0], "")]
        series = []
        for name, tag in parts:
            values = demands.get(name, ())
            if values is None:
                await asyncio.Event().wait()
                continue
            if tag and values:
                values = [str(sum(map(float, values)))]
            series += [
                {"metric": {"__query__": tag, "i": str(i)}, "value": [AT, value]}
                for i, value in enumerate(values)
            ]
        data = {"resultType": "vector", "result": series}
        return web.Response(text=json.dumps({"status": "success", "data": data}))

    return handle


@pytest.mark.parametrize("values", [("+Inf", "-Inf"), ("1e308", "1e308"), ("NaN",), ("-1",)])
async def test_a_demand_that_cannot_be_disturbs_no_other_workload(
    server: Server, values: tuple[str, ...]
) -> None:
    """Whoever writes a query into a trigger cannot silence the source for everybody."""
    server.handler = asked_of({"odd": values, "even": ("7",)})
    odd = replace(CHAT, activation_query="odd")
    even = replace(CHAT, activation_query="even")
    found = await server.source().read([odd, even, CHAT], AT)
    assert isinstance(found[CHAT], Reading)
    assert getattr(found[even], "activation", None) == 7.0
    assert isinstance(found[odd], Reading)
    assert getattr(found[odd], "activation", None) is None


async def test_a_query_that_hangs_disturbs_no_other_workload(server: Server) -> None:
    """A slow query of one trigger costs only its own workload the answer, and only that answer."""
    server.handler = asked_of({"slow": None, "quick": ("7",), "fast": ("8",)})
    slow = replace(CHAT, activation_query="slow")
    quick = [replace(CHAT, activation_query="quick", model_name=f"m{i}") for i in range(5)]
    fast = replace(CHAT, activation_query="fast")
    found = await server.source(timeout=4.0).read([slow, *quick, fast, CHAT], AT)
    assert isinstance(found[slow], Reading)
    assert getattr(found[slow], "activation", None) is None
    assert "did not answer" in (getattr(found[slow], "query_fault", None) or "")
    assert [getattr(found[each], "activation", None) for each in quick] == [7.0] * 5
    assert getattr(found[fast], "activation", None) == 8.0
    assert isinstance(found[CHAT], Reading)


@pytest.mark.parametrize("before", [0, 280, 290, 299])
@pytest.mark.parametrize("status", [200, 422, 500])
async def test_a_secret_that_is_echoed_is_told_not_even_in_part(
    server: Server, tmp_path: Path, before: int, status: int
) -> None:
    """Wherever in its answer the other side repeats what we sent, no piece of it is told."""
    password = tmp_path / "password"
    password.write_text(CANARY, encoding="utf-8")

    async def echo(request: web.Request) -> web.StreamResponse:
        sent = request.headers["Authorization"].removeprefix("Basic ")
        text = "x" * before + CANARY + sent
        content = {"status": text[before - 35 :] if before > 35 else text, "error": text}
        return web.json_response(content, status=status)

    server.handler = echo
    found = await read(server.source(username="u", password_file=password))
    assert isinstance(found, SourceError)
    assert CANARY[:4] not in str(found)
    assert basic("u", CANARY)[:12] not in str(found)


def basic(user: str, password: str) -> str:
    """Write user and password as they are sent."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


async def test_what_a_server_says_is_told_as_plain_text(server: Server) -> None:
    """Halves of characters and control characters could not be passed on to KEDA."""
    text = '{"status":"error","errorType":"x","error":"a\\ud800b\\u001b[31m\\u0000c"}'
    server.handler = reply(text, 422)
    found = await read(server.source())
    assert isinstance(found, SelectionInvalid)
    assert str(found).isprintable()
    assert str(found).encode()
