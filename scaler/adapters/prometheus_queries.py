"""Writes the PromQL that reads all workloads of one shape at once.

A shape is the set of labels that selectors name. Selections of one shape share their queries, so
what one workload reads never depends on which others there are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.vllm import COUNTERS, GAUGES, Signal, names_of
from scaler.core.units import RATE_WINDOW
from scaler.core.workload import Matcher, MatchOp

SIGNAL = "__signal__"
"""A label that our queries add, to tell apart what one query brings back together."""

STEM = "__stem__"
"""Another one, by which histograms are summed: see `scaler.core.reading.stem_of`."""

REMEMBERED = 300.0
"""For how long (seconds) a replica that fell silent still counts as known, hence as unseen."""

_RATE = f"[{RATE_WINDOW:g}s]"
_TIMESTAMP_STEP = 5
_MODELS_IN_A_QUERY = 100


class Kind(StrEnum):
    """What a query of the tick is for; also its label in the statistics."""

    GAUGES = "gauges"
    RATES = "rates"
    BUSY = "busy"
    SILENT = "silent"
    UNSEEN = "unseen"
    SCRAPED = "scraped"
    BUCKETS = "buckets"


ESSENTIAL = frozenset({Kind.GAUGES, Kind.SILENT, Kind.UNSEEN, Kind.SCRAPED})
"""Without these nothing can be said; without the others, what is said allows no scale-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Which labels tell workloads apart, in the order of the identities made of them."""

    identity: tuple[str, ...]
    pod: str
    engine: tuple[str, ...]

    @classmethod
    def of(cls, settings: PrometheusSettings, matchers: Collection[Matcher]) -> Shape:
        """Return the shape of the selections with these matchers."""
        labels = settings.labels
        own = (labels.namespace, labels.model_name)
        named = sorted({matcher.label for matcher in matchers} - set(own))
        return cls(identity=(*own, *named), pod=labels.pod, engine=labels.engine)

    @property
    def per_engine(self) -> str:
        """List what tells one engine of one workload from all others."""
        return _listed((*self.identity, self.pod, *self.engine))

    @property
    def per_pod(self) -> str:
        """List what tells one pod of one workload from all others."""
        return _listed((*self.identity, self.pod))


def tick_queries(
    settings: PrometheusSettings, shape: Shape, where: Sequence[Matcher]
) -> Mapping[Kind, str]:
    """Write the queries for all series that `where` selects."""
    writer = _Writer(settings, shape, where)
    return {
        Kind.GAUGES: writer.gauges(),
        Kind.RATES: writer.rates(),
        Kind.BUSY: writer.busy(),
        Kind.SILENT: writer.silent(),
        Kind.UNSEEN: writer.unseen(),
        Kind.SCRAPED: writer.scraped(),
        Kind.BUCKETS: writer.buckets_by_stem(),
    }


def whole_buckets(settings: PrometheusSettings, shape: Shape, where: Sequence[Matcher]) -> str:
    """Write the query for histograms that nobody has to be told apart in: at half the cost."""
    return _Writer(settings, shape, where).buckets()


def one_of(label: str, values: Collection[str]) -> Matcher:
    """Match any of the values, and series without the label (to be reported as such)."""
    return Matcher(label=label, op=MatchOp.REGEX, value=f"|{_any_of(values)}")


def models_of(label: str, models: Collection[str | None]) -> list[Matcher]:
    """Match only these models, where they are few and all selections name one.

    A few workloads beside many others then cost the server no more than their own series. For
    many the query would become long, and most of what it reads is wanted anyway.
    """
    named = {model for model in models if model is not None}
    if None in models or len(named) > _MODELS_IN_A_QUERY:
        return []
    return [Matcher(label=label, op=MatchOp.REGEX, value=_any_of(named))]


def _any_of(values: Collection[str]) -> str:
    return "|".join(re.escape(value).replace(r"\-", "-") for value in sorted(values))


class _Writer:
    def __init__(
        self, settings: PrometheusSettings, shape: Shape, where: Sequence[Matcher]
    ) -> None:
        self._shape = shape
        self._fresh = f"[{settings.staleness:g}s]"
        # Routers publish the engines' names too: theirs know no model, or name the server behind.
        model = f'{settings.labels.model_name}!=""'
        self._where = ",".join([model, 'server=""', *(str(matcher) for matcher in where)])

    def gauges(self) -> str:
        extra = 'reason=~"|capacity",sleep_state=~"|awake"'
        newest = f"last_over_time({self._any(*GAUGES, extra=extra)}{self._fresh})"
        return f"max by (__name__,{self._shape.per_engine}) ({newest})"

    def rates(self) -> str:
        return " or ".join(self._rate(counter) for counter in COUNTERS)

    def busy(self) -> str:
        # A minimum over the window says nothing of a replica younger than the window.
        spans = [
            f"((min_over_time({series}{_RATE}) > 0) "
            f"and last_over_time({series}{self._fresh} offset {RATE_WINDOW:g}s))"
            for signal in (Signal.RUNNING, Signal.WAITING)
            for series in self._each(signal)
        ]
        return f"max by ({self._shape.per_pod}) ({' or '.join(spans)})"

    def silent(self) -> str:
        """Find engines whose counters are there while their gauges have no sample yet."""
        by = self._shape.per_engine
        counted = f"max by ({by}) (last_over_time({self._any(Signal.TOKENS)}{self._fresh}))"
        gauged = f"max by ({by}) (last_over_time({self._any(Signal.RUNNING)}{self._fresh}))"
        return f"{counted} unless {gauged}"

    def unseen(self) -> str:
        alive = self._any(Signal.RUNNING, Signal.TOKENS)
        by = self._shape.per_pod
        known = f"max by ({by}) (last_over_time({alive}[{REMEMBERED:g}s]))"
        return f"{known} unless max by ({by}) (last_over_time({alive}{self._fresh}))"

    def scraped(self) -> str:
        # A subquery, since a marker of staleness hides a sample's time but not its value.
        stamps = " or ".join(
            f"timestamp({series})"
            for signal in (Signal.RUNNING, Signal.TOKENS)
            for series in self._each(signal)
        )
        window = f"{self._fresh[:-1]}:{_TIMESTAMP_STEP}s]"
        return f"max by ({_listed(self._shape.identity)}) (max_over_time(({stamps}){window}))"

    def buckets(self) -> str:
        return f"sum by ({_listed(self._shape.identity)},le) ({self._growth_of_buckets()})"

    def buckets_by_stem(self) -> str:
        # A histogram for each pod would make these answers the largest by far; pods of one owner
        # share a stem, and that is enough to tell two owners apart. Up to the last dash, or the
        # whole name: in one replacement, each of which costs as much as the sum itself.
        grown, pod = self._growth_of_buckets(), self._shape.pod
        stem = f'label_replace({grown}, "{STEM}", "$1$2", "{pod}", "(.*-)[^-]*|([^-]*)")'
        return f"sum by ({_listed(self._shape.identity)},{STEM},le) ({stem})"

    def _growth_of_buckets(self) -> str:
        growth = " or ".join(
            f"increase({series}{_RATE})" for series in self._each(Signal.TTFT_BUCKET)
        )
        return f"max by ({self._shape.per_engine},le) ({growth})"

    def _rate(self, counter: Signal) -> str:
        rates = " or ".join(f"rate({series}{_RATE})" for series in self._each(counter))
        grouped = f"max by ({self._shape.per_engine},reason) ({rates})"
        return f'label_replace({grouped}, "{SIGNAL}", "{counter.value}", "", "")'

    def _any(self, *signals: Signal, extra: str = "") -> str:
        names = "|".join(name for signal in signals for name in names_of(signal))
        where = f"{self._where},{extra}" if extra else self._where
        return f'{{__name__=~"{names}",{where}}}'

    def _each(self, signal: Signal) -> list[str]:
        # Functions drop the name, and then two names with the same labels are an error.
        return [f"{name}{{{self._where}}}" for name in names_of(signal)]


def _listed(labels: Sequence[str]) -> str:
    return ",".join(dict.fromkeys(labels))
