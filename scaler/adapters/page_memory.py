"""What is remembered of one engine page: its newest gauges, its counters over the rate window."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from scaler.adapters.exposition import ExpositionInvalid
from scaler.adapters.vllm import (
    COUNTERS,
    ENGINE_COUNTERS,
    ENGINE_LABELS,
    GAUGES,
    PART_LABELS,
    Engine,
    Gauges,
    Signal,
    edge_of,
    engine_of,
    is_amount,
    keep_gauge,
    part_of,
    signal_of,
)
from scaler.core.units import RATE_WINDOW, TICK, Seconds

Group: TypeAlias = tuple[tuple[str, str], ...]
"""The labels that tell two models of one page apart: all but those of engines and their parts."""

_NO_GROUP_LABELS = frozenset(ENGINE_LABELS) | PART_LABELS
LONGEST_PAUSE: Seconds = TICK
"""Between two scrapes further apart than this nobody knows what happened."""
FORGOTTEN_AFTER: Seconds = 300.0
"""A model or a counter that its page no longer shows is remembered this long (seconds)."""
MOST_MODELS = 256
"""More models than this on one page are labels that change at every request."""
MOST_COUNTERS = 20_000
"""More counters than this of one model are labels that change, too."""

_GAUGES, _COUNTERS = frozenset(GAUGES), frozenset(COUNTERS)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a series' value belongs."""

    signal: Signal
    group: Group
    engine: Engine
    part: str


def place_of(name: str, labels: Mapping[str, str]) -> Place | None:
    """Return where a series belongs; None where it must not be read."""
    signal = signal_of(name)
    if signal is None:
        return None
    part = part_of(signal, labels)
    if part is None:
        return None
    group = tuple(sorted((k, v) for k, v in labels.items() if k not in _NO_GROUP_LABELS))
    return Place(signal, group, engine_of(labels), part)


class Totals:
    """Counters of one page, resets taken out, at each scrape of the rate window.

    A counter that falls has started anew at 0. One that appears later counts from its first value.
    """

    __slots__ = ("_history", "_last", "_seen", "_slots", "_totals", "_trimmed")

    def __init__(self) -> None:
        """Start with nothing."""
        self._slots: dict[Hashable, int] = {}
        self._last: list[float] = []
        self._totals: list[float] = []
        self._seen: list[Seconds] = []
        self._history: deque[tuple[Seconds, array[float]]] = deque()
        self._trimmed: Seconds | None = None

    def record(self, at: Seconds, values: Mapping[Hashable, float]) -> None:
        """Take the counters of one scrape in; what is no amount is left as it was."""
        for key, value in values.items():
            if not is_amount(value):
                continue
            slot = self._slots.get(key)
            if slot is None:
                self._slots[key] = len(self._last)
                self._last.append(value)
                self._totals.append(0.0)
                self._seen.append(at)
                continue
            before = self._last[slot]
            self._totals[slot] += value - before if value >= before else value
            self._last[slot] = value
            self._seen[slot] = at
        self._history.append((at, array("d", self._totals)))
        # The newest scrape that is at least a window old stays: growth is counted from it, unless
        # a long silence lies between: then the window's growth is known only from its end.
        while self._history[0] is not self._history[-1] and (
            self._history[1][0] <= at - RATE_WINDOW
            or self._history[0][0] < at - RATE_WINDOW - LONGEST_PAUSE
        ):
            self._history.popleft()
        self._trim(at)

    def _trim(self, at: Seconds) -> None:
        """Forget now and then the counters that are no longer shown."""
        if self._trimmed is None or at - self._trimmed < FORGOTTEN_AFTER:
            self._trimmed = at if self._trimmed is None else self._trimmed
            return
        self._trimmed = at
        kept = {k: s for k, s in self._slots.items() if self._seen[s] > at - FORGOTTEN_AFTER}
        if len(kept) == len(self._slots):
            return
        slots = list(kept.values())
        self._history = deque(
            (when, array("d", [totals[s] if s < len(totals) else 0.0 for s in slots]))
            for when, totals in self._history
        )
        self._last = [self._last[s] for s in slots]
        self._totals = [self._totals[s] for s in slots]
        self._seen = [self._seen[s] for s in slots]
        self._slots = {key: slot for slot, key in enumerate(kept)}

    def would_hold(self, values: Collection[Hashable]) -> int:
        """Return how many counters there would be with these."""
        return len(self._slots) + sum(1 for key in values if key not in self._slots)

    def span(self) -> Seconds:
        """Return over which time growth is known, at most about the rate window."""
        return self._history[-1][0] - self._history[0][0] if self._history else 0.0

    def grown(self) -> Iterable[tuple[Hashable, float]]:
        """Give each counter's growth over `span`."""
        base = self._history[0][1] if self._history else array("d")
        for key, slot in self._slots.items():
            yield key, self._totals[slot] - (base[slot] if slot < len(base) else 0.0)

    def newest(self, key: Hashable) -> float | None:
        """Return a counter's newest value as the engine shows it."""
        slot = self._slots.get(key)
        return None if slot is None else self._last[slot]


@dataclass(slots=True)
class Model:
    """One model on one page: an engine or several, as last seen."""

    engines: dict[Engine, Gauges] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    busy_since: Seconds | None = None
    seen_at: Seconds = 0.0
    counted: frozenset[Engine] = frozenset()

    @property
    def is_engine(self) -> bool:
        """Say whether the page counts tokens: a router shows gauges of others only."""
        return bool(self.counted)

    def idle_engines(self) -> list[Engine]:
        """Return the engines whose counters stand at 0: gauges may not have a sample yet."""
        return [engine for engine in self.counted if self._never_worked(engine)]

    def _never_worked(self, engine: Engine) -> bool:
        values = (self.totals.newest((signal, engine, "")) for signal in ENGINE_COUNTERS)
        return all(value == 0.0 for value in values if value is not None)

    def rates(self) -> dict[Signal, float | None]:
        """Return each counter's growth per second, summed over engines and parts."""
        span = self.totals.span()
        found: dict[Signal, float | None] = {}
        for key, growth in self.totals.grown():
            signal = key[0] if isinstance(key, tuple) else None
            if isinstance(signal, Signal) and signal in _COUNTERS:
                rate = growth / span if span > 0 else None
                before = found.get(signal)
                found[signal] = rate if rate is None or before is None else before + rate
        return found

    def latencies(self) -> list[dict[float, float]]:
        """Return each engine's TTFT histogram as its growth at or below each edge."""
        engines: dict[Engine, dict[float, float]] = {}
        for key, growth in self.totals.grown():
            if isinstance(key, tuple) and key[0] is Signal.TTFT_BUCKET:
                edge = edge_of(key[2])
                if edge is not None:
                    engines.setdefault(key[1], {})[edge] = growth
        return list(engines.values())


def remember(
    models: dict[Group, Model], samples: Iterable[tuple[Place, float]], at: Seconds
) -> None:
    """Take one scrape of a page in. Raises ExpositionInvalid where it shows too many models."""
    engines: dict[Group, dict[Engine, Gauges]] = {}
    counters: dict[Group, dict[Hashable, float]] = {}
    for place, value in samples:
        if place.signal in _GAUGES:
            found = engines.setdefault(place.group, {}).setdefault(place.engine, {})
            keep_gauge(found, place.signal, value)
        else:
            key = (place.signal, place.engine, place.part)
            values = counters.setdefault(place.group, {})
            # Two API-server processes of one engine show one counter, and only one holds it.
            values[key] = max(value, values.get(key, value))
    groups = engines.keys() | counters.keys()
    for group in [g for g, model in models.items() if at - model.seen_at > FORGOTTEN_AFTER]:
        del models[group]
    _bound(models, groups, counters)
    for group in groups:
        model = models.setdefault(group, Model())
        values = counters.get(group, {})
        model.engines = engines.get(group, {})
        model.counted = frozenset(
            key[1] for key in values if isinstance(key, tuple) and key[0] in ENGINE_COUNTERS
        )
        model.totals.record(at, values)
        _note_work(model, at)
        model.seen_at = at


def _bound(
    models: Mapping[Group, Model],
    groups: Collection[Group],
    counters: Mapping[Group, Mapping[Hashable, float]],
) -> None:
    """Refuse a page whose labels fill the memory; it is forgotten as one that fell silent is."""
    if len(models.keys() | groups) > MOST_MODELS:
        raise ExpositionInvalid(f"the page shows over {MOST_MODELS} models")
    for group, values in counters.items():
        model = models.get(group)
        if model is not None and model.totals.would_hold(values) > MOST_COUNTERS:
            raise ExpositionInvalid(
                f"over {MOST_COUNTERS} counters of one model: its labels change"
            )


def _note_work(model: Model, at: Seconds) -> None:
    """Note since when the model has had a request without a pause that we saw."""
    busy = any(
        gauges.get(signal, 0.0) > 0
        for gauges in model.engines.values()
        for signal in (Signal.RUNNING, Signal.WAITING, Signal.WAITING_BY_REASON)
    )
    if not busy:
        model.busy_since = None
    elif model.busy_since is None or at - model.seen_at > LONGEST_PAUSE:
        model.busy_since = at
