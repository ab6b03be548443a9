"""The series of a load test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.fates import SERVED, TIMED_OUT, TOO_MANY_OPEN, Fate, Seen, refused
from scaler.adapters.load_ledger import Ledger
from scaler.cli.load_files import series
from scaler.simulation.outcomes import Slo
from scaler.simulation.requests import Request

BEGIN = 500.0
FATES = st.sampled_from([SERVED, TIMED_OUT, refused(429), TOO_MANY_OPEN])


def ledger(*requests: tuple[float, float | None, Fate]) -> Ledger:
    """Account for requests: when they came, how long they took (None: they are open), how."""
    book = Ledger(slo=Slo(), every=10.0)
    book.begin(BEGIN)
    for number, (at, took, fate) in enumerate(requests):
        request = Request(number=number, arrived=BEGIN + at, prompt=10, output=1)
        book.arrive(request, request.arrived)
        if took is not None:
            seen = Seen(first_token_at=request.arrived + took if fate is SERVED else None)
            book.end(request, seen, fate, request.arrived + took)
    return book


def test_rows_tell_the_course() -> None:
    """What came in each interval and what became of it, and how many were open at its end."""
    rows = series(ledger((1.0, 25.0, TIMED_OUT), (11.0, 1.0, SERVED), (12.0, None, SERVED)))
    assert [row["at"] for row in rows] == [0.0, 10.0, 20.0]
    assert [row["arrived"] for row in rows] == [1, 2, 0]
    assert [row["open"] for row in rows] == [1, 2, 1]
    assert [row["given_up"] for row in rows] == [1, 0, 0]
    assert [row["unfinished"] for row in rows] == [0, 1, 0]
    assert [row["slo_attainment"] for row in rows] == [0.0, 0.5, None]
    assert rows[0]["ttft_p95"] is None
    assert rows[1]["ttft_p95"] == pytest.approx(1.0, rel=0.02)


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.none() | st.floats(0, 100), FATES).filter(
            lambda request: request[1] is not None or request[2] is not TOO_MANY_OPEN
        ),
        max_size=20,
    )
)
def test_rows_lose_nobody(requests: list[tuple[float, float | None, Fate]]) -> None:
    """Of those that came each is in one column; at the end those are open that never ended."""
    rows = series(ledger(*requests))
    for row in rows:
        columns = ("served", "rejected", "given_up", "cut_off", "unsent", "unfinished")
        assert row["arrived"] == sum(int(row[name] or 0) for name in columns)
    left = sum(took is None for _, took, _ in requests)
    assert (rows[-1]["open"] if rows else 0) == left
