"""The last day of every workload, in memory: what was seen, what was answered, and why."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from scaler.control.columns import Columns, Row
from scaler.core.decision import Decision
from scaler.core.minutes import MINUTE
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale, WorkloadKey
from scaler.tuning.record import Moment, Record, apart

FINE_FOR: Seconds = 7_200.0
"""So long every tick is kept; beyond it, one a minute."""

KEPT_FOR: Seconds = 86_400.0

MOST_CHANGES = 1_000
"""Changes of one workload that are kept; older ones go first."""

MOST_WORKLOADS = 25_000
"""Pasts that are kept, of edited and deleted triggers, too."""

_SWEPT_EVERY: Seconds = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An answer that was not the one before: another count, or another reason."""

    at: Seconds
    current: int | None
    desired: int | None
    advised: int | None
    floor: int | None
    ceiling: int | None
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the past that is known at one resolution, in seconds."""

    start: Seconds
    end: Seconds
    step: Seconds


@dataclass(slots=True)
class _Past:
    fine: Columns = field(default_factory=lambda: Columns("d"))
    minutes: Columns = field(default_factory=lambda: Columns("f"))
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=MOST_CHANGES))

    @property
    def parts(self) -> tuple[tuple[Columns, Seconds], ...]:
        return (self.minutes, MINUTE), (self.fine, TICK)

    @property
    def oldest(self) -> Seconds:
        kept = [columns.at[0] for columns, _ in self.parts if len(columns)]
        return min([*kept, *(change.at for change in list(self.changes)[:1])])

    @property
    def newest(self) -> Seconds:
        return max([*self.fine.at[-1:], self.changes[-1].at])


class Archive:
    """Keeps every tick of two hours and every minute of a day, and each change of an answer.

    Of a minute the tick that lies on it is kept. A thousand workloads take less than 300 MiB.
    """

    def __init__(self) -> None:
        """Start without a past."""
        self._pasts: dict[WorkloadKey, _Past] = {}
        self._tell: Callable[[WorkloadKey, Change], None] = lambda _key, _change: None
        self._swept_at: Seconds = -math.inf

    def on_change(self, tell: Callable[[WorkloadKey, Change], None]) -> None:
        """Say who is told of each change of an answer; it must not take long, nor raise."""
        self._tell = tell

    def keep(
        self, key: WorkloadKey, decision: Decision, *, sample: Sample | None, scale: Scale | None
    ) -> None:
        """Keep a decision; of one between two ticks only whether it changed the answer.

        Of two at one tick the first with a sample stays: the next looks at a count that has moved.

        `sample` is the newest that was known, `scale` as it was read.
        """
        past = self._pasts.setdefault(key, _Past())
        self._note(key, past, decision)
        at, fine = decision.at, past.fine
        if at % TICK or fine.knows(at):
            return
        for columns in (fine, past.minutes):
            if len(columns) and columns.at[-1] >= at:
                columns.forget_from(at)
        learned = decision.learned
        fine.add(
            at,
            decision,
            sample=sample if sample is not None and sample.at == at else None,
            scale=scale,
            lead_time=learned.lead_time if learned and learned.lead_time_observed else None,
        )
        fine.move_older(at - FINE_FOR, past.minutes, MINUTE)
        past.minutes.forget(at - KEPT_FOR)

    def forget_old(self, now: Seconds) -> None:
        """Drop the workloads of which nothing was heard for a day, and the stalest of too many."""
        if 0 <= now - self._swept_at < _SWEPT_EVERY:
            return
        self._swept_at = now
        stale = sorted((past.newest, key) for key, past in self._pasts.items())
        surplus = len(stale) - MOST_WORKLOADS
        for place, (newest, key) in enumerate(stale):
            if newest >= now - KEPT_FOR and place >= surplus:
                break
            del self._pasts[key]

    def rows(self, key: WorkloadKey, start: Seconds, end: Seconds) -> Iterator[tuple[Row, Seconds]]:
        """Go through the rows in [start, end], each with the seconds that it stands for."""
        for past, until in self._line_of(key):
            for columns, step in past.parts:
                for index in range(columns.first_since(start), len(columns)):
                    if not columns.at[index] <= min(end, until - TICK):
                        break
                    yield columns.row(index), step

    def changes(self, key: WorkloadKey, start: Seconds, end: Seconds) -> list[Change]:
        """Return the changes of the answer in [start, end], the oldest first."""
        return [
            change
            for past, until in self._line_of(key)
            for change in past.changes
            if start <= change.at <= end and change.at < until
        ]

    def stretches(self, key: WorkloadKey) -> list[Stretch]:
        """Say what is known of a workload, and how finely; the oldest first."""
        return [
            Stretch(start=columns.at[0], end=min(columns.at[-1], until), step=step)
            for past, until in self._line_of(key)
            for columns, step in past.parts
            if len(columns) and columns.at[0] < until
        ]

    def record(
        self, key: WorkloadKey, start: Seconds, end: Seconds, *, asks_gateway: bool = False
    ) -> Record:
        """Return what is known of [start, end] as a record to rehearse."""
        moments = (
            Moment(
                at=row.at,
                sample=row.sample,
                scale=row.scale,
                lead_time=row.lead_time,
                step=step,
            )
            for row, step in self.rows(key, start, end)
        )
        return Record(
            namespace=key.namespace,
            name=key.name,
            moments=apart(moments),
            asks_gateway=asks_gateway,
        )

    def _line_of(self, key: WorkloadKey) -> list[tuple[_Past, Seconds]]:
        """Return the workload's past and, before it, that of the triggers that were edited into it.

        A trigger that is edited is another one to KEDA, and to us. Each goes with when it ended.
        """
        own = self._pasts.get(key)
        if own is None:
            return []
        kin = [
            past
            for other, past in self._pasts.items()
            if (other.namespace, other.name) == (key.namespace, key.name)
            and past.newest < own.oldest
        ]
        line = [*sorted(kin, key=lambda past: past.oldest), own]
        return list(zip(line, [*(past.oldest for past in line[1:]), math.inf], strict=True))

    def _note(self, key: WorkloadKey, past: _Past, decision: Decision) -> None:
        told = (decision.current, decision.desired, decision.reason)
        last = past.changes[-1] if past.changes else None
        if last is not None and told == (last.current, last.desired, last.reason):
            return
        change = Change(
            at=decision.at,
            current=decision.current,
            desired=decision.desired,
            advised=decision.advised,
            floor=decision.floor,
            ceiling=decision.proven_ceiling,
            reason=decision.reason,
        )
        past.changes.append(change)
        self._tell(key, change)
