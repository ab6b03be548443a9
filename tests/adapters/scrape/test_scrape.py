"""The scrape source against pages served over real sockets, in stepped time."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.control.ports import (
    SourceAnswerInvalid,
    SourceDenied,
    SourceError,
    SourceUnreachable,
)
from scaler.control.source_work import Targets, outcomes
from scaler.core.quantile import percentile
from scaler.core.reading import Reading, ReplicaReading
from scaler.core.sample import take_sample
from scaler.core.units import tick_at
from scaler.core.workload import Matcher, MatchOp, Selection
from tests.fakes.clock import FakeClock

PAGES = Path(__file__).parents[2] / "data" / "captures"
CANARY = "canary-7f3a"
OF = '{engine="0",model_name="m"'

Answer = bytes | Callable[[web.Request], web.StreamResponse]


class Engines:
    """Pages by pod, and the targets file that names them."""

    def __init__(self, directory: Path) -> None:
        """Serve nothing yet."""
        self.pages: dict[str, Answer] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.file = directory / "targets.json"
        self.port = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Serve a pod's page, or what the test put in its place."""
        page = self.pages[request.match_info["pod"]]
        if isinstance(page, bytes):
            return web.Response(body=page)
        return page(request)

    def write(self) -> None:
        """Write the targets file; labels given for a pod replace what it would have."""
        groups = [
            {
                "targets": [f"127.0.0.1:{self.port}"],
                "labels": {
                    "namespace": "prod",
                    "pod": pod,
                    "__metrics_path__": f"/{pod}",
                    **self.labels.get(pod, {}),
                },
            }
            for pod in self.pages
        ]
        self.file.write_text(json.dumps(groups), encoding="utf-8")


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[Engines]:
    """Serve pages on a port of this machine."""
    served = Engines(tmp_path)
    app = web.Application()
    app.router.add_get("/{pod}", served.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.port = int(runner.addresses[0][1])
    yield served
    await runner.cleanup()


class World:
    """A source over the engines, with the clock in the test's hand."""

    def __init__(self, engines: Engines, **settings: object) -> None:
        """Build the source from the targets as they are now."""
        engines.write()
        self.engines = engines
        self.clock = FakeClock(1_000_000_005.0)
        given = ScrapeSettings(targets=engines.file, **{"timeout": 1.0, **settings})  # type: ignore[arg-type]
        self.source = ScrapeSource(given, self.clock)

    async def scrape(self, seconds: float = 5.0) -> None:
        """Let time pass and scrape every target."""
        self.clock.set(self.clock.now() + seconds)
        await self.source.scrape_once()

    async def read(self, selection: Selection) -> Reading | SourceError:
        """Read at the present second."""
        return (await self.source.read([selection], self.clock.now()))[selection]

    async def reading(self, selection: Selection) -> Reading:
        """Read; an error is raised."""
        found = await self.read(selection)
        if not isinstance(found, Reading):
            raise found
        return found

    async def replica(self, selection: Selection) -> ReplicaReading:
        """Return the one replica that reports."""
        (found,) = (await self.reading(selection)).replicas
        return found


def chosen(model: str | None = "m", *matchers: Matcher) -> Selection:
    """Return a selection in the namespace prod."""
    return Selection(source="scrape", namespace="prod", model_name=model, matchers=matchers)


def page(*lines: str) -> bytes:
    """Write a page."""
    return ("\n".join(lines) + "\n").encode()


def engine_page(
    running: float = 2.0,
    waiting: float = 1.0,
    tokens: float = 100.0,
    firsts: float = 40.0,
    prompts: float = 0.0,
) -> bytes:
    """Write a small page of one engine; half of its first tokens came within a second."""
    of = '{engine="0",model_name="m"'
    return page(
        f"vllm:num_requests_running{of}}} {running}",
        f"vllm:num_requests_waiting{of}}} {waiting}",
        f"vllm:kv_cache_usage_perc{of}}} 0.5",
        f"vllm:generation_tokens_total{of}}} {tokens}",
        f"vllm:prompt_tokens_total{of}}} {prompts}",
        f'vllm:time_to_first_token_seconds_bucket{of},le="1.0"}} {firsts / 2}',
        f'vllm:time_to_first_token_seconds_bucket{of},le="2.5"}} {firsts}',
        f'vllm:time_to_first_token_seconds_bucket{of},le="+Inf"}} {firsts}',
        f"vllm:time_to_first_token_seconds_count{of}}} {firsts}",
    )


@pytest.mark.parametrize(
    ("state", "model", "running", "waiting", "kv_cache", "engines_there"),
    [
        ("saturated-waiting", "tiny", 4.0, 20.0, 0.0005, 1),
        ("dp2-loaded", "tiny", 8.0, 32.0, 0.47, 2),
        ("kv-limited-preemptions", "tiny-a", 5.0, 3.0, 1.0, 1),
        ("light-load", "tiny", 2.0, 0.0, 0.0003, 1),
        ("idle-fresh", "tiny", 0.0, 0.0, 0.0, 1),
        ("after-drain", "tiny-a", 0.0, 0.0, 0.0, 1),
    ],
)
async def test_the_pages_of_a_real_engine(
    engines: Engines,
    state: str,
    model: str,
    running: float,
    waiting: float,
    kv_cache: float,
    engines_there: int,
) -> None:
    """What stands on the recorded pages is what the source says."""
    engines.pages["a"] = (PAGES / f"{state}.txt").read_bytes()
    world = World(engines)
    await world.scrape()
    replica = await world.replica(chosen(model))
    assert (replica.running, replica.waiting, replica.engines) == (running, waiting, engines_there)
    assert replica.kv_cache == pytest.approx(kv_cache, abs=0.005)
    assert replica.first_token_rate is None


async def test_rates_and_the_percentile(engines: Engines) -> None:
    """Ten tokens and two first tokens a second, half of them within 1 s, the others within 2.5."""
    world = World(engines)
    for number in range(30):
        engines.pages["a"] = engine_page(tokens=50.0 * number, firsts=10.0 * number)
        if number == 0:
            world = World(engines)
        await world.scrape()
    reading = await world.reading(chosen())
    sample = take_sample(reading)
    assert sample.token_rate == pytest.approx(10.0)
    assert sample.first_token_rate == pytest.approx(2.0)
    assert sample.kv_cache == 0.5
    assert reading.ttft is not None
    found = percentile(reading.ttft)
    assert found is not None
    assert (found.lower, found.upper, found.observations) == (1.0, 2.5, 240.0)
    assert reading.scraped_at == world.clock.now()
    assert reading.scrapes == 3


async def test_a_reset_loses_nothing(engines: Engines) -> None:
    """A counter that falls has started anew: what it shows then was made since."""
    engines.pages["a"] = engine_page(tokens=1000.0)
    world = World(engines)
    await world.scrape()
    engines.pages["a"] = engine_page(tokens=1050.0)
    await world.scrape()
    engines.pages["a"] = engine_page(tokens=20.0)
    await world.scrape()
    assert (await world.replica(chosen())).token_rate == pytest.approx(7.0)


async def test_prompt_tokens_are_told_apart_from_generated_ones(engines: Engines) -> None:
    """Two pages five seconds apart give both rates; one page gives neither."""
    engines.pages["a"] = engine_page(tokens=1000.0, prompts=7000.0)
    world = World(engines)
    await world.scrape()
    first = await world.replica(chosen())
    assert (first.token_rate, first.prompt_token_rate) == (None, None)
    engines.pages["a"] = engine_page(tokens=1050.0, prompts=8500.0)
    await world.scrape()
    replica = await world.replica(chosen())
    assert (replica.token_rate, replica.prompt_token_rate) == pytest.approx((10.0, 300.0))


async def test_a_stalled_replica_is_told(engines: Engines) -> None:
    """Work for two minutes and not one token is a stall, and ends with the first token."""
    engines.pages["a"] = engine_page()
    world = World(engines)
    for _ in range(26):
        await world.scrape()
    assert take_sample(await world.reading(chosen())).stalled == 1
    engines.pages["a"] = engine_page(tokens=101.0)
    await world.scrape()
    assert take_sample(await world.reading(chosen())).stalled == 0


@pytest.mark.parametrize(
    ("lines", "running", "waiting", "kv_cache"),
    [
        pytest.param(
            [
                'vllm:num_requests_running{model_name="m"} 3',
                'vllm:num_requests_waiting{model_name="m"} 4',
                'vllm:gpu_cache_usage_perc{model_name="m"} 0.7',
                'vllm:generation_tokens_total{model_name="m"} 1',
            ],
            3.0,
            4.0,
            0.7,
            id="before-the-engine-label",
        ),
        pytest.param(
            [
                'vllm:num_requests_running{engine="0",model_name="m"} 3',
                'vllm:num_requests_waiting{engine="0",model_name="m"} 4',
                'vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.7',
                'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.7',
                'vllm:generation_tokens_total{engine="0",model_name="m"} 1',
            ],
            3.0,
            4.0,
            0.7,
            id="both-names-of-the-cache-are-one-thing",
        ),
        pytest.param(
            [
                'vllm:num_requests_running{engine="0",model_name="m"} 3',
                'vllm:num_requests_waiting{engine="0",model_name="m"} 9',
                f'vllm:num_requests_waiting_by_reason{OF},reason="capacity"}} 4',
                f'vllm:num_requests_waiting_by_reason{OF},reason="deferred"}} 5',
                'vllm:generation_tokens_total{engine="0",model_name="m"} 1',
            ],
            3.0,
            4.0,
            None,
            id="only-waiting-for-capacity-counts",
        ),
        pytest.param(
            [
                'vllm:num_requests_running{engine="0",model_name="m"} 3',
                'vllm:num_requests_waiting{engine="0",model_name="m"} 4',
                *(f'vllm:kv_cache_usage_perc{OF},pid="{n}"}} 0.0' for n in range(1, 8)),
                f'vllm:kv_cache_usage_perc{OF},pid="0"}} 0.653',
                'vllm:generation_tokens_total{engine="0",model_name="m"} 1',
            ],
            3.0,
            4.0,
            0.653,
            id="several-api-server-processes",
        ),
        pytest.param(
            [
                'ray_vllm_num_requests_running{engine="0",model_name="m",WorkerId="a"} 1',
                'ray_vllm_num_requests_running{engine="0",model_name="m",WorkerId="b"} 2',
                'ray_vllm_num_requests_waiting{engine="0",model_name="m",WorkerId="a"} 4',
                'ray_vllm_num_requests_waiting{engine="0",model_name="m",WorkerId="b"} 0',
                'ray_vllm_kv_cache_usage_perc{engine="0",model_name="m",WorkerId="a"} 0.2',
                'ray_vllm_kv_cache_usage_perc{engine="0",model_name="m",WorkerId="b"} 0.4',
                'ray_vllm_generation_tokens_total{engine="0",model_name="m",WorkerId="a"} 1',
            ],
            3.0,
            4.0,
            0.3,
            id="rays-names-and-workers",
        ),
        pytest.param(
            [
                "# TYPE vllm:num_requests_running gauge",
                'vllm:generation_tokens_total{engine="0",model_name="m"} 0',
                'vllm:generation_tokens_total{engine="1",model_name="m"} 0',
            ],
            0.0,
            0.0,
            0.0,
            id="counters-at-zero-without-gauges-are-idle-engines",
        ),
    ],
)
async def test_names_old_and_new(
    engines: Engines, lines: list[str], running: float, waiting: float, kv_cache: float | None
) -> None:
    """Whatever the version calls it and however many processes show it, it is counted once."""
    engines.pages["a"] = page(*lines)
    world = World(engines)
    await world.scrape()
    replica = await world.replica(chosen())
    assert (replica.running, replica.waiting) == (running, waiting)
    assert replica.kv_cache == (kv_cache if kv_cache is None else pytest.approx(kv_cache))


async def test_a_router_is_no_engine(engines: Engines) -> None:
    """A page that shows other engines' gauges and counts no token is neither seen nor missed."""
    engines.pages["a"] = engine_page()
    engines.pages["router"] = page(
        'vllm:num_requests_running{server="http://a",model_name="m"} 0',
        'vllm:num_requests_waiting{model_name="m"} 0',
        'vllm:num_requests_running{model_name="m"} 0',
    )
    world = World(engines)
    await world.scrape()
    reading = await world.reading(chosen())
    assert [replica.name for replica in reading.replicas] == ["a"]
    assert (reading.unseen, reading.loading) == (0, 0)


async def test_silent_and_never_heard_are_told_apart(engines: Engines) -> None:
    """A target that fell silent is unseen, one that never answered is loading."""
    engines.pages = {"a": engine_page(), "b": engine_page(), "c": _status(503)}
    world = World(engines)
    await world.scrape()
    first = await world.reading(chosen())
    assert (len(first.replicas), first.unseen, first.loading) == (2, 0, 1)
    engines.pages["b"] = _status(503)
    for _ in range(4):
        await world.scrape()
    later = await world.reading(chosen())
    assert (len(later.replicas), later.unseen, later.loading) == (1, 1, 1)


async def test_two_ports_of_one_pod_are_one_replica(engines: Engines) -> None:
    """A replica with a port an engine is what the scale target counts: one."""
    engines.pages = {"p0": engine_page(running=2.0), "p1": engine_page(running=5.0)}
    engines.labels = {"p0": {"pod": "chat-0"}, "p1": {"pod": "chat-0"}}
    world = World(engines)
    await world.scrape()
    replica = await world.replica(chosen())
    assert (replica.name, replica.running, replica.engines) == ("chat-0", 7.0, 2)


async def test_a_replica_of_which_a_part_fell_silent_is_unseen(engines: Engines) -> None:
    """Half of a replica's engines would look like a replica that is half as busy."""
    engines.pages = {"p0": engine_page(), "p1": engine_page(), "other": engine_page()}
    engines.labels = {"p0": {"pod": "chat-0"}, "p1": {"pod": "chat-0"}}
    world = World(engines)
    await world.scrape()
    engines.pages["p1"] = _status(503)
    for _ in range(4):
        await world.scrape()
    reading = await world.reading(chosen())
    assert [replica.name for replica in reading.replicas] == ["other"]
    assert (reading.unseen, reading.loading) == (1, 0)


async def test_selections_are_kept_apart(engines: Engines) -> None:
    """Namespace, model and matchers on target labels decide what is meant."""
    engines.pages = {name: engine_page() for name in ("a", "b", "c")}
    engines.labels = {"a": {"tier": "gold"}, "b": {"tier": "silver"}, "c": {"namespace": "other"}}
    world = World(engines)
    await world.scrape()
    gold = Matcher(label="tier", op=MatchOp.REGEX, value="g.*")

    async def names(selection: Selection) -> list[str]:
        return [replica.name for replica in (await world.reading(selection)).replicas]

    assert await names(chosen()) == ["a", "b"]
    assert await names(chosen("m", gold)) == ["a"]
    assert await names(chosen(None)) == ["a", "b"]
    assert await names(chosen("another")) == []


def _status(status: int, **headers: str) -> Callable[[web.Request], web.StreamResponse]:
    return lambda _: web.Response(status=status, text="<html>login</html>", headers=headers)


@pytest.mark.parametrize(
    ("bad", "kind", "told"),
    [
        pytest.param(_status(401), SourceDenied, "token", id="401"),
        pytest.param(_status(404), SourceAnswerInvalid, "metrics path", id="404"),
        pytest.param(_status(302, Location="/a"), SourceAnswerInvalid, "redirects", id="redirect"),
        pytest.param(_status(500), SourceUnreachable, "500", id="500"),
        pytest.param(b"x" * 2_000_000, SourceAnswerInvalid, "larger than", id="too-large"),
        pytest.param(engine_page()[:-9], SourceAnswerInvalid, "cut off", id="cut-off"),
        pytest.param(
            b"<html><body>login</body></html>\n", SourceAnswerInvalid, "is HTML", id="login-page"
        ),
        pytest.param(bytes(range(256)), SourceAnswerInvalid, "cut off", id="binary"),
        pytest.param(
            b'vllm:num_requests_running{engine="0",model_name="m"} many\n',
            SourceAnswerInvalid,
            "no value",
            id="not-a-number",
        ),
    ],
)
async def test_a_bad_page_is_told_and_disturbs_no_other(
    engines: Engines, bad: Answer, kind: type[SourceError], told: str
) -> None:
    """The bad target's own selection learns why; its neighbour's goes on as ever."""
    engines.pages = {"bad": bad, "good": engine_page()}
    engines.labels = {"bad": {"app": "bad"}, "good": {"app": "good"}}
    world = World(engines, largest_answer=1_000_000)
    await world.scrape()
    found = await world.read(chosen("m", Matcher(label="app", op=MatchOp.EQUAL, value="bad")))
    assert isinstance(found, kind)
    assert told in str(found)
    good = await world.reading(chosen("m", Matcher(label="app", op=MatchOp.EQUAL, value="good")))
    assert len(good.replicas) == 1
    stats = world.source.stats
    assert stats.scrapes == {"ok": 1, kind.kind: 1}
    assert stats.last_ok == world.clock.now()
    assert stats.seconds > 0
    work = world.source.work()
    assert work.requests["scrape"].ended == outcomes(stats.scrapes)
    assert work.requests["scrape"].seconds == stats.seconds
    assert work.targets == Targets(known=2, failing=1)
    assert work.received >= len(engine_page())
    assert work.faults == {"targets": False, "secrets": False}


@pytest.mark.parametrize("value", ["NaN", "-nan", "+Inf", "-Inf", "-1"])
async def test_a_gauge_that_cannot_be_is_no_report(engines: Engines, value: str) -> None:
    """A number that no queue can have makes its replica unseen, never calm or endless."""
    broken = engine_page().replace(
        b'waiting{engine="0",model_name="m"} 1.0',
        f'waiting{{engine="0",model_name="m"}} {value}'.encode(),
    )
    assert value.encode() in broken
    engines.pages = {"a": broken, "b": engine_page()}
    world = World(engines)
    await world.scrape()
    reading = await world.reading(chosen())
    assert [replica.name for replica in reading.replicas] == ["b"]
    assert reading.unseen == 1


@pytest.mark.parametrize("body", [b"", b"# nothing\n", b"http_requests_total 5\n"])
async def test_a_page_without_engines_is_unseen(engines: Engines, body: bytes) -> None:
    """Statistics switched off: the replica does not report."""
    engines.pages = {"a": body, "b": engine_page()}
    world = World(engines)
    await world.scrape()
    reading = await world.reading(chosen())
    assert (len(reading.replicas), reading.unseen) == (1, 1)


async def test_an_endless_answer_ends_at_its_deadline(engines: Engines) -> None:
    """A target that trickles, or says nothing, is given up and delays nobody."""
    released = asyncio.Event()

    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while not released.is_set():
            await response.write(b"# \n")
            await asyncio.sleep(0.05)
        return response

    engines.answer = trickle  # type: ignore[method-assign]
    app = web.Application()
    app.router.add_get("/{pod}", trickle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    engines.pages = {"a": b""}
    engines.port = int(runner.addresses[0][1])
    world = World(engines)
    await world.scrape()
    found = await world.read(chosen())
    released.set()
    await runner.cleanup()
    assert isinstance(found, SourceUnreachable)
    assert "no whole answer within 1 s" in str(found)


async def test_an_address_that_swallows_packets_is_given_up_early(engines: Engines) -> None:
    """Pods that are gone but still listed must not keep the connections from those that are not."""
    deaf = socket.socket()
    deaf.bind(("127.0.0.1", 0))
    deaf.listen(0)
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.settimeout(0.0)
        filler.connect_ex(deaf.getsockname())
    engines.pages = {"a": b""}
    engines.port = deaf.getsockname()[1]
    world = World(engines, timeout=30.0)
    await world.scrape()
    found = await world.read(chosen())
    for each in (deaf, *fillers):
        each.close()
    assert isinstance(found, SourceUnreachable)
    assert "no connection within 1.5 s" in str(found)


async def test_the_targets_file_is_read_again(engines: Engines) -> None:
    """A changed list is taken over with the memory of those that stay; a broken one is not."""
    engines.pages = {"a": engine_page()}
    world = World(engines)
    await world.scrape()
    engines.pages["b"] = engine_page()
    engines.write()
    await world.scrape()
    reading = await world.reading(chosen())
    assert [replica.name for replica in reading.replicas] == ["a", "b"]
    assert reading.replicas[0].token_rate == 0.0
    assert reading.replicas[1].token_rate is None
    engines.file.write_text('[{"targets": ["x:1"]}]', encoding="utf-8")
    await world.scrape()
    assert "x:1: has no label namespace" in (world.source.stats.targets_fault or "")
    assert len((await world.reading(chosen())).replicas) == 2


async def test_a_token_is_read_anew_and_never_told(engines: Engines, tmp_path: Path) -> None:
    """A rotated token is used at the next round, and stands in no error."""
    token = tmp_path / "token"
    token.write_text(f"{CANARY}-old\n", encoding="utf-8")
    seen: list[str] = []

    def guarded(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(status=403, text=f"bad token {CANARY}")

    engines.pages = {"a": guarded}
    world = World(engines, bearer_token_file=token)
    await world.scrape()
    token.write_text(f"{CANARY}-new\n", encoding="utf-8")
    await world.scrape()
    token.unlink()
    await world.scrape()
    assert seen == [f"Bearer {CANARY}-{age}" for age in ("old", "new", "new")]
    assert "token cannot be read" in (world.source.stats.secrets_fault or "")
    assert world.source.work().faults == {"targets": False, "secrets": True}
    found = await world.read(chosen())
    assert isinstance(found, SourceDenied)
    assert CANARY not in str(found)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b" \n", f"{CANARY}\n{CANARY}".encode()])
async def test_a_secret_that_is_none_keeps_the_one_before(
    engines: Engines, tmp_path: Path, content: bytes
) -> None:
    """A file with bytes, nothing or several lines in it ends no source, and shows in no fault."""
    token = tmp_path / "token"
    token.write_text("good", encoding="utf-8")
    seen: list[str] = []

    def guarded(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(body=engine_page())

    engines.pages = {"a": guarded}
    world = World(engines, bearer_token_file=token)
    await world.scrape()
    token.write_bytes(content)
    await world.scrape()
    assert seen == ["Bearer good", "Bearer good"]
    assert str(token) in (world.source.stats.secrets_fault or "")
    assert CANARY not in (world.source.stats.secrets_fault or "")


@pytest.mark.parametrize("amount", ["1e308", "1e18"])
async def test_amounts_that_cannot_be_disturb_no_other(engines: Engines, amount: str) -> None:
    """Counters beyond all bounds are not known; the page's gauges and its neighbours' count on."""
    odd = engine_page(tokens=float(amount), firsts=float(amount))
    engines.pages = dict.fromkeys("abc", engine_page(tokens=0.0, firsts=0.0))
    engines.labels = {"a": {"team": "x"}, "b": {"team": "y"}, "c": {"team": "y"}}
    world = World(engines)
    for number in range(6):
        await world.scrape()
        if number % 2:
            engines.pages |= dict.fromkeys("bc", engine_page(tokens=5.0 * number))
        else:
            engines.pages |= {"b": odd, "c": odd}
    good = Matcher(label="team", op=MatchOp.EQUAL, value="x")
    found = await world.read(chosen("m", good))
    assert isinstance(found, Reading)
    assert len(found.replicas) == 1
    everything = await world.reading(chosen())
    assert len(everything.replicas) == 3
    assert all((r.token_rate or 0.0) < 1e6 for r in everything.replicas)


@pytest.mark.parametrize("back", [3600.0, 30.0])
async def test_a_clock_that_is_set_back_leaves_nothing_of_the_future(
    engines: Engines, back: float
) -> None:
    """What was seen while the clock was ahead is not taken for fresh, and rates are known again."""
    engines.pages = {"a": engine_page()}
    world = World(engines)
    for number in range(30):
        engines.pages["a"] = engine_page(tokens=50.0 * number)
        await world.scrape()
    world.clock.set(world.clock.now() - back)
    assert isinstance(await world.read(chosen()), SourceError)
    for number in range(30, 34):
        engines.pages["a"] = engine_page(tokens=50.0 * number)
        await world.scrape()
    assert (await world.replica(chosen())).token_rate == pytest.approx(10.0)


async def test_running_scrapes_at_once_and_then_every_interval(engines: Engines) -> None:
    """The first round does not wait; the next comes an interval later."""
    engines.pages = {"a": engine_page()}
    world = World(engines)
    running = asyncio.create_task(world.source.run())
    async with asyncio.timeout(10):
        while world.source.stats.scrapes["ok"] < 1:  # noqa: ASYNC110 - sockets tell no event
            await asyncio.sleep(0.01)
        while world.source.stats.scrapes["ok"] < 2:
            await world.clock.advance(0.5)
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert tick_at(world.clock.now()) >= 1_000_000_005.0


async def test_an_address_that_another_pod_got_is_another_engine(engines: Engines) -> None:
    """What the pod before had counted, and for how long it was busy, is not this one's."""
    engines.pages = {"a": engine_page(tokens=100.0)}
    world = World(engines)
    for _ in range(3):
        await world.scrape()
    assert (await world.replica(chosen())).busy_for == 10.0
    engines.labels = {"a": {"pod": "b"}}
    engines.write()
    await world.scrape()
    replica = await world.replica(chosen())
    assert (replica.name, replica.token_rate, replica.busy_for) == ("b", None, 0.0)
