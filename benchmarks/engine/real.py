"""Loads a real engine and watches its `/metrics` page meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from random import Random

import aiohttp

from benchmarks.engine.scenarios import Scenario
from benchmarks.engine.server import MODEL_NAME, EngineFailed
from benchmarks.engine.sight import Served, Sight
from benchmarks.engine.tiny_model import SPECIAL, VOCABULARY
from scaler.adapters.exposition import Scanner

EVERY = 0.25
"""Seconds between two looks."""

FIELDS = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "usage",
    "vllm:iteration_tokens_total_count": "steps",
    "vllm:generation_tokens_total": "generated",
    "vllm:prompt_tokens_total": "prompts",
    "vllm:time_to_first_token_seconds_count": "first_tokens",
    "vllm:time_to_first_token_seconds_sum": "waited",
    "vllm:request_success_total": "finished",
    "vllm:num_preemptions_total": "preemptions",
}
COUNTERS = (
    *("steps", "generated", "prompts", "first_tokens", "waited", "finished"),
    "preemptions",
)
BY_REASON = "vllm:num_requests_waiting_by_reason"
REASONS = {"capacity": "waiting_for_capacity", "deferred": "deferred"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a real engine showed under a load, and the page that it ended with."""

    sights: list[Sight]
    served: list[Served]
    page: str
    version: str


def place(name: str, labels: dict[str, str]) -> str | None:
    """Say which field of a sight a series fills."""
    return REASONS.get(labels.get("reason", "")) if name == BY_REASON else FIELDS[name]


class Watched:
    """A real engine under load. Use `run` once."""

    def __init__(self, session: aiohttp.ClientSession, address: str, scenario: Scenario) -> None:
        self._session = session
        self._address = address
        self._scenario = scenario
        self._scanner: Scanner[str] = Scanner([*FIELDS, BY_REASON], place)
        self._chance = Random(11)  # noqa: S311 - a load, not a secret
        self._began = 0.0
        self._sights: list[Sight] = []
        self._served: list[Served] = []
        self._page = b""

    async def run(self) -> Run:
        """Warm the engine up, then load it for the scenario's time. Raises EngineFailed."""
        await self._ask(200, 20, client=None)
        before = self._sight(await self._scrape(), 0.0)
        self._served.clear()
        self._began = time.monotonic()
        clients = [self._client(number) for number in range(self._scenario.clients)]
        arrivals = [self._arrive(a.at, a.prompt, a.output) for a in self._scenario.arrivals]
        tasks = [asyncio.create_task(task) for task in (*clients, *arrivals)]
        try:
            await self._watch()
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        sights = [_since(before, sight) for sight in self._sights]
        async with self._session.get(f"{self._address}/version") as answer:
            version: str = (await answer.json())["version"]
        page = self._page.decode()
        return Run(sights=sights, served=list(self._served), page=page, version=version)

    async def _client(self, number: int) -> None:
        await asyncio.sleep(number * self._scenario.apart)
        turn = 0
        while True:
            await self._ask(*self._scenario.lengths(number, turn), client=number)
            turn += 1

    async def _arrive(self, at: float, prompt: int, output: int) -> None:
        await asyncio.sleep(self._began + at - time.monotonic())
        await self._ask(prompt, output, client=None)

    async def _watch(self) -> None:
        until = self._began + self._scenario.seconds
        due = self._began
        while due < until:
            await asyncio.sleep(due - time.monotonic())
            asked = time.monotonic()
            page = await self._scrape()
            # The page was written at some moment between asking and having it.
            at = (asked + time.monotonic()) / 2 - self._began
            self._sights.append(self._sight(page, at))
            due = max(due + EVERY, time.monotonic())
        self._page = page

    async def _scrape(self) -> bytes:
        try:
            async with self._session.get(f"{self._address}/metrics") as answer:
                return await answer.read()
        except aiohttp.ClientError as error:
            raise EngineFailed(f"no page any more ({error!r}): see the log") from error

    def _sight(self, page: bytes, at: float) -> Sight:
        values: defaultdict[str, float] = defaultdict(float)
        for field, value in self._scanner.scan(page):
            values[field] += value  # requests end for several reasons
        return Sight(at=at, **values)

    async def _ask(self, prompt: int, output: int, *, client: int | None) -> None:
        body = {
            "model": MODEL_NAME,
            # No two prompts begin alike, so that nothing is found in the prefix cache.
            "prompt": [self._chance.randrange(len(SPECIAL), VOCABULARY) for _ in range(prompt)],
            "max_tokens": output,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
        sent, first, ended = time.monotonic() - self._began, None, None
        try:
            async with self._session.post(f"{self._address}/v1/completions", json=body) as answer:
                async for line in answer.content:
                    if answer.status != 200 or line.startswith(b'data: {"error"'):  # noqa: PLR2004
                        said = line[:300].decode("utf-8", "replace").strip()
                        raise EngineFailed(f"the engine refused a request: {said}")
                    if line.startswith(b"data: {") and first is None:
                        first = time.monotonic() - self._began
            ended = time.monotonic() - self._began
        except aiohttp.ClientError as error:
            raise EngineFailed(f"a stream ended early ({error!r}): see the log") from error
        finally:
            self._served.append(
                Served(
                    client=client,
                    sent=sent,
                    first_token=first,
                    ended=ended,
                    prompt=prompt,
                    output=output,
                )
            )


def _since(before: Sight, sight: Sight) -> Sight:
    """Take away what the counters stood at before the load."""
    return replace(
        sight, **{name: getattr(sight, name) - getattr(before, name) for name in COUNTERS}
    )


async def watched(address: str, scenario: Scenario) -> Run:
    """Load the engine at `address` and return what it showed. Raises EngineFailed."""
    # The server closes idle connections after some seconds: none is used twice.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        return await Watched(session, address, scenario).run()
