"""Who may read: bearers of a token, this machine, or whom a proxy lets through."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from scaler.edge.access import Access, Readers, TokenInvalid
from tests.edge.site import served
from tests.edge.world import World, decided

pytestmark = pytest.mark.timeout(30)

TOKEN, OTHER = "0123456789abcdef-one", "0123456789abcdef-two"
OPEN = ("/", "/page/main.js", "/healthz", "/readyz", "/metrics")
GUARDED = (
    "/api/v1/workloads",
    "/api/v1/events",
    "/api/v1/workloads/prod/chat",
    "/api/v1/workloads/prod/chat/diagnosis",
    "/api/v1/workloads/prod/chat/rehearsal",
    "/api/v1/nothing",
)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """Write a token into a file."""
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@asynccontextmanager
async def asked_from(remote: str | None, readers: Readers) -> AsyncIterator[aiohttp.ClientSession]:
    """Guard one path; its askers seem to be elsewhere."""

    @web.middleware
    async def elsewhere(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        return await handler(request.clone(remote=remote or ""))

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="decisions")

    app = web.Application(middlewares=[elsewhere, Access(readers).guard])
    app.router.add_get("/api/v1/workloads", answer)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        yield session


@pytest.mark.parametrize(
    ("remote", "status"),
    [
        ("127.0.0.1", 200),
        ("127.8.0.1", 200),
        ("::1", 200),
        ("::ffff:127.0.0.1", 200),
        ("10.0.0.7", 401),
        ("::ffff:10.0.0.7", 401),
        ("fe80::1%eth0", 401),
        ("2001:db8::1", 401),
        ("127.0.0.1.example.com", 401),
        (None, 401),
    ],
)
async def test_without_a_token_only_this_machine_reads(remote: str | None, status: int) -> None:
    """Who is not known to be here is elsewhere; the answer says what to do."""
    async with asked_from(remote, Readers()) as session:
        async with session.get("/api/v1/workloads") as answer:
            assert answer.status == status
            assert status == 200 or "kubectl port-forward" in await answer.text()
        claim = {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"}
        async with session.get("/api/v1/workloads", headers=claim) as answer:
            assert answer.status == status


async def test_behind_a_proxy_all_that_it_lets_through_read() -> None:
    """The operator says so, once."""
    async with (
        asked_from("10.0.0.7", Readers(behind_proxy=True)) as session,
        session.get("/api/v1/workloads") as answer,
    ):
        assert answer.status == 200


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN} ", 200),
        (None, 401),
        ("", 401),
        ("Bearer ", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer ü" + TOKEN, 401),
    ],
)
@pytest.mark.parametrize("remote", ["127.0.0.1", "10.0.0.7"])
async def test_a_token_is_asked_of_everybody(
    token_file: Path, remote: str, header: str | None, status: int
) -> None:
    """Where there is one, this machine and a proxy's word do not replace it."""
    headers = {} if header is None else {"Authorization": header}
    readers = Readers(token_file=token_file, behind_proxy=True)
    async with (
        asked_from(remote, readers) as session,
        session.get("/api/v1/workloads", headers=headers) as answer,
    ):
        assert answer.status == status
        assert ("WWW-Authenticate" in answer.headers) == (status == 401)
        assert TOKEN not in await answer.text()


async def test_page_probes_and_metrics_need_no_token_and_all_data_does(token_file: Path) -> None:
    """What is guarded is guarded whether it exists or not."""
    world = World()
    world.post(decided())
    async with served(world, readers=Readers(token_file=token_file)) as site:
        assert {(await site.get(path)).status for path in OPEN} == {200}
        refused = [await site.get(path) for path in GUARDED]
        assert {answer.status for answer in refused} == {401}
        assert all(answer.headers["WWW-Authenticate"] == "Bearer" for answer in refused)
        assert "http.tokenFile" in str(refused[0].at("error", "message"))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with site.session.get("/api/v1/workloads", headers=headers) as answer:
            assert answer.status == 200


async def test_a_token_is_replaced_without_a_restart(token_file: Path) -> None:
    """Two lines are two tokens, so that both are valid meanwhile; a bad file changes nothing."""

    def write(content: str | None) -> None:
        token_file.unlink(missing_ok=True)
        if content is not None:
            token_file.write_text(content)

    async def statuses(session: aiohttp.ClientSession) -> list[int]:
        found = []
        for token in (TOKEN, OTHER):
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get("/api/v1/workloads", headers=headers) as answer:
                found.append(answer.status)
        return found

    async with asked_from("10.0.0.7", Readers(token_file=token_file)) as session:
        assert await statuses(session) == [200, 401]
        write(f"{TOKEN}\n{OTHER}\n")
        assert await statuses(session) == [200, 200]
        write("short")
        assert await statuses(session) == [200, 200]
        write(None)
        assert await statuses(session) == [200, 200]
        write(OTHER)
        assert await statuses(session) == [401, 200]


@pytest.mark.parametrize("content", [None, "", "\n\n", "short", f"{TOKEN}\nshort\n"])
def test_a_start_with_a_bad_token_file_is_refused(tmp_path: Path, content: str | None) -> None:
    """The message names the file and the cure, and no content."""
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(TokenInvalid, match=r"http\.tokenFile") as refused:
        Access(Readers(token_file=path))
    assert str(path) in str(refused.value)
    assert "short" not in str(refused.value)


async def test_an_empty_token_lets_nobody_in(tmp_path: Path) -> None:
    """A blank line is no token."""
    path = tmp_path / "token"
    path.write_text(f"\n{TOKEN}\n\n")
    async with (
        asked_from("10.0.0.7", Readers(token_file=path)) as session,
        session.get("/api/v1/workloads", headers={"Authorization": "Bearer  "}) as answer,
    ):
        assert answer.status == 401
