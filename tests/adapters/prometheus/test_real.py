"""The source against a real Prometheus: what it says equals what can be computed by hand."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings, SeriesLabels
from scaler.control.ports import SelectionInvalid, SourceAnswerInvalid, SourceError
from scaler.core.quantile import percentile
from scaler.core.reading import Reading, ReplicaReading
from scaler.core.sample import take_sample
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Matcher, MatchOp, Selection
from tests.prometheus_server import Past, prometheus

pytestmark = pytest.mark.prometheus

PAGES = Path(__file__).parents[2] / "data" / "captures"
NOW = tick_at(time.time() - 3600.0)
SCRAPES = [NOW - back * 15.0 - 7.0 for back in range(60)]
"""A scrape every 15 s, the newest 7 s before NOW."""


def pod(name: str, namespace: str = "prod", **more: str) -> dict[str, str]:
    """Return the labels that a scraper adds."""
    return {"namespace": namespace, "pod": name, **more}


def engine(past: Past, labels: dict[str, str], **rates: float) -> None:
    """Write an engine whose counters grow at these rates per second, and whose gauges stand."""
    base = {"model_name": "llama", "engine": "0", **labels}
    for name, value in (("num_requests_running", 6.0), ("num_requests_waiting", 2.0)):
        past.add(f"vllm:{name}", base, dict.fromkeys(SCRAPES, value))
    past.add("vllm:kv_cache_usage_perc", base, dict.fromkeys(SCRAPES, 0.25))
    started = SCRAPES[-1]
    for name, rate in rates.items():
        past.add(f"vllm:{name}", base, {at: (at - started) * rate for at in SCRAPES})


def write_past() -> Past:
    """Write every fleet of these tests into one history."""
    past = Past()
    for name in ("saturated-waiting", "dp2-loaded", "kv-limited-preemptions", "idle-fresh"):
        page = (PAGES / f"{name}.txt").read_text(encoding="utf-8")
        past.add_page(page, pod(f"{name}-0", namespace=name), SCRAPES)
    # Rates and a histogram: half of the first tokens within 1 s, the other half within 2.5 s.
    for name in ("a", "b"):
        engine(
            past,
            pod(name),
            generation_tokens_total=100.0,
            prompt_tokens_total=350.0,
            num_preemptions_total=0.0,
        )
        base = {"model_name": "llama", "engine": "0", **pod(name)}
        started = SCRAPES[-1]
        grown = {at: (at - started) * 2.0 for at in SCRAPES}
        past.add("vllm:time_to_first_token_seconds_count", base, grown)
        for le, share in (("1.0", 0.5), ("2.5", 1.0), ("+Inf", 1.0)):
            bucket = {at: value * share for at, value in grown.items()}
            past.add("vllm:time_to_first_token_seconds_bucket", {**base, "le": le}, bucket)
    # A counter that starts anew in the middle of the window.
    engine(past, pod("reset", namespace="reset"))
    base = {"model_name": "llama", "engine": "0", **pod("reset", namespace="reset")}
    broken = {
        at: (at - SCRAPES[-1]) * 10.0 if at < NOW - 60 else (at - NOW + 67) * 10.0 for at in SCRAPES
    }
    past.add("vllm:generation_tokens_total", base, broken)
    # The same pod through a pair of Prometheus servers; both names of the cache usage.
    for replica in ("0", "1"):
        engine(past, pod("twice", namespace="pair", prometheus_replica=replica))
        base = {
            "model_name": "llama",
            "engine": "0",
            **pod("twice", namespace="pair", prometheus_replica=replica),
        }
        past.add("vllm:gpu_cache_usage_perc", base, dict.fromkeys(SCRAPES, 0.25))
    # Ray's names, two workers with the same engine number.
    for worker in ("w1", "w2"):
        base = {
            "model_name": "llama",
            "engine": "0",
            "WorkerId": worker,
            **pod("ray", namespace="ray"),
        }
        past.add("ray_vllm_num_requests_running", base, dict.fromkeys(SCRAPES, 3.0))
        past.add("ray_vllm_num_requests_waiting", base, dict.fromkeys(SCRAPES, 1.0))
    # One pod that ended a minute before, one that ended ten minutes before, one that lives.
    for name, ended in (("lives", 0.0), ("silent", 70.0), ("long-gone", 600.0)):
        base = {"model_name": "llama", "engine": "0", **pod(name, namespace="gone")}
        alive = [at for at in SCRAPES if at <= NOW - ended]
        for gauge in ("running", "waiting"):
            past.add(f"vllm:num_requests_{gauge}", base, dict.fromkeys(alive, 1.0))
        past.add("vllm:generation_tokens_total", base, {at: at - SCRAPES[-1] for at in alive})
    # No namespace label.
    past.add(
        "vllm:num_requests_running", {"model_name": "bare", "pod": "x"}, dict.fromkeys(SCRAPES, 1.0)
    )
    past.add(
        "vllm:num_requests_waiting", {"model_name": "bare", "pod": "x"}, dict.fromkeys(SCRAPES, 0.0)
    )
    past.add("gateway_queue", {"namespace": "prod", "gateway": "g"}, dict.fromkeys(SCRAPES, 7.0))
    past.add("gateway_queue", {"namespace": "other", "gateway": "g"}, dict.fromkeys(SCRAPES, 90.0))
    return past


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one server for all tests of this file."""
    with prometheus(tmp_path_factory.mktemp("prometheus"), write_past()) as address:
        yield address


def source(url: str, **settings: object) -> PrometheusSource:
    """Make a source that looks at the tick itself."""
    return PrometheusSource(PrometheusSettings(url=url, settle=0.0, **settings))  # type: ignore[arg-type]


def chosen(namespace: str = "prod", model: str = "llama", *matchers: Matcher) -> Selection:
    """Return a selection."""
    return Selection(source="prometheus", namespace=namespace, model_name=model, matchers=matchers)


async def read(url: str, selection: Selection, at: float = NOW) -> Reading:
    """Read one selection; an error is raised."""
    found = (await source(url).read([selection], at))[selection]
    if not isinstance(found, Reading):
        raise found
    return found


async def only(url: str, selection: Selection, at: float = NOW) -> ReplicaReading:
    """Return the one replica of a selection."""
    (replica,) = (await read(url, selection, at)).replicas
    return replica


@pytest.mark.parametrize(
    ("state", "model", "running", "waiting", "kv_cache", "engines"),
    [
        ("saturated-waiting", "tiny", 4.0, 20.0, 0.0005, 1),
        ("dp2-loaded", "tiny", 8.0, 32.0, 0.47, 2),
        ("kv-limited-preemptions", "tiny-a", 5.0, 3.0, 1.0, 1),
        ("idle-fresh", "tiny", 0.0, 0.0, 0.0, 1),
    ],
)
async def test_the_pages_of_a_real_engine(
    url: str, state: str, model: str, running: float, waiting: float, kv_cache: float, engines: int
) -> None:
    """What stands on the recorded pages is what the source says."""
    replica = await only(url, chosen(state, model))
    assert (replica.running, replica.waiting, replica.engines) == (running, waiting, engines)
    assert replica.kv_cache == pytest.approx(kv_cache, abs=0.005)
    assert not replica.asleep


async def test_rates_and_the_percentile(url: str) -> None:
    """Two replicas at 100 tokens, 350 of prompts and 2 first tokens a second; p95 2.35 s."""
    reading = await read(url, chosen())
    sample = take_sample(reading)
    assert sample.serving == 2
    assert sample.token_rate == pytest.approx(200.0)
    assert sample.prompt_token_rate == pytest.approx(700.0)
    assert sample.first_token_rate == pytest.approx(4.0)
    assert sample.preemption_rate == 0.0
    assert reading.ttft is not None
    found = percentile(reading.ttft)
    assert found is not None
    assert (found.lower, found.upper) == (1.0, 2.5)
    assert found.value == pytest.approx(1.0 + 1.5 * 0.9)
    assert found.observations == pytest.approx(4.0 * 120.0)
    assert reading.scraped_at == NOW - 7.0


async def test_a_reset_loses_nothing(url: str) -> None:
    """A counter that starts anew within the window still grows at its rate."""
    replica = await only(url, chosen("reset"))
    assert replica.token_rate == pytest.approx(10.0, rel=0.1)


async def test_what_is_one_thing_is_not_added_twice(url: str) -> None:
    """A pair of Prometheus servers and both names of one gauge give one replica's values once."""
    replica = await only(url, chosen("pair"))
    assert (replica.running, replica.waiting, replica.kv_cache) == (6.0, 2.0, 0.25)
    assert replica.engines == 1


async def test_rays_names(url: str) -> None:
    """Two Ray workers with one engine number are two engines of their pod."""
    replica = await only(url, chosen("ray"))
    assert (replica.running, replica.waiting, replica.engines) == (6.0, 2.0, 2)


async def test_a_dead_pods_last_value_does_not_live_on(url: str) -> None:
    """A pod that ended lately is unseen, one that ended long ago is gone; neither reports."""
    reading = await read(url, chosen("gone"))
    assert [replica.name for replica in reading.replicas] == ["lives"]
    assert reading.unseen == 1


async def test_nothing_selected_is_an_empty_reading(url: str) -> None:
    """A selection that matches nothing is no fault of the source, and not zero replicas known."""
    reading = await read(url, chosen("prod", "no-such-model"))
    assert reading.replicas == ()
    assert reading.unseen == 0


async def test_matchers_select(url: str) -> None:
    """A selector on another label narrows what is meant."""
    regex = Matcher(label="pod", op=MatchOp.REGEX, value="a|z")
    reading = await read(url, chosen("prod", "llama", regex))
    assert [replica.name for replica in reading.replicas] == ["a"]


async def test_a_missing_namespace_label_is_a_plain_error(url: str) -> None:
    """Series that could be anybody's are refused, with the setting that cures it."""
    with pytest.raises(SourceAnswerInvalid, match=r"no label \"namespace\".*labels.namespace"):
        await read(url, chosen("prod", "bare"))


async def test_another_label_can_be_the_namespace(url: str) -> None:
    """Which label is the namespace is configuration."""
    labels = SeriesLabels(namespace="pod", pod="namespace")
    selection = chosen("a", "llama")
    found = (await source(url, labels=labels).read([selection], NOW))[selection]
    assert isinstance(found, Reading)
    assert [replica.name for replica in found.replicas] == ["prod"]


@pytest.mark.parametrize("back", [0, 1, 7, 30])
async def test_what_is_read_back_is_what_was_read(url: str, back: int) -> None:
    """A scaler that starts later sees at each instant what one saw that ran then."""
    at = NOW - back * TICK
    asked = source(url)
    selections = [chosen(), chosen("gone"), chosen("reset"), chosen("dp2-loaded", "tiny")]
    for selection in selections:
        live = (await asked.read([selection], at))[selection]
        recalled = await asked.recall(selection, at - 3 * TICK, at, TICK)
        assert len(recalled) == 4
        assert recalled[-1] == live


async def test_many_selections_share_their_queries(url: str) -> None:
    """A second workload of the same shape costs no further query."""
    asked = source(url)
    await asked.read([chosen()], NOW)
    once = sum(stats.asked for stats in asked.stats().values())
    await asked.read([chosen(), chosen("gone"), chosen("reset"), chosen("ray")], NOW)
    assert sum(stats.asked for stats in asked.stats().values()) == 2 * once


@pytest.mark.parametrize(
    ("query", "demand"),
    [
        ("sum(gateway_queue)", 7.0),
        ('gateway_queue{gateway="g"}', 7.0),
        ("gateway_queue * 0 / 0", None),
        ("no_such_series", None),
        ("name:all-queues", 97.0),
    ],
)
async def test_activation_is_held_to_the_namespace(
    url: str, query: str, demand: float | None
) -> None:
    """A trigger's PromQL sees its own namespace only; an operator's named query sees all."""
    asked = source(url, queries={"all-queues": "sum(gateway_queue)"})
    selection = Selection(
        source="prometheus", namespace="prod", model_name="llama", activation_query=query
    )
    found = (await asked.read([selection], NOW))[selection]
    assert isinstance(found, Reading)
    assert found.activation == demand
    assert found.activation is None or math.isfinite(found.activation)


@pytest.mark.parametrize(
    "query",
    [
        'gateway_queue{namespace="other"}',
        'gateway_queue{namespace=~".+"}',
        'gateway_queue or {__name__=~"gateway.*",namespace!="prod"}',
        "gateway_queue) or (gateway_queue",
        'label_replace(sum(gateway_queue{namespace="other"}), "__query__", "0", "", "")',
        "info(gateway_queue)",
    ],
)
async def test_a_query_of_another_namespace_is_refused(url: str, query: str) -> None:
    """What reaches beyond its namespace has no answer; the engines' signals stay, and so do all."""
    asked = source(url, queries={"all-queues": "sum(gateway_queue)"})
    bad = replace(chosen(), activation_query=query)
    good = replace(chosen(), activation_query='gateway_queue{gateway="g"}')
    found = await asked.read([bad, good, chosen()], NOW)
    assert told(found[bad]).activation is None
    assert told(found[bad]).query_fault is not None
    assert told(found[good]).activation == 7.0
    assert told(found[bad]).replicas == told(found[chosen()]).replicas != ()
    demands = await asked.own_queries.demands([bad, good], NOW)
    assert isinstance(demands[bad], SelectionInvalid)
    assert demands[good] == 7.0


@pytest.mark.parametrize(
    "query",
    [
        'label_replace(gateway_queue, "__query__", "1", "", "")',
        'label_replace(gateway_queue, "namespace", "other", "", "")',
        'gateway_queue # ), "__query__", "1", "", "") or sum(gateway_queue',
        "gateway_queue or gateway_queue",
    ],
)
async def test_a_query_takes_no_other_s_place_in_a_batch(url: str, query: str) -> None:
    """Whatever labels it makes and wherever it tries to end, it answers for itself."""
    many = [replace(chosen(), activation_query=f"gateway_queue * {n}") for n in range(1, 45)]
    odd = replace(chosen(), activation_query=query)
    demands = await source(url).own_queries.demands([odd, *many], NOW)
    assert demands[odd] == 7.0
    assert [demands[each] for each in many] == [7.0 * n for n in range(1, 45)]


async def test_a_query_that_fails_when_it_runs_spoils_no_batch(url: str) -> None:
    """Prometheus refuses a whole request for one part: the others are asked anew, at once."""
    clashing = "gateway_queue + on () group_left () (gateway_queue or vllm:num_requests_running)"
    bad = replace(chosen(), activation_query=clashing)
    many = [replace(chosen(), activation_query=f"gateway_queue * {n}") for n in range(1, 31)]
    asked = source(url)
    requests = []
    for _ in range(2):
        demands = await asked.own_queries.demands([bad, *many], NOW)
        assert isinstance(demands[bad], SelectionInvalid)
        assert [demands[each] for each in many] == [7.0 * n for n in range(1, 31)]
        requests.append(asked.stats()["query"].asked)
    # Two batches and one of them query by query; then the bad one alone and the others in two.
    assert requests == [2 + 20, 2 + 20 + 3]


async def test_thousands_of_fleets_are_asked_in_few_requests(url: str) -> None:
    """A round over a thousand different queries is fifty requests."""
    asked = source(url)
    fleets = [
        replace(chosen(), namespace=f"n{n}", activation_query="sum(gateway_queue) or vector(0)")
        for n in range(1000)
    ]
    demands = await asked.own_queries.demands(fleets, NOW)
    assert set(demands.values()) == {0.0}
    assert asked.stats()["query"].asked == 50


async def test_a_scalar_query_is_asked_by_itself(url: str) -> None:
    """What is one number and no vector cannot be joined, and is answered all the same."""
    scalar = replace(chosen(), activation_query="scalar(sum(gateway_queue)) + 1")
    other = replace(chosen(), activation_query="gateway_queue")
    demands = await source(url).own_queries.demands([scalar, other], NOW)
    assert (demands[scalar], demands[other]) == (8.0, 7.0)


async def test_what_gateways_said_is_read_back_too(url: str) -> None:
    """A restarted scaler knows what waited, at each tick as it was read at that tick."""
    asked = source(url, queries={"all-queues": "sum(gateway_queue)"})
    selection = replace(
        chosen(), activation_query="gateway_queue", rejection_query="name:all-queues"
    )
    back = await asked.recall(selection, NOW - 10 * TICK, NOW, TICK)
    assert [(each.activation, each.rejection_rate) for each in back] == [(7.0, 97.0)] * 11
    assert told((await asked.read([selection], NOW))[selection]) == back[-1]


def told(found: Reading | SourceError) -> Reading:
    """Return a reading, which it must be."""
    assert isinstance(found, Reading)
    return found
