"""What vLLM's metrics mean, whatever they are called, and how one replica's series fold to one.

Pure functions without I/O: every source that reads engines' series says the same of the same
series. The names are those of vLLM 0.2.7 to 0.33, bare, through pipelines that rewrite the colon,
and as Ray Serve exports them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from scaler.core.reading import LatencyBuckets, ReplicaReading
from scaler.core.units import Seconds

PREFIXES = ("vllm:", "vllm_", "ray_vllm_", "ray_vllm:")
"""vLLM's own; with the colon rewritten; and Ray Serve's, in both forms."""


class Signal(StrEnum):
    """What a series says, apart from its name in one version or another."""

    RUNNING = "running"
    WAITING = "waiting"
    WAITING_BY_REASON = "waiting_by_reason"
    KV_CACHE = "kv_cache"
    SLEEP_STATE = "sleep_state"
    FIRST_TOKENS = "first_tokens"
    TOKENS = "tokens"
    PROMPT_TOKENS = "prompt_tokens"
    PREEMPTIONS = "preemptions"
    REJECTIONS = "rejections"
    TTFT_BUCKET = "ttft_bucket"


FAMILIES: Mapping[Signal, tuple[str, ...]] = {
    Signal.RUNNING: ("num_requests_running",),
    Signal.WAITING: ("num_requests_waiting",),
    Signal.WAITING_BY_REASON: ("num_requests_waiting_by_reason",),
    Signal.KV_CACHE: ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    Signal.SLEEP_STATE: ("engine_sleep_state",),
    Signal.FIRST_TOKENS: ("time_to_first_token_seconds_count",),
    Signal.TOKENS: ("generation_tokens_total",),
    Signal.PROMPT_TOKENS: ("prompt_tokens_total",),
    Signal.PREEMPTIONS: ("num_preemptions_total",),
    Signal.REJECTIONS: ("admission_rejections_total",),
    Signal.TTFT_BUCKET: ("time_to_first_token_seconds_bucket",),
}
"""The names (without prefix) under which samples of a signal are exposed, the newest first."""

GAUGES = (
    Signal.RUNNING,
    Signal.WAITING,
    Signal.WAITING_BY_REASON,
    Signal.KV_CACHE,
    Signal.SLEEP_STATE,
)
COUNTERS = (
    Signal.FIRST_TOKENS,
    Signal.TOKENS,
    Signal.PROMPT_TOKENS,
    Signal.PREEMPTIONS,
    Signal.REJECTIONS,
)
ENGINE_COUNTERS = (Signal.FIRST_TOKENS, Signal.TOKENS, Signal.PREEMPTIONS)
"""Those that every engine has from its start; admission rejections belong to no engine."""

ENGINE_LABELS = ("engine", "ReplicaId", "WorkerId")
"""Tell two engines of one page apart: vLLM's own label, and Ray's, whose agent publishes several
workers of one node with the same engine number."""

PART_LABELS = frozenset({"le", "reason", "sleep_state", "pid"})
"""Tell the series of one engine apart, never two engines: `pid` is an API-server process."""

_SIGNALS: Mapping[str, Signal] = {
    prefix + stem: signal
    for signal, stems in FAMILIES.items()
    for stem in stems
    for prefix in PREFIXES
}

NAMES: Collection[str] = _SIGNALS.keys()
"""Every full name that is read."""

LARGEST_AMOUNT = 1e15
"""A thousand years of a fast engine's tokens. Far above, a float no longer counts in ones (growth
would read as 0), and sums overflow."""

Engine: TypeAlias = tuple[str, ...]
Gauges: TypeAlias = dict[Signal, float]


def names_of(signal: Signal) -> tuple[str, ...]:
    """Return every full name under which a signal may be exposed."""
    return tuple(prefix + stem for prefix in PREFIXES for stem in FAMILIES[signal])


def signal_of(name: str) -> Signal | None:
    """Return what a sample of this full name says; None where it is none of ours."""
    return _SIGNALS.get(name)


def engine_of(labels: Mapping[str, str], engine_labels: Iterable[str] = ENGINE_LABELS) -> Engine:
    """Return which engine of its page a series belongs to; absent labels are empty."""
    return tuple(labels.get(label, "") for label in engine_labels)


def part_of(signal: Signal, labels: Mapping[str, str]) -> str | None:
    """Return which part of its engine's signal a series is; None where it must not be read.

    A router's view of an engine (label `server`), requests that wait for something else than
    capacity, and states of sleep other than `awake` are not read. Parts of one signal are
    different things (add them up); two series of one part are one thing seen twice (take the
    highest: processes that do not hold the value show 0).
    """
    if labels.get("server"):
        return None
    if signal is Signal.WAITING_BY_REASON:
        return "" if labels.get("reason") == "capacity" else None
    if signal is Signal.SLEEP_STATE:
        return "" if labels.get("sleep_state") == "awake" else None
    if signal is Signal.REJECTIONS:
        return labels.get("reason", "")
    if signal is Signal.TTFT_BUCKET:
        edge = edge_of(labels.get("le", ""))
        return None if edge is None else repr(edge)
    return ""


def edge_of(le: str) -> float | None:
    """Return a bucket's upper edge as the number it is (`1`, `1.0` and `1e0` are one edge)."""
    try:
        edge = float(le)
    except ValueError:
        return None
    return None if math.isnan(edge) or edge == -math.inf else edge


def is_amount(value: float) -> bool:
    """Say whether a value can be a count, a rate or a share: not negative, and not beyond all."""
    return 0.0 <= value <= LARGEST_AMOUNT


def keep_gauge(gauges: Gauges, signal: Signal, value: float) -> None:
    """Put one series' value to its engine's; of one thing seen twice the highest stays.

    NaN is kept only until a number comes, so that a signal that is there but broken differs from
    one that is not there.
    """
    held = gauges.get(signal)
    if held is None or math.isnan(held) or value > held:
        gauges[signal] = value


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The gauges of one replica, its engines folded: see `ReplicaReading` for the fields."""

    running: float
    waiting: float
    kv_cache: float | None
    engines: int
    asleep: bool

    @property
    def busy(self) -> bool:
        """Say whether a request is running or waiting."""
        return self.running > 0 or self.waiting > 0


def fold_gauges(engines: Mapping[Engine, Gauges], idle: Collection[Engine] = ()) -> Load | None:
    """Fold the engines of one replica: sums of requests, the mean of cache usage.

    `idle` are engines whose counters are there and stand at 0 while their gauges have no sample
    yet (several API servers before the first request). Returns None where nothing reports, or an
    engine says what cannot be: then the replica has not reported.
    """
    silent = [engine for engine in idle if not _reports(engines.get(engine, {}))]
    reporting = [gauges for gauges in engines.values() if _reports(gauges)]
    if not reporting and not silent:
        return None
    running, waiting, usage = 0.0, 0.0, [0.0] * len(silent)
    published = not reporting
    for gauges in reporting:
        runs = gauges.get(Signal.RUNNING, math.nan)
        waits = gauges.get(Signal.WAITING_BY_REASON, gauges.get(Signal.WAITING, math.nan))
        if not is_amount(runs) or not is_amount(waits):
            return None
        running += runs
        waiting += waits
        used = gauges.get(Signal.KV_CACHE)
        if used is not None:
            published = True
            if 0.0 <= used <= 1.0:
                usage.append(used)
    return Load(
        running=running,
        waiting=waiting,
        kv_cache=math.fsum(usage) / len(usage) if published and usage else None,
        engines=len(reporting) + len(silent),
        asleep=_asleep(engines.values()),
    )


def fold_replica(
    name: str, load: Load, rates: Mapping[Signal, float | None], busy_for: Seconds
) -> ReplicaReading:
    """Put a replica's gauges and rates together; a rate that is no amount is not known.

    `rates` are per second, by counter, already summed over the replica's engines and parts.
    """
    known = {
        signal: rate if rate is not None and is_amount(rate) else None
        for signal, rate in rates.items()
    }
    return ReplicaReading(
        name=name,
        running=load.running,
        waiting=load.waiting,
        kv_cache=load.kv_cache,
        engines=load.engines,
        asleep=load.asleep,
        busy_for=busy_for if load.busy else 0.0,
        first_token_rate=known.get(Signal.FIRST_TOKENS),
        token_rate=known.get(Signal.TOKENS),
        prompt_token_rate=known.get(Signal.PROMPT_TOKENS),
        preemption_rate=known.get(Signal.PREEMPTIONS),
        rejection_rate=known.get(Signal.REJECTIONS),
    )


def merge_latencies(growths: Iterable[Mapping[float, float]]) -> LatencyBuckets | None:
    """Add up histograms' growth (count at or below each edge) at the edges that all of them have.

    Layouts differ between versions, and only at a common edge is the sum known: elsewhere a
    percentile would get a bucket in which it need not lie. Histograms that did not grow have 0
    at every edge. One without an infinite edge, or with a value that is no amount, is left out;
    None where none is left.
    """
    whole = [growth for growth in growths if _is_histogram(growth)]
    if not whole:
        return None
    grown = [growth for growth in whole if growth[math.inf] > 0] or whole
    common = set(grown[0])
    for growth in grown[1:]:
        if growth.keys() != common:
            common &= growth.keys()
    edges = tuple(sorted(common))
    counts, highest = [], 0.0
    for edge in edges:
        highest = max(highest, math.fsum(growth[edge] for growth in grown))
        counts.append(highest)
    return LatencyBuckets(edges=edges, counts=tuple(counts))


def _reports(gauges: Mapping[Signal, float]) -> bool:
    return (
        Signal.RUNNING in gauges or Signal.WAITING in gauges or Signal.WAITING_BY_REASON in gauges
    )


def _asleep(engines: Collection[Gauges]) -> bool:
    awake = [gauges[Signal.SLEEP_STATE] for gauges in engines if Signal.SLEEP_STATE in gauges]
    return bool(awake) and all(value == 0.0 for value in awake)


def _is_histogram(growth: Mapping[float, float]) -> bool:
    return math.inf in growth and all(map(is_amount, growth.values()))
