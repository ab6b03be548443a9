"""The two windows, their borders and their coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from scaler.core.corridor import Corridor, Window, corridor, round_up
from scaler.core.need import Need, Row, RowNeed
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK, tick_at, ticks_in
from tests.core.histories import BUSY, NOW, steady, without


def need(low: float, high: float | None = None, row: Row = Row.QUEUE) -> Need:
    """Return a need that one row has."""
    top = max(low, 9.0) if high is None else high
    return Need(low=low, high=top, rows=(RowNeed(row=row, low=low, high=top),))


def lines(
    lows: Sequence[float],
    *,
    out_span: float = 60.0,
    in_span: float = 60.0,
    missing: Sequence[int] = (),
    highs: Sequence[float] | None = None,
    late: int = 0,
) -> Corridor:
    """Return the corridor over adjacent ticks with these lows; `missing` count from the newest."""
    samples = without(steady(BUSY, len(lows)), *missing)
    tops = [max(9.0, low) for low in lows] if highs is None else highs
    all_needs = [need(low, high) for low, high in zip(lows, tops, strict=True)]
    kept = [n for back, n in enumerate(reversed(all_needs)) if back not in missing]
    return corridor(samples, kept[::-1], NOW + late * TICK, out_span, in_span)


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "span", "count"),
    [
        pytest.param(NOW, 60.0, 4, id="a-minute"),
        pytest.param(NOW, 15.0, 1, id="one-tick"),
        pytest.param(NOW, 1.0, 1, id="less-than-a-tick-on-the-grid"),
        pytest.param(NOW + 7, 5.0, 1, id="less-than-a-tick-between-two"),
        pytest.param(NOW, 100.0, 7, id="between-two-ticks"),
        pytest.param(NOW + 14.9, 60.0, 4, id="off-the-grid"),
        pytest.param(NOW, 604_800.0, 40_320, id="a-week"),
    ],
)
def test_ticks_in_a_window(now: float, span: float, count: int) -> None:
    """A window (now - span, now] holds the ticks after its open end."""
    assert ticks_in(now, span) == count


@pytest.mark.parametrize(
    ("now", "tick"),
    [(NOW, NOW), (NOW + 14.999, NOW), (NOW + 15, NOW + 15), (NOW - 0.001, NOW - 15), (0.0, 0.0)],
)
def test_the_tick_at_a_time(now: float, tick: float) -> None:
    """A tick lasts until the next one."""
    assert tick_at(now) == tick


@pytest.mark.parametrize(
    ("replicas", "whole"),
    [
        (0.0, 0.0),
        (1e-7, 0.0),
        (2.0000005, 2.0),
        (2.000002, 3.0),
        (2.1, 3.0),
        (1.9999999999, 2.0),
        (math.inf, math.inf),
    ],
)
def test_round_up(replicas: float, whole: float) -> None:
    """Anything above a millionth is a replica more."""
    assert round_up(replicas) == whole


# --- the ceiling ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ticks", "spike", "ceiling"),
    [
        pytest.param(10, 3, 50.0, id="45-seconds-ago-is-inside"),
        pytest.param(10, 4, 9.0, id="exactly-a-window-ago-is-outside"),
        pytest.param(10, 0, 50.0, id="the-newest"),
    ],
)
def test_the_ceiling_is_the_highest_high_within_the_window(
    ticks: int, spike: int, ceiling: float
) -> None:
    """The window is (now - span, now]: its open end is left out."""
    highs = [9.0] * ticks
    highs[-1 - spike] = 50.0
    assert lines([1.0] * ticks, highs=highs).ceiling == ceiling


@pytest.mark.parametrize(
    ("missing", "late", "ceiling", "reason"),
    [
        pytest.param((), 0, 9.0, None, id="complete"),
        pytest.param((0,), 0, math.inf, Reason.GAP, id="the-newest-is-missing"),
        pytest.param((3,), 0, math.inf, Reason.GAP, id="the-oldest-in-the-window-is-missing"),
        pytest.param((4,), 0, 9.0, None, id="one-before-the-window-is-missing"),
        pytest.param((), 1, math.inf, Reason.GAP, id="one-tick-late"),
    ],
)
def test_a_tick_without_a_sample_leaves_the_ceiling_open(
    missing: tuple[int, ...], late: int, ceiling: float, reason: Reason | None
) -> None:
    """What nobody saw may have been the highest."""
    found = lines([1.0] * 10, missing=missing, late=late)
    assert (found.ceiling, found.ceiling_reason) == (ceiling, reason)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        pytest.param(1, Reason.WARMING_UP, id="one-tick"),
        pytest.param(39, Reason.WARMING_UP, id="one-tick-short"),
        pytest.param(40, None, id="the-whole-window"),
    ],
)
def test_a_window_that_never_was_full_is_warming_up(seen: int, reason: Reason | None) -> None:
    """Ticks from before the first sample are no gap; the fleet is not known for long enough."""
    found = lines([1.0] * seen, in_span=600.0)
    assert found.ceiling_reason is reason
    assert math.isinf(found.ceiling) is (reason is not None)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        pytest.param(39, Reason.WARMING_UP, id="never-full"),
        pytest.param(40, Reason.GAP, id="full-but-for-the-gap"),
    ],
)
def test_a_gap_in_a_full_window_is_no_warm_up(seen: int, reason: Reason) -> None:
    """From the first tick on which the window could be full, what is missing is a gap."""
    assert lines([1.0] * seen, in_span=600.0, missing=[7]).ceiling_reason is reason


def test_what_comes_after_now_moves_neither_line() -> None:
    """Samples after the tick of the decision belong to no window."""
    samples = steady(BUSY, 11, NOW + TICK)
    needs = [*[need(2.0)] * 10, need(7.0, 70.0)]
    found = corridor(samples, needs, NOW, 60.0, 60.0)
    assert (found.floor, found.ceiling, found.in_window.present) == (2.0, 9.0, 4)
    needs = [*[need(2.0)] * 10, need(0.0)]
    assert corridor(samples, needs, NOW, 60.0, 60.0).floor == 2.0


def test_the_ceiling_is_never_below_the_floor() -> None:
    """Where a short window would cross the lines, the ceiling gives way."""
    found = lines([5.0] * 4, highs=[5.0] * 4)
    assert (found.floor, found.ceiling) == (5.0, 5.0)


# --- the floor ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ticks", "low_ones", "floor"),
    [
        pytest.param(1, 1, 0.0, id="the-only-one"),
        pytest.param(4, 1, 0.0, id="1-of-4"),
        pytest.param(10, 1, 0.0, id="1-of-10-is-the-percentile"),
        pytest.param(11, 1, 5.0, id="1-of-11-is-below-it"),
        pytest.param(20, 1, 5.0, id="1-of-20"),
        pytest.param(20, 2, 0.0, id="2-of-20"),
        pytest.param(70, 6, 5.0, id="6-of-70"),
        pytest.param(70, 7, 0.0, id="7-of-70"),
        pytest.param(240, 23, 5.0, id="23-of-240"),
        pytest.param(240, 24, 0.0, id="24-of-240"),
    ],
)
def test_the_floor_is_the_tenth_percentile(ticks: int, low_ones: int, floor: float) -> None:
    """By nearest rank: up to a tenth of the samples, rounded up and less one, may ask for less."""
    lows = [5.0] * ticks
    lows[:low_ones] = [0.0] * low_ones
    samples = [replace(s, scrapes=3) for s in steady(BUSY, ticks)]
    found = corridor(samples, [need(low) for low in lows], NOW, ticks * TICK, TICK)
    assert found.floor == floor


@pytest.mark.parametrize(
    ("newest", "floor"),
    [pytest.param(3.0, 3.0, id="less"), pytest.param(8.0, 5.0, id="more")],
)
def test_the_floor_is_at_most_the_newest_sample(newest: float, floor: float) -> None:
    """An overload that is over asks for nothing, one that is new must last."""
    assert lines([5.0] * 19 + [newest], out_span=300.0).floor == floor


def test_the_floor_looks_back_one_window_only() -> None:
    """A sample exactly one window old no longer lowers the floor; one tick younger it does."""
    assert lines([0.0, 5.0, 5.0, 5.0, 5.0]).floor == 5.0
    assert lines([5.0, 0.0, 5.0, 5.0, 5.0]).floor == 0.0


@pytest.mark.parametrize(
    ("out_span", "least"),
    [
        pytest.param(60.0, 3, id="4-ticks"),
        pytest.param(75.0, 4, id="5-ticks"),
        pytest.param(90.0, 4, id="6-ticks"),
        pytest.param(150.0, 8, id="10-ticks"),
        pytest.param(300.0, 16, id="20-ticks"),
        pytest.param(525.0, 28, id="35-ticks"),
        pytest.param(3600.0, 192, id="240-ticks"),
    ],
)
def test_four_fifths_of_the_ticks_are_enough_for_the_floor(out_span: float, least: int) -> None:
    """At exactly 80 %, rounded down, the window moves; one sample fewer and it does not."""
    ticks = int(out_span / TICK)
    lows = [5.0] * (ticks + 1)
    enough = lines(lows, out_span=out_span, missing=range(1, 1 + ticks - least))
    assert (enough.floor, enough.floor_reason) == (5.0, Reason.SCALE_OUT_QUEUE)
    assert (enough.out_window.present, enough.out_window.ticks) == (least, ticks)
    short = lines(lows, out_span=out_span, missing=range(1, 2 + ticks - least))
    if least > 3:
        assert (short.floor, short.floor_reason) == (0.0, Reason.GAP)


@pytest.mark.parametrize(
    ("ticks", "present", "enough"),
    [(1, 0, False), (1, 1, True), (2, 1, True), (3, 1, False), (3, 2, True), (0, 0, False)],
)
def test_enough_is_at_least_one(ticks: int, present: int, *, enough: bool) -> None:
    """However short a window is, without any sample it moves nothing."""
    window = Window(span=ticks * TICK, ticks=ticks, present=present)
    assert window.enough is enough
    assert window.missing == ticks - present


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (Row.QUEUE, Reason.SCALE_OUT_QUEUE),
        (Row.CONCURRENCY, Reason.SCALE_OUT_CONCURRENCY),
        (Row.KV_CACHE, Reason.SCALE_OUT_KV_CACHE),
        (Row.TTFT, Reason.SCALE_OUT_TTFT),
    ],
)
def test_the_floor_names_the_row_that_sets_it(row: Row, reason: Reason) -> None:
    """The reason is that of the sample which the floor is taken from."""
    others = [need(9.0, row=Row.KV_CACHE if row is not Row.KV_CACHE else Row.TTFT)] * 3
    found = corridor(steady(BUSY, 4), [need(5.0, row=row), *others], NOW, 60.0, 60.0)
    assert (found.floor, found.floor_reason) == (5.0, reason)
    newest = corridor(steady(BUSY, 4), [*others, need(5.0, row=row)], NOW, 60.0, 60.0)
    assert (newest.floor, newest.floor_reason) == (5.0, reason)


def test_a_floor_that_nothing_asks_for_has_no_reason() -> None:
    """Where the floor is 0 on good evidence there is nothing to explain."""
    assert lines([0.0] * 4).floor_reason is None


# --- three distinct scrapes -----------------------------------------------------------------------


def scraped_every(seconds: float, ticks: int, scrapes: int = 1) -> list[Sample]:
    """Return samples that show the newest scrape of a server that scrapes this often."""
    return [
        replace(sample, scraped_at=sample.at // seconds * seconds, scrapes=scrapes)
        for sample in steady(BUSY, ticks)
    ]


@pytest.mark.parametrize(
    ("samples", "out_span", "floor", "span", "reason"),
    [
        pytest.param(
            scraped_every(15, 9), 60.0, 5.0, 60.0, Reason.SCALE_OUT_QUEUE, id="four-in-the-window"
        ),
        pytest.param(
            scraped_every(15, 9), 15.0, 5.0, 45.0, Reason.SCALE_OUT_QUEUE, id="a-window-of-one-tick"
        ),
        pytest.param(
            scraped_every(15, 9, 3), 15.0, 5.0, 15.0, Reason.SCALE_OUT_QUEUE, id="three-in-one-tick"
        ),
        pytest.param(
            scraped_every(60, 9), 60.0, 5.0, 90.0, Reason.SCALE_OUT_QUEUE, id="one-a-minute"
        ),
        pytest.param(
            scraped_every(15, 2), 60.0, 0.0, 60.0, Reason.WARMING_UP, id="two-samples-ever"
        ),
        pytest.param(
            scraped_every(60, 5), 60.0, 0.0, 75.0, Reason.TOO_FEW_SCRAPES, id="two-scrapes-ever"
        ),
        pytest.param(
            scraped_every(3600, 60), 60.0, 0.0, 285.0, Reason.TOO_FEW_SCRAPES, id="one-an-hour"
        ),
    ],
)
def test_the_scale_out_window_holds_three_scrapes(
    samples: list[Sample], out_span: float, floor: float, span: float, reason: Reason
) -> None:
    """The window stretches until it holds three distinct scrapes, up to a limit."""
    found = corridor(samples, [need(5.0)] * len(samples), NOW, out_span, 15.0)
    assert (found.floor, found.floor_reason) == (floor, reason)
    assert found.out_window.span == span
    assert found.out_window.ticks == round(span / TICK)


def test_a_stretched_window_takes_in_what_it_reaches() -> None:
    """The samples that make up the three scrapes count for the floor like all others."""
    samples = scraped_every(60, 9)
    needs = [need(5.0)] * 9
    needs[-6] = need(2.0)
    assert corridor(samples, needs, NOW, 60.0, 15.0).floor == 2.0
    needs[-6], needs[-7] = need(5.0), need(2.0)
    assert corridor(samples, needs, NOW, 60.0, 15.0).floor == 5.0


def test_a_stretched_window_must_be_covered_too() -> None:
    """A scrape from beyond a long gap does not make an overload last."""
    samples = [s for s in steady(BUSY, 12) if s.at > NOW - 30 or s.at <= NOW - 120]
    found = corridor(samples, [need(5.0)] * len(samples), NOW, 30.0, 15.0)
    assert (found.floor, found.floor_reason) == (0.0, Reason.GAP)


def test_without_samples_nothing_is_known() -> None:
    """Nothing ever seen leaves everything open."""
    found = corridor([], [], NOW, 60.0, 600.0)
    assert (found.floor, found.ceiling) == (0.0, math.inf)
    assert (found.floor_reason, found.ceiling_reason) == (Reason.WARMING_UP, Reason.WARMING_UP)
