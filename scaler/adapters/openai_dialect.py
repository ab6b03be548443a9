"""What a server takes beyond the plain API, found out by asking it, and bodies written so."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scaler.adapters.fates import UNREACHABLE, Fate, Seen
from scaler.adapters.openai_client import OpenAiClient
from scaler.adapters.openai_errors import EndpointDenied, EndpointRefused, EndpointUnreachable
from scaler.adapters.openai_prompts import WORDS, Prompts, TokenPrompts, WordPrompts
from scaler.core.units import Seconds
from scaler.simulation.requests import Ending, Request

_PROBE_TOKENS = 2
_ID_RANGES = ((1_000, 30_000), (100, 2_000), (10, 500))
"""Token ids to try, largest vocabulary first; the lowest ids are special ones in most of them."""
_FEW_TIMES, _MANY_TIMES = 1, 4
"""How often each word is in the two prompts that measure how many tokens a word has."""
_GUESSED_PER_WORD = 1.3
_NOT_TAKEN = frozenset({"http_400", "http_422", "error_event_400", "error_event_422"})
_INEXACT_ROOM = 0.05
"""Share of the context that prompts of words leave free, as their lengths are not exact."""


class Api(StrEnum):
    """Which of the two APIs is driven."""

    COMPLETIONS = "completions"
    CHAT = "chat"

    @property
    def path(self) -> str:
        """Return the path that requests are posted to."""
        return "/v1/chat/completions" if self is Api.CHAT else "/v1/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How to ask: `shared` is the share (0..1) of each prompt that begins all of them."""

    api: Api
    model: str
    salt: str
    shared: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Which fields the server takes: the first two make outputs exactly as long as asked."""

    ignore_eos: bool = False
    min_tokens: bool = False
    usage: bool = False


_LADDER = (
    Taken(ignore_eos=True, min_tokens=True, usage=True),
    Taken(ignore_eos=True, usage=True),
    Taken(usage=True),
    Taken(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How to ask this server. `notes` say in words what could not be had."""

    api: Api
    model: str
    taken: Taken
    prompts: Prompts
    notes: tuple[str, ...] = ()

    def body(self, request: Request) -> bytes:
        """Write a request's body."""
        prompt = self.prompts.prompt(request.number, request.prompt)
        return _body(self.api, self.model, self.taken, prompt, request.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiSender:
    """Sends requests in a dialect: what an open loop drives.

    A request longer than `fit_into` tokens (prompt and output) is sent shortened to that.
    """

    client: OpenAiClient
    dialect: Dialect
    fit_into: int | None = None

    async def send(self, request: Request, seen: Seen) -> Fate:
        """Send a request and follow its answer until it ends."""
        if self.fit_into is not None and request.prompt + request.output > self.fit_into:
            self._shorten(request, self.fit_into)
        return await self.client.stream(self.dialect.api.path, self.dialect.body(request), seen)

    def _shorten(self, request: Request, longest: int) -> None:
        """Take from the prompt first: the output is what a replica is held up by."""
        room = longest if self.dialect.prompts.exact else int(longest * (1 - _INEXACT_ROOM))
        request.output = max(1, min(request.output, room - 1))
        request.prompt = max(1, min(request.prompt, room - request.output))


class _Probe:
    """A few small requests, one after the other."""

    def __init__(self, client: OpenAiClient, wanted: Wanted, within: Seconds) -> None:
        self._client = client
        self._wanted = wanted
        self._within = within
        self.refusal = ""
        """What the server said last to what it does not take."""

    async def ask(self, taken: Taken, prompt: list[int] | str) -> Seen | None:
        """Return what came, or None where the server does not take it. Raises EndpointError."""
        seen = Seen()
        api = self._wanted.api
        body = _body(api, self._wanted.model, taken, prompt, _PROBE_TOKENS)
        try:
            async with asyncio.timeout(self._within):
                fate = await self._client.stream(api.path, body, seen)
        except TimeoutError as error:
            raise EndpointUnreachable(
                f"the first, tiny request had no whole answer within {self._within:g} s: is a "
                "replica serving?"
            ) from error
        if fate.ending is Ending.SERVED:
            return seen
        if fate.kind in _NOT_TAKEN:
            self.refusal = seen.message
            return None
        raise self._error(fate, seen)

    def _error(self, fate: Fate, seen: Seen) -> Exception:
        what = f"the first, tiny request for model {self._wanted.model!r} ended as {fate.kind}"
        told = f" ({seen.message})" if seen.message else ""
        if fate.kind in {"http_401", "http_403"}:
            return EndpointDenied(f"{what}{told}: give the server's API key")
        if fate.kind == "http_404":
            return EndpointRefused(f"{what}{told}: does the server have this model and this API?")
        if fate is UNREACHABLE or fate.ending is Ending.REJECTED:
            return EndpointUnreachable(f"{what}{told}: start when the server takes requests")
        return EndpointRefused(f"{what}{told}: the server does not stream as this API does")


async def learn_dialect(client: OpenAiClient, wanted: Wanted, *, within: Seconds) -> Dialect:
    """Ask the server, with a few tiny requests, what it takes. Raises EndpointError.

    `within` bounds each of them, in seconds.
    """
    probe = _Probe(client, wanted, within)
    taken = await _fields(probe)
    prompts: Prompts | None = None
    notes = []
    if wanted.api is Api.COMPLETIONS:
        prompts = await _token_prompts(probe, taken, wanted)
    if prompts is None:
        prompts, note = await _word_prompts(probe, taken, wanted)
        notes.append(note)
    if not taken.ignore_eos:
        notes.append("the server takes no ignore_eos: outputs may be shorter than the trace's")
    if not taken.usage:
        notes.append("the server counts no tokens: they are told from the pieces of its streams")
    return Dialect(
        api=wanted.api, model=wanted.model, taken=taken, prompts=prompts, notes=tuple(notes)
    )


async def _fields(probe: _Probe) -> Taken:
    for taken in _LADDER:
        seen = await probe.ask(taken, "Hello there")
        if seen is not None:
            # A server may take the wish for its counts and not fulfil it.
            counts = taken.usage and seen.output is not None
            return Taken(ignore_eos=taken.ignore_eos, min_tokens=taken.min_tokens, usage=counts)
    told = f" ({probe.refusal})" if probe.refusal else ""
    raise EndpointRefused(f"the server refuses even a plain request{told}: try the other --api")


async def _token_prompts(probe: _Probe, taken: Taken, wanted: Wanted) -> TokenPrompts | None:
    for low, high in _ID_RANGES:
        prompt = [low, high - 1, *range(low + 1, low + 7)]
        seen = await probe.ask(taken, prompt)
        if seen is not None and seen.prompt in {None, len(prompt)}:
            return TokenPrompts(salt=wanted.salt, low=low, high=high, shared=wanted.shared)
    return None


async def _word_prompts(probe: _Probe, taken: Taken, wanted: Wanted) -> tuple[WordPrompts, str]:
    """Measure how many tokens a word has on average, and how many a template adds."""
    counts = []
    for times in (_FEW_TIMES, _MANY_TIMES):
        seen = await probe.ask(taken, " ".join(WORDS * times))
        counts.append(seen.prompt if seen is not None else None)
    few, many = counts
    per_word, added = _GUESSED_PER_WORD, 0.0
    if few is None or many is None or many <= few:
        note = f"prompts are words, at a guessed {per_word:g} tokens a word"
    else:
        per_word = (many - few) / (len(WORDS) * (_MANY_TIMES - _FEW_TIMES))
        added = few - per_word * len(WORDS) * _FEW_TIMES
        note = f"prompts are words, at a measured {per_word:.3g} tokens a word"
    made = WordPrompts(salt=wanted.salt, per_word=per_word, added=added, shared=wanted.shared)
    return made, note


def _body(api: Api, model: str, taken: Taken, prompt: list[int] | str, output: int) -> bytes:
    body: dict[str, Any] = {"model": model, "max_tokens": output, "stream": True}
    if api is Api.CHAT:
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    if taken.ignore_eos:
        body["ignore_eos"] = True
    if taken.min_tokens:
        body["min_tokens"] = output
    if taken.usage:
        body["stream_options"] = {"include_usage": True}
    return json.dumps(body, separators=(",", ":")).encode()
