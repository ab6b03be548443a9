"""Asks a Prometheus what triggers' own queries say: `activationQuery` and `rejectionQuery`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from scaler.adapters.prometheus_api import PrometheusApi
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.query_batches import KIND, QueryBatches, Told, amount_of
from scaler.config.promql import QueryInvalid, named_query, pin_to_namespace
from scaler.control.activation import NO_NUMBER
from scaler.control.ports import SelectionInvalid, SourceError
from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.core.workload import Selection

_SHARE = 0.25
"""How much of the source's timeout one query may take."""
_SHARE_OF_ALL = 0.5
"""How much of it all of them together may take, so that a tick does not wait for them."""

_MOST_PINNED = 20_000

Query: TypeAlias = tuple[str, str]
"""A namespace, and a query as a trigger of it writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What a selection's own queries say; `fault` is why one that should say something does not."""

    activation: float | None = None
    rejection: float | None = None
    fault: str | None = None

    def added_to(self, reading: Reading) -> Reading:
        """Return the reading with this in it."""
        return replace(
            reading,
            activation=self.activation,
            rejection_rate=self.rejection,
            query_fault=self.fault,
        )


class OwnQueries:
    """Fulfils the port `Gateways`, and says what belongs into readings.

    PromQL out of a trigger is pinned to the trigger's namespace. A query that the operator named in
    the configuration is sent as it stands there.
    """

    def __init__(self, settings: PrometheusSettings, api: PrometheusApi) -> None:
        """Ask nothing yet."""
        self._settings = settings
        self._api = api
        self._batches = QueryBatches(api, settings.timeout * _SHARE)
        self._pinned: dict[Query, str | SelectionInvalid] = {}

    def use_queries(self, queries: Mapping[str, str]) -> None:
        """Take the operator's named queries over, after a reload."""
        self._settings = replace(self._settings, queries=dict(queries))

    async def demands(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Told]:
        """Say what waits at `at`; see the port. No `settle` here, where every second counts."""
        asked = {s: (s.namespace, s.activation_query or "") for s in selections}
        told = await self._told({query for query in asked.values() if query[1]}, at)
        return {selection: told.get(query) for selection, query in asked.items()}

    async def ask(self, selections: Collection[Selection], at: Seconds) -> Mapping[Selection, Own]:
        """Say what the selections' own queries say at the tick `at`; never raises, omits none."""
        queries = {query for selection in selections for query in _queries_of(selection)}
        told = await self._told(queries, at - self._settings.settle)
        return {selection: _own(selection, told) for selection in selections}

    async def recall(
        self, selection: Selection, readings: Sequence[Reading], step: Seconds
    ) -> list[Reading]:
        """Add to readings of the past what the queries said then; one that fails is not known."""
        if not readings:
            return []
        span = (readings[0].at, readings[-1].at, step)
        told = {query: await self._past(query, span) for query in _queries_of(selection)}
        instants = [round(reading.at - self._settings.settle, 3) for reading in readings]
        return [
            _own(
                selection, {query: known.get(at) for query, known in told.items()}, past=True
            ).added_to(reading)
            for at, reading in zip(instants, readings, strict=True)
        ]

    async def _told(self, queries: Collection[Query], at: Seconds) -> Mapping[Query, Told]:
        texts = {query: self._promql(query) for query in queries}
        sent = {query: text for query, text in texts.items() if isinstance(text, str)}
        named = {text for query, text in sent.items() if named_query(query[1]) is not None}
        deadline = time.monotonic() + self._settings.timeout * _SHARE_OF_ALL
        found = await self._batches.evaluate(
            {*sent.values()} - named, named, round(at, 3), deadline
        )
        return {
            query: text if isinstance(text, SelectionInvalid) else found[text]
            for query, text in texts.items()
        }

    async def _past(
        self, query: Query, span: tuple[Seconds, Seconds, Seconds]
    ) -> Mapping[Seconds, float | None]:
        """Return what a query said at each instant of the past; nothing where it fails."""
        text, settle = self._promql(query), self._settings.settle
        if isinstance(text, SelectionInvalid):
            return {}
        earlier = (span[0] - settle, span[1] - settle, span[2])
        deadline = time.monotonic() + self._settings.timeout * _SHARE
        try:
            answer = await self._api.query_range(KIND, text, earlier, deadline)
        except SourceError:
            return {}
        values: defaultdict[Seconds, list[float]] = defaultdict(list)
        for series in answer.series:
            for at, value in series.points:
                values[at].append(value)
        known = {at: amount_of(found) for at, found in values.items()}
        return {} if answer.partial else known

    def _promql(self, query: Query) -> str | SelectionInvalid:
        """Return what is to be sent, or why nothing is."""
        name = named_query(query[1])
        if name is None:
            return self._pin(query)
        found = self._settings.queries.get(name)
        if found is None:
            return SelectionInvalid(f'source "{self._settings.name}" has no query "{name}"')
        return found

    def _pin(self, query: Query) -> str | SelectionInvalid:
        known = self._pinned.get(query)
        if known is None:
            namespace, text = query
            try:
                known = pin_to_namespace(text, namespace, label=self._settings.labels.namespace)
            except QueryInvalid as error:
                known = SelectionInvalid(f"{namespace}: {error}")
            if len(self._pinned) >= _MOST_PINNED:
                self._pinned.clear()
            self._pinned[query] = known
        return known


def _queries_of(selection: Selection) -> list[Query]:
    texts = (selection.activation_query, selection.rejection_query)
    return [(selection.namespace, text) for text in texts if text is not None]


def _own(selection: Selection, told: Mapping[Query, Told], *, past: bool = False) -> Own:
    activation = told.get((selection.namespace, selection.activation_query or ""))
    rejection = told.get((selection.namespace, selection.rejection_query or ""))
    faults = [str(each) for each in (activation, rejection) if isinstance(each, SourceError)]
    # Nothing refused yet is often no series at all; nobody waiting must be said, to be known.
    if selection.activation_query is not None and activation is None:
        faults.append(NO_NUMBER)
    return Own(
        activation=None if isinstance(activation, SourceError) else activation,
        rejection=None if isinstance(rejection, SourceError) else rejection,
        fault=faults[0] if faults and not past else None,
    )
