"""The accounts of a load test."""

from __future__ import annotations

import pytest

from scaler.adapters.fates import SERVED, TIMED_OUT, Fate, Seen, refused
from scaler.adapters.load_ledger import Ledger
from scaler.simulation.outcomes import Slo
from scaler.simulation.requests import Ending, Request

BEGIN = 500.0


def ledger(warm_up: float = 0.0, longest: int | None = None) -> Ledger:
    """Make one whose traffic has begun."""
    made = Ledger(slo=Slo(), warm_up=warm_up, every=10.0, longest=longest)
    made.begin(BEGIN)
    return made


def one(
    book: Ledger,
    at: float,
    fate: Fate = SERVED,
    seen: Seen | None = None,
    *,
    output: int = 11,
    took: float = 5.0,
) -> Request:
    """Account for a request that came `at` seconds after the beginning."""
    request = Request(number=0, arrived=BEGIN + at, prompt=100, output=output)
    book.arrive(request, request.arrived)
    book.end(request, seen or Seen(), fate, request.arrived + took)
    return request


def answered(at: float, first: float, last: float) -> Seen:
    """What is seen of an answer to a request that came at `at`."""
    return Seen(first_token_at=BEGIN + at + first, last_token_at=BEGIN + at + last, finish="length")


@pytest.mark.parametrize(
    ("first", "last", "kept"),
    [(2.0, 3.0, True), (2.1, 3.0, False), (1.0, 2.0, True), (1.0, 2.1, False)],
)
def test_the_promise_is_the_simulator_s(first: float, last: float, kept: bool) -> None:  # noqa: FBT001 - a table
    """A first token within 2 s and ten more at 100 ms; what follows the last token is no token."""
    book = ledger()
    one(book, 0.0, seen=answered(0.0, first, last), took=50.0)
    assert book.outcomes.attained == kept


def test_lengths_are_those_that_came() -> None:
    """The pace counts the server's tokens, and the ratios tell what was missing."""
    book = ledger()
    seen = answered(0.0, 1.0, 2.0)
    seen.prompt, seen.output = 110, 6
    request = one(book, 0.0, seen=seen)
    assert request.output == 6
    assert request.tpot == pytest.approx(0.2)
    assert (book.asked_output, book.outcomes.tokens) == (11, 6)
    assert (book.asked_prompt, book.counted_prompt) == (100, 110)


def test_a_warm_up_is_left_out() -> None:
    """It is sent and seen in the intervals, and no result knows it."""
    book = ledger(warm_up=10.0)
    one(book, 9.9, refused(503))
    one(book, 10.0, seen=answered(10.0, 1.0, 2.0))
    assert (book.warming, book.outcomes.arrived) == (1, 1)
    assert book.outcomes.slo_attainment == 1.0
    assert book.kinds == {"served": 1}
    assert [interval.outcomes.arrived for interval in book.intervals] == [1, 1]
    assert book.intervals[0].outcomes.ended[Ending.REJECTED] == 1


def test_intervals_are_by_arrival_and_ends_by_when_they_were() -> None:
    """A request that came in the first and ended in the third belongs to the first."""
    book = ledger()
    one(book, 1.0, TIMED_OUT, took=25.0)
    assert [interval.outcomes.arrived for interval in book.intervals] == [1, 0, 0]
    assert [interval.ended for interval in book.intervals] == [0, 0, 1]


@pytest.mark.parametrize(("longest", "too_long"), [(None, 0), (111, 0), (110, 1)])
def test_too_long_ones_are_counted(longest: int | None, too_long: int) -> None:
    """By prompt and output together, where the model's context is known."""
    book = ledger(longest=longest)
    one(book, 0.0)
    assert book.too_long == too_long


def test_the_first_words_of_the_server_are_kept() -> None:
    """One message a kind, the first one."""
    book = ledger()
    for text in ("queue full", "still full"):
        one(book, 0.0, refused(429), Seen(message=text))
    assert book.messages == {"http_429": "queue full"}


def test_a_first_token_counts_in_the_ttft_however_it_ended() -> None:
    """As in the simulator: latencies of what was cut off are no secret."""
    book = ledger()
    one(book, 0.0, TIMED_OUT, answered(0.0, 1.5, 4.0))
    assert book.outcomes.ttft.count == 1
    assert book.outcomes.tpot.count == 0
