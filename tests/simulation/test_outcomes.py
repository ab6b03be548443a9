"""Counting endings, sketching latencies, keeping the promise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.simulation.outcomes import Outcomes, Sketch, Slo
from scaler.simulation.requests import Ending, Request


def ended(
    ending: Ending = Ending.SERVED,
    *,
    ttft: float | None = 1.0,
    tpot: float = 0.05,
    output: int = 101,
) -> Request:
    """Make a request that arrived at 10 s and ended so."""
    request = Request(number=0, arrived=10.0, prompt=5, output=output)
    request.first_token_at = None if ttft is None else 10.0 + ttft
    request.end(ending, 10.0 + (ttft or 0.0) + tpot * (output - 1))
    return request


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        (ended(), True),
        (ended(ttft=2.0, tpot=0.0999), True),
        (ended(ttft=2.01), False),
        (ended(tpot=0.101), False),
        (ended(output=1), True),
        (ended(output=1, ttft=3.0), False),
        (ended(Ending.GIVEN_UP), False),
        (ended(Ending.CUT_OFF), False),
        (ended(Ending.REJECTED, ttft=None), False),
    ],
)
def test_only_a_served_request_in_time_keeps_the_promise(request_: Request, kept: bool) -> None:  # noqa: FBT001
    """Two seconds to the first token and 100 ms a token; whatever is not served is a miss."""
    assert Slo().attained(request_) is kept


def test_the_pace_is_the_mean_over_the_gaps_between_tokens() -> None:
    """A hundred and one tokens have a hundred gaps; one token has none."""
    assert ended(tpot=0.05).tpot == pytest.approx(0.05)
    assert ended(output=1).tpot == 0.0
    assert ended(Ending.CUT_OFF).tpot is None


def test_outcomes_add_up() -> None:
    """Shares are of all that arrived; a pace counts only where there is one."""
    assert Outcomes().slo_attainment is None
    outcomes = Outcomes()
    requests = [ended(), ended(output=1), ended(ttft=9.0), ended(Ending.REJECTED, ttft=None)]
    for request in requests:
        outcomes.arrive()
        outcomes.record(request)
    outcomes.arrive()
    assert outcomes.slo_attainment == 2 / 5
    assert (outcomes.arrived, outcomes.total_ended, outcomes.open) == (5, 4, 1)
    assert (outcomes.ttft.count, outcomes.tpot.count) == (3, 2)
    assert outcomes.tokens == 101 + 1 + 101
    assert outcomes.ended[Ending.REJECTED] == 1


def test_ending_twice_is_a_fault() -> None:
    """A simulation that loses count must not go on."""
    request = ended()
    with pytest.raises(AssertionError, match="ended twice"):
        request.end(Ending.CUT_OFF, 99.0)
    with pytest.raises(AssertionError, match="has not ended"):
        Outcomes().record(Request(number=0, arrived=0.0, prompt=1, output=1))


@given(
    values=st.lists(st.floats(1e-6, 1e5), min_size=1, max_size=200),
    share=st.sampled_from([0.0, 0.5, 0.95, 0.99, 1.0]),
)
def test_a_sketched_quantile_is_within_one_percent(values: list[float], share: float) -> None:
    """Of the value that the nearest rank names."""
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    rank = max(1, math.ceil(share * len(values)))
    assert sketch.quantile(share) == pytest.approx(sorted(values)[rank - 1], rel=0.0101)


def test_a_sketch_of_nothing_knows_nothing_and_zeros_are_zero() -> None:
    """No data is not zero."""
    sketch = Sketch()
    assert sketch.quantile(0.5) is None
    sketch.add(0.0)
    assert sketch.quantile(0.5) == 0.0
