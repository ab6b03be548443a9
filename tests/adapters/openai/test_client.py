"""Asking an OpenAI-compatible server over real sockets: each thing that it can do is a fate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from scaler.adapters.fates import Fate, Seen
from scaler.adapters.openai_client import Endpoint, Model, OpenAiClient
from scaler.adapters.openai_errors import (
    EndpointDenied,
    EndpointError,
    EndpointRefused,
    EndpointUnreachable,
)
from scaler.simulation.requests import Ending
from tests.adapters.openai.fake_server import (
    DONE,
    Answer,
    FakeOpenAi,
    event,
    refusal,
    token,
    usage,
)
from tests.edge.certificates import Authority

pytestmark = pytest.mark.timeout(30)

KEY = "hunter2-canary"
JSON = {"Content-Type": "application/json"}
PATH = "/v1/completions"


@asynccontextmanager
async def client(
    url: str,
    *,
    key: str | None = None,
    ca_file: Path | None = None,
    within: float = 20.0,
    told_within: float = 20.0,
) -> AsyncIterator[OpenAiClient]:
    """Enter a client whose clock counts its readings."""
    ticks = count(1)
    endpoint = Endpoint(
        url=url, key=key, ca_file=ca_file, listed_within=within, told_within=told_within
    )
    async with OpenAiClient(endpoint, lambda: float(next(ticks))) as entered:
        yield entered


async def ask(answer: Answer, told_within: float = 20.0) -> tuple[Fate, Seen]:
    """Post a body to a server that answers so."""
    server, seen = FakeOpenAi(answer=lambda _: answer), Seen()
    async with server.serving(), client(server.url, told_within=told_within) as entered:
        return await entered.stream(PATH, b"{}", seen), seen


def in_pieces(raw: bytes, size: int) -> list[bytes]:
    """Cut a stream without regard to what it says."""
    return [raw[at : at + size] for at in range(0, len(raw), size)]


async def test_a_served_answer_is_followed_to_its_end() -> None:
    """Tokens, their times and the server's counts."""
    fate, seen = await ask(Answer(pieces=[token(), token("y", "length"), usage(7, 2), DONE]))
    assert (fate.ending, seen.prompt, seen.output) == (Ending.SERVED, 7, 2)
    assert seen.first_token_at is not None
    assert seen.last_token_at is not None
    assert seen.first_token_at <= seen.last_token_at


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096])
async def test_pieces_mean_nothing(size: int) -> None:
    """Characters of several bytes, line ends and JSON may be cut anywhere."""
    whole = token("grün 🚀") + b": keep-alive\r\n\r\n" + token("x", "stop") + usage(5, 9) + DONE
    fate, seen = await ask(Answer(pieces=in_pieces(whole, size)))
    assert fate.ending is Ending.SERVED
    assert (seen.chunks, seen.output, seen.finish) == (2, 9, "stop")


@pytest.mark.parametrize(
    ("answer", "ending", "kind"),
    [
        (refusal(429, "slow down", **{"Retry-After": "7"}), Ending.REJECTED, "http_429"),
        (refusal(503, "no replica"), Ending.REJECTED, "http_503"),
        (refusal(500, "broken"), Ending.REJECTED, "http_500"),
        (refusal(400, "too long"), Ending.REJECTED, "http_400"),
        (Answer(status=502, pieces=[b"<html>"], headers={}), Ending.REJECTED, "http_502"),
        (Answer(status=204, headers={}), Ending.REJECTED, "http_204"),
        (Answer(status=307, headers={"Location": "/else"}), Ending.REJECTED, "http_307"),
        (Answer(pieces=[b"{}"], headers=JSON), Ending.CUT_OFF, "not_a_stream"),
        (Answer(pieces=[token()], ending="abort"), Ending.CUT_OFF, "reset"),
        (Answer(ending="abort"), Ending.CUT_OFF, "reset"),
        (Answer(pieces=[token(), b"data: {"]), Ending.CUT_OFF, "no_end"),
        (Answer(pieces=[token()]), Ending.CUT_OFF, "no_end"),
        (Answer(pieces=[token(), b"data: \xff\n\n"], ending="hang"), Ending.CUT_OFF, "malformed"),
        (Answer(pieces=[token("x", "stop"), DONE], ending="hang"), Ending.SERVED, "served"),
        (
            Answer(pieces=[event({"error": {"code": 503}})], ending="hang"),
            Ending.REJECTED,
            "error_event_503",
        ),
    ],
)
async def test_what_a_server_can_do(answer: Answer, ending: Ending, kind: str) -> None:
    """Refusals, pages, redirects, cut connections and streams that stay open."""
    fate, _ = await ask(answer)
    assert (fate.ending, fate.kind) == (ending, kind)


async def test_the_words_of_a_refusal_are_kept() -> None:
    """And a refusal whose body never ends is one all the same."""
    _, seen = await ask(refusal(429, "queue full"))
    assert seen.message == "queue full"
    endless = Answer(status=429, pieces=[b'{"err'], headers=JSON, ending="hang")
    fate, seen = await ask(endless, told_within=0.01)
    assert (fate.kind, seen.message) == ("http_429", "")


async def test_nobody_there() -> None:
    """A closed port and an unknown host reject."""
    server = FakeOpenAi()
    async with server.serving():
        pass
    for url in (server.url, "http://nowhere.invalid:1"):
        seen = Seen()
        async with client(url) as entered:
            fate = await entered.stream(PATH, b"{}", seen)
            assert (fate.ending, fate.kind) == (Ending.REJECTED, "unreachable")
            assert seen.message
            with pytest.raises(EndpointUnreachable, match="cannot be reached"):
                await entered.models()


async def test_a_client_that_leaves_is_seen_to_leave() -> None:
    """Cancelling closes the connection, which is how a server learns to stop computing."""
    server = FakeOpenAi(answer=lambda _: Answer(pieces=[token()], ending="hang"))
    seen = Seen()
    async with server.serving(), client(server.url) as entered:
        asking = asyncio.create_task(entered.stream(PATH, b"{}", seen))
        while seen.first_token_at is None:  # noqa: ASYNC110 - what is seen is plain data
            await asyncio.sleep(0)
        asking.cancel()
        await server.left.wait()
    assert seen.chunks == 1


async def test_models_are_listed_with_their_context() -> None:
    """A model's longest request is known where the server says so."""
    server = FakeOpenAi()
    async with server.serving():
        for url in (server.url, f"{server.url}/", f"{server.url}/v1", f"{server.url}/v1/"):
            async with client(url) as entered:
                listed = await entered.models()
            assert listed == (Model(name="m", longest=4096), Model(name="other", longest=None))


async def test_a_long_list_is_read_to_its_end() -> None:
    """A list that comes in many pieces."""
    server = FakeOpenAi(models={"data": [{"id": f"m{n}", "x": "y" * 500} for n in range(2000)]})
    async with server.serving(), client(server.url) as entered:
        assert len(await entered.models()) == 2000


@pytest.mark.parametrize(
    ("status", "models", "error", "said"),
    [
        (401, {}, EndpointDenied, "API key"),
        (403, {}, EndpointDenied, "API key"),
        (404, {}, EndpointRefused, "OpenAI-compatible"),
        (302, {}, EndpointRefused, "redirects"),
        (503, {}, EndpointUnreachable, "is the server ready"),
        (200, {}, EndpointRefused, "names no model"),
        (200, [], EndpointRefused, "names no model"),
        (200, {"data": [{"id": 3}, "x"]}, EndpointRefused, "names no model"),
        (200, {"data": None}, EndpointRefused, "names no model"),
    ],
)
async def test_what_is_no_server_of_models(
    status: int, models: object, error: type[EndpointError], said: str
) -> None:
    """Each message says what to do."""
    server = FakeOpenAi(models=models, models_status=status)
    async with server.serving(), client(server.url) as entered:
        with pytest.raises(error, match=said):
            await entered.models()


async def test_the_key_opens_and_is_never_shown() -> None:
    """It goes out in a header; a server that repeats it is not quoted with it."""
    server = FakeOpenAi(key=KEY)
    async with server.serving():
        async with client(server.url, key=KEY) as entered:
            assert await entered.models()
        seen = Seen()
        async with client(server.url, key=f"{KEY}-old") as entered:
            fate = await entered.stream(PATH, b"{}", seen)
            with pytest.raises(EndpointDenied) as denied:
                await entered.models()
    assert fate.kind == "http_401"
    assert seen.message == "wrong key: Bearer ***"
    assert KEY not in f"{denied.value}{seen}{Endpoint(url='http://x', key=KEY)!r}"


def certified(directory: Path) -> tuple[ssl.SSLContext, Path]:
    """Make a server's certificate and the file of its CA."""
    authority = Authority("tests")
    authority.issue("localhost").write(directory)
    ca_file = directory / "own-ca.crt"
    ca_file.write_bytes(authority.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context, ca_file


async def test_tls_needs_a_ca_that_is_known(tmp_path: Path) -> None:
    """With the CA's file all is well; without it nothing is sent."""
    context, ca_file = certified(tmp_path)
    server = FakeOpenAi()
    async with server.serving(context):
        async with client(server.url, ca_file=ca_file) as entered:
            assert await entered.models()
        async with client(server.url, key=KEY) as entered:
            with pytest.raises(EndpointDenied, match="not trusted: give the CA"):
                await entered.models()
            assert (await entered.stream(PATH, b"{}", Seen())).kind == "unreachable"
    assert server.asked == []


@pytest.mark.parametrize(
    "write", [lambda path: path.write_text("no PEM"), lambda _: None], ids=["no-pem", "no-file"]
)
async def test_a_ca_file_must_be_one(tmp_path: Path, write: Callable[[Path], object]) -> None:
    """The message names the file."""
    path = tmp_path / "ca.crt"
    write(path)
    with pytest.raises(EndpointDenied, match=r"ca\.crt is no readable file"):
        async with client("https://localhost:1", ca_file=path):
            pass


async def test_a_list_that_never_comes() -> None:
    """Waiting for the models has an end."""
    stopped = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stopped.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with client(f"http://127.0.0.1:{port}", within=0.01) as entered:
        with pytest.raises(EndpointUnreachable, match="no answer in time"):
            await entered.models()
    stopped.set()
    server.close()
    await server.wait_closed()


async def test_what_is_no_http() -> None:
    """Another protocol on that port cuts off, and is no list of models either."""

    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with client(url) as entered:
        assert (await entered.stream(PATH, b"{}", Seen())).ending is Ending.CUT_OFF
        with pytest.raises(EndpointError):
            await entered.models()
    server.close()
    await server.wait_closed()
