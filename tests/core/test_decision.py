"""The answer: silence, zero, bounds, the corridor, activity and what is noted beside it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler.core.decision import Decision, decide, scale_in_span
from scaler.core.learned import Learned
from scaler.core.moves import with_notes
from scaler.core.need import needs
from scaler.core.policy import Mode, Policy, Signal
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK
from scaler.core.workload import MAX_REPLICAS, Scale
from tests.core.histories import (
    BUSY,
    IDLE,
    NOW,
    QUEUEING,
    STATED,
    decided,
    only,
    row_of,
    stamped,
    steady,
    without,
)

KV = only(Signal.KV_CACHE)
FOUR = Scale(current=4)
LEARNED = Learned(saturation=32.0, lead_time=60.0)
FULL_CACHE = replace(BUSY, kv_cache=1.0)  # 4 / 0.85 = 4.7 replicas
EMPTIER = replace(BUSY, kv_cache=0.3)  # at most 4 × 0.3 / 0.6 = 2 replicas


# --- silence --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late", "desired", "reason"),
    [
        pytest.param(0, 5, Reason.SCALE_OUT_KV_CACHE, id="now"),
        pytest.param(1, 5, Reason.SCALE_OUT_KV_CACHE, id="one-tick-old"),
        pytest.param(2, 4, Reason.GAP, id="two-ticks-old: one sample short of four fifths"),
        pytest.param(3, 4, Reason.SOURCE_SILENT, id="three-ticks-old"),
        pytest.param(20, 4, Reason.SOURCE_SILENT, id="exactly-holdFor"),
        pytest.param(21, None, Reason.SILENT_TOO_LONG, id="beyond-holdFor"),
        pytest.param(5000, None, Reason.SILENT_TOO_LONG, id="a-day"),
    ],
)
def test_how_old_the_newest_sample_may_be(late: int, desired: int | None, reason: Reason) -> None:
    """Two ticks old still counts; then the count is held for holdFor, then nothing is answered."""
    found = decided(steady(FULL_CACHE, 60), KV, scale=FOUR, now=NOW + late * TICK)
    assert (found.desired, found.reason) == (desired, reason)
    assert found.silent_for == late * TICK
    assert found.active is (None if desired is None else True)


@pytest.mark.parametrize(("late", "desired"), [(2, 5), (3, 4)])
def test_a_long_window_lives_with_a_newest_sample_two_ticks_old(late: int, desired: int) -> None:
    """Where the window is covered well enough, two missing ticks do not forbid scale-out."""
    policy = replace(KV, scale_out_window=300.0)
    assert (
        decided(steady(FULL_CACHE, 60), policy, scale=FOUR, now=NOW + late * TICK).desired
        == desired
    )


@pytest.mark.parametrize(
    ("samples", "ready", "since", "desired", "reason"),
    [
        pytest.param([], None, NOW, 4, Reason.NOT_YET_SAMPLED, id="registered-now"),
        pytest.param([], None, NOW - 30, 4, Reason.NOT_YET_SAMPLED, id="two-ticks-ago"),
        pytest.param([], None, NOW - 31, 4, Reason.SOURCE_SILENT, id="longer-ago"),
        pytest.param([], 3, NOW - 300, 4, Reason.SOURCE_SILENT, id="ready-and-exactly-holdFor"),
        pytest.param([], 3, NOW - 301, None, Reason.SILENT_TOO_LONG, id="ready-beyond-holdFor"),
        pytest.param([], 0, NOW - 301, 4, Reason.LOADING, id="no-pod-is-ready"),
        pytest.param([], 0, NOW, 4, Reason.LOADING, id="no-pod-is-ready-yet"),
        pytest.param([], None, NOW + 500, 4, Reason.NOT_YET_SAMPLED, id="registered-later"),
        pytest.param(
            steady(replace(IDLE, serving=0), 40), 0, NOW - 9999, 4, Reason.LOADING, id="loading"
        ),
        pytest.param(
            steady(replace(IDLE, serving=0), 40), 2, NOW - 9999, None, Reason.SILENT_TOO_LONG,
            id="ready-but-nobody-reports",
        ),
        pytest.param(
            [*steady(BUSY, 1, NOW - 45), *steady(replace(IDLE, serving=0), 3)],
            2, NOW - 9999, 4, Reason.SOURCE_SILENT, id="silence-counts-from-the-last-report",
        ),
    ],
)  # fmt: skip
def test_nobody_was_heard(
    samples: list[Sample],
    ready: int | None,
    since: float,
    desired: int | None,
    reason: Reason,
) -> None:
    """Silence holds and then refuses; a fleet without a Ready pod is held without limit."""
    scale = replace(FOUR, ready=ready)
    found = decided(samples, scale=scale, known_since=since)
    assert (found.desired, found.advised, found.reason) == (desired, desired, reason)
    assert found.silent_for >= 0.0


def test_silence_never_answers_above_the_maximum() -> None:
    """A count that somebody set above max is not repeated while the source is silent."""
    found = decided([], scale=Scale(current=9, max_replicas=6), known_since=NOW - 60)
    assert found.desired == 6


def test_an_unknown_count_is_not_answered() -> None:
    """Without the count there is nothing to hold."""
    found = decided(steady(BUSY, 60), scale=None)
    assert (found.desired, found.advised, found.active) == (None, None, None)
    assert found.reason is Reason.CURRENT_UNKNOWN


@pytest.mark.parametrize("current", [0, 4])
def test_a_clock_that_was_set_back_finds_no_sample_yet(current: int) -> None:
    """Samples that all lie in the future are as good as none."""
    waking = steady(replace(FULL_CACHE, activation=5.0), 1, NOW + 600)
    found = decided(waking, scale=Scale(current=current), known_since=NOW)
    assert found.desired == current
    assert found.reason is (Reason.NOT_YET_SAMPLED if current else Reason.AT_ZERO)


# --- zero -----------------------------------------------------------------------------------------


def at_zero(activation: float | None) -> list[Sample]:
    """Return a history of a fleet without replicas that the gateway has this demand for."""
    return steady(Sample(at=NOW, scraped_at=NOW, activation=activation), 3)


@pytest.mark.parametrize(
    ("activation", "learned", "desired", "active"),
    [
        pytest.param(None, Learned(), 0, None, id="nobody-asks-the-gateway"),
        pytest.param(0.0, Learned(), 0, False, id="no-demand"),
        pytest.param(0.5, Learned(), 1, True, id="a-little"),
        pytest.param(1000.0, Learned(), 1, True, id="much-but-nothing-learned"),
        pytest.param(16.0, LEARNED, 1, True, id="exactly-one-replica's"),
        pytest.param(17.0, LEARNED, 2, True, id="more-than-one-replica's"),
        pytest.param(1000.0, LEARNED, 10, True, id="the-maximum"),
    ],
)
def test_at_zero(
    activation: float | None, learned: Learned, desired: int, *, active: bool | None
) -> None:
    """Only the gateway's demand wakes a fleet; its silence proves nothing."""
    scale = Scale(current=0, max_replicas=10)
    found = decided(at_zero(activation), scale=scale, learned=learned)
    assert (found.desired, found.advised, found.active) == (desired, desired, active)
    assert found.reason is (Reason.WOKEN if desired else Reason.AT_ZERO)


@pytest.mark.parametrize(("late", "desired"), [(5, 1), (6, 0)])
def test_old_demand_wakes_nobody(late: int, desired: int) -> None:
    """Activation demand counts for a minute and a half."""
    found = decided(at_zero(3.0), scale=Scale(current=0), now=NOW + late * TICK)
    assert (found.desired, found.active) == (desired, True if desired else None)


def test_a_fleet_wakes_at_its_minimum() -> None:
    """The first answer above zero keeps the bounds."""
    assert decided(at_zero(3.0), scale=Scale(current=0, min_replicas=3)).desired == 3


def test_at_zero_advice_wakes_nobody() -> None:
    """In advise mode a fleet at zero stays there, and the advice is published."""
    policy = replace(STATED, mode=Mode.ADVISE)
    found = decided(at_zero(3.0), policy, scale=Scale(current=0))
    assert (found.desired, found.advised, found.active) == (0, 1, False)


def test_an_idle_fleet_answers_one() -> None:
    """From one to zero is KEDA's step, never ours."""
    found = decided(steady(IDLE, 60), scale=Scale(current=4, min_replicas=0))
    assert (found.desired, found.active) == (1, False)


# --- the corridor ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "scale", "desired", "reason"),
    [
        pytest.param(BUSY, FOUR, 4, Reason.STEADY, id="between"),
        pytest.param(FULL_CACHE, FOUR, 5, Reason.SCALE_OUT_KV_CACHE, id="below-the-floor"),
        pytest.param(EMPTIER, FOUR, 2, Reason.SCALE_IN, id="above-the-ceiling"),
        pytest.param(FULL_CACHE, Scale(current=5), 5, Reason.STEADY, id="exactly-the-floor"),
        pytest.param(EMPTIER, Scale(current=2), 2, Reason.STEADY, id="exactly-the-ceiling"),
        pytest.param(
            replace(EMPTIER, serving=2, kv_cache=0.6), Scale(current=2, min_replicas=2), 2,
            Reason.AT_MIN, id="at-the-minimum",
        ),
        pytest.param(
            BUSY, Scale(current=4, min_replicas=4), 4, Reason.STEADY,
            id="at-the-minimum-that-demand-needs",
        ),
        pytest.param(
            FULL_CACHE, Scale(current=4, max_replicas=4), 4, Reason.AT_MAX, id="at-the-maximum"
        ),
        pytest.param(
            replace(BUSY, serving=1, kv_cache=1.0), Scale(current=1), 2,
            Reason.SCALE_OUT_KV_CACHE, id="one-replica-out",
        ),
        pytest.param(
            replace(BUSY, serving=1, kv_cache=0.0), Scale(current=1), 1, Reason.AT_MIN,
            id="one-replica-in",
        ),
        pytest.param(
            replace(BUSY, serving=100, kv_cache=0.86), Scale(current=100), 102,
            Reason.SCALE_OUT_KV_CACHE, id="a-hundred-out",
        ),
        pytest.param(
            replace(BUSY, serving=100, kv_cache=0.59), Scale(current=100), 99, Reason.SCALE_IN,
            id="a-hundred-in",
        ),
        pytest.param(
            FULL_CACHE, Scale(current=2), 5, Reason.SCALE_OUT_KV_CACHE, id="fewer-asked-than-serve"
        ),
        pytest.param(
            BUSY, Scale(current=4, min_replicas=6), 6, Reason.WITHIN_BOUNDS, id="below-the-minimum"
        ),
        pytest.param(
            BUSY, Scale(current=4, max_replicas=3), 3, Reason.WITHIN_BOUNDS, id="above-the-maximum"
        ),
        pytest.param(
            FULL_CACHE, Scale(current=2, min_replicas=3), 5, Reason.SCALE_OUT_KV_CACHE,
            id="below-the-minimum-and-demand-asks-for-more",
        ),
        pytest.param(
            EMPTIER, Scale(current=4, max_replicas=3), 2, Reason.SCALE_IN,
            id="above-the-maximum-and-demand-needs-fewer",
        ),
    ],
)  # fmt: skip
def test_what_the_corridor_does(sample: Sample, scale: Scale, desired: int, reason: Reason) -> None:
    """Below the floor out, above the ceiling in, between them nothing; bounds come first."""
    found = decided(steady(sample, 60), KV, scale=scale)
    assert (found.desired, found.advised, found.reason) == (desired, desired, reason)
    assert found.active is True


def test_tolerance_is_named() -> None:
    """What the HPA would swallow is rounded up or held, and the reason says so."""
    ten = replace(BUSY, serving=10)
    scale = Scale(current=10, tolerance_out=0.1, tolerance_in=0.1)
    out = decided(steady(replace(ten, kv_cache=0.9), 60), KV, scale=scale)
    assert (out.floor, out.desired, out.reason) == (11, 12, Reason.TOLERANCE_ROUNDED_UP)
    calm = decided(steady(replace(ten, kv_cache=0.54), 60), KV, scale=scale)
    assert (calm.ceiling, calm.desired, calm.reason) == (9, 10, Reason.TOLERANCE_HELD)


def test_the_same_overload_asks_for_the_same_count_while_replicas_load() -> None:
    """Nothing cascades: with the new count not yet serving the floor stays where it was."""
    samples = steady(FULL_CACHE, 60)
    for current in (4, 5):
        assert decided(samples, KV, scale=Scale(current=current)).desired == 5


def test_advice_is_not_an_act() -> None:
    """In advise mode the answer is the count, and the advice is published with its reason."""
    found = decided(steady(FULL_CACHE, 60), replace(KV, mode=Mode.ADVISE), scale=FOUR)
    assert (found.desired, found.advised, found.reason) == (4, 5, Reason.SCALE_OUT_KV_CACHE)


@pytest.mark.parametrize(
    ("window", "lead_time", "span"),
    [(600.0, 180.0, 600.0), (600.0, 300.0, 600.0), (600.0, 301.0, 602.0), (15.0, 180.0, 360.0)],
)
def test_the_scale_in_window_is_at_least_two_lead_times(
    window: float, lead_time: float, span: float
) -> None:
    """What could not be back in time is not given away."""
    policy, learned = Policy(scale_in_window=window), Learned(lead_time=lead_time)
    assert scale_in_span(policy, learned) == span


@pytest.mark.parametrize(
    ("calm", "desired", "reason"),
    [
        pytest.param(39, 4, Reason.SCALE_IN_PENDING, id="one-tick-short"),
        pytest.param(40, 2, Reason.SCALE_IN, id="ten-minutes"),
    ],
)
def test_calm_must_last(calm: int, desired: int, reason: Reason) -> None:
    """Fewer replicas only after a whole window of calm."""
    found = decided(row_of(*[BUSY] * 30, *[EMPTIER] * calm), KV, scale=FOUR)
    assert (found.desired, found.reason, found.calm_for) == (desired, reason, calm * TICK)
    assert found.overload_for == 0.0


@pytest.mark.parametrize(
    ("hot", "desired", "reason"),
    [
        pytest.param(3, 4, Reason.SCALE_OUT_PENDING, id="one-tick-short"),
        pytest.param(4, 5, Reason.SCALE_OUT_KV_CACHE, id="one-minute"),
    ],
)
def test_overload_must_last(hot: int, desired: int, reason: Reason) -> None:
    """More replicas only after a whole window of overload."""
    found = decided(row_of(*[BUSY] * 60, *[FULL_CACHE] * hot), KV, scale=FOUR)
    assert (found.desired, found.reason, found.overload_for) == (desired, reason, hot * TICK)
    assert found.calm_for == 0.0


def test_a_gap_ends_what_has_held() -> None:
    """How long something has held is counted back to the first missing tick."""
    found = decided(without(steady(EMPTIER, 60), 5), KV, scale=FOUR)
    assert (found.calm_for, found.desired, found.reason) == (5 * TICK, 4, Reason.GAP)


def test_a_gap_never_forbids_scale_out() -> None:
    """With a tick of the window missing calm is unproven, but overload is not."""
    found = decided(without(steady(FULL_CACHE, 60), 2, 30), KV, scale=FOUR)
    assert (found.desired, found.reason) == (5, Reason.SCALE_OUT_KV_CACHE)
    assert found.notes == (Reason.GAP,)


# --- replicas that nobody heard of ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "unseen", "desired", "ceiling"),
    [
        pytest.param(4, 0, 2, 2, id="all-heard-of"),
        pytest.param(5, 0, 3, 3, id="one-absent"),
        pytest.param(8, 0, 6, 6, id="exactly-half-absent"),
        pytest.param(9, 0, 9, MAX_REPLICAS, id="more-than-half-absent"),
        pytest.param(5, 1, 3, 3, id="unseen-is-heard-of"),
        pytest.param(8, 1, 6, 6, id="absent-and-unseen-are-half"),
        pytest.param(9, 1, 9, MAX_REPLICAS, id="absent-and-unseen-are-more-than-half"),
        pytest.param(3, 0, 2, 2, id="more-serve-than-were-asked-for"),
    ],
)
def test_replicas_that_were_asked_for_and_never_heard_of(
    current: int, unseen: int, desired: int, ceiling: int
) -> None:
    """Absent replicas may be needed: they widen the ceiling, above half without limit."""
    samples = steady(replace(EMPTIER, unseen=unseen), 60)
    found = decided(samples, KV, scale=Scale(current=current))
    assert (found.desired, found.ceiling) == (desired, ceiling)
    absent = current > 4 + unseen
    assert (Reason.LOADING in (found.reason, *found.notes)) is absent


def test_absent_replicas_take_from_calm_what_they_add_to_the_ceiling() -> None:
    """A fleet that needs its absent replica is not called calm."""
    found = decided(steady(replace(BUSY, kv_cache=0.55), 60), KV, scale=Scale(current=5))
    assert (found.desired, found.reason, found.calm_for) == (5, Reason.STEADY, 0.0)


def test_a_window_that_is_warming_up_says_so_while_replicas_load() -> None:
    """Loading replicas do not hide that the window is not covered yet."""
    found = decided(steady(EMPTIER, 9), KV, scale=Scale(current=9))
    assert found.corridor is not None
    assert found.corridor.ceiling_reason is Reason.WARMING_UP
    assert found.reason is Reason.WARMING_UP
    assert Reason.LOADING in found.notes


def test_a_fleet_of_which_nothing_is_learned_says_that_it_warms_up() -> None:
    """Before the window is covered a fleet without any need is not called steady."""
    found = decided(steady(BUSY, 9), only(Signal.WAITING), scale=FOUR)
    assert (found.desired, found.reason) == (4, Reason.WARMING_UP)


def test_absent_replicas_do_not_lift_the_floor() -> None:
    """What nobody heard of is no demand."""
    found = decided(steady(FULL_CACHE, 60), KV, scale=Scale(current=40))
    assert (found.floor, found.desired) == (5, 40)


# --- activity -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "current", "active"),
    [
        pytest.param(steady(IDLE, 40), 4, False, id="idle-for-the-whole-window"),
        pytest.param(steady(IDLE, 39), 4, True, id="one-tick-short"),
        pytest.param(row_of(BUSY, *[IDLE] * 39), 4, True, id="busy-at-the-window's-begin"),
        pytest.param(row_of(BUSY, *[IDLE] * 40), 4, False, id="busy-just-before-the-window"),
        pytest.param(without(steady(IDLE, 60), 7), 4, True, id="a-gap"),
        pytest.param(steady(IDLE, 40), 5, True, id="one-is-loading"),
        pytest.param(steady(replace(IDLE, unseen=1), 40), 5, True, id="one-is-unseen"),
        pytest.param(steady(replace(IDLE, stalled=1), 40), 5, True, id="one-is-stalled"),
        pytest.param(steady(replace(IDLE, serving=0, asleep=4), 40), 4, True, id="all-asleep"),
        pytest.param(steady(replace(IDLE, waiting=0.25), 40), 4, True, id="somebody-waits"),
        pytest.param(steady(replace(IDLE, activation=3.0), 40), 4, True, id="gateway-demand"),
        pytest.param(steady(replace(IDLE, activation=0.0), 40), 4, False, id="no-gateway-demand"),
        pytest.param(steady(replace(IDLE, token_rate=0.1), 40), 4, True, id="tokens-between-looks"),
        pytest.param(steady(replace(IDLE, token_rate=0.0), 40), 4, False, id="no-tokens"),
    ],
)
def test_only_proven_idleness_is_inactive(
    samples: list[Sample], current: int, *, active: bool
) -> None:
    """A fleet is inactive when all of it was seen to be idle through the whole window."""
    assert decided(samples, scale=Scale(current=current)).active is active


# --- notes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "note"),
    [
        pytest.param(replace(BUSY, stalled=1), Reason.STALLED, id="stalled"),
        pytest.param(replace(BUSY, unseen=1), Reason.UNSEEN, id="unseen"),
        pytest.param(replace(QUEUEING, queued=1), Reason.SKEWED, id="skewed"),
        pytest.param(
            replace(BUSY, rejection_rate=1.0), Reason.REJECTIONS_WITHOUT_LOAD, id="rejections"
        ),
    ],
)
def test_what_a_person_should_know_is_noted(sample: Sample, note: Reason) -> None:
    """The newest sample's oddities are noted, once each."""
    found = decided(steady(sample, 60), scale=FOUR)
    assert found.notes.count(note) == 1
    assert found.reason is not note


def previous(current: int | None, desired: int | None) -> Decision:
    """Return a decision that was taken before."""
    return Decision(
        at=NOW - TICK, current=current, desired=desired, advised=desired, reason=Reason.STEADY
    )


@pytest.mark.parametrize(
    ("before", "moved"),
    [
        pytest.param(None, False, id="nothing-before"),
        pytest.param(previous(4, 4), False, id="unchanged"),
        pytest.param(previous(3, 4), False, id="as-we-asked"),
        pytest.param(previous(3, 3), True, id="somebody-else"),
        pytest.param(previous(3, 5), False, id="half-way-to-what-we-asked"),
        pytest.param(previous(2, 3), True, id="beyond-what-we-asked"),
        pytest.param(previous(5, 6), True, id="away-from-what-we-asked"),
        pytest.param(previous(3, None), True, id="while-we-asked-for-nothing"),
        pytest.param(previous(None, None), False, id="unknown-before"),
        pytest.param(previous(4, 5), False, id="not-yet-as-we-asked"),
    ],
)
def test_a_count_that_somebody_else_moved_is_named(before: Decision | None, *, moved: bool) -> None:
    """A hold keeps the new count, its reason says who moved it, and nothing else changes."""
    found = decided(steady(BUSY, 60), KV, scale=FOUR)
    named = with_notes(found, before)
    assert (named.reason is Reason.MOVED_BY_OTHERS) is moved
    assert named.desired == 4
    assert named.notes == ((*found.notes, Reason.STEADY) if moved else found.notes)


def test_a_move_by_somebody_else_is_named_for_a_while() -> None:
    """Whoever looks within five minutes finds it, unless the count has moved again."""
    found = decided(steady(BUSY, 60), KV, scale=FOUR)
    long_ago, lately = NOW - 300.0, NOW - 299.0
    named = [
        with_notes(found, replace(previous(count, 4), moved_at=at)).reason
        for count, at in [(4, lately), (4, long_ago), (3, lately)]
    ]
    assert named == [Reason.MOVED_BY_OTHERS, found.reason, found.reason]


def test_a_move_of_our_own_is_not_blamed_on_others() -> None:
    """Where demand moves the count as well, demand is the reason."""
    found = decided(steady(FULL_CACHE, 60), KV, scale=FOUR)
    assert with_notes(found, previous(3, 3)) == replace(found, moved_at=found.at)
    unknown = decided([], scale=None)
    assert with_notes(unknown, previous(3, 3)) == unknown


# --- what a decision shows ------------------------------------------------------------------------


def test_a_decision_shows_what_it_rests_on() -> None:
    """Sample, need, lines and what was learned go with the answer."""
    samples = steady(BUSY, 60)
    found = decided(samples, scale=FOUR, learned=LEARNED, now=NOW + TICK)
    assert found.sample == samples[-1]
    assert found.need == needs(STATED, samples, LEARNED)[-1]
    assert (found.learned, found.at, found.silent_for) == (LEARNED, NOW + TICK, TICK)
    assert found.corridor is not None
    assert math.isinf(found.corridor.ceiling)


def test_needs_of_later_samples_are_left_out_with_them() -> None:
    """Samples and needs stay paired when those after `now` are left out."""
    samples = [*steady(BUSY, 60), stamped(FULL_CACHE, NOW + TICK)]
    found = decide(
        KV,
        samples,
        needs(KV, samples, Learned()),
        scale=FOUR,
        learned=Learned(),
        now=NOW,
        known_since=0.0,
    )
    assert found.sample == samples[-2]
    assert found.overload_for == 0.0


@pytest.mark.parametrize(
    ("replicas", "scale", "count"),
    [
        (0.0, Scale(current=1), 1),
        (0.0, Scale(current=1, min_replicas=0), 1),
        (2.0, Scale(current=1, min_replicas=3), 3),
        (9.0, Scale(current=1, max_replicas=5), 5),
        (math.inf, Scale(current=1, max_replicas=5), 5),
        (math.inf, Scale(current=1), MAX_REPLICAS),
    ],
)
def test_bounds(replicas: float, scale: Scale, count: int) -> None:
    """Counts are brought between max(1, min) and max."""
    assert scale.within_bounds(replicas) == count
