"""Which moves of the count nobody here had asked for."""

from __future__ import annotations

import pytest

from scaler.core.decision import Decision
from scaler.core.moves import Moves
from scaler.core.reasons import Reason
from scaler.core.units import TICK
from tests.core.histories import NOW


def astray(*steps: tuple[int | None, int | None]) -> int:
    """Count the moves astray in a history of (current, desired), one a tick."""
    moves = Moves()
    for index, (current, desired) in enumerate(steps):
        moves.note(
            Decision(
                at=NOW + index * TICK,
                current=current,
                desired=desired,
                advised=desired,
                reason=Reason.STEADY,
            )
        )
    return len(moves.astray)


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        # As asked, at once or in steps.
        ([(4, 4), (4, 8), (8, 8)], 0),
        ([(4, 10), (6, 10), (8, 10), (10, 10)], 0),
        ([(8, 3), (6, 3), (4, 3), (3, 3)], 0),
        # Somebody sets it back, again and again; the HPA's own steps are not counted.
        ([(8, 8), (4, 8), (8, 8), (4, 8), (8, 8)], 2),
        # A person scales a steady fleet.
        ([(4, 4), (6, 4)], 1),
        ([(4, 4), (6, 6), (6, 6)], 1),
        # The HPA acts on an answer that is a little old.
        ([(8, 6), (8, 8), (6, 8)], 0),
        # KEDA itself takes a fleet to zero, and wakes it.
        ([(1, 1), (0, 0), (1, 3), (3, 3)], 0),
        # Nobody knows the count for a while.
        ([(4, 4), (None, None), (9, 9)], 0),
        ([(4, None), (9, None)], 0),
    ],
)
def test_moves_that_lead_away_from_what_was_asked(
    steps: list[tuple[int | None, int | None]], count: int
) -> None:
    """A step towards any recent answer is the HPA's; a step away from all of them is not."""
    assert astray(*steps) == count


@pytest.mark.parametrize(("held", "count"), [(11, 0), (12, 1)])
def test_an_answer_is_old_after_three_minutes(held: int, count: int) -> None:
    """What was asked for three minutes ago explains a move; what was asked before that does not."""
    assert astray((8, 6), *[(8, 8)] * held, (6, 8)) == count
