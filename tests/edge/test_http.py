"""Probes, the JSON interface and its errors, over a real socket."""

from __future__ import annotations

import asyncio

import pytest

from scaler.core.diagnosis import diagnose
from scaler.core.reasons import Reason
from scaler.core.units import TICK
from scaler.edge.errors import ListenFailed
from scaler.edge.http_server import HttpServer
from tests.core.illness import ended, facts, pods
from tests.edge.history import decision_on
from tests.edge.site import served
from tests.edge.world import NOON, World, decided
from tests.keda_client import scaled_object

pytestmark = pytest.mark.timeout(30)


@pytest.mark.parametrize(
    ("ticked", "late", "status"),
    [
        (0, 0.0, 200),
        (0, 4 * TICK, 200),
        (0, 4 * TICK + 1, 503),
        (3, 7 * TICK, 200),
        (3, 7 * TICK + 1, 503),
    ],
)
async def test_alive_means_that_the_loop_has_ticked(ticked: int, late: float, status: int) -> None:
    """A loop that hangs is restarted after four ticks; a source that is silent is no reason."""
    async with served() as site:
        for tick in range(1, ticked + 1):
            await site.follower.tick(NOON + tick * TICK)
        site.world.clock.at = NOON + late
        answer = await site.get("/healthz")
    assert answer.status == status
    if status != 200:
        assert 'source "paris"' in str(answer.at("error", "message"))


async def test_ready_means_that_keda_is_answered() -> None:
    """A scaler without a single sample is ready; one that ends is not."""
    async with served() as site:
        assert (await site.get("/readyz")).status == 200
        site.answering = False
        assert (await site.get("/readyz")).status == 503


async def test_a_decision_is_explained_in_full() -> None:
    """One answer holds count, reason, signals, thresholds, what is learned and what would help."""
    world = World()
    world.post(decision_on(), trouble="slow", fault="profile gone")
    async with served(world) as site:
        answer = await site.get("/api/v1/workloads/prod/chat")
    assert answer.status == 200
    for place, expected in {
        ("current",): 4,
        ("desired",): 4,
        ("because", "reason"): "steady",
        ("signals", 0, "signal"): "waiting",
        ("signals", 0, "value"): 0.5,
        ("signals", 0, "high"): 5.0,
        ("learned", "saturation"): 100.0,
        ("trouble",): "slow",
        ("fault",): "profile gone",
    }.items():
        assert answer.at("triggers", 0, *place) == expected
    assert answer.at("triggers", 0, "would_change")


async def test_the_same_as_text() -> None:
    """`?format=text` gives what `scaler explain` prints."""
    world = World()
    world.post(decision_on())
    async with served(world) as site:
        answer = await site.get("/api/v1/workloads/prod/chat?format=text")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "4 replicas, and that stays." in answer.text


async def test_a_diagnosis_is_served_as_json_and_as_text() -> None:
    """Findings, what is not known, and in a header how grave it is, whatever the form."""
    world = World()
    known = facts(pods=pods(last_exit=ended(137, "OOMKilled")), situation=None)
    world.post(known.decision, diagnosis=diagnose(known))
    path = "/api/v1/workloads/prod/chat/diagnosis"
    async with served(world) as site:
        plain = await site.get(path)
        text = await site.get(f"{path}?format=text")
        missing = await site.get("/api/v1/workloads/prod/none/diagnosis")
    assert plain.at("triggers", 0, "findings", 0, "kind") == "host-oom-kill"
    assert plain.at("triggers", 0, "not_known", 0, "kinds", 0) == "paused"
    assert "CRITICAL  host-oom-kill" in text.text
    severities = [answer.headers["Scaler-Worst-Severity"] for answer in (plain, text)]
    assert severities == ["critical", "critical"]
    assert missing.status == 404


async def test_what_is_unlimited_or_unknown_is_null() -> None:
    """JSON knows neither infinity nor NaN, and neither is a number of replicas."""
    world = World()
    world.post(decision_on(waiting=40.0, queued=4, ticks=2))
    async with served(world) as site:
        answer = await site.get("/api/v1/workloads/prod/chat")
    assert answer.at("triggers", 0, "ceiling") is None
    assert answer.at("triggers", 0, "signals", 0, "rows", 0, "high") is None


async def test_two_triggers_are_listed_and_one_can_be_picked() -> None:
    """A ScaledObject's triggers come together, and by their digest alone."""
    world = World()
    first, second = (
        world.post(decided(), scaled_object(metadata={"modelName": "llama", "waitingHigh": high}))
        for high in ("7", "8")
    )
    path = "/api/v1/workloads/prod/chat"
    async with served(world) as site:
        both = await site.get(path)
        one = await site.get(f"{path}?trigger={second.key.trigger}")
        none = await site.get(f"{path}?trigger=nope")
    digests = sorted([first.key.trigger, second.key.trigger])
    assert both.each("triggers", "trigger") == digests
    assert one.each("triggers", "trigger") == [second.key.trigger]
    assert none.status == 404
    assert first.key.trigger in none.text


async def test_workloads_without_a_decision_are_shown_with_their_fault() -> None:
    """What the configuration lacks is to be found where people look first."""
    world = World(unresolved={"lost": 'there is no source "paris"'})
    world.entry(scaled_object(name="lost"))
    world.entry(scaled_object(name="new"))
    async with served(world) as site:
        listed = await site.get("/api/v1/workloads")
        lost = await site.get("/api/v1/workloads/prod/lost")
    assert listed.each("workloads", "name") == ["lost", "new"]
    assert listed.each("workloads", "reason") == ["unresolved", "not-yet-sampled"]
    assert 'there is no source "paris"' in str(lost.at("triggers", 0, "fault"))
    assert lost.at("triggers", 0, "because", "cure")


async def test_the_list_comes_in_pages() -> None:
    """Following `next` gives every workload once, in order, also where names begin alike."""
    world = World()
    places = [("a", "x"), ("a-b", "x"), ("a", "x-y"), ("b", "x"), ("a", "w")]
    for namespace, name in places:
        world.post(decided(reason=Reason.STEADY), scaled_object(namespace, name))
    seen: list[tuple[object, object]] = []
    after: object = ""
    async with served(world) as site:
        while after is not None:
            page = await site.get(f"/api/v1/workloads?limit=2&after={after}")
            names = page.each("workloads", "name")
            seen += zip(page.each("workloads", "namespace"), names, strict=True)
            after = page.at("next")
        only = await site.get("/api/v1/workloads?namespace=a")
    assert sorted(seen) == sorted(places)
    assert only.each("workloads", "name") == ["w", "x-y", "x"]


@pytest.mark.parametrize(
    ("method", "path", "status", "part"),
    [
        ("GET", "/nothing", 404, "Not Found"),
        ("GET", "/api/v1/workloads/prod/none", 404, "no workload prod/none"),
        ("GET", "/api/v1/workloads/prod", 404, "Not Found"),
        ("GET", "/api/v1/workloads/", 404, "Not Found"),
        ("GET", "/..%2f..%2fetc/passwd", 404, "Not Found"),
        ("POST", "/api/v1/workloads", 405, "Method Not Allowed"),
        ("DELETE", "/metrics", 405, "Method Not Allowed"),
        ("GET", "/api/v1/workloads?limit=0", 400, "limit"),
        ("GET", "/api/v1/workloads?limit=1001", 400, "limit"),
        ("GET", "/api/v1/workloads?limit=٣", 400, "limit"),
        ("GET", "/api/v1/workloads?limit=1e3", 400, "limit"),
        ("GET", f"/api/v1/workloads?limit={'9' * 5000}", 400, "limit"),
        ("GET", "/api/v1/workloads/prod/none?format=xml", 400, "format"),
        ("GET", "/api/v1/workloads/prod/none/diagnosis?format=xml", 400, "format"),
        ("GET", "/api/v1/workloads/%00/%ff", 404, "no workload"),
    ],
)
async def test_errors_are_json_and_say_what_is_wrong(
    method: str, path: str, status: int, part: str
) -> None:
    """A mistake in a request is answered in the form of every other answer."""
    async with served() as site:
        answer = await site.get(path, method)
    assert answer.status == status == answer.at("error", "status")
    assert part in str(answer.at("error", "message"))


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/api/v1/workloads", "/nothing"])
async def test_every_answer_is_guarded(path: str) -> None:
    """No answer is cached, framed, or taken for another type; none names the software behind."""
    async with served() as site:
        headers = (await site.get(path)).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "aiohttp" not in headers["Server"]


async def test_an_unforeseen_error_keeps_its_text_inside() -> None:
    """A fault of the scaler is a 500 in plain words; what it was stands in the log."""
    world = World()
    world.post(decided(reason="hunter2-canary"))
    async with served(world) as site:
        answer = await site.get("/api/v1/workloads/prod/chat")
        assert (await site.get("/healthz")).status == 200
    assert answer.status == 500
    assert "fault of the scaler" in answer.text
    assert "canary" not in answer.text


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:http", "127.0.0.1:70000", ":"])
async def test_an_address_of_another_form_is_refused(address: str) -> None:
    """The message names the address and the form."""
    world = World()
    server = HttpServer(
        registry=world.registry,
        board=world.board,
        followers=[],
        now=world.clock.now,
        measures=world.measures,
        answering=lambda: True,
    )
    with pytest.raises(ListenFailed, match="host:port"):
        await server.serve(address)


async def test_a_port_in_use_is_named() -> None:
    """The second server on a port refuses to start."""
    async with served() as site:
        server = HttpServer(
            registry=site.world.registry,
            board=site.world.board,
            followers=[],
            now=site.world.clock.now,
            measures=World().measures,
            answering=lambda: True,
        )
        with pytest.raises(ListenFailed, match=f"127.0.0.1:{site.port}"):
            await server.serve(f"127.0.0.1:{site.port}")


async def test_a_garbled_request_disturbs_nobody() -> None:
    """Bytes that are no HTTP get a refusal, and the next request its answer."""
    async with served() as site:
        for garbage in (b"\x00\xff\r\n\r\n", b"GET " + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
            writer.write(garbage)
            await writer.drain()
            assert b" 400 " in (await reader.read(100)).splitlines()[0]
            writer.close()
        assert (await site.get("/readyz")).status == 200
