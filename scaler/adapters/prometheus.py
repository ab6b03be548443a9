"""Reads the engines' signals from a Prometheus-compatible API, for all workloads at once."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import structlog

from scaler.adapters.matching import Accepts, compiled_all
from scaler.adapters.own_queries import OwnQueries
from scaler.adapters.prometheus_answer import Answer
from scaler.adapters.prometheus_api import PrometheusApi, QueryStats
from scaler.adapters.prometheus_queries import (
    ESSENTIAL,
    Kind,
    Shape,
    models_of,
    one_of,
    tick_queries,
    whole_buckets,
)
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.prometheus_view import Identity, Seen, View, enter, fold, merged
from scaler.control.ports import SourceAnswerInvalid, SourceError
from scaler.control.source_work import SourceWork
from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.core.workload import Matcher, MatchOp, Selection

_Ask: TypeAlias = Callable[[Kind, str], Awaitable[Answer]]

_POINTS_AT_ONCE = 1_000
"""Far below the 11,000 points that the API allows a series, so that an answer stays small."""

_log = structlog.get_logger(__name__)


class PrometheusSource:
    """Fulfils the port `Source`. All queries of a tick look at one instant.

    Two scalers that ask at the same tick therefore see the same, and so does one that reads the
    same instants back later. The instant lies `settle` seconds behind the tick, when the scrapes
    that began before it have ended.
    """

    def __init__(self, settings: PrometheusSettings) -> None:
        """Open nothing yet."""
        self._settings = settings
        self._api = PrometheusApi(settings)
        self.own_queries = OwnQueries(settings, self._api)

    @property
    def name(self) -> str:
        """Return the source's name."""
        return self._settings.name

    def stats(self) -> Mapping[str, QueryStats]:
        """Return what became of the queries, by kind."""
        return self._api.stats()

    def work(self) -> SourceWork:
        """Return what was asked, for the scaler's own metrics."""
        return self._api.work()

    def use_queries(self, queries: Mapping[str, str]) -> None:
        """Take the operator's named queries over, after a reload."""
        self.own_queries.use_queries(queries)

    async def run(self) -> None:
        """Have nothing to do between the ticks; close the connections when cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            self.close()

    def close(self) -> None:
        """Drop the connections."""
        self._api.close()

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Say what Prometheus knows of each selection; see the port."""
        deadline = self._api.deadline()
        parts = list(self._parts(selections))
        own, answers = await asyncio.gather(
            self.own_queries.ask(selections, at),
            asyncio.gather(*(self._read_part(shape, each, at, deadline) for shape, each in parts)),
        )
        return {
            selection: own[selection].added_to(found) if isinstance(found, Reading) else found
            for answer in answers
            for selection, found in answer.items()
        }

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Read the same queries back over a range; see the port. Raises SourceError."""
        first, last = math.ceil(start / step), math.floor(end / step)
        readings: list[Reading] = []
        for begin in range(first, last + 1, _POINTS_AT_ONCE):
            until = min(begin + _POINTS_AT_ONCE - 1, last)
            instants = [tick * step for tick in range(begin, until + 1)]
            part = await self._recall_part(selection, instants, step)
            readings += await self.own_queries.recall(selection, part, step)
        return readings

    # --- a tick ------------------------------------------------------------------------------

    def _parts(self, selections: Collection[Selection]) -> Iterator[tuple[Shape, list[Selection]]]:
        """Group the selections so that each group shares its queries, by shape and namespaces."""
        shapes: defaultdict[Shape, defaultdict[str, list[Selection]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for selection in selections:
            shape = Shape.of(self._settings, selection.matchers)
            shapes[shape][selection.namespace].append(selection)
        for shape, namespaces in shapes.items():
            names = sorted(namespaces)
            size = self._settings.namespaces_per_query
            for begin in range(0, len(names), size):
                part = [s for name in names[begin : begin + size] for s in namespaces[name]]
                yield shape, part

    async def _read_part(
        self, shape: Shape, selections: Sequence[Selection], at: Seconds, deadline: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        looked_at = round(at - self._settings.settle, 3)
        names = {selection.namespace for selection in selections}
        labels, models = self._settings.labels, {each.model_name for each in selections}
        where = [one_of(labels.namespace, names), *models_of(labels.model_name, models)]
        views = {looked_at: View()}
        try:
            await self._fill(
                shape,
                where,
                views,
                lambda kind, query: self._api.query(kind, query, looked_at, deadline),
            )
        except SourceError as error:
            return dict.fromkeys(selections, error)
        return {each: self._told(shape, each, views[looked_at], at) for each in selections}

    def _told(
        self, shape: Shape, selection: Selection, view: View, at: Seconds
    ) -> Reading | SourceError:
        """Say what a view tells of a selection; never raises."""
        try:
            return self._reading(shape, selection, view, at)
        except SourceError as error:
            return error
        except Exception as error:  # noqa: BLE001 - what is odd in one concerns no other
            _log.exception("reading-failed-oddly", namespace=selection.namespace)
            return SourceAnswerInvalid(
                f'source "{self.name}": reading the answers failed: {type(error).__name__}'
            )

    async def _fill(
        self,
        shape: Shape,
        where: Sequence[Matcher],
        views: Mapping[Seconds, View],
        ask: _Ask,
    ) -> None:
        """Put the answers of all queries into the views. Raises what an essential one raises.

        Without one of the others what is left allows no scale-in. Histograms come last: the pods
        say whether they need be told apart.
        """
        queries = dict(tick_queries(self._settings, shape, where))
        buckets = queries.pop(Kind.BUCKETS)
        await self._fill_with(shape, queries, views, ask)
        if all(view.has_single_stems for view in views.values()):
            buckets = whole_buckets(self._settings, shape, where)
        await self._fill_with(shape, {Kind.BUCKETS: buckets}, views, ask)

    async def _fill_with(
        self,
        shape: Shape,
        queries: Mapping[Kind, str],
        views: Mapping[Seconds, View],
        ask: _Ask,
    ) -> None:
        answers = await asyncio.gather(
            *(ask(kind, query) for kind, query in queries.items()), return_exceptions=True
        )
        for kind, answer in zip(queries, answers, strict=True):
            if isinstance(answer, BaseException):
                if kind in ESSENTIAL or not isinstance(answer, SourceError):
                    raise answer
                partial = True
            else:
                partial = answer.partial
                self._enter(kind, shape, answer, views)
            for view in views.values():
                view.partial = view.partial or partial

    def _enter(
        self, kind: Kind, shape: Shape, answer: Answer, views: Mapping[Seconds, View]
    ) -> None:
        try:
            for series in answer.series:
                enter(kind, shape, series, views)
        except (KeyError, ValueError) as error:
            raise SourceAnswerInvalid(
                f'source "{self.name}": the answer to the query for {kind.value} lacks {error}, '
                "which the query asks for; is something between us rewriting labels?"
            ) from error

    def _reading(self, shape: Shape, selection: Selection, view: View, at: Seconds) -> Reading:
        accepts = compiled_all(self._matchers(selection))
        parts = [s for i, s in view.seen.items() if _matches(shape, i, accepts)]
        if not parts:
            self._refuse_unlabelled(shape, selection, view)
        seen = merged(parts) if parts else Seen()
        looked_at = at - self._settings.settle
        return fold(seen, at=at, looked_at=looked_at, partial=view.partial)

    def _matchers(self, selection: Selection) -> list[Matcher]:
        labels = self._settings.labels
        found = [_equal(labels.namespace, selection.namespace), *selection.matchers]
        if selection.model_name is not None:
            found.append(_equal(labels.model_name, selection.model_name))
        return found

    def _refuse_unlabelled(self, shape: Shape, selection: Selection, view: View) -> None:
        """Tell series without a namespace from no series: they could be anybody's."""
        label = self._settings.labels.namespace
        for identity in view.seen:
            labels = dict(zip(shape.identity, identity, strict=True))
            model = labels[self._settings.labels.model_name]
            if not labels[label] and selection.model_name in (None, model):
                # Whose they are is not known, so the name of their model is nobody else's to read.
                of = f' (model "{model}")' if selection.model_name is not None else ""
                raise SourceAnswerInvalid(
                    f'source "{self.name}": the engines\' series{of} have no label '
                    f'"{label}"; set labels.namespace of the source to the label that holds it, '
                    "such as exported_namespace"
                )

    # --- history -----------------------------------------------------------------------------

    async def _recall_part(
        self, selection: Selection, instants: Sequence[Seconds], step: Seconds
    ) -> list[Reading]:
        settle = self._settings.settle
        shape = Shape.of(self._settings, selection.matchers)
        views = {round(instant - settle, 3): View() for instant in instants}
        span = (instants[0] - settle, instants[-1] - settle, step)
        deadline = self._api.deadline()
        where = self._matchers(selection)
        await self._fill(
            shape,
            where,
            views,
            lambda kind, query: self._api.query_range(kind, query, span, deadline),
        )
        return [
            self._reading(shape, selection, view, at)
            for at, view in zip(instants, views.values(), strict=True)
        ]


def _equal(label: str, value: str) -> Matcher:
    return Matcher(label=label, op=MatchOp.EQUAL, value=value)


def _matches(shape: Shape, identity: Identity, accepts: Sequence[tuple[str, Accepts]]) -> bool:
    labels = dict(zip(shape.identity, identity, strict=True))
    return all(accept(labels.get(label, "")) for label, accept in accepts)
