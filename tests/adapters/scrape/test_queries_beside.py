"""Engines by their pages, gateways by a real Prometheus beside them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.adapters.queried_source import QueriedSource
from scaler.adapters.sources import BuiltSource, source_of
from scaler.config.sections import QueriesSection, ScrapeSource
from scaler.control.ports import SelectionInvalid, SourceError, SourceUnreachable
from scaler.control.source_work import Targets
from scaler.core.reading import Reading
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Selection
from tests.app.process import engines, free_port
from tests.fakes.clock import FakeClock
from tests.prometheus_server import Past, prometheus

PAGE = (Path(__file__).parents[2] / "data" / "captures" / "saturated-waiting.txt").read_bytes()
NOW = tick_at(time.time() - 3600.0)
CHAT = Selection(source="engines", namespace="prod", model_name="tiny")
WAITS = 'sum(gateway_queue{gateway="g"})'


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Prometheus that knows the gateways of two namespaces."""
    past = Past()
    times = [NOW - 15.0 * back for back in range(60)]
    for namespace, label, value in (
        ("prod", "namespace", 7.0),
        ("other", "namespace", 90.0),
        ("prod", "tenant", 400.0),
    ):
        past.add("gateway_queue", {label: namespace, "gateway": "g"}, dict.fromkeys(times, value))
    with prometheus(tmp_path_factory.mktemp("beside"), past) as address:
        yield address


@asynccontextmanager
async def built(directory: Path, **section: object) -> AsyncIterator[BuiltSource]:
    """Build the source as the server does, and let it read its pages once."""
    async with engines(directory, {"pod-0": PAGE}) as served:
        section.setdefault("timeout", 4.0)
        configured = ScrapeSource(
            type="scrape",
            targets=served.targets,
            prometheus=QueriesSection.model_validate(section),
        )
        found = source_of("engines", configured, FakeClock(NOW))
        assert isinstance(found.source, QueriedSource)
        pages = found.source._source  # noqa: SLF001 - what scrapes has no other way to do it once
        await pages.scrape_once()  # type: ignore[attr-defined]
        yield found


async def read(found: BuiltSource, *selections: Selection) -> list[Reading]:
    """Read, and return readings, which all must be."""
    answers = await found.source.read(selections, NOW)
    readings = [answers[each] for each in selections]
    assert all(isinstance(each, Reading) for each in readings)
    return [each for each in readings if isinstance(each, Reading)]


async def demand(found: BuiltSource, selection: Selection) -> float | SourceError | None:
    """Ask as the rounds for fleets at zero do."""
    assert found.gateways is not None
    return (await found.gateways.demands([selection], NOW))[selection]


@pytest.mark.prometheus
async def test_both_ways_meet_in_one_reading(url: str, tmp_path: Path) -> None:
    """The engine's page and the gateway's series, for those that ask; others get the page alone."""
    asks = replace(CHAT, activation_query=WAITS, rejection_query="name:all")
    async with built(tmp_path, url=url, queries={"all": "sum(gateway_queue)"}) as found:
        with_queries, without = await read(found, asks, CHAT)
        assert (with_queries.activation, with_queries.rejection_rate) == (7.0, 497.0)
        assert with_queries.query_fault is None
        assert (without.activation, without.rejection_rate) == (None, None)
        assert with_queries.replicas == without.replicas != ()
        assert await demand(found, asks) == 7.0
        assert list(await found.source.recall(asks, NOW - 4 * TICK, NOW, TICK)) == []
        work = found.work()
        assert {kind: each.ended["ok"] for kind, each in work.requests.items()} == {
            "scrape": 1,
            "query": 3,
        }
        assert work.targets == Targets(known=1, failing=0)


@pytest.mark.prometheus
async def test_named_queries_change_with_a_reload(url: str, tmp_path: Path) -> None:
    """What the operator renames is asked under its new name at once."""
    asks = replace(CHAT, activation_query="name:queue")
    async with built(tmp_path, url=url, queries={"queue": "sum(gateway_queue)"}) as found:
        assert await demand(found, asks) == 497.0
        beside = QueriesSection.model_validate({"url": url, "queries": {"queue": "vector(1)"}})
        targets = tmp_path / "targets.json"
        found.adopt(ScrapeSource(type="scrape", targets=targets, prometheus=beside))
        assert await demand(found, asks) == 1.0


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("label", "seen"), [("namespace", 7.0), ("tenant", 400.0)], ids=["usual", "renamed"]
)
@pytest.mark.parametrize(
    "query",
    [
        "gateway_queue",
        '{__name__=~"gateway_.+"}',
        "sum(gateway_queue)",
        "gateway_queue unless on (pod) nothing",
        "max_over_time(gateway_queue[5m])",
        "last_over_time(gateway_queue[10m:15s])",
        "gateway_queue @ end()",
        'label_replace(gateway_queue, "namespace", "other", "", "")',
    ],
)
async def test_a_query_sees_its_own_namespace_alone(
    url: str, tmp_path: Path, query: str, label: str, seen: float
) -> None:
    """However it is written, and whichever label holds the namespace."""
    asks = replace(CHAT, activation_query=query)
    async with built(tmp_path, url=url, labels={"namespace": label}) as found:
        (reading,) = await read(found, asks)
        assert reading.activation == seen
        assert await demand(found, asks) == seen


@pytest.mark.prometheus
@pytest.mark.parametrize(
    "query",
    [
        'gateway_queue{namespace="other"}',
        'gateway_queue{namespace=~".*"}',
        'gateway_queue{namespace!="prod"}',
        'gateway_queue or gateway_queue{namespace="other"}',
        'gateway_queue{gateway="g" or namespace="other"}',
        "gateway_queue) or (gateway_queue",
        'gateway_queue}) or sum({__name__="gateway_queue"',
        "info(gateway_queue)",
        "gateway_queue[5m]",
        "(" * 500 + "gateway_queue" + ")" * 500,
        "name:nobody-named-it",
    ],
)
async def test_a_hostile_query_has_no_answer_and_harms_nobody(
    url: str, tmp_path: Path, query: str
) -> None:
    """It costs its own workload the gateway's demand, and not even that the engines' signals."""
    hostile = replace(CHAT, activation_query=query)
    honest = replace(CHAT, activation_query=WAITS)
    async with built(tmp_path, url=url) as found:
        bad, good = await read(found, hostile, honest)
        assert (bad.activation, good.activation) == (None, 7.0)
        assert bad.query_fault is not None
        assert bad.replicas == good.replicas != ()
        assert isinstance(await demand(found, hostile), SelectionInvalid)
        assert await demand(found, honest) == 7.0


async def test_a_prometheus_that_is_down_costs_the_gateways_demand_alone(tmp_path: Path) -> None:
    """The engines' signals are told as ever; why the demand is not known, too."""
    asks = replace(CHAT, activation_query=WAITS, rejection_query="sum(refused)")
    async with built(tmp_path, url=f"http://127.0.0.1:{free_port()}", timeout=1.0) as found:
        with_queries, without = await read(found, asks, CHAT)
        assert with_queries.replicas == without.replicas != ()
        assert (with_queries.activation, with_queries.rejection_rate) == (None, None)
        assert "refuses the connection" in (with_queries.query_fault or "")
        assert without.query_fault is None
        assert isinstance(await demand(found, asks), SourceUnreachable)


@pytest.mark.prometheus
async def test_engines_that_are_silent_cost_the_engines_signals_alone(
    url: str, tmp_path: Path
) -> None:
    """At zero no page answers, and what waits at the gateway is known all the same."""
    asks = replace(CHAT, activation_query=WAITS)
    targets = tmp_path / "targets.json"
    targets.write_text('[{"targets": ["127.0.0.1:1"], "labels": {"namespace": "prod"}}]')
    beside = QueriesSection.model_validate({"url": url})
    section = ScrapeSource(type="scrape", targets=targets, prometheus=beside)
    found = source_of("engines", section, FakeClock(NOW))
    assert isinstance((await found.source.read([asks], NOW))[asks], SourceError)
    assert await demand(found, asks) == 7.0
