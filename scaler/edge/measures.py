"""What the scaler counts of its own work."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from scaler.control.source_work import SourceWork
from scaler.edge.families import CALLS, ENDED_STREAMS, QUERIES, STREAMS, Family

_CALL_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_QUERY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Measures:
    """Counters and durations, on a registry of the scaler's own.

    `works` are asked at each scrape what the sources have done, by the sources' names, and in the
    thread that writes the page.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self.works: dict[str, Callable[[], SourceWork]] = {}
        self.registry = CollectorRegistry(auto_describe=True)
        self.calls = Histogram(*_told(CALLS), buckets=_CALL_SECONDS, registry=self.registry)
        self.streams = Gauge(*_told(STREAMS), registry=self.registry)
        self.ended_streams = Counter(*_told(ENDED_STREAMS), registry=self.registry)
        self.queries = Histogram(*_told(QUERIES), buckets=_QUERY_SECONDS, registry=self.registry)


def _told(family: Family) -> tuple[str, str, tuple[str, ...]]:
    return (family.name, family.meaning, family.labels)
