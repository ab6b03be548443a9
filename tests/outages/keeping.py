"""What is written down of each cell at each tick, and the law that it has to keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scaler.core.reasons import Reason
from tests.outages.cells import RECOVERY, Cell
from tests.outages.fleet import FIRST

BLIND = frozenset(
    {
        Reason.GAP,
        Reason.WARMING_UP,
        Reason.TOO_FEW_SCRAPES,
        Reason.UNSEEN,
        Reason.NOTHING_SERVING,
        Reason.STALLED,
        Reason.SOURCE_SILENT,
        Reason.SILENT_TOO_LONG,
        Reason.CURRENT_UNKNOWN,
        Reason.GATEWAY_SILENT,
        Reason.NOT_YET_SAMPLED,
        Reason.OVERDUE,
        Reason.SETTLING,
        Reason.PODS_LATE,
    }
)
"""The reasons that say that something is not known."""

TROUBLE, QUERY_TROUBLE, CLUSTER_FAULT = "source_trouble", "query_trouble", "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One tick of a cell: what KEDA got, what became of the count, what a person could see.

    `answer` is None where GetMetrics was refused, `active` where IsActive was; `count` is
    spec.replicas after KEDA and the HPA have acted. `signs` are reasons and notes that say that
    something is not known, and metrics that do.
    """

    tick: int
    count: int
    answer: int | None
    active: bool | None
    reason: Reason
    signs: frozenset[str]
    said: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a cell. `seen` is the first tick that showed the fault, None if none did."""

    cell: Cell
    breaches: tuple[str, ...]
    seen: int | None
    alike: bool
    answers: tuple[str, ...]
    reasons: tuple[str, ...]
    counts: tuple[int, int]
    signs: frozenset[str]


def judge(cell: Cell, told: Sequence[Moment], twin: Sequence[Moment]) -> Verdict:
    """Hold a cell against its twin."""
    healthy = {each.tick: each for each in twin}
    mine = [each for each in told if 0 <= each.tick < cell.ends + RECOVERY]
    pairs = [(each, healthy[each.tick]) for each in mine]
    before = next((each.count for each in reversed(told) if each.tick < 0), FIRST[cell.phase])
    signs = {each.tick: each.signs - well.signs for each, well in pairs}
    during = [each for each in mine if each.tick < cell.ends]
    seen = min((tick for tick, found in signs.items() if found), default=None)
    return Verdict(
        cell=cell,
        breaches=tuple(_breaches(pairs, before)),
        seen=seen,
        alike=all((m.answer, m.active) == (w.answer, w.active) for m, w in pairs),
        answers=tuple(dict.fromkeys(_told(each) for each in during)),
        reasons=tuple(dict.fromkeys(each.reason.value for each in during)),
        counts=(during[0].count, during[-1].count) if during else (0, 0),
        signs=frozenset().union(*(found for tick, found in signs.items() if tick <= cell.ends)),
    )


def _told(moment: Moment) -> str:
    number = "UNAVAILABLE" if moment.answer is None else "a count"
    active = {True: "active", False: "inactive", None: "unknown"}[moment.active]
    return f"{number}, {active}"


def _breaches(pairs: Sequence[tuple[Moment, Moment]], before: int) -> list[str]:
    """Return what breaks the law, a sentence each."""
    found: list[str] = []
    least, inactive, woken = before, False, False
    for mine, well in pairs:
        least = min(least, well.count)
        inactive = inactive or well.active is False
        woken = woken or bool(well.active)
        if mine.count < least:
            found.append(f"tick {mine.tick}: {mine.count} replicas, where {least} were the least")
        if mine.active is False and not inactive:
            found.append(f"tick {mine.tick}: inactive, where the twin never was")
        if mine.active and mine.count and not woken and well.count == 0:
            found.append(f"tick {mine.tick}: active, where the twin never was")
    last, well = pairs[-1]
    if last.signs - well.signs:
        found.append(f"not recovered at tick {last.tick}: {sorted(last.signs - well.signs)}")
    if last.answer is None or (well.active is not None and last.active is None):
        found.append(f"not answered at tick {last.tick}: {last.reason}")
    return found


def judged(told: Mapping[Cell, Sequence[Moment]]) -> list[Verdict]:
    """Hold every cell against its twin."""
    return [
        judge(cell, moments, told[cell.twin])
        for cell, moments in told.items()
        if cell.fault is not None
    ]
