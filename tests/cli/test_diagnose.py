"""`scaler diagnose`, against a real HTTP server: words, JSON and exit status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from scaler.cli import main
from scaler.core.diagnosis import diagnose
from scaler.core.diagnosis_facts import Facts
from scaler.edge.http_server import HttpServer
from tests.core.histories import steady
from tests.core.illness import SITUATION, WELL, ended, facts, pods
from tests.edge.world import World

pytestmark = pytest.mark.timeout(30)

KILLED = facts(pods=pods(last_exit=ended(137, "OOMKilled")))
PAUSED = facts(situation=replace(SITUATION, paused=True))
FULL = facts(steady(replace(WELL, kv_cache=0.97), 120))


async def run(*arguments: str) -> Result:
    """Run the command beside the event loop that serves it."""
    return await asyncio.to_thread(CliRunner().invoke, main, ["diagnose", *arguments])


def flat(result: Result) -> str:
    """Return what was printed without its line breaks."""
    return " ".join(result.output.split())


@asynccontextmanager
async def scaler(known: Facts | None) -> AsyncIterator[str]:
    """Serve a world with one workload of which this is known, and return the address."""
    world = World()
    if known is None:
        world.entry()
    else:
        world.post(known.decision, diagnosis=diagnose(known))
    server = HttpServer(
        registry=world.registry,
        board=world.board,
        followers=[],
        now=world.clock.now,
        measures=world.measures,
        answering=lambda: True,
        faults=lambda: ("Pods may not be patched.",),
    )
    port = await server.serve("127.0.0.1:0")
    yield f"http://127.0.0.1:{port}"
    await server.drain()


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("known", "status"), [(facts(), 0), (PAUSED, 0), (FULL, 3), (KILLED, 3), (None, 0)]
)
async def test_the_exit_status_says_whether_something_is_wrong(
    known: Facts | None, status: int, form: str
) -> None:
    """0 where nothing is wrong, a note included; 3 from a warning on; alike in both forms."""
    async with scaler(known) as address:
        result = await run("prod/chat", "--server", address, "--format", form)
    assert result.exit_code == status, result.output


async def test_words_say_what_is_wrong_and_what_to_do() -> None:
    """Severity, kind, evidence, advice, and what could not be read."""
    async with scaler(KILLED) as address:
        result = await run("prod/chat", "--server", address)
    for part in (
        "prod/chat",
        "CRITICAL host-oom-kill",
        "container vllm of chat-0 (OOMKilled, exit code 137)",
        "never moves the fleet",
        "Pods may not be patched.",
    ):
        assert part in flat(result)


async def test_json_is_json() -> None:
    """`--format json` prints the answer of the interface, for other programs."""
    async with scaler(KILLED) as address:
        result = await run("prod/chat", "--server", address, "--format", "json")
    told = json.loads(result.output)["triggers"][0]
    assert told["findings"][0]["kind"] == "host-oom-kill"
    assert told["findings"][0]["pods"] == ["chat-0", "chat-1", "chat-2", "chat-3"]
    assert told["cannot"] == ["Pods may not be patched."]


async def test_a_workload_without_a_decision_is_not_called_well() -> None:
    """Nothing was looked at yet, and that is said."""
    async with scaler(None) as address:
        result = await run("prod/chat", "--server", address)
    assert "nothing has been decided of this workload yet" in flat(result)


async def test_who_cannot_be_asked_is_an_error() -> None:
    """An unknown workload, an address where nobody is, and a wrong name each have their status."""
    async with scaler(KILLED) as address:
        unknown = await run("prod/none", "--server", address)
        wrong = await run("chat", "--server", address)
    nobody = await run("prod/chat", "--server", "http://127.0.0.1:1")
    assert (unknown.exit_code, nobody.exit_code, wrong.exit_code) == (1, 1, 2)
    assert "no workload prod/none" in unknown.output
