"""The law of outages, for a part of the matrix that is quick; `make outages` plays all of it."""

from __future__ import annotations

import pytest

from tests.outages.cells import Cell, Fault, Length, Part, Phase
from tests.outages.document import page, summary
from tests.outages.keeping import Verdict
from tests.outages.never import LATE, NEVER, never_seen
from tests.outages.run import jobs_of, verdicts

QUICK = [
    *(
        Cell(Part.ENGINES, fault, phase, Length.LONG)
        for fault in (Fault.REFUSED, Fault.NAN, Fault.RENAMED)
        for phase in (Phase.RISING, Phase.FALLING, Phase.IDLE)
    ),
    Cell(Part.HALF, Fault.FAILING, Phase.FALLING, Length.SHORT),
    Cell(Part.HALF, Fault.TRUNCATED, Phase.RISING, Length.LONG),
    Cell(Part.ONE_POD, Fault.EMPTY, Phase.IDLE, Length.LONG),
    Cell(Part.ENGINES, Fault.HTML, Phase.FIRST_START, Length.SHORT),
]


def lawful(verdict: Verdict) -> bool:
    """Say whether a cell kept the law, and showed its fault in time or is known not to."""
    cell = verdict.cell
    if verdict.breaches:
        return False
    if verdict.seen is None:
        return verdict.alike or (cell.part, cell.fault) in NEVER
    return verdict.seen <= 2 + (LATE.get(cell.fault, 0) if cell.fault is not None else 0)


@pytest.mark.timeout(300)
def test_no_fault_lowers_a_count_or_stays_unseen() -> None:
    """Real adapters, stepped time, a twin beside each cell."""
    found = [verdict for job in jobs_of(QUICK) for verdict in verdicts(job)]
    assert {verdict.cell for verdict in found} == set(QUICK)
    assert [verdict for verdict in found if not lawful(verdict)] == []
    assert all(verdict.seen is not None for verdict in found)


def test_a_breach_would_be_told() -> None:
    """A cell that is worse than its twin is counted, and a fault that shows late is unlawful."""
    cell = Cell(Part.ENGINES, Fault.NAN, Phase.PEAK)
    told = Verdict(cell, ("tick 3: 2 replicas",), None, False, (), (), (4, 2), frozenset())  # noqa: FBT003
    assert summary([told])["break the law"] == 1
    assert not lawful(told)
    late = Verdict(cell, (), 9, False, (), (), (4, 4), frozenset({"gap"}))  # noqa: FBT003
    assert not lawful(late)
    assert not never_seen(late)
    assert "| break the law | 1 |" in page([told])
