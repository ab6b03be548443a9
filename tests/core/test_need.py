"""What one sample asks for, row by row, at every edge."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler.core.context import look_back
from scaler.core.learned import Learned
from scaler.core.need import Row, drain_time, need_of, needs
from scaler.core.policy import Policy, Signal
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.slowdown import Slowdown
from scaler.core.units import TICK
from tests.core.histories import (
    BUSY,
    IDLE,
    NOW,
    QUEUEING,
    STATED,
    newest_need,
    only,
    row_of,
    stamped,
    steady,
    ttft_in,
    without,
)

WAITING, TTFT, KV = only(Signal.WAITING), only(Signal.TTFT), only(Signal.KV_CACHE)
FULL = Learned(saturation=32.0)


def row(
    row: Row,
    samples: list[Sample],
    learned: Learned | None = None,
    policy: Policy = STATED,
) -> tuple[float, float]:
    """Return what this row says of the newest sample under the stated policy."""
    found = [r for r in newest_need(samples, policy, learned).rows if r.row is row]
    assert len(found) == 1
    return found[0].low, found[0].high


# --- queue ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "speaks"),
    [
        pytest.param(20.0, True, id="exactly-waitingHigh"),
        pytest.param(19.99, False, id="just-below"),
        pytest.param(0.0, False, id="no-queue"),
    ],
)
def test_the_queue_asks_from_waiting_high_on(waiting: float, *, speaks: bool) -> None:
    """At exactly waitingHigh requests a replica the queue asks for more, below it for nothing."""
    low, _ = row(Row.QUEUE, steady(replace(QUEUEING, waiting=waiting), 30))
    # 4 × (1 + 20 / (2 a second × 300 s)), far below the cap of 4 × (1 + 20 / 40)
    assert low == (pytest.approx(4 * (1 + 20 / 600)) if speaks else 0.0)


@pytest.mark.parametrize(
    ("before", "newest", "high"),
    [
        pytest.param(4.0, 4.0, 0.0, id="exactly-waitingLow"),
        pytest.param(4.25, 4.25, math.inf, id="above-in-two-adjacent-samples"),
        pytest.param(4.0, 4.25, 0.0, id="above-in-the-newest-alone"),
        pytest.param(4.25, 4.0, 0.0, id="calm-again"),
        pytest.param(None, 4.25, math.inf, id="above-and-the-tick-before-is-missing"),
        pytest.param(None, 4.0, 0.0, id="calm-and-the-tick-before-is-missing"),
    ],
)
def test_the_queue_forbids_scale_in_above_waiting_low(
    before: float | None, newest: float, high: float
) -> None:
    """More than waitingLow a replica, not known to be a single sample, leaves the high end open."""
    samples = row_of(*(replace(BUSY, waiting=w, queued=4) for w in (before or 0.0, newest)))
    assert row(Row.QUEUE, samples[1:] if before is None else samples)[1] == high


def test_the_tick_before_counts_only_if_it_is_adjacent() -> None:
    """A calm sample two ticks ago says nothing of the tick before."""
    calm, _, newest = row_of(BUSY, BUSY, QUEUEING)
    assert row(Row.QUEUE, [calm, newest])[1] == math.inf


@pytest.mark.parametrize(
    ("changed", "low"),
    [
        pytest.param(QUEUEING, 4 * (1 + 40 / 600), id="backlog"),
        pytest.param(
            replace(QUEUEING, first_token_rate=None),
            4 * (1 + 40 / 40),
            id="rate-not-known: the cap",
        ),
        pytest.param(replace(QUEUEING, first_token_rate=0.0), 4 * 2, id="no-first-token: the cap"),
        pytest.param(
            replace(QUEUEING, first_token_rate=0.001, running=400.0), 4 * 1.1, id="capped"
        ),
        pytest.param(
            replace(QUEUEING, first_token_rate=0.0, running=0.0),
            4 * (1 + 40 / 4),
            id="nothing-runs: one request a replica",
        ),
        pytest.param(
            replace(QUEUEING, rejection_rate=1.0), 4 * (1 + 1 / 2 + 40 / 600), id="rejections"
        ),
        pytest.param(
            replace(QUEUEING, rejection_rate=1.0, first_token_rate=0.0),
            4 * (1 + (40 + 180) / 40),
            id="rejections-in-the-cap",
        ),
    ],
)
def test_how_much_the_queue_asks_for(changed: Sample, low: float) -> None:
    """The queue asks for what keeps up with arrivals and clears the backlog in drainTime."""
    assert row(Row.QUEUE, steady(changed, 30))[0] == pytest.approx(low)


def test_a_growing_queue_asks_for_what_arrives_too_fast() -> None:
    """The slope over one minute is the excess of arrivals over first tokens."""
    samples = row_of(*(replace(QUEUEING, waiting=20.0 + 15.0 * n) for n in range(9)))
    assert row(Row.QUEUE, samples)[0] == pytest.approx(4 * (1 + 1 / 2 + 140 / 600))
    # The fifth sample back is a minute old and no longer counts.
    samples[-5] = replace(samples[-5], waiting=1e6)
    assert row(Row.QUEUE, samples)[0] == pytest.approx(4 * (1 + 1 / 2 + 140 / 600))
    samples[-4] = replace(samples[-4], waiting=0.0)
    assert row(Row.QUEUE, samples)[0] > 4 * (1 + 1 / 2 + 140 / 600)


def test_a_growing_queue_lifts_the_cap_by_what_will_have_come() -> None:
    """Where no first token comes, the queue as it will be after the lead time is the cap."""
    stuck = replace(QUEUEING, first_token_rate=0.0)
    samples = row_of(*(replace(stuck, waiting=20.0 + 15.0 * n) for n in range(9)))
    assert row(Row.QUEUE, samples)[0] == pytest.approx(4 * (1 + (140 + 180) / 40))


def test_a_shrinking_queue_asks_for_the_backlog_alone() -> None:
    """A falling queue never counts as negative demand."""
    samples = row_of(*(replace(QUEUEING, waiting=140.0 - 15.0 * n) for n in range(9)))
    assert row(Row.QUEUE, samples)[0] == pytest.approx(4 * (1 + 20 / 600))


def test_the_queue_reckons_with_the_replicas_behind_the_rate() -> None:
    """First tokens of two minutes were made by those who served then, not by newcomers."""
    samples = row_of(*[QUEUEING] * 12, *[replace(QUEUEING, serving=8)] * 4)
    assert row(Row.QUEUE, samples)[0] == pytest.approx(6 * (1 + 40 / 600))


@pytest.mark.parametrize(
    ("stated", "lead_time", "seconds"),
    [
        pytest.param(None, 180.0, 90.0, id="half-the-lead-time"),
        pytest.param(None, 120.0, 60.0, id="exactly-a-minute"),
        pytest.param(None, 40.0, 60.0, id="a-minute-at-least"),
        pytest.param(None, 900.0, 450.0, id="a-slow-start"),
        pytest.param(300.0, 180.0, 300.0, id="stated"),
        pytest.param(1.0, 900.0, 1.0, id="stated-below-a-minute"),
    ],
)
def test_how_soon_a_backlog_should_be_gone(
    stated: float | None, lead_time: float, seconds: float
) -> None:
    """Half the lead time, at least a minute, unless the policy states it."""
    policy, learned = replace(STATED, drain_time=stated), Learned(lead_time=lead_time)
    assert drain_time(policy, learned) == seconds
    # 40 requests wait, two a second are served.
    low, _ = row(Row.QUEUE, steady(QUEUEING, 30), learned, policy)
    assert low == pytest.approx(min(4 * (1 + 40 / (2 * seconds)), 4 * (1 + 40 / 40)))


def test_a_backlog_of_a_slow_start_asks_for_about_twice_its_rate() -> None:
    """What piled up through a lead time at 1.5 times the rate of four replicas asks for eight."""
    waiting = 0.5 * 2.0 * 180.0  # half of two a second came too much, for 180 s
    samples = steady(replace(QUEUEING, waiting=waiting, running=400.0), 30)
    low, _ = row(Row.QUEUE, samples, Learned(), replace(STATED, drain_time=None))
    assert low == pytest.approx(4 * (1 + waiting / 400))  # the cap: 5.8
    samples = steady(replace(QUEUEING, waiting=waiting), 30)
    low, _ = row(Row.QUEUE, samples, Learned(), replace(STATED, drain_time=None))
    assert low == pytest.approx(4 * (1 + 180 / (2 * 90)))


@pytest.mark.parametrize(
    ("queued", "low"),
    [
        pytest.param(1, 0.0, id="a-quarter"),
        pytest.param(2, 4 * (1 + 40 / 600), id="exactly-half"),
        pytest.param(4, 4 * (1 + 40 / 600), id="all"),
    ],
)
def test_a_skewed_queue_is_a_routing_fault(queued: int, low: float) -> None:
    """Below half of the replicas a queue asks for nothing and is reported."""
    need = newest_need(steady(replace(QUEUEING, queued=queued), 30))
    assert need.rows[0].low == pytest.approx(low)
    assert (Reason.SKEWED in need.notes) is (low == 0.0)


@pytest.mark.parametrize(
    ("sample", "learned", "low", "noted"),
    [
        pytest.param(
            replace(BUSY, waiting=1.0, queued=4, rejection_rate=1.0),
            Learned(),
            4 * (1 + 1 / 2 + 1 / 600),
            False,
            id="while-one-waits",
        ),
        pytest.param(
            replace(BUSY, running=64.0, rejection_rate=1.0), FULL, 6.0, False, id="exactly-full"
        ),
        pytest.param(
            replace(BUSY, running=63.0, rejection_rate=1.0), FULL, 0.0, True, id="not-quite-full"
        ),
        pytest.param(
            replace(BUSY, running=63.0, rejection_rate=1.0),
            Learned(),
            0.0,
            True,
            id="nobody-knows-what-full-is",
        ),
        pytest.param(replace(BUSY, rejection_rate=0.0), FULL, 0.0, False, id="none"),
        pytest.param(BUSY, FULL, 0.0, False, id="not-known"),
    ],
)
def test_rejections_are_demand_only_under_load(
    sample: Sample, learned: Learned, low: float, *, noted: bool
) -> None:
    """Refusals count while requests wait or the fleet is full; otherwise they are reported."""
    need = newest_need(steady(sample, 30), learned=learned)
    assert need.rows[0].low == pytest.approx(low)
    assert (Reason.REJECTIONS_WITHOUT_LOAD in need.notes) is noted


# --- concurrency ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learned", "low", "high"),
    [
        pytest.param(Learned(), 0.0, math.inf, id="nothing-learned"),
        pytest.param(FULL, 2.5, 2.5, id="saturation"),
        pytest.param(Learned(carried=20.0), 1.6, 1.6, id="carried: a quarter more is risked"),
        pytest.param(Learned(carried=16.0), 2.0, 2.0, id="carried: a quarter is what chance adds"),
        pytest.param(Learned(carried=4.0), 40 / 6, 40 / 6, id="carried-little: chance adds more"),
        pytest.param(Learned(carried=1.0), 8.0, 20.0, id="carried-less: up to the cap of 4 / 0.5"),
        pytest.param(Learned(saturation=32.0, carried=20.0), 2.5, 2.5, id="full-is-less"),
        pytest.param(Learned(saturation=32.0, carried=9.0), 2.5, 40 / 12, id="carried-is-less"),
    ],
)
def test_concurrency(learned: Learned, low: float, high: float) -> None:
    """What runs is divided by what a replica may run, within what it has carried."""
    assert row(Row.CONCURRENCY, steady(BUSY, 30), learned) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("carried", "low", "high"),
    [
        pytest.param(0.09, 2.0, 2 / 0.39, id="a-request-a-replica-at-least"),
        pytest.param((3 - math.sqrt(5)) / 2, 2.0, 2.0, id="exactly-one"),
        pytest.param(1.0, 1.0, 1.0, id="two"),
    ],
)
def test_two_requests_ask_for_no_fleet(carried: float, low: float, high: float) -> None:
    """Ten replicas that have never run much are not asked to be sixteen by two requests."""
    samples = steady(replace(BUSY, serving=10, running=2.0), 30)
    found = row(Row.CONCURRENCY, samples, Learned(carried=carried))
    assert found == pytest.approx((low, high))


def test_an_idle_fleet_needs_no_saturation_to_be_idle() -> None:
    """With nothing running the row has nothing to hold back."""
    assert row(Row.CONCURRENCY, steady(IDLE, 30)) == (0.0, 0.0)


def ramp(ticks: int, per_tick: float = 1.5) -> list[Sample]:
    """Return eight replicas whose running requests grow steadily up to 100."""
    return row_of(
        *(
            replace(BUSY, serving=8, running=100.0 - per_tick * back)
            for back in reversed(range(ticks))
        )
    )


@pytest.mark.parametrize(
    ("samples", "ahead"),
    [
        pytest.param(ramp(30), 109.0, id="growth-of-0.1-a-second"),
        pytest.param(ramp(8), 109.0, id="eight-samples"),
        pytest.param(ramp(7), 100.0, id="seven-samples-are-no-trend"),
        pytest.param(ramp(30, -1.0), 100.0, id="a-fall-is-no-trend"),
        pytest.param([*ramp(30)[:-1], replace(ramp(1)[0], serving=9)], 100.0, id="serving-rose"),
        pytest.param([*ramp(30)[:-1], replace(ramp(1)[0], serving=7)], 109.0, id="serving-fell"),
    ],
)
def test_the_trend_of_running(samples: list[Sample], ahead: float) -> None:
    """Half of what the trend promises for when a replica could be there counts: 180 s ahead."""
    low, high = row(Row.CONCURRENCY, samples, FULL)
    assert low == pytest.approx(ahead / 16)
    assert high >= low


def test_a_rise_before_the_trend_is_forgotten() -> None:
    """A fleet that grew longer ago than the trend looks back may show a trend again."""
    grew = [replace(s, serving=7) for s in ramp(30)[:10]]
    assert row(Row.CONCURRENCY, [*grew, *ramp(30)[10:]], FULL)[0] == pytest.approx(109 / 16)
    grew = [replace(s, serving=7) for s in ramp(30)[:11]]
    assert row(Row.CONCURRENCY, [*grew, *ramp(30)[11:]], FULL)[0] == pytest.approx(100 / 16)


def test_a_trend_does_not_keep_replicas() -> None:
    """A trend asks for more; what is given up rests on what runs."""
    learned = Learned(saturation=32.0, carried=9.0)
    low, high = row(Row.CONCURRENCY, ramp(30), learned)
    assert (low, high) == pytest.approx((109 / 16, 100 / 12))


FLAT_OUT = replace(BUSY, running=19 * 32.0, serving=19)
"""19 replicas that serve a backlog: each is full, whatever is asked of them."""


@pytest.mark.parametrize(
    ("before", "since", "low"),
    [
        pytest.param(19, 20, 38.0, id="long-of-that-size: twice as many"),
        pytest.param(10, 20, 38.0, id="grew-before-the-trend"),
        pytest.param(10, 19, 20.0, id="grew-within-it: twice the ten of then"),
        pytest.param(10, 1, 20.0, id="just-grew"),
        pytest.param(25, 1, 38.0, id="shrank"),
    ],
)
def test_a_fleet_that_serves_a_backlog_does_not_cascade(
    before: int, since: int, low: float
) -> None:
    """The row asks for what the smallest fleet of the trend would need if it was full."""
    earlier = replace(FLAT_OUT, serving=before, running=before * 32.0)
    samples = row_of(*[earlier] * 40, *[FLAT_OUT] * since)
    assert row(Row.CONCURRENCY, samples, FULL)[0] == pytest.approx(low)


def test_without_headroom_a_full_fleet_is_the_right_one() -> None:
    """With no headroom to keep, full replicas ask for no more than there were."""
    policy = replace(STATED, headroom=0.0)
    samples = steady(replace(FLAT_OUT, running=19 * 40.0), 30)
    assert row(Row.CONCURRENCY, samples, FULL, policy)[0] == pytest.approx(19.0)


@pytest.mark.parametrize(
    ("prompts", "tokens", "slope"),
    [
        pytest.param(2000.0, 1000.0, 0.05 + 2 * 0.01, id="two-prompt-tokens-a-generated-one"),
        pytest.param(0.0, 1000.0, 0.05, id="no-prompt"),
        pytest.param(None, 1000.0, 0.05, id="prompts-not-known"),
        pytest.param(2000.0, None, 0.05, id="tokens-not-known"),
        pytest.param(2000.0, 0.0, 0.05, id="no-token"),
    ],
)
def test_the_slowdown_goes_with_the_shape_of_the_requests(
    prompts: float | None, tokens: float | None, slope: float
) -> None:
    """Long prompts slow a step more, so fewer of the running requests are there by load."""
    sample = replace(BUSY, prompt_token_rate=prompts, token_rate=tokens)
    learned = Learned(saturation=32.0, slowdown=Slowdown(running=0.05, prompt=0.01))
    found = 40 / 16 * (1 + slope * 16) / (1 + slope * 10)
    assert row(Row.CONCURRENCY, steady(sample, 30), learned) == pytest.approx((found, found))


@pytest.mark.parametrize(
    ("lead_time", "ticks"),
    [
        pytest.param(180.0, 20, id="five-minutes-at-least"),
        pytest.param(300.0, 20, id="five-minutes"),
        pytest.param(310.0, 21, id="a-lead-time-between-two-ticks"),
        pytest.param(315.0, 21, id="21-ticks"),
        pytest.param(600.0, 40, id="ten-minutes"),
    ],
)
def test_an_incomplete_trend_does_not_prove_calm(lead_time: float, ticks: int) -> None:
    """With a tick of the trend missing a busy fleet keeps its replicas, an idle one does not."""
    learned = Learned(saturation=32.0, lead_time=lead_time)
    whole = steady(BUSY, ticks)
    assert math.isfinite(row(Row.CONCURRENCY, whole, learned)[1])
    for missing in (0, 1, ticks - 2):
        thinned = whole[:missing] + whole[missing + 1 :]
        assert row(Row.CONCURRENCY, thinned, learned)[1] == math.inf
    assert row(Row.CONCURRENCY, steady(IDLE, 3), learned)[1] == 0.0
    queue_only = replace(BUSY, running=0.0, waiting=1.0, queued=1)
    assert row(Row.CONCURRENCY, steady(queue_only, 3), learned)[1] == math.inf


# --- KV cache -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("serving", "kv", "low", "high"),
    [
        pytest.param(4, 0.85, 4.0, 4 * 0.85 / 0.6, id="exactly-kvCacheHigh-keeps"),
        pytest.param(4, 0.6, 4 * 0.6 / 0.85, 4.0, id="exactly-kvCacheLow-keeps"),
        pytest.param(1, 0.9, 0.9 / 0.85, 1.5, id="one-replica"),
        pytest.param(100, 0.9, 90 / 0.85, 150.0, id="a-hundred"),
        pytest.param(4, 0.0, 0.0, 0.0, id="empty"),
        pytest.param(4, None, 0.0, math.inf, id="not-known"),
    ],
)
def test_the_cache(serving: int, kv: float | None, low: float, high: float) -> None:
    """The cache asks in proportion to how full it is."""
    samples = steady(replace(BUSY, serving=serving, kv_cache=kv), 1)
    need = newest_need(samples, KV)
    assert (need.low, need.high) == pytest.approx((low, high))


# --- TTFT -----------------------------------------------------------------------------------------

WAITED = replace(BUSY, waiting=1.0, queued=4)  # 0.5 s on average: enough to be worth curing
SLOW = replace(WAITED, ttft=ttft_in(5, 0.2))  # 3 s, in (2.5, 5]
QUICK = replace(BUSY, ttft=ttft_in(0))


@pytest.mark.parametrize(
    ("sample", "low", "high"),
    [
        pytest.param(SLOW, 4 * 3 / 2.5, 41.0, id="above-high: the interpolated p95"),
        pytest.param(replace(SLOW, ttft=ttft_in(5, 0.0)), 4.0, 41.0, id="lower-edge-exactly-high"),
        pytest.param(replace(SLOW, ttft=ttft_in(4, 1.0)), 0.0, 41.0, id="upper-edge-exactly-high"),
        pytest.param(replace(SLOW, ttft=ttft_in(6)), 6.0, 41.0, id="half-more-at-most"),
        pytest.param(replace(SLOW, ttft=ttft_in(7)), 6.0, 41.0, id="above-the-last-edge"),
        pytest.param(replace(SLOW, ttft=ttft_in(3)), 0.0, 0.0, id="upper-edge-exactly-low"),
        pytest.param(QUICK, 0.0, 0.0, id="quick"),
        pytest.param(replace(SLOW, running=2.0), 3.0, 3.0, id="as-many-as-requests-at-most"),
        pytest.param(
            replace(SLOW, ttft=ttft_in(5, 0.2, 20.0)), 4.8, 41.0, id="twenty-observations"
        ),
        pytest.param(replace(BUSY, ttft=ttft_in(5, 0.2, 19.0)), 0.0, 0.0, id="nineteen"),
        pytest.param(
            replace(BUSY, ttft=ttft_in(0, 0.2, 19.0), waiting=1.0, queued=4),
            0.0,
            41.0,
            id="nineteen-while-one-waits",
        ),
        pytest.param(BUSY, 0.0, 0.0, id="no-observation"),
        pytest.param(replace(BUSY, first_token_rate=None), 0.0, math.inf, id="no-histogram-at-all"),
    ],
)
def test_the_measured_ttft(sample: Sample, low: float, high: float) -> None:
    """The p95 asks when it is surely above High, and forbids scale-in when it may be above Low."""
    need = newest_need(steady(sample, 30), TTFT)
    assert (need.low, need.high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("waiting", "rate", "low", "high"),
    [
        pytest.param(8.0, 2.0, 4 * 1.5, 48.0, id="4 s of queue: half more at most"),
        pytest.param(6.0, 2.0, 4 * 1.2, 46.0, id="3 s of queue"),
        pytest.param(5.0, 2.0, 0.0, 45.0, id="exactly-high-is-not-above"),
        pytest.param(4.0, 0.1, 0.0, 0.0, id="exactly-waitingLow-is-no-queue"),
        pytest.param(4.25, 0.0, 4 * 1.5, 44.25, id="no-first-token"),
        pytest.param(4.25, None, 0.0, 44.25, id="rate-not-known"),
        pytest.param(5.0, 5.0, 0.0, 0.0, id="exactly-low-is-calm"),
    ],
)
def test_the_ttft_of_those_that_still_wait(
    waiting: float, rate: float | None, low: float, high: float
) -> None:
    """The histogram shows none of those that wait: the queue's own time counts for them."""
    sample = replace(QUICK, waiting=waiting, queued=4, first_token_rate=rate)
    need = newest_need(steady(sample, 30), TTFT)
    assert (need.low, need.high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("waiting", "rate", "keeps"),
    [
        pytest.param(0.0, 3.0, False, id="nobody-waits"),
        pytest.param(0.5, 3.0, False, id="3 x 0.5 / 3 s: exactly half of Low"),
        pytest.param(0.75, 3.0, True, id="more-than-half"),
        pytest.param(0.5, 2.75, True, id="as-many-that-are-served-more-slowly"),
        pytest.param(0.0, None, True, id="rate-not-known"),
        pytest.param(0.0, 0.0, True, id="no-first-token"),
    ],
)
def test_a_slow_first_token_keeps_the_fleet_where_waiting_makes_it_slow(
    waiting: float, rate: float | None, *, keeps: bool
) -> None:
    """Where next to nobody waits, the prompts' own computation is slow: no replica cures that."""
    sample = replace(SLOW, ttft=ttft_in(4), waiting=waiting, first_token_rate=rate)
    assert newest_need(steady(sample, 30), TTFT).high == (40.0 + waiting if keeps else 0.0)


def test_a_large_fleet_is_not_held_by_long_prompts() -> None:
    """Two that wait beside 35 first tokens a second do not make a p95 of 2.2 s."""
    sample = replace(
        BUSY,
        serving=40,
        running=400.0,
        waiting=2.0,
        queued=20,
        first_token_rate=35.0,
        ttft=ttft_in(4, 0.8),
    )
    assert newest_need(steady(sample, 30), TTFT).high == 0.0
    # At 6 it is 3 × 6 / 35 = 0.51 s, above half a second.
    assert newest_need(steady(replace(sample, waiting=6.0), 30), TTFT).high == 406.0


def test_the_wait_is_a_mean_over_the_window_of_the_rate() -> None:
    """Eight ticks make the mean; with one of them missing it is not known, and the fleet kept."""
    calm = replace(SLOW, ttft=ttft_in(4), waiting=0.0, first_token_rate=3.0)
    samples = row_of(*[calm] * 20, replace(calm, waiting=4.5), *[calm] * 7)
    assert newest_need(samples, TTFT).high == 40.0  # 4.5 / 8 on average: 0.56 s
    assert newest_need([*samples, stamped(calm, NOW + TICK)], TTFT).high == 0.0
    samples = row_of(*[calm] * 20, replace(calm, waiting=4.0), *[calm] * 7)
    assert newest_need(samples, TTFT).high == 0.0
    for back in range(1, 8):
        assert newest_need(without(samples, back), TTFT).high == 40.0


def test_ttft_asks_for_more_than_served_when_it_was_slow() -> None:
    """Those that came since are not counted as if they had been slow as well."""
    samples = row_of(*[replace(SLOW, serving=3)] * 12, *[replace(SLOW, serving=4)] * 9)
    assert newest_need(samples, TTFT).low == pytest.approx(3 * 1.2)
    samples = row_of(*[replace(SLOW, serving=3)] * 12, *[replace(SLOW, serving=4)] * 20)
    assert newest_need(samples, TTFT).low == pytest.approx(4 * 1.2)


def test_ttft_of_a_single_hot_replica_is_a_routing_fault() -> None:
    """A skewed queue silences TTFT as well, and says so."""
    skewed = replace(SLOW, waiting=4.0, queued=1)
    need = newest_need(steady(skewed, 30), TTFT)
    assert (need.low, need.notes) == (0.0, (Reason.SKEWED,))
    assert newest_need(steady(replace(skewed, queued=2), 30), TTFT).low == pytest.approx(4.8)


def test_ttft_that_replicas_do_not_cure() -> None:
    """A prefill-bound fleet's TTFT asks for nothing, and says so; it still forbids scale-in."""
    need = newest_need(steady(SLOW, 30), TTFT, Learned(prefill_bound=True))
    assert (need.low, need.high, need.notes) == (0.0, 41.0, (Reason.PREFILL_BOUND,))


@pytest.mark.parametrize(
    ("since", "silent"),
    [
        pytest.param(1, True, id="just-now"),
        pytest.param(8, True, id="105-seconds-ago"),
        pytest.param(9, False, id="exactly-a-rate-window-ago"),
    ],
)
def test_ttft_is_silent_after_the_fleet_grew(since: int, *, silent: bool) -> None:
    """For one rate window the old fleet's latencies say nothing about the new one."""
    samples = row_of(*[replace(SLOW, serving=3)] * 41, *[SLOW] * since)
    need = newest_need(samples, TTFT)
    assert need.low == (0.0 if silent else pytest.approx(3 * 1.2))
    assert need.notes == ((Reason.LOADING,) if silent else ())


@pytest.mark.parametrize(
    ("back", "silent"),
    [
        pytest.param(39, False, id="it-was-as-large-585-seconds-before"),
        pytest.param(40, True, id="exactly-ten-minutes-before-is-forgotten"),
    ],
)
def test_growth_is_beyond_the_highest_of_ten_minutes(back: int, *, silent: bool) -> None:
    """A replica that comes back is no growth."""
    smaller = [replace(SLOW, serving=3)] * (back - 1)
    samples = row_of(SLOW, *smaller, SLOW)
    assert (newest_need(samples, TTFT).low == 0.0) is silent


def test_the_ten_minutes_end_at_the_growth_not_at_the_sample() -> None:
    """A fleet that came back stays no growth while the rate window passes."""
    samples = row_of(SLOW, *[replace(SLOW, serving=3)] * 38, *[SLOW] * 8)
    assert newest_need(samples, TTFT).low == pytest.approx(3 * 1.2)


def test_the_first_sample_ever_is_no_growth() -> None:
    """Where nothing is known of before, nothing is known to have grown."""
    assert newest_need(steady(SLOW, 1), TTFT).low == pytest.approx(4.8)


# --- rows together --------------------------------------------------------------------------------


def test_the_largest_row_counts_at_both_ends() -> None:
    """A sample takes the largest low and the largest high of its rows."""
    need = newest_need(steady(replace(SLOW, kv_cache=0.9), 30), learned=FULL)
    assert need.low == pytest.approx(4.8)
    assert need.low_row is Row.TTFT
    assert need.high == 41.0
    assert [r.row for r in need.rows] == [Row.QUEUE, Row.CONCURRENCY, Row.KV_CACHE, Row.TTFT]


@pytest.mark.parametrize(
    ("policy", "rows"),
    [
        pytest.param(WAITING, [Row.QUEUE, Row.CONCURRENCY], id="waiting"),
        pytest.param(KV, [Row.KV_CACHE], id="kvCache"),
        pytest.param(TTFT, [Row.TTFT], id="ttft"),
    ],
)
def test_only_the_named_signals_speak(policy: Policy, rows: list[Row]) -> None:
    """A signal that the policy does not name moves nothing."""
    assert [r.row for r in newest_need(steady(BUSY, 30), policy).rows] == rows


def test_a_named_row_without_data_knows_nothing() -> None:
    """An unknown cache leaves the high end open whatever the other rows say."""
    sample = replace(QUICK, running=1.0, kv_cache=None)
    assert newest_need(steady(sample, 30), learned=FULL).high == math.inf
    calm = newest_need(steady(replace(sample, kv_cache=0.1), 30), learned=FULL)
    assert calm.high == pytest.approx(4 * 0.1 / 0.6)


def test_idle_is_idle_whatever_the_rows_say() -> None:
    """Nothing running and nothing waiting needs nothing, even with a full cache."""
    need = newest_need(steady(replace(IDLE, kv_cache=1.0, ttft=ttft_in(7)), 1))
    assert (need.low, need.high) == (0.0, 0.0)


def test_a_fleet_that_runs_nothing_but_has_a_queue_is_not_idle() -> None:
    """Requests that wait are demand even where none runs."""
    need = newest_need(steady(replace(QUEUEING, running=0.0), 30))
    assert need.low >= 4.0
    assert need.high == math.inf


@pytest.mark.parametrize(
    ("changed", "low", "high"),
    [
        pytest.param(replace(BUSY, stalled=1), 4.0 + 1, 6.0 + 1, id="a-stalled-one-takes-a-place"),
        pytest.param(replace(BUSY, stalled=9), 8.0, 12.0, id="never-more-places-than-the-need"),
        pytest.param(replace(BUSY, unseen=1), 4.0, 7.5, id="an-unseen-one-may-be-needed"),
        pytest.param(replace(BUSY, unseen=4), 4.0, 12.0, id="exactly-half-unseen"),
        pytest.param(replace(BUSY, unseen=5), 4.0, math.inf, id="more-than-half-unseen"),
        pytest.param(replace(BUSY, unseen=5, asleep=1), 4.0, 13.5, id="sleepers-are-seen"),
        pytest.param(replace(BUSY, stalled=1, unseen=2), 5.0, 10.0, id="both"),
    ],
)
def test_places_that_are_taken_or_not_seen(changed: Sample, low: float, high: float) -> None:
    """Stalled replicas add to both ends, unseen ones to the high end what each other needs."""
    policy = replace(KV, kv_cache_high=0.9, kv_cache_low=0.6)
    need = newest_need(steady(replace(changed, kv_cache=0.9), 1), policy)
    assert (need.low, need.high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(replace(IDLE, serving=0), id="nobody"),
        pytest.param(replace(IDLE, serving=0, stalled=2), id="all-stalled"),
        pytest.param(replace(IDLE, serving=0, asleep=2), id="all-asleep"),
        pytest.param(replace(IDLE, serving=0, unseen=2), id="all-unseen"),
    ],
)
def test_without_a_serving_replica_nothing_is_known(sample: Sample) -> None:
    """Nobody who serves says 0 to infinity."""
    need = newest_need(steady(sample, 1))
    assert (need.low, need.high, need.notes) == (0.0, math.inf, (Reason.NOTHING_SERVING,))
    assert need.low_row is None


def test_a_restart_computes_the_same_needs() -> None:
    """A need computed alone, with its context, is the one computed among all the others."""
    samples = [*steady(BUSY, 20, NOW - 5 * TICK), *steady(QUEUEING, 5)]
    learned = Learned(saturation=32.0, carried=10.0)
    alone = [
        need_of(s, look_back(samples, n, learned.lead_time), STATED, learned)
        for n, s in enumerate(samples)
    ]
    assert alone == needs(STATED, samples, learned)
