"""Sorts what the queries brought back by workload, and folds it into readings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from scaler.adapters.prometheus_answer import Series
from scaler.adapters.prometheus_queries import SIGNAL, STEM, Kind, Shape
from scaler.adapters.vllm import (
    COUNTERS,
    Engine,
    Gauges,
    Signal,
    fold_gauges,
    fold_replica,
    is_amount,
    keep_gauge,
    merge_latencies,
    signal_of,
)
from scaler.core.reading import Reading, ReplicaReading, add_latencies, stem_of
from scaler.core.units import RATE_WINDOW, Seconds

Identity = tuple[str, ...]
Rates = dict[tuple[Engine, Signal, str], float]
_Key = TypeVar("_Key")


@dataclass(slots=True)
class Seen:
    """What one instant shows of one identity (or of several, merged)."""

    gauges: dict[str, dict[Engine, Gauges]] = field(default_factory=dict)
    rates: dict[str, Rates] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    silent: set[tuple[str, Engine]] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)
    scraped_at: Seconds | None = None
    known_stem: str | None = None

    @property
    def stems(self) -> set[str]:
        """Return what its pods' names begin with; those that fell silent lately count."""
        pods = {*self.gauges, *self.rates, *self.unseen, *(pod for pod, _ in self.silent)}
        return {stem_of(pod) for pod in pods}

    @property
    def only_stem(self) -> str:
        """Return the stem of its pods where they share one, so that nobody had to ask.

        Kept once it is asked for: the pods are known by then, and there are many buckets.
        """
        if self.known_stem is None:
            stems = self.stems
            self.known_stem = next(iter(stems)) if len(stems) == 1 else ""
        return self.known_stem


class View:
    """What one instant shows of everything that was asked for, by identity."""

    def __init__(self) -> None:
        """Start empty."""
        self.seen: defaultdict[Identity, Seen] = defaultdict(Seen)
        self.partial = False

    @property
    def has_single_stems(self) -> bool:
        """Say whether no identity has pods of two owners."""
        return all(len(seen.stems) <= 1 for seen in self.seen.values())


def enter(kind: Kind, shape: Shape, series: Series, views: Mapping[Seconds, View]) -> None:
    """Put a series' points into the views of their instants; other points fall out."""
    labels = series.labels
    identity = tuple(labels.get(label, "") for label in shape.identity)
    pod = labels.get(shape.pod, "")
    engine = tuple(labels.get(label, "") for label in shape.engine)
    for instant, value in series.points:
        view = views.get(instant)
        if view is not None:
            _enter(kind, labels, view.seen[identity], (pod, engine), value)


def _enter(
    kind: Kind, labels: Mapping[str, str], seen: Seen, place: tuple[str, Engine], value: float
) -> None:
    pod, engine = place
    if kind is Kind.GAUGES:
        signal = signal_of(labels["__name__"])
        if signal is not None:
            keep_gauge(seen.gauges.setdefault(pod, {}).setdefault(engine, {}), signal, value)
    elif kind is Kind.RATES:
        key = (engine, Signal(labels[SIGNAL]), labels.get("reason", ""))
        _keep_highest(seen.rates.setdefault(pod, {}), key, value)
    elif kind is Kind.BUSY:
        seen.busy.add(pod)
    elif kind is Kind.SILENT:
        seen.silent.add(place)
    elif kind is Kind.UNSEEN:
        seen.unseen.add(pod)
    elif kind is Kind.SCRAPED:
        seen.scraped_at = max(seen.scraped_at or value, value)
    elif is_amount(value):
        _add(seen.buckets, labels.get(STEM) or seen.only_stem, float(labels["le"]), value)


def merged(parts: Collection[Seen]) -> Seen:
    """Put the identities that one selection matches together."""
    if len(parts) == 1:
        return next(iter(parts))
    whole = Seen()
    for part in parts:
        for pod, engines in part.gauges.items():
            for engine, gauges in engines.items():
                into = whole.gauges.setdefault(pod, {}).setdefault(engine, {})
                for signal, value in gauges.items():
                    keep_gauge(into, signal, value)
        for pod, rates in part.rates.items():
            for key, value in rates.items():
                _keep_highest(whole.rates.setdefault(pod, {}), key, value)
        whole.busy |= part.busy
        whole.silent |= part.silent
        whole.unseen |= part.unseen
        for stem, edges in part.buckets.items():
            for edge, growth in edges.items():
                _add(whole.buckets, stem, edge, growth)
        stamps = [stamp for stamp in (whole.scraped_at, part.scraped_at) if stamp is not None]
        whole.scraped_at = max(stamps, default=None)
    return whole


def fold(seen: Seen, *, at: Seconds, looked_at: Seconds, partial: bool) -> Reading:
    """Fold what was seen at `looked_at` into the reading of the tick `at`.

    A partial view leaves more than half unseen, so that nobody takes it for calm.
    """
    silent: defaultdict[str, set[Engine]] = defaultdict(set)
    for pod, engine in seen.silent:
        silent[pod].add(engine)
    pods = seen.gauges.keys() | silent.keys()
    folded = {pod: _replica(pod, seen, silent[pod]) for pod in pods}
    replicas = [replica for replica in folded.values() if replica is not None]
    unseen = frozenset((seen.unseen | pods) - {replica.name for replica in replicas})
    merged_by_stem = ((stem, merge_latencies([edges])) for stem, edges in seen.buckets.items())
    latencies = {stem: merged for stem, merged in merged_by_stem if merged is not None}
    return Reading(
        at=at,
        scraped_at=seen.scraped_at if seen.scraped_at is not None else looked_at,
        replicas=tuple(sorted(replicas, key=lambda replica: replica.name)),
        unseen=max(len(unseen), len(replicas) + 1) if partial else len(unseen),
        silent=unseen,
        partial=partial,
        ttft=add_latencies(latencies.values()),
        latencies=latencies,
    )


def _replica(pod: str, seen: Seen, silent: Collection[Engine]) -> ReplicaReading | None:
    """Fold a pod's engines into one; None where one of them says nothing that can be used."""
    load = fold_gauges(seen.gauges.get(pod, {}), silent)
    if load is None:
        return None
    rates = {counter: _rate(seen.rates.get(pod, {}), counter) for counter in COUNTERS}
    return fold_replica(pod, load, rates, RATE_WINDOW if pod in seen.busy else 0.0)


def _rate(rates: Rates, counter: Signal) -> float | None:
    """Add up what a pod's engines count per second; None where one of them says what cannot be."""
    known = [rate for (_, signal, _), rate in rates.items() if signal is counter]
    return math.fsum(known) if known and all(map(is_amount, known)) else None


def _add(buckets: dict[str, dict[float, float]], stem: str, edge: float, growth: float) -> None:
    edges = buckets.setdefault(stem, {})
    edges[edge] = edges.get(edge, 0.0) + growth


def _keep_highest(into: dict[_Key, float], key: _Key, value: float) -> None:
    """Keep one value of what several servers or scrape jobs saw of one thing; any beats NaN."""
    held = into.get(key, math.nan)
    into[key] = value if math.isnan(held) else max(held, value) if value == value else held  # noqa: PLR0124
