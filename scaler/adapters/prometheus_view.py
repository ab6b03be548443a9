"""Sorts what the queries brought back by workload, and folds it into readings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from scaler.adapters import prometheus_queries as names
from scaler.adapters.prometheus_answer import Series
from scaler.adapters.prometheus_queries import Kind, Shape
from scaler.core.reading import LatencyBuckets, Reading, ReplicaReading
from scaler.core.units import RATE_WINDOW, Seconds

Identity = tuple[str, ...]
Engine = tuple[str, ...]
Gauges = dict[str, float]
Rates = dict[tuple[Engine, str, str], float]
_Key = TypeVar("_Key")


@dataclass(slots=True)
class Seen:
    """What one instant shows of one identity (or of several, merged)."""

    gauges: dict[str, dict[Engine, Gauges]] = field(default_factory=dict)
    rates: dict[str, Rates] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    silent: set[tuple[str, Engine]] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    buckets: defaultdict[float, float] = field(default_factory=lambda: defaultdict(float))
    scraped_at: Seconds | None = None


class View:
    """What one instant shows of everything that was asked for, by identity."""

    def __init__(self) -> None:
        """Start empty."""
        self.seen: defaultdict[Identity, Seen] = defaultdict(Seen)
        self.partial = False


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
        gauge = _stem(labels["__name__"])
        _keep_highest(seen.gauges.setdefault(pod, {}).setdefault(engine, {}), gauge, value)
    elif kind is Kind.RATES:
        key = (engine, labels[names.SIGNAL], labels.get("reason", ""))
        _keep_highest(seen.rates.setdefault(pod, {}), key, value)
    elif kind is Kind.BUSY:
        seen.busy.add(pod)
    elif kind is Kind.SILENT:
        seen.silent.add(place)
    elif kind is Kind.UNSEEN:
        seen.unseen.add(pod)
    elif kind is Kind.SCRAPED:
        seen.scraped_at = max(seen.scraped_at or value, value)
    elif _is_amount(value):
        seen.buckets[float(labels["le"])] += value


def merged(parts: Collection[Seen]) -> Seen:
    """Put the identities that one selection matches together."""
    if len(parts) == 1:
        return next(iter(parts))
    whole = Seen()
    for part in parts:
        for pod, engines in part.gauges.items():
            for engine, gauges in engines.items():
                into = whole.gauges.setdefault(pod, {}).setdefault(engine, {})
                for gauge, value in gauges.items():
                    _keep_highest(into, gauge, value)
        for pod, rates in part.rates.items():
            for key, value in rates.items():
                _keep_highest(whole.rates.setdefault(pod, {}), key, value)
        whole.busy |= part.busy
        whole.silent |= part.silent
        whole.unseen |= part.unseen
        for edge, growth in part.buckets.items():
            whole.buckets[edge] += growth
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
    unseen = len((seen.unseen | pods) - {replica.name for replica in replicas})
    return Reading(
        at=at,
        scraped_at=seen.scraped_at if seen.scraped_at is not None else looked_at,
        replicas=tuple(sorted(replicas, key=lambda replica: replica.name)),
        unseen=max(unseen, len(replicas) + 1) if partial else unseen,
        ttft=_latencies(seen.buckets),
    )


def _replica(pod: str, seen: Seen, silent: Collection[Engine]) -> ReplicaReading | None:
    """Fold a pod's engines into one; None where one of them says nothing that can be used."""
    engines = [g for g in seen.gauges.get(pod, {}).values() if _reports(g)]
    if not engines and not silent:
        return None
    running = [_amount(gauges.get(names.RUNNING)) for gauges in engines]
    waiting = [_waiting(gauges) for gauges in engines]
    if None in running or None in waiting:
        return None
    rates = seen.rates.get(pod, {})
    awake = [gauges.get(names.SLEEP_STATE, 1.0) for gauges in seen.gauges.get(pod, {}).values()]
    return ReplicaReading(
        name=pod,
        running=math.fsum(value for value in running if value is not None),
        waiting=math.fsum(value for value in waiting if value is not None),
        kv_cache=_mean(_kv_cache(gauges) for gauges in engines),
        engines=len(engines) + len(silent),
        asleep=bool(awake) and all(value == 0.0 for value in awake),
        busy_for=RATE_WINDOW if pod in seen.busy else 0.0,
        first_token_rate=_rate(rates, names.FIRST_TOKENS),
        token_rate=_rate(rates, names.TOKENS),
        preemption_rate=_rate(rates, names.PREEMPTIONS),
        rejection_rate=_rate(rates, names.REJECTIONS),
    )


def _reports(gauges: Gauges) -> bool:
    return names.RUNNING in gauges or names.WAITING in gauges or names.WAITING_BY_REASON in gauges


def _waiting(gauges: Gauges) -> float | None:
    return _amount(gauges.get(names.WAITING_BY_REASON, gauges.get(names.WAITING)))


def _kv_cache(gauges: Gauges) -> float | None:
    return _amount(gauges.get(names.KV_CACHE, gauges.get(names.KV_CACHE_OLD)))


def _rate(rates: Rates, counter: str) -> float | None:
    known = [rate for (_, signal, _), rate in rates.items() if signal == counter]
    return math.fsum(known) if known and all(map(_is_amount, known)) else None


def _latencies(buckets: Mapping[float, float]) -> LatencyBuckets | None:
    edges = tuple(sorted(edge for edge in buckets if not math.isnan(edge)))
    if not edges or not math.isinf(edges[-1]):
        return None
    return LatencyBuckets(edges=edges, counts=tuple(buckets[edge] for edge in edges))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _stem(metric: str) -> str:
    for prefix in names.PREFIXES:
        if metric.startswith(prefix):
            return metric[len(prefix) :]
    return metric


def _keep_highest(into: dict[_Key, float], key: _Key, value: float) -> None:
    """Keep one value of what several servers or scrape jobs saw of one thing; any beats NaN."""
    held = into.get(key, math.nan)
    into[key] = value if math.isnan(held) else max(held, value) if value == value else held  # noqa: PLR0124


def _amount(value: float | None) -> float | None:
    return value if value is not None and _is_amount(value) else None


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0
