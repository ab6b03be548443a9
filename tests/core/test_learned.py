"""What a workload's own history teaches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from scaler.core.learned import (
    DEFAULT_LEAD_TIME,
    LONGEST_LEAD_TIME,
    Learned,
    Standing,
    carried,
    is_prefill_bound,
    learn,
    saturation,
)
from scaler.core.minutes import MINUTE, RECENT, REMEMBERED, Minutes
from scaler.core.policy import Policy
from scaler.core.sample import Sample
from scaler.core.units import TICK
from tests.core.histories import BUSY, NOW, QUEUEING, stamped, steady, ttft_in

FULL = replace(QUEUEING, saturated=32.0)


def by_minute(*samples: Sample, end: float = NOW) -> Minutes:
    """Return the memory of these samples on adjacent minutes, the last one at `end`."""
    minutes = Minutes()
    for back, sample in zip(reversed(range(len(samples))), samples, strict=True):
        minutes.keep(stamped(sample, end - back * MINUTE))
    return minutes


def looks(*values: float, end: float = NOW) -> list[Sample]:
    """Return samples of a full fleet that ran so much a replica, after one with a queue only."""
    samples = steady(FULL, len(values) + 1, end)
    before = replace(samples[0], saturated=None)
    return [
        before,
        *(replace(s, saturated=value) for s, value in zip(samples[1:], values, strict=True)),
    ]


# --- the memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "kept"),
    [
        pytest.param(NOW + 60, True, id="the-next-minute"),
        pytest.param(NOW + 120, True, id="a-later-minute"),
        pytest.param(NOW + TICK, False, id="between-two-minutes"),
        pytest.param(NOW, False, id="known-already"),
        pytest.param(NOW - 60, False, id="older-than-what-is-known"),
    ],
)
def test_the_minute_grid(at: float, *, kept: bool) -> None:
    """One sample a minute is kept, on a grid that all scalers share, in order."""
    minutes = by_minute(BUSY)
    minutes.keep(stamped(BUSY, at))
    assert list(minutes.at) == ([NOW, at] if kept else [NOW])


def test_what_a_minute_remembers() -> None:
    """A row holds what is learned from; what is not known is NaN, and half seen is nobody."""
    minutes = by_minute(
        replace(FULL, ttft=ttft_in(5)), replace(BUSY, unseen=1), replace(BUSY, ttft=None)
    )
    assert list(minutes.at) == [NOW - 120, NOW - 60, NOW]
    assert list(minutes.serving) == [4, 0, 4]
    assert list(minutes.running) == [40, 40, 40]
    assert list(minutes.waiting) == [40, 0, 0]
    assert minutes.saturated[0] == 32.0
    assert math.isnan(minutes.saturated[1])
    assert (minutes.ttft[0], minutes.ttft_lower[0]) == (3.75, 2.5)
    assert math.isnan(minutes.ttft[2])
    assert math.isnan(minutes.ttft_lower[2])


@pytest.mark.parametrize(("observations", "known"), [(19.0, False), (20.0, True)])
def test_a_minute_with_few_observations_knows_no_ttft(observations: float, *, known: bool) -> None:
    """Fewer than twenty observations say nothing about a p95, later no more than at once."""
    minutes = by_minute(replace(BUSY, ttft=ttft_in(0, 0.5, observations)))
    assert math.isnan(minutes.ttft[0]) is not known
    assert math.isnan(minutes.ttft_lower[0]) is not known


@pytest.mark.parametrize(
    ("before", "left"),
    [(NOW - 240, 5), (NOW - 120, 3), (NOW - 119, 2), (NOW, 1), (NOW + 1, 0), (0.0, 5)],
)
def test_forget(before: float, left: int) -> None:
    """Rows older than the given moment go, that moment's own row stays; all columns agree."""
    minutes = by_minute(*[FULL] * 5)
    minutes.forget(before)
    assert len(minutes) == left
    assert {len(getattr(minutes, name)) for name in Minutes.__slots__} == {left}
    assert not left or minutes.at[0] >= before


def test_merging_puts_rows_in_order_and_keeps_those_that_are_known() -> None:
    """Rows read back go between those that are known, and never replace them."""
    known = by_minute(replace(BUSY, running=1.0), end=NOW - 60)
    back = [stamped(replace(BUSY, running=2.0), at) for at in (NOW, NOW - 15, NOW - 60, NOW - 120)]
    merged = Minutes()
    merged.merge(known, {sample.at: sample for sample in back})
    assert list(merged.at) == [NOW - 120, NOW - 60, NOW]
    assert list(merged.running) == [2.0, 1.0, 2.0]
    assert len(known) == 1


# --- saturation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        pytest.param(looks(*[32.0] * 7), None, id="seven-looks"),
        pytest.param(looks(*[32.0] * 8), 32.0, id="eight-looks"),
        pytest.param(looks(*[10.0] * 20, *[30.0] * 20), 20.0, id="forty-looks"),
        pytest.param(looks(*[10.0] * 21, *[30.0] * 20), 20.0, id="the-41st-is-forgotten"),
        pytest.param(looks(*[10.0] * 19, *[30.0] * 21), 30.0, id="the-median"),
        pytest.param(looks(*[32.0] * 7, 0.0), None, id="a-full-replica-runs-something"),
        pytest.param(looks(*[32.0] * 8, end=NOW + TICK), None, id="the-future-does-not-count"),
        pytest.param(
            looks(*[32.0] * 9, end=NOW - RECENT + 8 * TICK), 32.0, id="eight-within-half-an-hour"
        ),
        pytest.param(
            looks(*[32.0] * 8, end=NOW - RECENT + 7 * TICK), None, id="one-exactly-too-old"
        ),
    ],
)
def test_saturation_from_recent_samples(samples: list[Sample], found: float | None) -> None:
    """The median of the newest forty looks at full replicas, known from eight on."""
    assert saturation(samples, Minutes(), NOW) == found


@pytest.mark.parametrize(
    ("waiting", "found"),
    [
        pytest.param([40.0] * 9, 32.0, id="a-queue-that-lasts"),
        pytest.param([4.0] * 9, None, id="one-a-replica-waits-for-the-step-under-way"),
        pytest.param([5.0, 0.0] * 20, None, id="a-queue-that-comes-and-goes"),
        pytest.param([0.0] + [5.0] * 8, None, id="the-first-look-of-a-queue-does-not-count"),
        pytest.param([0.0] + [5.0] * 9, 32.0, id="eight-after-the-first"),
    ],
)
def test_only_a_queue_that_lasts_tells_what_is_full(
    waiting: list[float], found: float | None
) -> None:
    """A request that waits for the step under way says nothing of an engine's limit."""
    samples = [
        replace(sample, waiting=value)
        for sample, value in zip(steady(FULL, len(waiting), NOW), waiting, strict=True)
    ]
    assert saturation(samples, Minutes(), NOW) == found


def test_a_gap_interrupts_a_queue() -> None:
    """Two looks with a tick missing between them do not show a queue that lasts."""
    samples = steady(FULL, 20, NOW)
    assert saturation(samples[::2], Minutes(), NOW) is None


def test_saturation_from_the_day() -> None:
    """Before the last half hour a minute stands for its four ticks, back to one day."""
    horizon = NOW - RECENT
    minutes = by_minute(*[replace(FULL, saturated=10.0)] * 3, end=horizon)
    assert saturation([], minutes, NOW) == 10.0
    assert saturation([], minutes, NOW - MINUTE) is None
    assert saturation(looks(*[30.0] * 9), minutes, NOW) == 30.0
    assert saturation(looks(*[30.0] * 40), minutes, NOW) == 30.0
    old = by_minute(*[FULL] * 3, end=NOW - REMEMBERED + 2 * MINUTE)
    assert saturation([], old, NOW) == 32.0
    assert saturation([], old, NOW + MINUTE) is None


def test_minutes_that_are_not_adjacent_show_no_lasting_queue() -> None:
    """A queue seen every other minute may have been two short ones."""
    minutes = Minutes()
    for back in range(20, 0, -2):
        minutes.keep(stamped(FULL, NOW - RECENT - back * MINUTE))
    assert saturation([], minutes, NOW) is None


def test_minutes_in_which_full_replicas_ran_nothing_teach_nothing() -> None:
    """A queue at replicas that run nothing says nothing of how many they could run."""
    minutes = by_minute(*[replace(FULL, saturated=0.0)] * 60, end=NOW - RECENT)
    assert saturation([], minutes, NOW) is None


def test_a_recent_look_is_not_counted_twice() -> None:
    """A sample that is remembered both as such and by its minute counts once."""
    samples = looks(*[32.0] * 7)
    minutes = Minutes()
    for sample in samples:
        minutes.keep(sample)
    assert len(minutes) == 2
    assert saturation(samples, minutes, NOW) is None


def test_the_newest_forty_looks_come_first_from_the_recent_samples() -> None:
    """Old minutes only fill up what recent samples leave."""
    minutes = by_minute(*[replace(FULL, saturated=10.0)] * 60, end=NOW - RECENT)
    assert saturation(looks(*[30.0] * 21), minutes, NOW) == 30.0
    assert saturation(looks(*[30.0] * 20), minutes, NOW) == 20.0
    assert saturation(looks(*[30.0] * 19), minutes, NOW) == 10.0


# --- carried --------------------------------------------------------------------------------------

WELL = replace(BUSY, running=80.0)
CALM_EDGE = replace(WELL, waiting=4.0, queued=4)


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        pytest.param([WELL, WELL], None, id="one-minute-only"),
        pytest.param([WELL, WELL, WELL], 20.0, id="two-minutes"),
        pytest.param([WELL, QUEUEING, WELL, WELL], None, id="interrupted-by-a-queue"),
        pytest.param([WELL, WELL, QUEUEING, WELL, WELL], None, id="twice-one-minute"),
        pytest.param([WELL, WELL, replace(WELL, unseen=1)], None, id="half-seen"),
        pytest.param([WELL, WELL, BUSY, BUSY, BUSY], 10.0, id="the-least-of-the-two-minutes"),
        pytest.param([BUSY, BUSY, WELL, WELL, WELL], 20.0, id="the-most-that-was-held"),
        pytest.param([WELL, WELL, WELL, BUSY, BUSY], 20.0, id="held-earlier"),
        pytest.param([CALM_EDGE] * 3, 20.0, id="exactly-waitingLow-is-calm"),
        pytest.param([replace(CALM_EDGE, waiting=4.25)] * 3, None, id="above-waitingLow"),
        pytest.param([replace(WELL, ttft=ttft_in(4))] * 3, 20.0, id="ttft-up-to-High-is-calm"),
        pytest.param([replace(WELL, ttft=ttft_in(5))] * 3, None, id="ttft-above-High"),
        pytest.param([replace(WELL, running=0.0)] * 3, None, id="nothing-carried"),
        pytest.param([replace(WELL, serving=0)] * 3, None, id="nobody-served"),
    ],
)
def test_carried(samples: list[Sample], found: float | None) -> None:
    """The most running a replica that was held for two minutes of calm."""
    assert carried(Policy(), by_minute(*samples), NOW) == found


def test_a_missing_minute_interrupts_what_is_carried() -> None:
    """Three rows that are not adjacent hold nothing for two minutes."""
    minutes = by_minute(WELL, WELL, end=NOW - 120)
    minutes.keep(stamped(WELL, NOW))
    assert carried(Policy(), minutes, NOW) is None
    minutes.keep(stamped(WELL, NOW + 60))
    minutes.keep(stamped(WELL, NOW + 120))
    assert carried(Policy(), minutes, NOW + 60) is None
    assert carried(Policy(), minutes, NOW + 120) == 20.0


def test_carried_looks_back_one_day() -> None:
    """What was carried more than a day ago is forgotten."""
    minutes = by_minute(WELL, WELL, WELL)
    assert carried(Policy(), minutes, NOW + REMEMBERED - 120) == 20.0
    assert carried(Policy(), minutes, NOW + REMEMBERED - 119) is None


# --- prefill-bound --------------------------------------------------------------------------------

NEWEST = replace(BUSY, serving=10, running=100.0, ttft=ttft_in(6, 0.0))  # 5 s
SMALLER = replace(NEWEST, serving=8)


@pytest.mark.parametrize(
    ("newest", "earlier", "bound"),
    [
        pytest.param(NEWEST, SMALLER, True, id="exactly-four-fifths"),
        pytest.param(NEWEST, replace(SMALLER, serving=9), False, id="nine-of-ten"),
        pytest.param(NEWEST, replace(SMALLER, serving=0), False, id="nobody-served"),
        pytest.param(NEWEST, replace(SMALLER, unseen=1), False, id="half-seen"),
        pytest.param(NEWEST, replace(SMALLER, running=99.0), False, id="fewer-requests"),
        pytest.param(NEWEST, replace(SMALLER, running=101.0), True, id="more-requests"),
        pytest.param(NEWEST, replace(SMALLER, ttft=ttft_in(6, 0.1)), True, id="exactly-a-tenth"),
        pytest.param(NEWEST, replace(SMALLER, ttft=ttft_in(6, 0.11)), False, id="worse-than-that"),
        pytest.param(NEWEST, replace(SMALLER, ttft=None), False, id="ttft-not-known-then"),
        pytest.param(
            NEWEST, replace(SMALLER, ttft=ttft_in(0, 0.5, 19.0)), False, id="nineteen-observations"
        ),
        pytest.param(
            NEWEST, replace(SMALLER, ttft=ttft_in(0, 0.5, 20.0)), True, id="twenty-observations"
        ),
        pytest.param(replace(NEWEST, ttft=None), SMALLER, False, id="ttft-not-known-now"),
        pytest.param(replace(NEWEST, serving=0), SMALLER, False, id="nobody-serves-now"),
        pytest.param(replace(NEWEST, running=0.0), SMALLER, False, id="nothing-runs-now"),
    ],
)
def test_prefill_bound(newest: Sample, earlier: Sample, *, bound: bool) -> None:
    """A fleet a fifth smaller that did as well shows that more replicas are no cure."""
    minutes = by_minute(earlier, end=NOW - 3600)
    assert is_prefill_bound(newest, minutes, NOW) is bound


@pytest.mark.parametrize(
    ("ago", "bound"), [(0.0, True), (7200.0, True), (7260.0, False), (-60.0, False)]
)
def test_prefill_bound_looks_back_two_hours(ago: float, *, bound: bool) -> None:
    """What a smaller fleet did longer ago, with other requests, proves nothing."""
    assert is_prefill_bound(NEWEST, by_minute(SMALLER, end=NOW - ago), NOW) is bound


# --- all of it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "observed", "lead_time"),
    [
        pytest.param(None, None, DEFAULT_LEAD_TIME, id="not-known"),
        pytest.param(None, 95.0, 95.0, id="observed"),
        pytest.param(None, 5000.0, LONGEST_LEAD_TIME, id="observed-but-too-long"),
        pytest.param(42.0, 95.0, 42.0, id="stated"),
        pytest.param(5000.0, 95.0, 5000.0, id="stated-is-taken-as-stated"),
    ],
)
def test_the_lead_time(stated: float | None, observed: float | None, lead_time: float) -> None:
    """What the policy states counts, then what was observed, then three minutes."""
    found = learn(Policy(lead_time=stated), [], Minutes(), NOW, Standing(), observed)
    seen = stated is None and observed is not None
    assert found == Learned(lead_time=lead_time, lead_time_observed=seen)


@pytest.mark.parametrize(("stated", "found"), [(None, 32.0), (64.0, 64.0)])
def test_a_stated_concurrency_overrides_the_learned_one(stated: float | None, found: float) -> None:
    """What the policy states as concurrencyPerReplica is taken as stated."""
    policy = Policy(concurrency_per_replica=stated)
    assert learn(policy, looks(*[32.0] * 8), Minutes(), NOW, Standing(carried=7.0)) == Learned(
        saturation=found, carried=7.0
    )


def test_the_newest_sample_tells_whether_the_fleet_is_prefill_bound() -> None:
    """learn() puts the parts together."""
    samples: Sequence[Sample] = [stamped(NEWEST, NOW)]
    assert learn(
        Policy(), samples, by_minute(SMALLER, end=NOW - 600), NOW, Standing()
    ).prefill_bound
    assert not learn(Policy(), [], by_minute(SMALLER, end=NOW - 600), NOW, Standing()).prefill_bound
