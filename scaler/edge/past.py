"""The last day of a workload, as the board has kept it: columns, changes, and one moment again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from scaler.control.archive import Archive, Change
from scaler.control.board import Board
from scaler.control.columns import Row
from scaler.control.registry import Registry
from scaler.core.explain import Explained, explain
from scaler.core.minutes import MINUTE, REMEMBERED
from scaler.core.policy import Policy
from scaler.core.reasons import EXPLANATIONS
from scaler.core.rendering import Plain, instant_of, to_plain, to_text
from scaler.core.units import Seconds
from scaler.core.workload import WorkloadKey
from scaler.edge.errors import EdgeError
from scaler.edge.explained import chosen_keys, policy_of
from scaler.edge.hours import hours, read_record
from scaler.tuning.prepared import Prepared
from scaler.tuning.record import Record
from scaler.tuning.rehearsal import rehearse

_FILED_FOR: Seconds = 86_400.0
"""An older change than this says little of a moment: nobody may have looked in between."""

_MOST_WAITING = 8


class NotRemembered(EdgeError):
    """The board does not reach that moment; the message says how far it does."""


class PastBusy(EdgeError):
    """More people ask for past moments than one process answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Then:
    """A past moment: what was answered, and the decision explained, computed anew.

    `resolution` is the time between two samples that are known of it, in seconds. `same` says
    whether computing it anew, with the trigger as it is now, gives what was answered. Where only a
    file of decisions reaches, no sample is known and nothing explained: all three are None.
    """

    at: Seconds
    resolution: Seconds | None
    answered: Row | Change
    explained: Explained | None

    @property
    def same(self) -> bool | None:
        """Compare what was answered with what the trigger as it is now gives."""
        row, found = self.answered, self.explained
        if found is None:
            return None
        return (row.desired, row.reason) == (found.desired, found.because.reason)

    def to_plain(self) -> dict[str, Plain]:
        """Return it for JSON."""
        row = self.answered
        return {
            "from": "file" if self.explained is None else "board",
            "at": self.at,
            "resolution": self.resolution,
            "answered": {**_answer(row), "meaning": EXPLANATIONS[row.reason].meaning},
            "same": self.same,
            "explained": to_plain(self.explained),
        }

    def to_text(self) -> str:
        """Return it for a terminal."""
        row, when = self.answered, instant_of(self.at)
        meaning = EXPLANATIONS[row.reason].meaning
        counts = (
            f"current {_count(row.current)}, answered {_count(row.desired)} "
            f"({row.reason.value}: {meaning})"
        )
        if self.explained is None or self.resolution is None:
            has = "each change of the answer and no signals"
            return f"At {when}, from the file of decisions, which has {has}:\n{counts}\n"
        each = f"a sample each {self.resolution:g} s of it"
        told = [f"At {when}, from the board, which has {each}:", counts]
        if not self.same:
            told.append(
                "The trigger as it is now would answer otherwise; it was edited since, or what it "
                "had learned by then lies beyond what is kept. What follows is of the trigger now."
            )
        return "\n".join([*told, "", to_text(self.explained)])


class Keeper(Protocol):
    """Whoever keeps changes for longer than the board; `fault` says why it cannot at present."""

    fault: str | None

    async def changes(
        self, key: WorkloadKey, start: Seconds, end: Seconds, limit: int, but: Collection[str] = ()
    ) -> list[Change]:
        """Return a ScaledObject's newest changes in [start, end), less those of some triggers."""


class Past:
    """Answers from the board's archive; what has to be computed, in a thread and one at a time."""

    def __init__(self, registry: Registry, board: Board) -> None:
        """Answer of the workloads in `registry` and on `board`; `kept` is what a file keeps."""
        self.kept: Keeper | None = None
        self._registry = registry
        self._board = board
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def history(
        self, namespace: str, name: str, trigger: str | None, span: tuple[Seconds, Seconds]
    ) -> dict[str, Plain]:
        """Return the rows in a span, a column each. Raises NoSuchWorkload."""
        key = self._key(namespace, name, trigger)
        rows = await self._rows(key, *span)
        columns = await asyncio.to_thread(_columns, [row for row, _ in rows])
        return {
            **_named(key),
            "policy": to_plain(self._policy(key)),
            "resolution": _resolution([(row.at, step) for row, step in rows]),
            "columns": columns,
        }

    async def _rows(
        self, key: WorkloadKey, start: Seconds, end: Seconds
    ) -> list[tuple[Row, Seconds]]:
        """Return the rows of a span, an hour at a time: KEDA's calls are answered between."""
        known = self._archive.stretches(key)
        if not known:
            return []
        rows: list[tuple[Row, Seconds]] = []
        async for begin, until in hours(max(start, known[0].start), min(end, known[-1].end)):
            rows += self._archive.rows(key, begin, until)
        return rows

    async def decisions(
        self,
        namespace: str,
        name: str,
        trigger: str | None,
        span: tuple[Seconds, Seconds],
        limit: int,
    ) -> dict[str, Plain]:
        """Return the newest changes of the answer in a span. Raises NoSuchWorkload."""
        key = self._key(namespace, name, trigger)
        changes = self._archive.changes(key, *span)[::-1][:limit]
        older = await self._older(key, span, limit - len(changes))
        told = [
            *(_change(change, "memory") for change in changes),
            *(_change(change, "file") for change in older),
        ]
        fault = self.kept.fault if self.kept is not None else None
        return {**_named(key), "decisions": told, "fault": fault}

    async def _older(
        self, key: WorkloadKey, span: tuple[Seconds, Seconds], limit: int
    ) -> list[Change]:
        """Return what a file knows from before the board's memory begins."""
        if self.kept is None or limit <= 0:
            return []
        remembered = self._archive.changes(key, -math.inf, math.inf)
        end = min(remembered[0].at if remembered else math.inf, math.nextafter(span[1], math.inf))
        return await self.kept.changes(key, span[0], end, limit, self._others(key))

    async def _filed(self, key: WorkloadKey, at: Seconds) -> Change | None:
        """Return the change that a file has as the last one up to a moment."""
        if self.kept is None:
            return None
        end = math.nextafter(at, math.inf)
        found = await self.kept.changes(key, at - _FILED_FOR, end, 1, self._others(key))
        return found[0] if found else None

    def _others(self, key: WorkloadKey) -> list[str]:
        """Return the other triggers that the ScaledObject has now."""
        known = chosen_keys(self._registry, self._board.snapshot, key.namespace, key.name, None)
        return [other.trigger for other in known if other != key]

    async def at(self, namespace: str, name: str, trigger: str | None, at: Seconds) -> list[Then]:
        """Explain a past moment for each trigger.

        Raises NoSuchWorkload, NotRemembered and PastBusy.
        """
        keys = chosen_keys(self._registry, self._board.snapshot, namespace, name, trigger)
        if self._waiting >= _MOST_WAITING:
            raise PastBusy(f"{_MOST_WAITING} past moments are asked for already; try again")
        self._waiting += 1
        try:
            async with self._turn:
                return [await self._then(key, at) for key in keys]
        finally:
            self._waiting -= 1

    async def _then(self, key: WorkloadKey, at: Seconds) -> Then:
        try:
            row, step = self._row(key, at)
        except NotRemembered:
            change = await self._filed(key, at)
            if change is None:
                raise
            return Then(at=change.at, resolution=None, answered=change, explained=None)
        entry = self._registry.get(key)
        resolved = entry.resolved if entry is not None else None
        asks = resolved is not None and resolved.selection.activation_query is not None
        span = at - REMEMBERED, row.at
        record = await read_record(self._archive, key, span, asks_gateway=asks)
        policy = self._policy(key)
        explained = await asyncio.to_thread(_explained, key, policy, record)
        return Then(at=row.at, resolution=step, answered=row, explained=explained)

    def _row(self, key: WorkloadKey, at: Seconds) -> tuple[Row, Seconds]:
        """Return the newest row at or before a moment."""
        found = list(self._archive.rows(key, at - 2 * MINUTE, at))
        if found:
            return found[-1]
        known = self._archive.stretches(key)
        if not known:
            raise NotRemembered(f"nothing is remembered of {key} yet")
        first, last = instant_of(known[0].start), instant_of(known[-1].end)
        raise NotRemembered(
            f"the board knows nothing of {key} at {instant_of(at)}: it remembers from {first} to "
            f"{last}, less what this scaler did not see; from a Prometheus that reaches further, "
            f"scaler replay SCALEDOBJECT.yaml --prometheus URL --explain-at {instant_of(at)} "
            "recomputes it"
        )

    @property
    def _archive(self) -> Archive:
        return self._board.archive

    def _key(self, namespace: str, name: str, trigger: str | None) -> WorkloadKey:
        return chosen_keys(self._registry, self._board.snapshot, namespace, name, trigger)[0]

    def _policy(self, key: WorkloadKey) -> Policy:
        return policy_of(self._registry, self._board.snapshot, key)


def _explained(key: WorkloadKey, policy: Policy, record: Record) -> Explained:
    *_, last = rehearse(Prepared(record), policy)
    return explain(key, policy, last.decision)


def _named(key: WorkloadKey) -> dict[str, Plain]:
    return {"namespace": key.namespace, "name": key.name, "trigger": key.trigger}


def _resolution(rows: list[tuple[Seconds, Seconds]]) -> list[Plain]:
    """Say from when to when there is a row each so many seconds."""
    if not rows:
        return []
    edges = [0, *(n for n, (a, b) in enumerate(pairwise(rows), start=1) if a[1] != b[1]), len(rows)]
    return [
        {"from": rows[first][0], "to": rows[last - 1][0], "step": rows[first][1]}
        for first, last in pairwise(edges)
    ]


_COUNTED = ("serving", "loading", "unseen", "stalled", "asleep", "overdue")
_MEASURED = (
    *("waiting", "running", "kv_cache", "first_token_rate", "token_rate", "preemption_rate"),
    "rejection_rate",
)
_ANSWERED = ("current", "desired", "advised", "floor", "ceiling")


def _columns(rows: list[Row]) -> Plain:
    samples = [row.sample for row in rows]
    return {
        "at": [row.at for row in rows],
        **{name: [getattr(row, name) for row in rows] for name in _ANSWERED},
        "need_low": [row.need_low for row in rows],
        "need_high": [_finite(row.need_high) for row in rows],
        "reason": [row.reason.value for row in rows],
        **{
            name: [None if s is None else getattr(s, name) for s in samples]
            for name in (*_COUNTED, *_MEASURED)
        },
        "ttft_p95": [None if s is None or s.ttft is None else s.ttft.value for s in samples],
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def _answer(told: Row | Change) -> dict[str, Plain]:
    return {
        "at": told.at,
        "current": told.current,
        "desired": told.desired,
        "advised": told.advised,
        "floor": told.floor,
        "ceiling": told.ceiling,
        "reason": told.reason.value,
    }


def _change(change: Change, kept_by: str) -> Plain:
    meaning = EXPLANATIONS[change.reason].meaning
    return {**_answer(change), "meaning": meaning, "kept_by": kept_by}


def _count(count: int | None) -> str:
    return "unknown" if count is None else str(count)
