"""The scaler's own metrics. A value that is not known is absent: it is never 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from scaler import __version__
from scaler.control.board import Board, Posting
from scaler.control.follower import Follower
from scaler.control.registry import Registry
from scaler.control.source_work import SourceWork
from scaler.core.units import Seconds
from scaler.core.workload import WorkloadKey
from scaler.edge.explained import undecided_because
from scaler.edge.families import (
    AGE,
    BUILD,
    COVERAGE,
    DECISIONS,
    FAILED_TICKS,
    FAILING_TARGETS,
    FINDING,
    PARTIAL,
    REASON,
    RECEIVED,
    REQUEST_SECONDS,
    REQUESTS,
    RETRIES,
    SOURCE_FAULT,
    TARGETS,
    TICKS,
    UNRESOLVED,
    WORKLOADS,
    Family,
)
from scaler.edge.gauges import WORKLOAD_GAUGES
from scaler.edge.measures import Measures


class BoardCollector(Collector):
    """Reads registry, board, followers and sources at the moment of the scrape."""

    def __init__(
        self,
        *,
        registry: Registry,
        board: Board,
        followers: Sequence[Follower],
        works: Mapping[str, Callable[[], SourceWork]],
        now: Callable[[], Seconds],
    ) -> None:
        """Read from these; `works` are the sources' by name, `now` is the wall clock."""
        self._registry = registry
        self._board = board
        self._followers = followers
        self._works = works
        self._now = now

    def describe(self) -> list[Metric]:
        """Name nothing in advance: every name here begins like no other collector's."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Give all families."""
        now = self._now()
        postings = list(self._board.snapshot.postings.values())
        yield _gauge(BUILD, [((__version__,), 1.0)])
        yield from self._workloads(postings, now)
        yield from self._registered()
        yield self._decisions()
        yield from self._sources(now)
        works = {name: work() for name, work in self._works.items()}
        yield from _requests(works)
        yield from _targets(works)

    def _workloads(self, postings: list[Posting], now: Seconds) -> Iterator[Metric]:
        for gauge in WORKLOAD_GAUGES:
            yield _gauge(gauge.family, ((_labels(p.key), gauge.of(p, now)) for p in postings))
        reasons = {p.key: p.decision.reason for p in postings}
        for entry in self._registry:
            reasons.setdefault(entry.key, undecided_because(entry))
        values = (((*_labels(key), reason.value), 1.0) for key, reason in reasons.items())
        yield _gauge(REASON, values)
        yield _gauge(FINDING, _findings(postings))

    def _registered(self) -> Iterator[Metric]:
        entries = list(self._registry)
        unresolved = sum(entry.resolved is None for entry in entries)
        yield _gauge(WORKLOADS, [((), float(len(entries)))])
        yield _gauge(UNRESOLVED, [((), float(unresolved))])

    def _decisions(self) -> Metric:
        known = {(entry.key.namespace, entry.key.name) for entry in self._registry}
        totals: dict[tuple[str, ...], float] = {}
        for follower in self._followers:
            for (namespace, name, reason), count in list(follower.stats.decisions.items()):
                if (namespace, name) in known:
                    place = (namespace, name, reason.value)
                    totals[place] = totals.get(place, 0.0) + count
        return _counter(DECISIONS, totals.items())

    def _sources(self, now: Seconds) -> Iterator[Metric]:
        stats = [((f.source.name,), f.stats) for f in self._followers]
        yield _counter(TICKS, ((name, s.ticks) for name, s in stats))
        yield _counter(FAILED_TICKS, ((name, s.failed_ticks) for name, s in stats))
        yield _gauge(COVERAGE, ((name, s.coverage) for name, s in stats if s.ticks))
        heard = [(name, s.last_heard) for name, s in stats if s.last_heard]
        yield _gauge(AGE, ((name, max(0.0, now - last)) for name, last in heard))


def _requests(works: Mapping[str, SourceWork]) -> Iterator[Metric]:
    asked = [
        ((name, kind), requests)
        for name, work in works.items()
        for kind, requests in work.requests.items()
    ]
    ended = (((*of, end), float(n)) for of, each in asked for end, n in each.ended.items())
    yield _counter(REQUESTS, ended)
    yield _counter(RETRIES, ((of, each.retried) for of, each in asked))
    yield _counter(PARTIAL, ((of, each.partial) for of, each in asked))
    yield _counter(REQUEST_SECONDS, ((of, each.seconds) for of, each in asked))
    yield _counter(RECEIVED, (((name,), work.received) for name, work in works.items()))


def _targets(works: Mapping[str, SourceWork]) -> Iterator[Metric]:
    scraped = [((name,), work.targets) for name, work in works.items() if work.targets]
    yield _gauge(TARGETS, ((name, targets.known) for name, targets in scraped))
    yield _gauge(FAILING_TARGETS, ((name, targets.failing) for name, targets in scraped))
    faults = (
        ((name, fault), float(found))
        for name, work in works.items()
        for fault, found in work.faults.items()
    )
    yield _gauge(SOURCE_FAULT, faults)


def _findings(postings: Iterable[Posting]) -> Iterator[tuple[tuple[str, ...], float | None]]:
    for posting in postings:
        if posting.diagnosis is not None:
            labels = _labels(posting.key)
            for kind, found in posting.diagnosis.verdicts().items():
                yield (*labels, kind.value), float(found)


_Values: TypeAlias = Iterable[tuple[tuple[str, ...], float | None]]


def _gauge(family: Family, values: _Values) -> Metric:
    """Make a gauge of what is known."""
    made = GaugeMetricFamily(family.name, family.meaning, labels=family.labels)
    for labels, value in values:
        if value is not None and math.isfinite(value):
            made.add_metric(labels, float(value))
    return made


def _counter(family: Family, values: _Values) -> Metric:
    made = CounterMetricFamily(family.name, family.meaning, labels=family.labels)
    for labels, value in values:
        if value is not None:
            made.add_metric(labels, float(value))
    return made


def _labels(key: WorkloadKey) -> tuple[str, str, str]:
    return (key.namespace, key.name, key.trigger)


def register(
    measures: Measures,
    *,
    registry: Registry,
    board: Board,
    followers: Sequence[Follower],
    now: Callable[[], Seconds],
) -> CollectorRegistry:
    """Put the board and the process beside what is counted; return the registry to scrape."""
    collector = BoardCollector(
        registry=registry, board=board, followers=followers, works=measures.works, now=now
    )
    measures.registry.register(collector)
    ProcessCollector(registry=measures.registry)
    return measures.registry


def exposition(registry: CollectorRegistry) -> bytes:
    """Write the registry in Prometheus' text format 0.0.4."""
    return generate_latest(registry)
