"""The model against a real vLLM 0.32 under the same load.

The recordings are of a tiny model on a CPU that other work shared, scraped about every 0.3 s, some
scrapes taking over 2 s. So two kinds of comparison are made: one in time, with a step's cost fitted
by eye to that machine, and one in which time does not appear at all. `make engine` compares with an
engine that it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scaler.simulation.engine import Engine
from scaler.simulation.exposition import exposition
from scaler.simulation.requests import Ending, Request
from scaler.simulation.shapes import EngineShape, StepCost
from tests.simulation.loads import (
    CAPTURES,
    EVEN,
    ONE_STEP,
    ClosedLoop,
    Gauges,
    Sending,
    State,
    recorded,
    states,
    stepped,
)

# What a step took on the machine at the time of each recording.
KV_LIMITED = EngineShape(
    cost=StepCost(base=0.007, per_token=1e-4, per_sequence=7e-4, per_context_token=0.0),
    max_num_seqs=8,
    block_size=128,
    blocks=17,
    max_model_len=2048,
)
SLOT_LIMITED = EngineShape(
    cost=StepCost(base=0.009, per_token=1e-4, per_sequence=6e-4, per_context_token=0.0),
    max_num_seqs=4,
    block_size=128,
    blocks=16_383,
    max_model_len=2048,
)


def plateaus(series: list[Gauges]) -> list[tuple[int, float]]:
    """Return the (running, usage) states that the series goes through, once all eight run."""
    states: list[tuple[int, float]] = []
    for gauges in series:
        state = (round(gauges.running), round(gauges.usage, 3))
        if (states or gauges.running == 8) and state not in states[-1:]:
            states.append(state)
    return states


def test_the_cache_fills_through_the_same_states_as_in_the_real_engine() -> None:
    """Up to the first end, running and usage pass the recorded states in order, without error.

    Eight requests of 100 + 900 tokens share 17 blocks; the recording's scrapes miss no state.
    """
    loop = ClosedLoop(KV_LIMITED, clients=8, prompt=100, output=900)
    loop.start(0.6, apart=0.0, pause=0.35)
    real = [gauges for gauges in recorded("kv-limited-preemptions") if gauges.at < 9.5]
    model = list(loop.every(0.005, 9.5))
    expected = [(8, 0.471), (8, 0.941), (5, 0.882), (4, 0.941), (3, 0.882), (2, 0.706)]
    expected += [(2, 0.824), (2, 0.941)]
    assert plateaus(real) == expected
    assert plateaus(model) == expected


def test_gauges_follow_the_recorded_ones_in_time_when_the_cache_is_short() -> None:
    """Until the first end, the mean error is at most 0.4 running, 0.4 waiting and 0.06 of usage.

    Scraped at the recorded instants; of eight requests, and with no error in preemptions.
    """
    loop = ClosedLoop(KV_LIMITED, clients=8, prompt=100, output=900)
    loop.start(0.6, apart=0.01, pause=0.35)
    real = [gauges for gauges in recorded("kv-limited-preemptions") if gauges.at < 9.5]
    model = [loop.scrape(gauges.at) for gauges in real]
    pairs = list(zip(real, model, strict=True))
    assert mean(abs(a.running - b.running) for a, b in pairs) <= 0.4
    assert mean(abs(a.waiting - b.waiting) for a, b in pairs) <= 0.4
    assert mean(abs(a.usage - b.usage) for a, b in pairs) <= 0.06
    assert all(a.preemptions == b.preemptions == 0 for a, b in pairs)


@pytest.mark.parametrize("apart", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("pause", [0.0, 0.35])
def test_a_short_cache_costs_as_many_steps_and_preemptions_as_in_the_real_engine(
    apart: float, pause: float
) -> None:
    """At the real engine's 10,389 tokens: steps within 0.5 %, preemptions within 6 of its 30.

    It had then taken 3,068 steps, finished 10 requests and begun 18; the model finishes the same
    number and begins it within one, however its clients begin. No time enters here.
    """
    loop = ClosedLoop(KV_LIMITED, clients=8, prompt=100, output=900)
    loop.start(0.6, apart=apart, pause=pause)
    steps, before, counters = 0, 0, loop.engine.counters
    at = 0.0
    while counters.generation_tokens < 10_389:
        at += 0.002
        loop.engine.advance(at)
        steps += counters.generation_tokens > before
        before = counters.generation_tokens
    assert steps == pytest.approx(3068, rel=0.005)
    assert counters.preemptions == pytest.approx(30, abs=6)
    assert counters.success == 10
    assert counters.ttft.count == pytest.approx(18, abs=1)


def test_gauges_follow_the_recorded_ones_when_slots_are_short() -> None:
    """With 24 clients on 4 slots the mean error is at most 0.1 running, 1 waiting, 0.01 % usage.

    From 3.5 s on, when all clients of the recording are there; its usage peaks at 0.1 %. Requests
    of 200 + 300 tokens fit the recorded usage; the load's own lengths were not written down.
    """
    loop = ClosedLoop(SLOT_LIMITED, clients=24, prompt=200, output=300)
    loop.start(3.3, apart=0.01, pause=0.0)
    real = [gauges for gauges in recorded("saturated-waiting") if gauges.at > 3.5]
    model = [loop.scrape(gauges.at) for gauges in real]
    pairs = list(zip(real, model, strict=True))
    assert mean(abs(a.running - b.running) for a, b in pairs) <= 0.1
    assert mean(abs(a.waiting - b.waiting) for a, b in pairs) <= 1.0
    assert mean(abs(a.usage - b.usage) for a, b in pairs) <= 1e-4


# Requests of 500 tokens fit the two recordings below; their lengths were not written down.


def missed(wanted: list[State], passed: list[State]) -> list[State]:
    """Return the wanted states that are not passed in their order."""
    left, at = [], 0
    for state in wanted:
        try:
            at = passed.index(state, at)
        except ValueError:
            left.append(state)
    return left


def test_a_drain_passes_through_every_recorded_state_and_cuts_nobody_off() -> None:
    """One request, seven more 207 steps later: all 16 states in order, counted preemptions too.

    207 steps are what the real engine's page of that moment says (222 steps, 327 tokens). Told to
    stop with 60 s of grace, the model refuses what comes and serves those eight, as vLLM did.
    """
    endings: list[Ending | None] = []
    engine = Engine(
        replace(KV_LIMITED, cost=EVEN), on_end=lambda request: endings.append(request.ending)
    )
    sendings = [Sending(0, 64, 500), *(Sending(207 + number, 64, 500) for number in range(7))]
    model = []
    for gauges in stepped(engine, sendings):
        model.append(gauges)
        if len(model) == 250:
            engine.stop(gauges.at, grace=60.0)
            late = Request(number=99, arrived=gauges.at, prompt=64, output=500)
            assert not engine.submit(late, gauges.at)
    real = states(recorded("sigterm-drain60"), blocks=17)
    assert len(real) == 17
    assert real[0] == State(0, 0, 0, 0)
    assert missed(real[1:], states(model, blocks=17)) == []
    assert endings == [Ending.REJECTED, *[Ending.SERVED] * 8]
    assert engine.stopped


def sums(pairs: set[tuple[int, int]], passed: list[State], wanted: State) -> set[tuple[int, int]]:
    """Return where two engines may stand, none before where it stood, to show `wanted` together."""
    return {
        (i, j)
        for i, one in enumerate(passed)
        for j, other in enumerate(passed)
        if all(a + b == c for a, b, c in zip(one, other, wanted, strict=True))
        and any(p <= i and q <= j for p, q in pairs)
    }


def test_two_engines_pass_together_through_every_recorded_sum_of_states() -> None:
    """Of 40 requests on 2 × 4 slots each recorded look is one state of each engine, in order.

    Both get 20 requests of 100 + 500 tokens, a step apart; the recording sums over them, and each
    goes at its own pace. Both end with 4 preemptions counted, 8 together as recorded.
    """
    engine = Engine(replace(KV_LIMITED, cost=EVEN, max_num_seqs=4))
    sendings = [Sending(number, 100, 500) for number in range(20)]
    passed = [State(0, 0, 0, 0), *states(stepped(engine, sendings), blocks=17)]
    stand = {(0, 0)}
    for look in states(recorded("dp2-loaded"), blocks=17):
        stand = sums(stand, passed, look)
        assert stand, f"{look} is no sum of two states"
    assert passed[-1] == State(0, 0, 0, 4)
    assert engine.counters.success == 20


def families(page: str) -> Mapping[str, tuple[str, frozenset[str], frozenset[tuple[str, str]]]]:
    """Return the type, the label names and the parts (buckets, reasons, states) of vLLM's."""
    found = {}
    for family in text_string_to_metric_families(page):
        pairs = [pair for sample in family.samples for pair in sample.labels.items()]
        parts = {pair for pair in pairs if pair[0] in ("le", "reason", "sleep_state")}
        if family.name.startswith("vllm:"):
            names = frozenset(name for name, _ in pairs)
            found[family.name] = family.type, names, frozenset(parts)
    return found


def test_the_page_has_the_families_of_the_real_one() -> None:
    """Each has the real type, labels, buckets, reasons and states; only the cache's labels are few.

    The families that the real engine has besides are not read.
    """
    real = families((CAPTURES / "saturated-waiting.txt").read_text(encoding="utf-8"))
    engine = Engine(SLOT_LIMITED)
    engine.advance(ONE_STEP)
    model = families(exposition([engine], model_name="tiny"))
    assert len(model) > 10
    few = "vllm:cache_config_info"
    assert {name: model[name] for name in model if name != few} == {
        name: real[name] for name in model if name != few
    }
    assert model[few][1] < real[few][1]
