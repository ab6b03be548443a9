"""Asks many small queries in few requests, and keeps a bad one from harming its neighbours."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import promql_parser as promql

from scaler.adapters.prometheus_answer import Answer
from scaler.adapters.prometheus_api import PrometheusApi
from scaler.adapters.prometheus_session import PassingFault
from scaler.control.ports import (
    SelectionInvalid,
    SourceAnswerInvalid,
    SourceError,
    SourceUnreachable,
)
from scaler.core.units import Seconds

KIND = "query"
"""What the queries are counted under."""

_TAG = "__query__"
_TOGETHER = 20
_AT_ONCE = 2
"""Requests at the same time: half of all, so that the ticks' queries go on."""

_APART_FOR: Seconds = 3600.0
"""How long a query that failed by itself is asked by itself."""

_PARTIAL = "the answer comes with warnings: series may be missing from it"

Told: TypeAlias = "float | SourceError | None"
"""A sum of 0 or more; None where the query has no such result."""


class QueryBatches:
    """Evaluates queries at one instant, each as the sum of its series.

    Queries that go together are joined by `or`, twenty in a request, each under a tag of its own.
    When a request fails for a reason that may lie in one of its queries, all of them are asked one
    by one, at once; those that then fail stay apart from the others for an hour.
    """

    def __init__(self, api: PrometheusApi, longest: Seconds) -> None:
        """Start with every query among the others; none may take longer than `longest`."""
        self._api = api
        self._longest = longest
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._apart: dict[str, Seconds] = {}
        self._turn = 0

    async def evaluate(
        self, joinable: Collection[str], alone: Collection[str], at: Seconds, deadline: Seconds
    ) -> Mapping[str, Told]:
        """Evaluate at `at` (epoch seconds), until the monotonic `deadline`; omits none.

        `joinable` queries must be canonical PromQL; `alone` are sent as they stand.
        """
        now = time.monotonic()
        self._apart = {text: until for text, until in self._apart.items() if until > now}
        together = sorted(t for t in joinable if t not in self._apart and is_whole(t))
        batches = [together[i : i + _TOGETHER] for i in range(0, len(together), _TOGETHER)]
        if batches and len(batches[-1]) == 1:
            together = together[: -len(batches.pop())]
        singles = self._in_turn({*joinable, *alone} - {*together})
        told: dict[str, Told] = {}
        answers, _ = await asyncio.gather(
            asyncio.gather(*(self._batch(batch, at, deadline) for batch in batches)),
            asyncio.gather(*(self._single(text, at, deadline, told) for text in singles)),
        )
        doubtful: list[str] = []
        for batch, answer in zip(batches, answers, strict=True):
            if not isinstance(answer, SourceError):
                told.update(answer)
            elif _may_be_their_own(answer) and not _all_failed(answers):
                doubtful += batch
            else:
                told.update(dict.fromkeys(batch, answer))
        await asyncio.gather(*(self._single(text, at, deadline, told) for text in doubtful))
        return told

    def _in_turn(self, texts: Collection[str]) -> list[str]:
        """Return the queries in an order that puts another one first each time."""
        self._turn += 1
        first = self._turn % max(1, len(texts))
        ordered = sorted(texts)
        return ordered[first:] + ordered[:first]

    async def _batch(
        self, texts: Sequence[str], at: Seconds, deadline: Seconds
    ) -> Mapping[str, Told] | SourceError:
        try:
            answer = await self._ask(joined(texts), at, deadline)
        except SourceError as error:
            return error
        if answer.partial:
            return SourceAnswerInvalid(_PARTIAL)
        found = {
            series.labels.get(_TAG): value for series in answer.series for _, value in series.points
        }
        return {text: amount_of([found.get(str(n), math.nan)]) for n, text in enumerate(texts)}

    async def _single(
        self, text: str, at: Seconds, deadline: Seconds, told: dict[str, Told]
    ) -> None:
        """Ask for one and put what it says into `told`; one that fails stays apart."""
        try:
            answer = await self._ask(text, at, deadline)
            if answer.partial:
                raise SourceAnswerInvalid(_PARTIAL)
        except SourceError as error:
            told[text] = error
            if _may_be_their_own(error):
                self._apart[text] = time.monotonic() + _APART_FOR
            return
        told[text] = amount_of(
            [value for series in answer.series for _, value in series.points[-1:]]
        )

    async def _ask(self, text: str, at: Seconds, deadline: Seconds) -> Answer:
        async with self._at_once:
            left = deadline - time.monotonic()
            if left <= 0:
                raise PassingFault("there was no time left to ask: too many queries are slow")
            # Whoever writes a query into a trigger must not use up the time of the others.
            return await self._api.query(
                KIND, text, at, time.monotonic() + min(left, self._longest)
            )


def _may_be_their_own(error: SourceError) -> bool:
    """Say whether an error may be the fault of the query, and not of the way to the server."""
    own = (SelectionInvalid, SourceAnswerInvalid, SourceUnreachable)
    return isinstance(error, own) and not isinstance(error, PassingFault)


def _all_failed(answers: Sequence[object]) -> bool:
    """Say whether it is the server: none of several requests came back."""
    return len(answers) > 1 and all(isinstance(answer, SourceError) for answer in answers)


def joined(texts: Sequence[str]) -> str:
    """Return one query for the sums of all, the n-th under the tag n."""
    return " or ".join(_tagged(text, number) for number, text in enumerate(texts))


@lru_cache(maxsize=20_000)
def is_whole(text: str) -> bool:
    """Say whether a query can stand among others: it is one vector, and closes all that it opens.

    What a trigger brings along must not reach beyond the brackets that are put around it.
    """
    try:
        outer = promql.parse(_tagged(text, 0))
    except ValueError:
        return False
    if not isinstance(outer, promql.Call) or not isinstance(outer.args[0], promql.AggregateExpr):
        return False
    return str(outer.args[0].expr.prettify()) == str(promql.parse(text).prettify())


def _tagged(text: str, number: int) -> str:
    return f'label_replace(sum({text}), "{_TAG}", "{number}", "", "")'


def amount_of(values: Sequence[float]) -> float | None:
    """Return the sum where it is an amount; of nothing there is none."""
    total = sum(values) if values else math.nan  # of infinities, too: they give NaN or one
    return total if math.isfinite(total) and total >= 0 else None
