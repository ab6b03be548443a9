"""What a browser gets: the page's files, the stream of news, and the list that it shows first."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from scaler.core.diagnosis import diagnose
from scaler.core.policy import Policy, Signal
from scaler.core.quantile import Percentile
from scaler.core.reasons import Reason
from scaler.edge.feed import Feed
from scaler.edge.glance import Side, Standing, nearest
from tests.core.illness import ended, facts, pods
from tests.edge.history import decision_on, sample
from tests.edge.site import served
from tests.edge.world import NOON, World, decided
from tests.keda_client import scaled_object

pytestmark = pytest.mark.timeout(30)

PAGE = Path(__file__).resolve().parents[2] / "scaler" / "edge" / "page"
FILES = sorted(file.name for file in PAGE.iterdir())


@pytest.mark.parametrize("path", ["", *(f"page/{name}" for name in FILES)])
async def test_the_page_may_load_its_own_files_and_nothing_else(path: str) -> None:
    """The policy lets no script, style or request in that is not this server's own."""
    async with served() as site:
        answer = await site.get(f"/{path}")
    assert answer.status == 200
    policy = answer.headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == rules["style-src"] == "'self'"
    assert "unsafe" not in policy
    assert rules["frame-ancestors"] == rules["form-action"] == rules["base-uri"] == "'none'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["page/nothing.js", "page/__init__.py", "page/..%2f__init__.py", "page/", "page"]
)
async def test_only_the_page_s_files_are_served(path: str) -> None:
    """No path leads to another file of the package."""
    async with served() as site:
        assert (await site.get(f"/{path}")).status == 404


def test_the_page_needs_no_internet_and_no_inline_code() -> None:
    """Nothing is fetched from elsewhere; no script, style or handler stands in the markup."""
    for file in PAGE.iterdir():
        text = file.read_text(encoding="utf-8")
        addresses = set(re.findall(r"https?://[^\s\"')]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, file.name
        assert len(text.splitlines()) < 400, file.name
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ):
            assert forbidden not in text, file.name
    markup = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?![^>]*\ssrc=)", markup)


async def read_event(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """Return the next event of a stream, by field; a comment has the field ''."""
    fields: dict[str, str] = {}
    while line := (await answer.content.readline()).decode().strip():
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    return fields


async def test_a_stream_tells_of_each_new_board() -> None:
    """The present board at once, as after a lost connection, then each new one."""
    world = World()
    world.post(decided())
    async with served(world) as site, site.session.get("/api/v1/events") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "retry" in await read_event(answer)
        first = await read_event(answer)
        world.post(decided(at=NOON + 15))
        second = await read_event(answer)
    assert first["event"] == second["event"] == "board"
    assert first["data"] == '{"at": 1800000000.0}'
    assert second["data"] == '{"at": 1800000015.0}'
    assert first["id"] != second["id"]


async def test_a_quiet_stream_is_kept_alive() -> None:
    """A comment comes where there is no news, so that a page can tell silence from a cut."""
    world = World()
    feed = Feed(world.board, looked_every=0.01, heartbeat=0.05)
    async with (
        served(world, feed=feed) as site,
        site.session.get("/api/v1/events") as answer,
    ):
        await read_event(answer)
        assert (await read_event(answer))["event"] == "board"
        assert await read_event(answer) == {"": "nothing new"}


async def test_streams_end_with_the_server() -> None:
    """A scaler that drains waits for no page."""
    async with served() as site:
        answer = await site.session.get("/api/v1/events")
        await read_event(answer)
        await site.server.drain()
        rest = await answer.content.read()
    assert rest.endswith(b"\n\n")


async def test_too_many_pages_are_refused_in_words() -> None:
    """One page too many gets a sentence, and its place is free again when another closes."""
    world = World()
    async with served(world, feed=Feed(world.board, looked_every=0.01, most=2)) as site:
        streams = [await site.session.get("/api/v1/events") for _ in range(2)]
        refused = await site.get("/api/v1/events")
        assert refused.status == 503
        assert "close one" in str(refused.at("error", "message"))
        for stream in streams:
            stream.close()
        while True:
            async with site.session.get("/api/v1/events") as answer:
                if answer.status == 200:
                    break
            world.board.post(NOON, {}, frozenset())  # a write shows the server who has gone
            await asyncio.sleep(0)


def test_the_nearest_threshold_is_that_of_the_signal_that_stands_highest() -> None:
    """It alone keeps a fleet from shrinking, and it is the first to make it grow."""
    policy = Policy()
    slow = Percentile(value=2.2, lower=2.0, upper=2.5, observations=300.0)
    found = nearest(policy, sample(waiting=8.0, ttft=slow, kv_cache=0.5))
    assert found is not None
    assert (found.signal, found.side, found.threshold) == (Signal.TTFT, Side.OUT, 2.5)
    assert found.fraction == pytest.approx(0.88)
    calm = nearest(policy, sample(waiting=0.0, ttft=None, kv_cache=0.3))
    assert calm is not None
    assert (calm.signal, calm.side, calm.threshold) == (Signal.WAITING, Side.IN, 1.0)


def test_what_is_not_known_or_not_in_use_is_near_nothing() -> None:
    """Too few requests give no p95, nobody serving no queue, and an unused signal never counts."""
    few = Percentile(value=9.0, lower=8.0, upper=10.0, observations=5.0)
    only_ttft = replace(Policy(), signals=frozenset({Signal.TTFT}))
    assert nearest(only_ttft, sample(waiting=900.0, ttft=few)) is None
    assert nearest(Policy(), sample(serving=0, waiting=0.0, ttft=None, kv_cache=None)) is None


def killed() -> World:
    """Return a world with a fleet whose pods the host kills."""
    world = World()
    known = facts(pods=pods(last_exit=ended(137, "OOMKilled")), situation=None)
    world.post(known.decision, diagnosis=diagnose(known))
    return world


@pytest.mark.parametrize(
    ("changes", "trouble", "standing"),
    [
        ({}, None, Standing.STEADY),
        ({"desired": None, "reason": Reason.CURRENT_UNKNOWN}, None, Standing.CRITICAL),
        ({"reason": Reason.AT_MAX}, None, Standing.WARNING),
        ({}, "no answer", Standing.WARNING),
        ({"desired": 6, "advised": 6, "reason": Reason.SCALE_OUT_QUEUE}, None, Standing.MOVING),
        ({"reason": Reason.SCALE_IN_PENDING}, None, Standing.PENDING),
    ],
)
async def test_the_list_says_who_wants_to_be_looked_at(
    changes: dict[str, object], trouble: str | None, standing: Standing
) -> None:
    """Each workload has one standing, and its reason in words."""
    world = World()
    world.post(decided(**changes), trouble=trouble)
    async with served(world) as site:
        listed = await site.get("/api/v1/workloads")
    assert listed.at("workloads", 0, "standing") == standing.value
    assert str(listed.at("workloads", 0, "meaning")).endswith(".")
    assert listed.at("at") == NOON


async def test_the_list_names_what_is_diagnosed_and_how_near_a_threshold_is() -> None:
    """A fleet that loses pods is critical though its count is steady."""
    world = killed()
    world.post(decision_on(), scaled_object(name="busy"))
    async with served(world) as site:
        listed = await site.get("/api/v1/workloads")
    names = listed.each("workloads", "name")
    lost, busy = names.index("chat"), names.index("busy")
    assert listed.at("workloads", lost, "standing") == "critical"
    assert listed.at("workloads", lost, "diagnosis", 0) == "host-oom-kill"
    assert listed.at("workloads", busy, "nearest", "signal") == "waiting"
    assert listed.at("workloads", busy, "mode") == "act"


async def test_a_new_workload_is_no_trouble() -> None:
    """Nothing has been decided yet, which the next tick cures."""
    world = World(unresolved={"lost": "there is no such source"})
    world.entry(scaled_object(name="lost"))
    world.entry(scaled_object(name="new"))
    async with served(world) as site:
        listed = await site.get("/api/v1/workloads")
    assert listed.each("workloads", "standing") == ["critical", "pending"]
