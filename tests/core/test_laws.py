"""What holds for every history: the laws that the decision obeys, drawn by Hypothesis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.corridor import corridor, round_up
from scaler.core.decision import decide, scale_in_span
from scaler.core.need import needs
from scaler.core.policy import Mode
from scaler.core.quantile import Percentile
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK
from scaler.core.workload import MAX_REPLICAS
from tests.core.histories import EDGES, NOW, World, scales, ttft_in, worlds

LAW = settings(max_examples=150)
HARD_LAW = settings(max_examples=400)
UNAVAILABLE = {Reason.CURRENT_UNKNOWN, Reason.SILENT_TOO_LONG}

_steps = st.lists(
    st.tuples(st.integers(0, 119), st.sampled_from([0.25, 3.0, 50.0, 1e6])),
    min_size=1,
    max_size=3,
)


def not_fewer(world: World, changed: Sequence[Sample]) -> bool:
    """Say whether the changed samples get at least as many replicas; both get an answer or none."""
    before, after = world.decided().desired, world.decided(changed).desired
    assert (before is None) == (after is None)
    return before is None or after is None or after >= before


@LAW
@given(worlds(), _steps)
def test_more_waiting_never_gives_fewer(world: World, steps: list[tuple[int, float]]) -> None:
    """A queue that is longer from some moment on never gives fewer replicas."""
    longer = [
        replace(sample, waiting=sample.waiting + sum(by for start, by in steps if index >= start))
        if sample.serving
        else sample
        for index, sample in enumerate(world.samples)
    ]
    assert not_fewer(world, longer)


@LAW
@given(worlds(), st.tuples(*[st.sampled_from([0.0, 0.05, 0.5])] * 4))
def test_a_fuller_cache_never_gives_fewer(world: World, by: tuple[float, ...]) -> None:
    """KV caches that are fuller at any of the ticks never give fewer replicas."""
    fuller = [
        replace(sample, kv_cache=min(1.0, sample.kv_cache + by[index % 4]))
        if sample.kv_cache is not None
        else sample
        for index, sample in enumerate(world.samples)
    ]
    assert not_fewer(world, fuller)


def slower(ttft: Percentile | None, buckets: int) -> Percentile | None:
    """Return a p95 so many buckets further up, known from as many observations."""
    if ttft is None or buckets == 0:
        return ttft
    index = min(len(EDGES) - 1, EDGES.index(ttft.upper) + buckets)
    return ttft_in(index, 1.0, ttft.observations)


@LAW
@given(worlds(), st.tuples(*[st.integers(0, 4)] * 4))
def test_a_slower_first_token_never_gives_fewer(world: World, by: tuple[int, ...]) -> None:
    """A TTFT p95 in higher buckets at any of the ticks never gives fewer replicas."""
    worse = [
        replace(sample, ttft=slower(sample.ttft, by[index % 4]))
        for index, sample in enumerate(world.samples)
    ]
    assert not_fewer(world, worse)


@HARD_LAW
@given(worlds(gaps=False), st.data())
def test_removing_samples_never_takes_replicas_away(world: World, data: st.DataObject) -> None:
    """With any samples missing the answer is at least min(current, the answer with them)."""
    places = st.integers(0, len(world.samples) - 1)
    gone = data.draw(
        st.one_of(st.sets(places, min_size=1, max_size=2), st.sets(places, min_size=1)),
        label="removed",
    )
    kept = [sample for index, sample in enumerate(world.samples) if index not in gone]
    full, thinned = world.decided().desired, world.decided(kept).desired
    if full is not None and thinned is not None:
        assert thinned >= min(world.scale.current, full)


@LAW
@given(worlds(), st.integers(0, 4))
def test_equal_histories_get_equal_answers(world: World, late: int) -> None:
    """Two scalers that hold the same history agree on everything that they say."""
    copied = [replace(sample) for sample in world.samples]
    assert world.decided(late=late) == world.decided(copied, late=late)


@LAW
@given(worlds(), st.data())
def test_needs_do_not_depend_on_what_came_after(world: World, data: st.DataObject) -> None:
    """Needs computed tick by tick are those computed over the whole history at once."""
    policy, samples, learned = world.policy, world.samples, world.learned
    until = data.draw(st.integers(1, len(samples)), label="until")
    assert needs(policy, samples[:until], learned) == needs(policy, samples, learned)[:until]


@LAW
@given(worlds(), st.integers(-8, -1))
def test_samples_of_the_future_do_not_count(world: World, late: int) -> None:
    """A decision at an earlier tick knows nothing of what was sampled after it."""
    past = [sample for sample in world.samples if sample.at <= NOW + late * TICK]
    assert world.decided(late=late) == world.decided(past, late=late)


@LAW
@given(worlds())
def test_needs_are_intervals(world: World) -> None:
    """The high end of a need is never below its low end, and the low end is a number."""
    for need in needs(world.policy, world.samples, world.learned):
        for low, high in [(need.low, need.high), *((row.low, row.high) for row in need.rows)]:
            assert 0.0 <= low <= high
            assert math.isfinite(low)


@LAW
@given(worlds(), st.integers(0, 3))
def test_the_floor_is_never_above_the_ceiling(world: World, late: int) -> None:
    """Floor and ceiling keep their order, before and after rounding and bounds."""
    decision = world.decided(late=late)
    if decision.corridor is not None:
        assert decision.floor is not None
        assert decision.ceiling is not None
        assert 0.0 <= decision.corridor.floor <= decision.corridor.ceiling
        assert decision.floor <= decision.ceiling


def grown(sample: Sample, factor: int) -> Sample:
    """Return a fleet and its load so many times as large; what is per replica stays."""
    ttft = sample.ttft
    return replace(
        sample,
        serving=sample.serving * factor,
        stalled=sample.stalled * factor,
        asleep=sample.asleep * factor,
        unseen=sample.unseen * factor,
        waiting=sample.waiting * factor,
        running=sample.running * factor,
        queued=sample.queued * factor,
        ttft=ttft and replace(ttft, observations=ttft.observations * factor),
        first_token_rate=sample.first_token_rate and sample.first_token_rate * factor,
        token_rate=sample.token_rate and sample.token_rate * factor,
        prompt_token_rate=sample.prompt_token_rate and sample.prompt_token_rate * factor,
        rejection_rate=sample.rejection_rate and sample.rejection_rate * factor,
    )


def same(one: float, other: float) -> bool:
    """Say whether two counts are the same but for what arithmetic leaves behind."""
    return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


@LAW
@given(worlds(), st.integers(2, 7))
def test_a_larger_fleet_with_as_much_more_load_scales_the_corridor(
    world: World, factor: int
) -> None:
    """Before rounding and bounds, k times fleet and load have k times the floor and ceiling."""
    policy, learned = world.policy, world.learned
    known = [
        replace(s, ttft=s.ttft and replace(s.ttft, observations=max(20.0, s.ttft.observations)))
        for s in world.samples
    ]
    spans = (policy.scale_out_window, scale_in_span(policy, learned))
    small, large = (
        corridor(history, needs(policy, history, learned), NOW, *spans)
        for history in (known, [grown(sample, factor) for sample in known])
    )
    assert same(large.floor, factor * small.floor)
    assert same(large.ceiling, factor * small.ceiling)


@LAW
@given(worlds())
def test_the_dead_band_holds(world: World) -> None:
    """A count between floor and ceiling is answered with itself, whatever the tolerance."""
    probe = world.decided()
    if probe.floor is None or probe.ceiling is None:
        return
    if probe.floor <= world.scale.current <= probe.ceiling:
        assert probe.desired == world.scale.current
    # A smaller count has fewer replicas that nobody heard of, so its floor is the same.
    if probe.floor < world.scale.current:
        inside = replace(world, scale=replace(world.scale, current=probe.floor))
        assert inside.decided().desired == probe.floor


@HARD_LAW
@given(
    worlds(),
    st.sampled_from([0.0, 30.0, 45.0, 300.0, 330.0, 3600.0, 7.5, -15.0, -86_400.0]),
    st.sampled_from(Mode),
    st.sampled_from([NOW - 86_400.0, NOW]),
    st.data(),
)
def test_every_answer_is_a_whole_number_within_bounds(
    world: World, late: float, mode: Mode, known_since: float, data: st.DataObject
) -> None:
    """An answer is whole, between 0 and max, 0 only at 0, and missing only for two reasons."""
    policy, learned = replace(world.policy, mode=mode), world.learned
    zero = replace(world.scale, current=0)
    scale = data.draw(
        st.one_of(
            st.just(world.scale), scales(tolerances=(0.0, 0.5, 3.0)), st.just(zero), st.none()
        ),
        label="scale",
    )
    decision = decide(
        policy,
        world.samples,
        needs(policy, world.samples, learned),
        scale=scale,
        learned=learned,
        now=NOW + late,
        known_since=known_since,
    )
    assert (decision.desired is None) == (decision.reason in UNAVAILABLE)
    if scale is None or decision.desired is None or decision.advised is None:
        assert decision.desired is None
        assert decision.active is not False
        return
    highest = MAX_REPLICAS if scale.max_replicas is None else scale.max_replicas
    for count in (decision.desired, decision.advised):
        assert type(count) is int
        assert 0 <= count <= highest
        assert count > 0 or scale.current == 0
    if mode is Mode.ADVISE:
        assert decision.desired == min(scale.current, highest)


@given(st.floats(0.0, 1e6, allow_nan=False))
def test_rounding_up_ignores_only_what_arithmetic_leaves(replicas: float) -> None:
    """Rounding up gives the next whole number, less a millionth at most."""
    whole = round_up(replicas)
    assert whole == int(whole)
    assert -1.001e-6 <= whole - replicas < 1.0
