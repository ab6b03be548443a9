"""`scaler explain`, against a real HTTP server and against what is none of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone

import click
import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from scaler.cli import main
from scaler.cli.explain import moment
from scaler.core.decision import scale_in_span
from scaler.core.learned import Learned
from scaler.core.policy import Policy
from scaler.core.units import TICK
from scaler.edge.http_server import HttpServer
from tests.edge.history import decision_on
from tests.edge.world import World

pytestmark = pytest.mark.timeout(30)

CANARY = "hunter2-canary"


async def run(*arguments: str) -> Result:
    """Run the command beside the event loop that serves it."""
    return await asyncio.to_thread(CliRunner().invoke, main, ["explain", *arguments])


@asynccontextmanager
async def scaler() -> AsyncIterator[str]:
    """Serve a world with one workload and return the address."""
    world = World()
    world.post(decision_on(), trouble="slow")
    server = HttpServer(
        registry=world.registry,
        board=world.board,
        followers=[],
        now=world.clock.now,
        measures=world.measures,
        answering=lambda: True,
    )
    port = await server.serve("127.0.0.1:0")
    yield f"http://127.0.0.1:{port}"
    await server.drain()


@asynccontextmanager
async def stranger(
    answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
) -> AsyncIterator[str]:
    """Serve something else."""
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_words_say_all_of_it() -> None:
    """Count, reason, signals against thresholds, time sustained and what would change it."""
    async with scaler() as address:
        result = await run("prod/chat", "--server", address)
    assert result.exit_code == 0, result.output
    window = scale_in_span(Policy(), Learned())
    ticks = int(window / TICK)
    for part in (
        "prod/chat",
        "4 replicas, and that stays.",
        "steady:",
        "0.5 waiting requests per replica: at or below Low (1)",
        f"of {window:.0f} s, {ticks} of {ticks} samples seen",
        "would ask for 5",
        "source   slow",
    ):
        assert part in result.output


async def test_json_is_json() -> None:
    """`--format json` prints the answer of the interface, for other programs."""
    async with scaler() as address:
        result = await run("prod/chat", "--server", f"{address}/", "--format", "json")
    assert json.loads(result.output)["triggers"][0]["because"]["reason"] == "steady"


async def test_an_unknown_workload_is_an_error_with_a_cure() -> None:
    """The scaler's own message is printed, and the status is not 0."""
    async with scaler() as address:
        result = await run("prod/none", "--server", address)
        wrong = await run("prod/chat", "--server", address, "--trigger", "nope")
    assert (result.exit_code, wrong.exit_code) == (1, 1)
    assert "no workload prod/none" in result.output
    assert "has no trigger nope" in wrong.output


@pytest.mark.parametrize("workload", ["chat", "a/b/c", "/", "prod/", "Prod/chat", "../x", "a/b?c"])
async def test_another_form_of_name_is_refused(workload: str) -> None:
    """A typing error is told before anybody is asked."""
    result = await run(workload)
    assert result.exit_code == 2
    assert "NAMESPACE/NAME" in result.output


@pytest.mark.parametrize(
    "server", ["localhost:8080", "ftp://x", "http://", "http://[", "http://x:99999", ""]
)
async def test_another_form_of_address_is_refused(server: str) -> None:
    """The message shows a form that works."""
    result = await run("prod/chat", "--server", server)
    assert result.exit_code == 2
    assert "http://127.0.0.1:8080" in result.output


async def test_nobody_there_is_told_without_the_password() -> None:
    """A password in the address does not reach the terminal, nor the log that it is copied to."""
    result = await run("prod/chat", "--server", f"http://me:{CANARY}@127.0.0.1:1")
    assert result.exit_code == 1
    assert "cannot reach a scaler at http://127.0.0.1:1" in result.output
    assert "kubectl port-forward" in result.output
    assert CANARY not in result.output


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", "<html>login</html>"),
        (302, "text/html", ""),
        (404, "text/plain", "404 page not found"),
        (500, "application/json", "[1]"),
        (200, "application/octet-stream", "\udcff"),
    ],
)
async def test_somebody_else_s_answer_is_told_apart(
    form: str, status: int, kind: str, body: str
) -> None:
    """A login page or another server on the port is not taken for an explanation."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        payload = body.encode("utf-8", errors="surrogateescape")
        headers = {"Content-Type": kind, "Location": "http://127.0.0.1:1/"}
        return web.Response(body=payload, status=status, headers=headers)

    async with stranger(answer) as address:
        result = await run("prod/chat", "--server", address, "--format", form)
    assert result.exit_code == 1
    assert f"status {status}" in result.output
    assert "not as a scaler does" in result.output


async def test_a_silent_server_is_given_up() -> None:
    """The command ends by itself."""
    released = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    async with stranger(answer) as address:
        result = await run("prod/chat", "--server", address, "--timeout", "0.2")
        released.set()
    assert result.exit_code == 1
    assert "no answer within 0.2 s" in result.output


AT_NOON = datetime(2026, 12, 1, 12, 0, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("03:10", "2026-12-01T03:10:00+01:00"),
        ("12:00", "2026-12-01T12:00:00+01:00"),
        ("12:00:01", "2026-11-30T12:00:01+01:00"),
        ("23:59", "2026-11-30T23:59:00+01:00"),
        ("2026-12-01T03:10:00Z", "2026-12-01T03:10:00+00:00"),
        ("2026-11-30T03:10", "2026-11-30T03:10:00+01:00"),
        ("2026-12-02T00:00:00Z", "2026-12-02T00:00:00+00:00"),
    ],
)
def test_a_time_of_day_is_the_latest_such(text: str, expected: str) -> None:
    """Local where nothing else is said, and never in the future."""
    assert moment(text, AT_NOON).isoformat() == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [("3 am", "is no time"), ("25:00", "is no time"), ("2026-13-02T00:00:00Z", "is no time")],
)
def test_a_moment_that_is_none_is_refused(text: str, part: str) -> None:
    """With a word on how to write one."""
    with pytest.raises(click.UsageError, match=part):
        moment(text, AT_NOON)


async def test_a_past_moment_is_asked_of_the_scaler() -> None:
    """And where the board does not reach it, the scaler's own sentence is shown."""
    async with scaler() as server:
        result = await run("prod/chat", "--server", server, "--at", "2026-12-01T03:10:00Z")
    assert result.exit_code == 1
    assert "nothing is remembered of prod/chat yet" in result.output
