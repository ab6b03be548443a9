"""What a source saw of one workload's engines at one tick, before anything is concluded from it.

Every source (engine pages, Prometheus, the simulator) fills the same shape, so that one function
turns it into a sample. Counters arrive as rates per second over `RATE_WINDOW`, resets already
removed. `None` always means "not known", never zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scaler.core.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReading:
    """One replica that reported: its engines and API-server processes already folded into one.

    `waiting` counts requests that wait for capacity; where the engine splits its gauge by reason,
    only `reason="capacity"`. `kv_cache` is a fraction 0..1, the mean over the replica's engines;
    `None` where the engine publishes no such gauge.
    `busy_for` is how long, at least, the replica has had a request running or waiting without a
    pause (0 when it has none now), at most `RATE_WINDOW` need be known.
    """

    name: str
    running: float
    waiting: float
    kv_cache: float | None = None
    engines: int = 1
    asleep: bool = False
    busy_for: Seconds = 0.0
    first_token_rate: float | None = None
    token_rate: float | None = None
    prompt_token_rate: float | None = None
    preemption_rate: float | None = None
    rejection_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyBuckets:
    """A latency histogram's growth over `RATE_WINDOW`, merged over replicas.

    `edges` are the buckets' upper edges in seconds, ascending, the last one `inf`; `counts` are
    the observations at or below each edge within the window (cumulative, as Prometheus has them).
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One workload as its source saw it at the tick `at`.

    `scraped_at` is when the newest value in it was scraped (epoch seconds); two readings with the
    same `scraped_at` show the same scrape. `scrapes` is how many distinct scrapes this reading
    rests on since the tick before (at least 1 when anything reported).
    `unseen` counts replicas that reported before and do not now (a target that refuses, a pod whose
    series ended within the last minutes, a partial answer); `loading` those that the source knows
    of and has never heard. `silent` and `unheard` are their names, as far as they are known, and
    `partial` says that an unknown number may be missing.
    `latencies` are the histograms that `ttft` is the sum of, by `stem_of` their pods' names.
    `by_pods` says that the engines were found by the scale targets' pods, so that nothing is seen
    of a pod that nobody told of.
    Only pods tell `overdue`, the replicas that no longer count as coming.
    `rejection_rate` is what a gateway refused, per second (`rejectionQuery`); `activation` is the
    demand that waits at a gateway (`activationQuery`); both `None` where no query is configured,
    or where it gave no number: `query_fault` then says why.
    """

    at: Seconds
    scraped_at: Seconds
    scrapes: int = 1
    replicas: tuple[ReplicaReading, ...] = ()
    unseen: int = 0
    loading: int = 0
    overdue: int = 0
    silent: frozenset[str] = frozenset()
    unheard: frozenset[str] = frozenset()
    partial: bool = False
    by_pods: bool = False
    ttft: LatencyBuckets | None = None
    latencies: Mapping[str, LatencyBuckets] = field(default_factory=dict)
    rejection_rate: float | None = None
    activation: float | None = None
    query_fault: str | None = None


def stem_of(pod: str) -> str:
    """Return what a pod's name shares with its siblings': all up to the last dash, or all of it.

    The pods of one ReplicaSet, StatefulSet or group share a stem, and nobody else's have it.
    """
    return pod[: pod.rfind("-") + 1] or pod


def add_latencies(parts: Iterable[LatencyBuckets]) -> LatencyBuckets | None:
    """Add histograms up at the edges that all of them have; None where there are none.

    One without an observation knows nothing of edges that others lack.
    """
    known = list(parts)
    grown = [part for part in known if part.counts[-1] > 0] or known
    if not grown:
        return None
    if len(grown) == 1:
        return grown[0]
    common = frozenset(grown[0].edges).intersection(*(part.edges for part in grown[1:]))
    edges = tuple(sorted(common))
    tables = [dict(zip(part.edges, part.counts, strict=True)) for part in grown]
    counts = tuple(math.fsum(table[edge] for table in tables) for edge in edges)
    return LatencyBuckets(edges=edges, counts=counts)
