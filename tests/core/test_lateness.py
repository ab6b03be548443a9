"""Telling a count that is read late from one that nobody has changed yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.decision import Decision
from scaler.core.lateness import (
    LATE_AT_MOST,
    SETTLED_AFTER,
    late_since,
    noted,
    presumed,
    settling_since,
)
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK
from scaler.core.workload import Scale
from tests.core.histories import BUSY, NOW, decided, steady

TEN = Scale(current=10, max_replicas=20)
GONE = replace(BUSY, serving=7, unseen=3)
"""Seven report; three pods that are called Ready have gone silent."""


def asked(desired: int | None, **changes: object) -> Decision:
    """Return the answer of the tick before."""
    plain = Decision(
        at=NOW - TICK, current=10, desired=desired, advised=desired, reason=Reason.SCALE_IN
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sample", "previous", "late"),
    [
        pytest.param(GONE, asked(7), True, id="exactly what was given up has gone"),
        pytest.param(GONE, asked(8), True, id="and one more"),
        pytest.param(GONE, asked(6), False, id="one of those given up still reports"),
        pytest.param(GONE, asked(10), False, id="nothing was given up"),
        pytest.param(GONE, asked(None), False, id="nothing was answered"),
        pytest.param(GONE, None, False, id="nothing is remembered"),
        pytest.param(
            replace(BUSY, serving=7, loading=3), asked(7), False, id="others load: somebody raised"
        ),
        pytest.param(replace(BUSY, serving=7), asked(7), False, id="pods are not there yet"),
        pytest.param(replace(BUSY, serving=10), asked(7), False, id="the HPA has not acted yet"),
        pytest.param(replace(GONE, at=NOW - 45.0), asked(7), False, id="nothing new is known"),
        pytest.param(GONE, asked(7, late_since=NOW - 30.0), True, id="for half a minute"),
        pytest.param(GONE, asked(7, late_since=NOW - 45.0), False, id="no view is that old"),
    ],
)
def test_what_is_late(sample: Sample, previous: Decision | None, *, late: bool) -> None:
    """Only where the pods of what was given up are called Ready and say nothing."""
    found = late_since(TEN, previous, sample, NOW)
    assert (found is not None) == late
    assert late_since(None, previous, GONE, NOW) is None


def test_it_lasts_no_longer_than_a_view_can() -> None:
    """Then the replicas that are silent are what they are called: unseen."""
    previous, at, ticks = asked(7), NOW, 0
    while (since := late_since(TEN, previous, replace(GONE, at=at), at)) is not None:
        previous = replace(previous, at=at, late_since=since)
        at += TICK
        ticks += 1
    assert ticks * TICK == LATE_AT_MOST


def test_the_answer_stays_where_it_was() -> None:
    """Held is what was asked for, not what is read; demand for more still gets it."""
    samples = steady(GONE, 60)
    late = noted(decided(samples, scale=presumed(TEN, asked(7))), NOW)
    assert (late.current, late.desired) == (7, 7)
    assert Reason.COUNT_LATE in late.notes
    assert decided(samples, scale=TEN).desired == 10
    queueing = steady(replace(GONE, waiting=700.0, queued=7), 60)
    assert (decided(queueing, scale=presumed(TEN, asked(7))).desired or 0) > 7


class TestSettling:
    """A count that is told before its pods are."""

    @pytest.mark.parametrize(
        ("previous", "settles"),
        [
            pytest.param(None, False, id="a scaler that starts has nothing to compare with"),
            pytest.param(asked(10), False, id="the count is what it was"),
            pytest.param(asked(10, current=12), False, id="it fell: whoever went is not missed"),
            pytest.param(asked(10, current=7), True, id="it rose"),
            pytest.param(asked(10, current=0), False, id="it woke: nobody can have served before"),
            pytest.param(asked(None, current=None), True, id="it was not known"),
            pytest.param(asked(10, settling_since=NOW - 15.0), True, id="a tick ago"),
            pytest.param(asked(10, settling_since=NOW - 30.0), False, id="pods are told by now"),
        ],
    )
    def test_what_settles(self, previous: Decision | None, *, settles: bool) -> None:
        """Only a count that rose from some replicas to more, or that nobody knew."""
        assert (settling_since(TEN, previous, NOW) is not None) == settles
        assert settling_since(None, previous, NOW) is None

    def test_it_ends_by_itself(self) -> None:
        """As the view of the pods may be no older."""
        previous, at = asked(10, current=7), NOW
        while (since := settling_since(TEN, previous, at)) is not None:
            previous = asked(10, settling_since=since)
            at += TICK
        assert at - NOW == SETTLED_AFTER

    def test_none_is_given_up_and_more_are_still_given(self) -> None:
        """The ceiling is open; the floor is not."""
        settling = replace(TEN, settling=True)
        idle = steady(replace(BUSY, serving=10, running=0.0, kv_cache=0.0), 60)
        held = decided(idle, scale=settling)
        assert held.desired == 10
        assert (decided(idle, scale=TEN).desired or 0) < 10
        full = steady(replace(BUSY, serving=10, kv_cache=0.99), 60)
        assert decided(full, scale=settling).desired == decided(full, scale=TEN).desired
        assert (decided(full, scale=settling).desired or 0) > 10
