"""The engine that jumps from event to event against one that makes every step."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.simulation.engine import Engine
from scaler.simulation.requests import Ending, Request
from scaler.simulation.shapes import EngineShape, StepCost
from tests.simulation.reference import PlainEngine

COST = StepCost(
    base=0.02,
    per_token=1e-4,
    per_sequence=3e-4,
    per_context_token=2.3e-6,
    per_attention_pair=1e-6,
)

# Arrivals are spread so that none falls on a step's very end, where rounding would decide.
ARRIVALS = st.lists(
    st.tuples(st.integers(0, 9999), st.integers(1, 150), st.integers(1, 120)),
    min_size=1,
    max_size=40,
)


def requests_of(drawn: list[tuple[int, int, int]]) -> list[Request]:
    """Make requests of (arrival in ms, prompt, output)."""
    return [
        Request(number=n, arrived=ms * 1.00037e-3 + 1.3e-4, prompt=prompt, output=output)
        for n, (ms, prompt, output) in enumerate(sorted(drawn))
    ]


@settings(max_examples=150, deadline=None)
@given(
    drawn=ARRIVALS,
    blocks=st.integers(18, 120),
    block_size=st.sampled_from([16, 128]),
    seqs=st.integers(1, 12),
    budget=st.sampled_from([12, 64, 2048]),
    pace=st.sampled_from([0.05, 1.7, 1e9]),
    lazily=st.booleans(),
)
def test_jumping_from_event_to_event_gives_the_times_of_single_steps(
    drawn: list[tuple[int, int, int]],
    blocks: int,
    block_size: int,
    seqs: int,
    budget: int,
    pace: float,
    lazily: bool,  # noqa: FBT001
) -> None:
    """First tokens, ends and preemptions agree with the plain engine, however time is cut up."""
    shape = EngineShape(
        cost=COST,
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        block_size=block_size,
        blocks=blocks,
        max_model_len=288,
    )
    plain = PlainEngine(shape)
    expected = plain.run(requests_of(drawn))
    ended: list[Request] = []
    engine = Engine(shape, on_end=ended.append)
    requests = requests_of(drawn)
    for request in requests:
        engine.submit(request, request.arrived)
    now = 0.0
    while engine.in_flight:
        now += pace
        (engine.catch_up if lazily else engine.advance)(now)
    assert len(ended) == len(requests)
    assert engine.blocks_free == shape.blocks
    assert sum(r.preempted for r in requests) == engine.counters.preemptions == plain.preemptions
    for request in requests:
        job = expected[request.number]
        assert request.ending is Ending.SERVED
        assert request.first_token_at == pytest.approx(job.first_token_at, abs=1e-5)
        assert request.ended_at == pytest.approx(job.ended_at, abs=1e-5)
