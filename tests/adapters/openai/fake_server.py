"""An OpenAI-compatible server for tests, over real sockets: it answers as it is told to."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from aiohttp import web

Body: TypeAlias = dict[str, object]
Ending = Literal["close", "abort", "hang"]

EXTRAS = frozenset({"ignore_eos", "min_tokens", "stream_options"})
PLAIN = frozenset({"model", "prompt", "messages", "max_tokens", "stream"})
DONE = b"data: [DONE]\n\n"


def event(chunk: object) -> bytes:
    """Write one event of a stream."""
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def token(text: str = "x", finish: str | None = None) -> bytes:
    """Write the event of one token of a completion."""
    return event({"choices": [{"index": 0, "text": text, "finish_reason": finish}]})


def delta(text: str = "x", finish: str | None = None) -> bytes:
    """Write the event of one token of a chat."""
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


def usage(prompt: int, output: int) -> bytes:
    """Write the event that counts tokens."""
    counts = {"prompt_tokens": prompt, "completion_tokens": output}
    return event({"choices": [], "usage": counts})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer: its head, its pieces, each written by itself, and how the connection ends.

    With `hold` nothing is sent before that is set.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"Content-Type": "text/event-stream"}
    )
    ending: Ending = "close"
    hold: asyncio.Event | None = None


@dataclass(kw_only=True)
class FakeOpenAi:
    """What the server has, takes and does; tests change it while it runs.

    `per_word` and `template` are the tokens that its tokenizer makes of a word and that it adds;
    prompts of ids are taken where the ids are below `vocabulary`.
    """

    models: object = field(
        default_factory=lambda: {"data": [{"id": "m", "max_model_len": 4096}, {"id": "other"}]}
    )
    models_status: int = 200
    takes: frozenset[str] = PLAIN | EXTRAS
    counts: bool = True
    per_word: int = 2
    template: int = 3
    vocabulary: int = 1 << 17
    key: str | None = None
    answer: Callable[[Body], Answer] | None = None
    asked: list[Body] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once a client went away before its answer's end."""
    url: str = ""
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            seen = request.headers.get("Authorization", "nothing")
            return _fault(401, f"wrong key: {seen}")
        if request.path == "/v1/models":
            return web.json_response(self.models, status=self.models_status)
        body: Body = await request.json()
        self.asked.append(body)
        chat = request.path == "/v1/chat/completions"
        if not chat and request.path != "/v1/completions":
            return _fault(404, "no such path")
        told = self.answer(body) if self.answer else self.served(body, chat=chat)
        return await self._write(request, told)

    def served(self, body: Body, *, chat: bool = False) -> Answer:
        """Answer as a well server does: as many tokens as were asked for."""
        unknown = sorted(body.keys() - self.takes)
        prompt = body.get("prompt")
        if unknown:
            return refusal(400, f"unknown field {unknown[0]}")
        if isinstance(prompt, list) and max(prompt) >= self.vocabulary:
            return refusal(400, "token id out of vocabulary")
        output = body["max_tokens"]
        assert isinstance(output, int)
        write = delta if chat else token
        pieces = [write() for _ in range(output - 1)] + [write("x", "length")]
        if chat:
            role = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
            pieces.insert(0, event(role))
        if self.counts and "stream_options" in body:
            pieces.append(usage(self.tokens(body), output))
        return Answer(pieces=[*pieces, DONE])

    def tokens(self, body: Body) -> int:
        """Count the tokens of a body's prompt."""
        prompt = body.get("prompt")
        if isinstance(prompt, list):
            return len(prompt)
        if prompt is None:
            messages = body["messages"]
            assert isinstance(messages, list)
            prompt = messages[0]["content"]
        return len(str(prompt).split()) * self.per_word + self.template

    async def _write(self, request: web.Request, told: Answer) -> web.StreamResponse:
        response = web.StreamResponse(status=told.status, headers=told.headers)
        try:
            if told.hold is not None:
                await self._either(told.hold)
            await response.prepare(request)
            for piece in told.pieces:
                await response.write(piece)
                await asyncio.sleep(0)
            if told.ending == "abort" and request.transport is not None:
                request.transport.abort()
            elif told.ending == "hang":
                await self._stop.wait()
        except (ConnectionError, asyncio.CancelledError):
            self.left.set()
            raise
        return response

    async def _either(self, hold: asyncio.Event) -> None:
        waits = {asyncio.create_task(e.wait()) for e in (hold, self._stop)}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeOpenAi]:
        """Serve on a port of this machine."""
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "localhost", 0, ssl_context=tls).start()
        self.url = f"{'https' if tls else 'http'}://localhost:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self._stop.set()
            await runner.cleanup()


def refusal(status: int, message: str, **headers: str) -> Answer:
    """Answer with an error, in the form that vLLM gives it."""
    told = json.dumps({"error": {"message": message, "type": "x", "code": status}}).encode()
    every = {"Content-Type": "application/json", **headers}
    return Answer(status=status, pieces=[told], headers=every)


def _fault(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status)
