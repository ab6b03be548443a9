"""What an engine does: its two signatures of overload, its counters, and every way to end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scaler.simulation.engine import Engine
from scaler.simulation.errors import ShapeInvalid
from scaler.simulation.exposition import exposition
from scaler.simulation.histogram import ITL_EDGES, TTFT_EDGES, Histogram
from scaler.simulation.requests import Ending, Request
from scaler.simulation.shapes import (
    COMPUTE_BOUND,
    MEMORY_BOUND,
    EngineShape,
    StartUp,
    StepCost,
)

COST = StepCost(base=0.01, per_token=1e-4, per_sequence=1e-4, per_context_token=0.0)
SHAPE = EngineShape(cost=COST, max_num_seqs=4, blocks=1000, max_model_len=4000)
FEW_BLOCKS = EngineShape(cost=COST, max_num_seqs=8, block_size=16, blocks=40, max_model_len=600)


def request(number: int = 0, *, at: float = 0.0, prompt: int = 100, output: int = 50) -> Request:
    """Make a request."""
    return Request(number=number, arrived=at, prompt=prompt, output=output)


def loaded(shape: EngineShape, count: int, *, prompt: int = 100, output: int = 50) -> Engine:
    """Return an engine that was sent `count` requests at time 0."""
    engine = Engine(shape)
    for number in range(count):
        engine.submit(request(number, prompt=prompt, output=output), 0.0)
    return engine


def test_short_of_slots_the_engine_runs_full_while_its_cache_is_almost_empty() -> None:
    """With more requests than slots: running at its limit, the rest waiting, low usage."""
    engine = loaded(SHAPE, 10)
    engine.advance(0.3)
    assert (engine.running, engine.waiting) == (4, 6)
    assert engine.kv_cache_usage < 0.05
    assert engine.counters.preemptions == 0


def test_short_of_blocks_the_engine_preempts_while_slots_are_free() -> None:
    """With a small cache: waiting requests, free slots and usage near 1, then preemptions."""
    engine = loaded(FEW_BLOCKS, 8, prompt=60, output=100)
    seen = []
    for tick in range(200):
        engine.advance(tick * 0.05)
        seen.append((engine.running, engine.waiting, engine.kv_cache_usage))
    assert any(run < 8 and wait > 0 and usage > 0.85 for run, wait, usage in seen)
    assert engine.counters.preemptions > 0
    assert engine.counters.success == 8


def test_a_preemption_is_counted_when_its_victim_gets_the_next_token() -> None:
    """The counter stands still while the preempted request waits, as vLLM's does."""
    engine = loaded(FEW_BLOCKS, 8, prompt=60, output=100)
    shown = []
    for tick in range(100):
        engine.advance(tick * 0.01)
        shown.append((engine.running, engine.waiting))
    assert (8, 0) in shown
    assert engine.waiting > 0
    assert engine.counters.preemptions == 0
    engine.advance(1e9)
    assert engine.counters.preemptions >= 1


def test_a_preempted_request_is_observed_once_as_a_first_token() -> None:
    """TTFT has one observation a request, and generated tokens are not counted twice."""
    engine = loaded(FEW_BLOCKS, 8, prompt=60, output=100)
    engine.advance(1e9)
    counters = engine.counters
    assert counters.preemptions > 0
    assert counters.ttft.count == counters.e2e.count == 8
    assert counters.generation_tokens == 800
    assert counters.itl.count == 800 - 8
    assert counters.prompt_tokens == counters.prefix_queries == 480


def test_gaps_between_tokens_fill_the_time_from_first_to_last() -> None:
    """The inter-token histogram's sum is that time over all requests, preempted ones included."""
    ended: list[Request] = []
    engine = Engine(FEW_BLOCKS, on_end=ended.append)
    for number in range(8):
        engine.submit(request(number, prompt=60, output=100), 0.0)
    engine.advance(1e9)
    assert engine.counters.preemptions > 0
    spans = [(r.ended_at or 0.0) - (r.first_token_at or 0.0) for r in ended]
    assert engine.counters.itl.total == pytest.approx(sum(spans))
    assert engine.counters.busy_seconds == pytest.approx(max(r.ended_at or 0.0 for r in ended))


def test_what_arrives_during_a_step_is_shown_after_the_next() -> None:
    """The gauges are the engine's own view: it looks into its inbox between steps."""
    engine = Engine(SHAPE)
    for number in range(4):
        engine.submit(request(number, prompt=3000, output=50), 0.0)
    # Steps of 2,048 tokens take 0.21 s: 0.1 s is within the first.
    engine.submit(request(9, at=0.1), 0.1)
    engine.advance(0.3)
    assert (engine.running, engine.waiting, engine.in_flight) == (1, 3, 5)
    engine.advance(0.5)
    assert (engine.running, engine.waiting, engine.in_flight) == (2, 3, 5)


def test_a_long_prompt_is_prefilled_in_chunks_of_the_token_budget() -> None:
    """3,000 tokens with a budget of 1,000 take three steps to the first token."""
    shape = replace(SHAPE, max_num_batched_tokens=1000)
    engine = Engine(shape)
    long = request(prompt=3000, output=1)
    engine.submit(long, 0.0)
    engine.advance(10.0)
    assert long.first_token_at == pytest.approx(3 * COST.of(1000, 1, 0))
    assert long.ended_at == long.first_token_at


def test_a_prefill_slows_the_tokens_of_those_that_decode() -> None:
    """A long prompt arriving in mid-generation shows as a long gap between tokens."""
    engine = Engine(SHAPE)
    engine.submit(request(0, prompt=10, output=100), 0.0)
    engine.submit(request(1, at=0.5, prompt=2000, output=2), 0.5)
    engine.advance(60.0)
    slow = sum(engine.counters.itl.counts[ITL_EDGES.index(0.15) :])
    assert slow == 1


def test_hits_in_the_prefix_cache_save_their_share_of_the_prefill() -> None:
    """Half of the prompt found cached, in whole blocks, is half of the work and as many blocks."""
    cold, warm = Engine(SHAPE), Engine(replace(SHAPE, prefix_hit_rate=0.5))
    for engine in (cold, warm):
        engine.submit(request(prompt=1000, output=1), 0.0)
        engine.advance(0.001)
    assert cold.blocks_free == warm.blocks_free
    cold.advance(10.0)
    warm.advance(10.0)
    assert warm.counters.prefix_hits == 496
    saved = cold.counters.ttft.total - warm.counters.ttft.total
    assert saved == pytest.approx(496 * COST.per_token)


def test_everything_cached_still_computes_the_last_token() -> None:
    """A hit rate of 1 leaves at least one token of the prompt to compute."""
    engine = Engine(replace(SHAPE, prefix_hit_rate=1.0))
    engine.submit(request(prompt=160, output=3), 0.0)
    engine.advance(10.0)
    assert engine.counters.prefix_hits == 144
    assert engine.counters.success == 1


def test_a_bounded_queue_refuses_what_exceeds_it() -> None:
    """With four running and two queued, the seventh request is rejected and counted so."""
    engine = Engine(replace(SHAPE, max_queued=2))
    sent = [request(number, at=0.1) for number in range(4)]
    for each in sent[:2]:
        assert engine.submit(each, 0.1)
    engine.advance(0.2)
    for each in sent[2:]:
        assert engine.submit(each, 0.2)
    engine.advance(0.3)
    late = [request(10 + number, at=0.3) for number in range(3)]
    accepted = [engine.submit(each, 0.3) for each in late]
    assert accepted == [True, True, False]
    assert late[2].ending is Ending.REJECTED
    assert engine.counters.rejections == 1


@pytest.mark.parametrize(("prompt", "ends"), [(3999, Ending.SERVED), (4000, Ending.REJECTED)])
def test_a_prompt_as_long_as_the_model_allows_is_refused(prompt: int, ends: Ending) -> None:
    """There must be room for one token of output; more output than room is cut short."""
    engine = Engine(SHAPE)
    each = request(prompt=prompt, output=500)
    engine.submit(each, 0.0)
    engine.advance(100.0)
    assert each.ending is ends


def test_a_client_without_a_first_token_gives_up_in_the_queue() -> None:
    """A waiting request ends at its patience; nothing is counted, as in vLLM."""
    engine = loaded(SHAPE, 4, output=3000)
    waits = Request(number=9, arrived=0.0, prompt=10, output=10, patience=1.5)
    engine.submit(waits, 0.0)
    engine.advance(1.0)
    assert engine.waiting == 1
    engine.advance(2.0)
    assert (waits.ending, waits.ended_at) == (Ending.GIVEN_UP, 1.5)
    assert engine.waiting == 0
    assert engine.counters.ttft.count == 4


def test_patience_ends_with_the_first_token_and_the_timeout_does_not() -> None:
    """A client that got a token stays past its patience, and leaves at its timeout."""
    engine = Engine(SHAPE)
    stays = Request(number=0, arrived=0.0, prompt=10, output=200, patience=0.5)
    leaves = Request(number=1, arrived=0.0, prompt=10, output=200, timeout=0.5)
    engine.submit(stays, 0.0)
    engine.submit(leaves, 0.0)
    engine.advance(60.0)
    assert stays.ending is Ending.SERVED
    assert (leaves.ending, leaves.ended_at) == (Ending.GIVEN_UP, 0.5)
    assert engine.blocks_free == SHAPE.blocks


def test_sigterm_without_grace_cuts_everything_off_at_once() -> None:
    """By vLLM's default what runs and what waits is lost at the signal."""
    ended: list[Request] = []
    engine = Engine(SHAPE, on_end=ended.append)
    for number in range(6):
        engine.submit(request(number), 0.0)
    engine.stop(0.2)
    assert [each.ending for each in ended] == [Ending.CUT_OFF] * 6
    assert {each.ended_at for each in ended} == {0.2}
    assert engine.stopped
    assert engine.blocks_free == SHAPE.blocks


def test_a_drain_finishes_what_runs_and_what_waits_and_refuses_the_rest() -> None:
    """Within its grace all requests that were there are served; a new one is refused."""
    ended: list[Request] = []
    engine = Engine(SHAPE, on_end=ended.append)
    for number in range(6):
        engine.submit(request(number), 0.0)
    engine.stop(0.2, grace=60.0)
    assert not engine.stopped
    assert not engine.submit(request(7, at=0.3), 0.3)
    engine.advance(59.0)
    assert [each.ending for each in ended] == [Ending.REJECTED] + [Ending.SERVED] * 6
    assert engine.stopped


def test_a_drain_that_expires_cuts_off_what_is_left() -> None:
    """At the end of the grace the remaining requests end there, and no block stays taken."""
    ended: list[Request] = []
    engine = Engine(FEW_BLOCKS, on_end=ended.append)
    for number in range(8):
        engine.submit(request(number, prompt=60, output=100), 0.0)
    engine.stop(0.5, grace=1.0)
    engine.advance(100.0)
    endings = [each.ending for each in ended]
    assert len(endings) == 8
    assert {Ending.SERVED, Ending.CUT_OFF} == set(endings)
    assert {each.ended_at for each in ended if each.ending is Ending.CUT_OFF} == {1.5}
    assert engine.blocks_free == FEW_BLOCKS.blocks


def test_a_frozen_engine_keeps_its_gauges_and_makes_no_token() -> None:
    """An engine that hangs shows what it showed, while its clients give up."""
    engine = Engine(SHAPE)
    each = Request(number=0, arrived=0.0, prompt=10, output=500, timeout=5.0)
    engine.submit(each, 0.0)
    engine.freeze(1.0)
    tokens = engine.counters.generation_tokens
    engine.advance(100.0)
    assert engine.running == 1
    assert engine.counters.generation_tokens == tokens
    assert (each.ending, each.ended_at) == (Ending.GIVEN_UP, 5.0)


def test_freezing_within_a_step_loses_no_block() -> None:
    """Blocks taken for tokens that will never come are given back with the rest."""
    engine = Engine(SHAPE)
    short = Request(number=0, arrived=0.0, prompt=15, output=50, timeout=30.0)
    engine.submit(short, 0.0)
    engine.advance(0.012)
    # The third step needs a second block for the short one; the long one's prefill draws it out.
    long = Request(number=1, arrived=0.012, prompt=2000, output=50, timeout=30.0)
    engine.submit(long, 0.012)
    engine.advance(0.1)
    engine.freeze(0.1)
    engine.advance(60.0)
    assert short.ending is long.ending is Ending.GIVEN_UP
    assert engine.blocks_free == SHAPE.blocks


def test_a_withdrawn_request_ends_at_the_next_step() -> None:
    """A client that closes its stream frees its slot and blocks."""
    engine = Engine(SHAPE)
    each = request(output=3000)
    engine.submit(each, 0.0)
    engine.advance(1.0)
    engine.withdraw(each, 1.0)
    engine.advance(1.1)
    assert each.ending is Ending.GIVEN_UP
    assert (engine.running, engine.in_flight) == (0, 0)
    assert engine.blocks_free == SHAPE.blocks


def test_nothing_happens_before_the_time_that_the_engine_names() -> None:
    """Stepping from one named instant to the next misses no end and gets through."""
    stepped, at_once = loaded(FEW_BLOCKS, 8, prompt=60), loaded(FEW_BLOCKS, 8, prompt=60)
    instants = 0
    while stepped.quiet_until() < math.inf:
        before = stepped.counters.success + stepped.counters.ttft.count
        at = stepped.quiet_until()
        stepped.advance(at - 1e-5)
        assert stepped.counters.success + stepped.counters.ttft.count == before
        stepped.advance(at)
        instants += 1
        assert instants < 1000
    at_once.advance(1e9)
    assert stepped.counters.success == 8
    assert stepped.counters.e2e.total == pytest.approx(at_once.counters.e2e.total)


def test_a_ramp_of_values_falls_into_the_buckets_of_its_values() -> None:
    """Counting a ramp at once equals counting its values one by one."""
    for first, rise, steps in ((0.004, 0.0003, 400), (0.01, 0.0, 7), (0.1, 0.05, 3), (30, 9, 20)):
        single, ramp = Histogram(TTFT_EDGES), Histogram(TTFT_EDGES)
        for index in range(steps):
            single.observe(first + rise * index, 3)
        ramp.observe_ramp(first, rise, steps, 3)
        assert ramp.counts == single.counts
        assert ramp.total == pytest.approx(single.total)


def test_the_page_reads_as_vllms_does() -> None:
    """A scraper finds every family, with vLLM's labels and an engine label each."""
    engine = loaded(SHAPE, 6)
    engine.advance(0.3)
    page = exposition([engine, Engine(SHAPE)], model_name='odd"name')
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    labels = (("engine", "0"), ("model_name", 'odd"name'))
    assert samples["vllm:num_requests_running", labels] == 4
    assert samples["vllm:num_requests_waiting", labels] == 2
    assert samples["vllm:num_requests_waiting_by_reason", (*labels, ("reason", "capacity"))] == 2
    assert samples["vllm:kv_cache_usage_perc", labels] == engine.kv_cache_usage
    assert samples["vllm:time_to_first_token_seconds_count", labels] == 4
    assert samples["vllm:engine_sleep_state", (*labels, ("sleep_state", "awake"))] == 1
    refused = (("model_name", 'odd"name'), ("reason", "max_num_queued_reqs"))
    assert samples["vllm:admission_rejections_total", refused] == 0
    config = (("block_size", "16"), ("engine", "0"), ("num_gpu_blocks", "1001"))
    assert samples["vllm:cache_config_info", config] == 1
    edges = {
        dict(key)["le"] for name, key in samples if name.endswith("first_token_seconds_bucket")
    }
    assert {"0.001", "2.5", "2560.0", "+Inf"} <= edges


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: replace(SHAPE, blocks=0), "at least 1"),
        (lambda: replace(SHAPE, max_num_batched_tokens=2), "below max_num_seqs"),
        (lambda: replace(SHAPE, max_model_len=17_000), "does not fit"),
        (lambda: replace(SHAPE, prefix_hit_rate=1.5), "0..1"),
        (lambda: replace(SHAPE, cost=replace(COST, per_token=math.nan)), "finite"),
        (lambda: replace(SHAPE, cost=replace(COST, base=0, per_token=0, per_sequence=0)), "time"),
    ],
)
def test_a_shape_that_contradicts_itself_is_refused(
    make: Callable[[], EngineShape], fault: str
) -> None:
    """The message names what is wrong."""
    with pytest.raises(ShapeInvalid, match=fault):
        make()


def test_the_two_presets_are_bound_by_what_their_names_say() -> None:
    """Under the same overload one runs out of slots and the other out of blocks."""
    ended = []
    for shape in (COMPUTE_BOUND, MEMORY_BOUND):
        engine = Engine(shape)
        for number in range(600):
            at = number * 0.1
            engine.submit(request(number, at=at, prompt=1100, output=400), at)
        engine.advance(60.0)
        assert engine.waiting > 0
        ended.append((engine.running / shape.max_num_seqs, engine.kv_cache_usage))
    (slots, usage), (slots_free, usage_full) = ended
    assert (slots > 0.9, usage < 0.6) == (True, True)
    assert (usage_full > 0.8, slots_free < 0.6) == (True, True)


def test_start_up_times_lie_around_their_median_and_have_an_end() -> None:
    """No spread means the median itself; draws stay within three deviations."""
    dice = Random(1)  # noqa: S311 - not a secret
    assert StartUp(median=30.0, spread=0.0).sample(dice) == 30.0
    drawn = sorted(StartUp(median=180.0, spread=0.15).sample(dice) for _ in range(501))
    assert drawn[250] == pytest.approx(180.0, rel=0.03)
    assert 180.0 * math.exp(-0.45) <= drawn[0] < drawn[-1] <= 180.0 * math.exp(0.45)
