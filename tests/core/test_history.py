"""What is remembered, and that a judgement kept up to date is the one made anew."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.decision import Decision, decide
from scaler.core.history import History, Judgement, span_needed
from scaler.core.learned import Learned
from scaler.core.minutes import REMEMBERED
from scaler.core.need import needs
from scaler.core.policy import Policy, Signal
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK
from scaler.core.workload import Scale
from tests.core.histories import (
    BUSY,
    IDLE,
    NOW,
    QUEUEING,
    World,
    decided,
    only,
    stamped,
    steady,
    worlds,
)

FOUR = Scale(current=4)


def history_of(samples: list[Sample]) -> History:
    """Return a history that saw these samples one after the other."""
    history = History()
    for sample in samples:
        history.add(sample)
    return history


def judged(
    judgement: Judgement, policy: Policy, history: History, now: float, scale: Scale = FOUR
) -> Decision:
    """Bring a judgement up to date and decide by it."""
    judgement.update(policy, history, now)
    return decide(
        policy,
        history.samples,
        judgement.needs,
        scale=scale,
        learned=judgement.learned,
        now=now,
        known_since=0.0,
    )


def answer(decision: Decision) -> Decision:
    """Return a decision without how long things held: beyond the windows that is not kept."""
    return replace(decision, overload_for=0.0, calm_for=0.0)


def test_of_two_samples_at_one_tick_the_first_stays() -> None:
    """A second look at the same tick changes nothing."""
    history = history_of([stamped(BUSY, NOW), stamped(IDLE, NOW)])
    assert history.samples == [stamped(BUSY, NOW)]
    assert history.newest == stamped(BUSY, NOW)
    assert History().newest is None


def test_what_was_taken_while_the_clock_was_ahead_goes() -> None:
    """A sample at an older tick says that the younger ones never were; minutes go as well."""
    history = history_of([stamped(BUSY, NOW - 120), stamped(BUSY, NOW - 60), stamped(BUSY, NOW)])
    version = history.version
    history.add(stamped(IDLE, NOW - 60))
    assert history.samples == [stamped(BUSY, NOW - 120), stamped(BUSY, NOW - 60)]
    assert list(history.minutes.at) == [NOW - 120, NOW - 60]
    assert history.version > version
    history.add(stamped(IDLE, NOW - 75))
    assert [s.at for s in history.samples] == [NOW - 120, NOW - 75]


def test_filling_a_gap_puts_samples_where_there_are_none() -> None:
    """Read-back samples join in order of time, never replace, and make computed needs outdated."""
    history = history_of([stamped(BUSY, NOW - 60), stamped(BUSY, NOW)])
    version = history.version
    assert history.gaps(NOW - 60, NOW) == [NOW - 45, NOW - 30, NOW - 15]
    assert history.fill([stamped(IDLE, NOW - 60), stamped(IDLE, NOW - 30)]) == 1
    assert history.samples == [stamped(BUSY, NOW - 60), stamped(IDLE, NOW - 30), stamped(BUSY, NOW)]
    assert history.version == version + 1
    assert history.fill([stamped(IDLE, NOW)]) == 0
    assert history.version == version + 1
    assert history.gaps(NOW - 50, NOW + 20) == [NOW - 45, NOW - 15, NOW + 15]


def test_minutes_are_learned_however_the_samples_came() -> None:
    """Samples seen, filled in and read back by the minute make one memory, known ones first."""
    history = history_of([stamped(BUSY, NOW - 60), stamped(BUSY, NOW)])
    history.fill([stamped(IDLE, NOW - 120), stamped(IDLE, NOW - 105)])
    history.recall_minutes([stamped(QUEUEING, NOW - 60), stamped(QUEUEING, NOW - 180)])
    assert list(history.minutes.at) == [NOW - 180, NOW - 120, NOW - 60, NOW]
    assert list(history.minutes.waiting) == [40.0, 0.0, 0.0, 0.0]
    assert list(history.minutes.running) == [40.0, 0.0, 40.0, 40.0]


def test_the_minutes_know_how_many_prompt_tokens_came() -> None:
    """The rate is kept with its minute, merged with others, and forgotten from either end."""
    told = replace(BUSY, prompt_token_rate=500.0)
    history = history_of([stamped(told, NOW - 60), stamped(BUSY, NOW)])
    history.recall_minutes(
        [stamped(replace(told, prompt_token_rate=back), NOW - back) for back in (180.0, 60.0)]
    )
    minutes = history.minutes
    assert list(minutes.at) == [NOW - 180, NOW - 60, NOW]
    assert list(minutes.prompts)[:2] == [180.0, 500.0]
    assert math.isnan(minutes.prompts[2])
    minutes.forget_after(NOW - 60)
    assert list(minutes.prompts) == [180.0, 500.0]
    minutes.forget(NOW - 60)
    assert (list(minutes.at), list(minutes.prompts)) == ([NOW - 60], [500.0])


@pytest.mark.parametrize(
    ("count", "left"), [pytest.param(40 + 19, 59, id="a-few-old"), pytest.param(60, 40, id="many")]
)
def test_forget_drops_many_at_a_time(count: int, left: int) -> None:
    """Samples older than the span go when there are enough of them, and the minutes stay."""
    history = history_of(steady(BUSY, count))
    version, minutes = history.version, len(history.minutes)
    history.forget(NOW, 39 * TICK)
    assert len(history.samples) == left
    assert history.samples[-1].at == NOW
    assert history.version == version + (left == 40)
    assert len(history.minutes) == minutes
    history.forget(NOW + REMEMBERED + 1, 39 * TICK)
    assert len(history.minutes) == 0


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(Policy(), id="the-default"),
        pytest.param(Policy(scale_in_window=15.0), id="a-short-scale-in-window"),
        pytest.param(Policy(scale_out_window=600.0, scale_in_window=15.0), id="out-beyond-in"),
        pytest.param(Policy(scale_out_window=3600.0), id="out-beyond-what-is-kept-otherwise"),
        pytest.param(Policy(scale_in_window=7200.0), id="in-beyond-what-is-kept-otherwise"),
    ],
)
@pytest.mark.parametrize("every", [15.0, 120.0], ids=["scraped-often", "scraped-rarely"])
def test_what_was_forgotten_is_not_missed(policy: Policy, every: float) -> None:
    """A scaler that kept only what is needed decides as one that kept everything."""
    ticks = 1400
    samples = [
        replace(s, scraped_at=s.at // every * every)
        for s in steady(replace(BUSY, kv_cache=0.95, running=100.0), ticks)
    ]
    whole, cut = history_of(samples), history_of(samples)
    cut.forget(NOW, span_needed(policy, Learned()))
    assert len(cut.samples) < ticks
    for history in (whole, cut):
        found = judged(Judgement(), policy, history, NOW)
        assert found.desired == 5
        assert answer(found) == answer(decided(samples, policy, scale=FOUR, learned=found.learned))


def test_silence_is_counted_through_the_whole_of_hold_for() -> None:
    """The last sample that said anything is kept for as long as its silence is to be held."""
    policy = Policy(hold_for=7200.0)
    history = history_of(steady(BUSY, 40))
    now = NOW + 7200.0
    history.forget(now, span_needed(policy, Learned()))
    found = judged(Judgement(), policy, history, now)
    assert (found.desired, found.reason) == (4, Reason.SOURCE_SILENT)
    later = judged(Judgement(), policy, history, now + TICK)
    assert later.reason is Reason.SILENT_TOO_LONG


@settings(max_examples=60)
@given(worlds(), st.data())
def test_a_judgement_kept_up_to_date_is_the_one_made_anew(
    world: World, data: st.DataObject
) -> None:
    """After every tick a scaler that ran on and one that starts now give the same answer."""
    running, grown = Judgement(), History()
    looks = data.draw(st.sets(st.integers(0, len(world.samples) - 1), max_size=5), label="looks")
    for index, sample in enumerate(world.samples):
        grown.add(sample)
        if index in looks or index == len(world.samples) - 1:
            kept = judged(running, world.policy, grown, sample.at, world.scale)
            anew = judged(Judgement(), world.policy, grown, sample.at, world.scale)
            assert answer(kept) == answer(anew)
            assert len(running.needs) == len(grown.samples)


def test_needs_stay_paired_with_samples_when_old_ones_are_forgotten() -> None:
    """After samples were dropped the judgement's needs are again those of the samples left."""
    policy = only(Signal.KV_CACHE)
    history, judgement = History(), Judgement()
    for index, sample in enumerate(steady(BUSY, 200)):
        history.forget(sample.at, 50 * TICK)
        history.add(replace(sample, kv_cache=index / 200))
        judgement.update(policy, history, sample.at)
        assert len(judgement.needs) == len(history.samples)
        newest = needs(policy, history.samples[-40:], judgement.learned)
        assert judgement.needs[-40:] == newest


def test_an_edited_policy_judges_the_same_history_anew() -> None:
    """Other thresholds recompute the needs of what is already known."""
    history, judgement = history_of(steady(replace(BUSY, kv_cache=0.9), 60)), Judgement()
    policy = only(Signal.KV_CACHE)
    assert judged(judgement, policy, history, NOW).desired == 5
    stricter = replace(policy, kv_cache_high=0.65)
    assert judged(judgement, stricter, history, NOW).desired == 6


def test_what_was_carried_is_learned_once_a_minute() -> None:
    """A minute more changes what was carried, for the running judgement as for a new one."""
    history, judgement = history_of(steady(BUSY, 12)), Judgement()
    judgement.update(Policy(), history, NOW)
    assert judgement.learned.carried == 10.0
    more = replace(BUSY, running=60.0)
    for sample in steady(more, 12, NOW + 180):
        history.add(sample)
        judgement.update(Policy(), history, sample.at)
    assert judgement.learned.carried == 15.0


class TestDoubt:
    """Pods that had served before anybody told of them."""

    def test_samples_from_then_on_prove_no_calm(self) -> None:
        """Those before stay what they were; what is read back replaces the others."""
        samples = steady(IDLE, 60)
        history = history_of(samples)
        since = samples[40].at
        history.doubt(since - 1.0)
        assert [s.at for s in history.samples if s.partial] == [s.at for s in samples[40:]]
        assert history.missed_from == since
        assert decided(history.samples, scale=FOUR).desired == 4

        whole = [replace(s, serving=5) for s in samples]
        assert history.fill(whole) == 20
        assert history.samples == [*samples[:40], *whole[40:]]

    def test_what_was_missed_before_stays_missed(self) -> None:
        """The earlier of the two instants counts."""
        history = history_of(steady(IDLE, 60))
        history.missed_from = NOW - 800.0
        history.doubt(NOW - 100.0)
        assert history.missed_from == NOW - 800.0

    def test_of_nothing_is_nothing(self) -> None:
        """A pod that came after the newest sample leaves all as it is."""
        history = history_of(steady(IDLE, 60))
        version = history.version
        history.doubt(NOW + 1.0)
        assert not any(sample.partial for sample in history.samples)
        assert (history.version, history.missed_from) == (version, None)

    def test_a_judgement_hears_of_it(self) -> None:
        """Kept up to date, it is the one made anew."""
        history = history_of(steady(IDLE, 60))
        judgement = Judgement()
        judged(judgement, Policy(), history, NOW)
        history.doubt(NOW - 300.0)
        assert judged(judgement, Policy(), history, NOW) == judged(
            Judgement(), Policy(), history, NOW
        )
