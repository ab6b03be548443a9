"""Finding out what a server takes, and asking it so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from scaler.adapters.fates import Seen
from scaler.adapters.openai_client import Endpoint, OpenAiClient
from scaler.adapters.openai_dialect import (
    Api,
    Dialect,
    OpenAiSender,
    Taken,
    Wanted,
    learn_dialect,
)
from scaler.adapters.openai_errors import (
    EndpointDenied,
    EndpointError,
    EndpointRefused,
    EndpointUnreachable,
)
from scaler.adapters.openai_prompts import TokenPrompts, WordPrompts
from scaler.simulation.requests import Ending, Request
from tests.adapters.openai.fake_server import (
    EXTRAS,
    PLAIN,
    Answer,
    Body,
    FakeOpenAi,
    event,
    refusal,
    token,
)

pytestmark = pytest.mark.timeout(30)


@asynccontextmanager
async def entered(server: FakeOpenAi) -> AsyncIterator[OpenAiClient]:
    """Serve, and enter a client of it."""
    async with server.serving(), OpenAiClient(Endpoint(url=server.url), lambda: 1.0) as client:
        yield client


async def learn(
    server: FakeOpenAi, api: Api = Api.COMPLETIONS, within: float = 20.0, shared: float = 0.0
) -> Dialect:
    """Learn how to ask a server."""
    async with entered(server) as client:
        wanted = Wanted(api=api, model="m", salt="s", shared=shared)
        return await learn_dialect(client, wanted, within=within)


async def test_a_vllm_server_takes_everything() -> None:
    """Exact prompts, exact outputs, exact counts, and nothing to be said."""
    dialect = await learn(FakeOpenAi(), shared=0.25)
    assert dialect.taken == Taken(ignore_eos=True, min_tokens=True, usage=True)
    assert dialect.prompts == TokenPrompts(salt="s", low=1_000, high=30_000, shared=0.25)
    assert dialect.notes == ()


@pytest.mark.parametrize(
    ("takes", "counts", "taken"),
    [
        (EXTRAS - {"min_tokens"}, True, Taken(ignore_eos=True, usage=True)),
        ({"stream_options"}, True, Taken(usage=True)),
        (EXTRAS, False, Taken(ignore_eos=True, min_tokens=True)),
        (set[str](), False, Taken()),
    ],
)
async def test_what_a_server_does_not_take_is_left_out_and_said(
    takes: set[str],
    counts: bool,  # noqa: FBT001 - a table
    taken: Taken,
) -> None:
    """From the fullest form down to the plain one; a wish that is not fulfilled is none."""
    dialect = await learn(FakeOpenAi(takes=PLAIN | takes, counts=counts))
    assert dialect.taken == taken
    assert ("ignore_eos" in " ".join(dialect.notes)) == (not taken.ignore_eos)
    assert ("counts no tokens" in " ".join(dialect.notes)) == (not taken.usage)


@pytest.mark.parametrize(("vocabulary", "low"), [(1 << 17, 1_000), (5_000, 100), (600, 10)])
async def test_ids_fit_the_vocabulary(vocabulary: int, low: int) -> None:
    """A small vocabulary gets smaller ids."""
    dialect = await learn(FakeOpenAi(vocabulary=vocabulary))
    assert isinstance(dialect.prompts, TokenPrompts)
    assert dialect.prompts.low == low


async def test_a_server_that_takes_no_ids_gets_words_in_its_measure() -> None:
    """Two prompts of words tell how many tokens a word has and how many come on top."""
    dialect = await learn(FakeOpenAi(vocabulary=0, per_word=3, template=11), shared=0.5)
    assert dialect.prompts == WordPrompts(salt="s", per_word=3.0, added=11.0, shared=0.5)
    assert "measured 3 tokens a word" in dialect.notes[0]


async def test_a_server_that_reads_ids_as_text_gets_words() -> None:
    """The count that comes back is not the number of ids: they were taken for something else."""
    server = FakeOpenAi()

    def misread(body: Body) -> Answer:
        prompt = body["prompt"]
        return server.served({**body, "prompt": str(prompt)})

    server.answer = misread
    assert isinstance((await learn(server)).prompts, WordPrompts)


async def test_without_counts_the_measure_is_a_guess_and_said_to_be() -> None:
    """Chats take no ids, and this server counts nothing."""
    dialect = await learn(FakeOpenAi(counts=False), Api.CHAT)
    assert dialect.prompts == WordPrompts(salt="s", per_word=1.3, added=0.0)
    assert "guessed" in dialect.notes[0]


@pytest.mark.parametrize("api", list(Api))
async def test_bodies_ask_for_the_traced_lengths(api: Api) -> None:
    """Exactly so many tokens out, and in as exactly as the API allows."""
    server = FakeOpenAi(per_word=2, template=4)
    async with entered(server) as client:
        wanted = Wanted(api=api, model="m", salt="s")
        sender = OpenAiSender(
            client=client, dialect=await learn_dialect(client, wanted, within=20.0)
        )
        seen = Seen()
        request = Request(number=7, arrived=0.0, prompt=60, output=5)
        fate = await sender.send(request, seen)
    assert fate.ending is Ending.SERVED
    assert (seen.prompt, seen.output) == (60, 5)
    body = server.asked[-1]
    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"]) == (5, 5, True)
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("fit_into", "prompt", "output", "sent"),
    [
        (None, 5000, 100, (5000, 100)),
        (1000, 500, 500, (500, 500)),
        (1000, 5000, 100, (900, 100)),
        (1000, 10, 5000, (1, 999)),
    ],
)
async def test_requests_are_shortened_where_that_is_wanted(
    fit_into: int | None, prompt: int, output: int, sent: tuple[int, int]
) -> None:
    """The prompt first, as the output is what holds a replica up."""
    server = FakeOpenAi()
    async with entered(server) as client:
        dialect = await learn_dialect(
            client, Wanted(api=Api.COMPLETIONS, model="m", salt="s"), within=20.0
        )
        request = Request(number=0, arrived=0.0, prompt=prompt, output=output)
        sender = OpenAiSender(client=client, dialect=dialect, fit_into=fit_into)
        await sender.send(request, Seen())
    prompt_sent = server.asked[-1]["prompt"]
    assert isinstance(prompt_sent, list)
    assert (len(prompt_sent), server.asked[-1]["max_tokens"]) == sent
    assert (request.prompt, request.output) == sent


async def test_inexact_prompts_leave_room() -> None:
    """Words stay 5 % below the context, as some prompts are longer than planned."""
    server = FakeOpenAi(per_word=1, template=0)
    async with entered(server) as client:
        dialect = await learn_dialect(
            client, Wanted(api=Api.CHAT, model="m", salt="s"), within=20.0
        )
        request = Request(number=0, arrived=0.0, prompt=5000, output=100)
        await OpenAiSender(client=client, dialect=dialect, fit_into=1000).send(request, Seen())
    assert server.tokens(server.asked[-1]) == 850


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (refusal(400, "no streaming"), EndpointRefused, r"\(no streaming\): try the other --api"),
        (refusal(401, "key?"), EndpointDenied, "give the server's API key"),
        (refusal(404, "no model"), EndpointRefused, "have this model"),
        (refusal(429, "busy"), EndpointUnreachable, "start when the server takes requests"),
        (refusal(503, "loading"), EndpointUnreachable, "http_503 .loading."),
        (Answer(pieces=[token()], ending="abort"), EndpointRefused, "does not stream"),
        (Answer(pieces=[b"{}"], headers={"Content-Type": "text/plain"}), EndpointRefused, "stream"),
        (Answer(pieces=[event({"error": {"code": 500}})]), EndpointRefused, "error_event_500"),
    ],
)
async def test_a_server_that_cannot_be_driven_is_left_alone(
    answer: Answer, error: type[EndpointError], said: str
) -> None:
    """Before any load, with what to do about it."""
    with pytest.raises(error, match=said):
        await learn(FakeOpenAi(answer=lambda _: answer))


async def test_a_server_that_hangs_is_found_out() -> None:
    """The first requests are not waited for without end."""
    hung: Callable[[Body], Answer] = lambda _: Answer(hold=asyncio.Event())  # noqa: E731
    with pytest.raises(EndpointUnreachable, match="is a replica serving"):
        await learn(FakeOpenAi(answer=hung), within=0.01)
