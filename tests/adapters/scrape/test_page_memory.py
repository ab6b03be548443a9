"""What is remembered of one page: counters over the window, resets, and what must be forgotten."""

from __future__ import annotations

import math
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.exposition import ExpositionInvalid
from scaler.adapters.page_memory import (
    FORGOTTEN_AFTER,
    MOST_MODELS,
    Group,
    Model,
    Place,
    Totals,
    place_of,
    remember,
)
from scaler.adapters.vllm import Signal


def recorded(*scrapes: tuple[float, float]) -> Totals:
    """Record one counter at some times."""
    totals = Totals()
    for at, value in scrapes:
        totals.record(at, {"tokens": value})
    return totals


def growth(totals: Totals) -> dict[Hashable, float]:
    """Return each counter's growth."""
    return dict(totals.grown())


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=24), st.data())
def test_growth_is_what_was_added_whatever_was_reset(steps: list[int], data: st.DataObject) -> None:
    """Within the window the growth is the sum of all that was counted, restarts included."""
    totals, shown, added = Totals(), 0.0, 0.0
    totals.record(0.0, {"tokens": 0.0})
    for number, step in enumerate(steps):
        # Only a restart after which less was counted than before can be told from the page.
        if step < shown and data.draw(st.booleans(), label="restarted"):
            shown = 0.0
        shown += step
        added += step
        totals.record(5.0 * (number + 1), {"tokens": shown})
    assert growth(totals) == {"tokens": added}
    assert totals.span() == 5.0 * len(steps)


def test_the_window_slides() -> None:
    """After a long time the growth is that of the newest two minutes."""
    totals = recorded(*((5.0 * n, 10.0 * n) for n in range(200)))
    assert totals.span() == 120.0
    assert growth(totals) == {"tokens": 240.0}


def test_growth_across_a_long_silence_is_not_the_windows() -> None:
    """What happened at some time within ten minutes says nothing about the last two."""
    totals = recorded((0.0, 0.0), (5.0, 1.0), (600.0, 500.0))
    assert (totals.span(), growth(totals)) == (0.0, {"tokens": 0.0})
    totals.record(605.0, {"tokens": 510.0})
    assert (totals.span(), growth(totals)) == (5.0, {"tokens": 10.0})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_a_value_that_no_counter_has_changes_nothing(value: float) -> None:
    """A broken value is neither growth nor a reset."""
    assert growth(recorded((0.0, 100.0), (5.0, value), (10.0, 110.0))) == {"tokens": 10.0}


def test_a_counter_that_appears_later_counts_from_its_first_value() -> None:
    """What it had counted before anybody looked was not counted within the window."""
    totals = recorded((0.0, 5.0))
    totals.record(5.0, {"tokens": 6.0, "late": 1000.0})
    totals.record(10.0, {"tokens": 7.0, "late": 1003.0})
    assert growth(totals) == {"tokens": 2.0, "late": 3.0}


def test_counters_that_are_no_longer_shown_are_forgotten() -> None:
    """Labels that change all the time do not fill the memory, and nothing else is disturbed."""
    totals = Totals()
    for number in range(1000):
        totals.record(5.0 * number, {"stays": 2.0 * number, f"passes-{number}": 1.0})
    assert len(growth(totals)) <= 1 + 2 * FORGOTTEN_AFTER / 5.0
    assert growth(totals)["stays"] == 48.0
    assert totals.newest("stays") == 1998.0
    assert totals.newest("passes-0") is None


def sample(name: str, value: float, **labels: str) -> tuple[Place, float]:
    """Place a series' value."""
    place = place_of(name, labels)
    assert place is not None
    return place, value


def test_a_model_that_left_its_page_is_forgotten() -> None:
    """A pod that was started again with another model is not missed as the old one for ever."""
    models: dict[Group, Model] = {}
    remember(models, [sample("vllm:generation_tokens_total", 1.0, model_name="old")], 0.0)
    at = 0.0
    while at < FORGOTTEN_AFTER:
        at += 5.0
        remember(models, [sample("vllm:generation_tokens_total", 1.0, model_name="new")], at)
    assert len(models) == 2
    remember(models, [sample("vllm:generation_tokens_total", 1.0, model_name="new")], at + 5.0)
    assert list(models) == [(("model_name", "new"),)]


def test_a_page_with_endless_models_is_refused() -> None:
    """A label that changes with every request is no model."""
    page = [
        sample("vllm:generation_tokens_total", 1.0, model_name="m", request=str(number))
        for number in range(MOST_MODELS + 1)
    ]
    models: dict[Group, Model] = {}
    with pytest.raises(ExpositionInvalid, match="over 256 models"):
        remember(models, page, 0.0)
    assert not models


def test_rates_add_up_engines_and_reasons() -> None:
    """Two engines' tokens, and rejections for two reasons, are each one rate."""
    models: dict[Group, Model] = {}
    for at, count in ((0.0, 0.0), (10.0, 30.0)):
        remember(
            models,
            [
                sample("vllm:generation_tokens_total", count, model_name="m", engine="0"),
                sample("vllm:generation_tokens_total", 2 * count, model_name="m", engine="1"),
                sample("vllm:admission_rejections_total", count, model_name="m", reason="a"),
                sample("vllm:admission_rejections_total", count, model_name="m", reason="b"),
            ],
            at,
        )
    (model,) = models.values()
    assert model.rates() == {Signal.TOKENS: 9.0, Signal.REJECTIONS: 6.0}


def test_models_that_are_others_at_each_scrape_are_refused_and_forgotten() -> None:
    """Their number is bounded over time, too, and a page that recovers is read again."""
    models: dict[Group, Model] = {}

    def shown(name: object) -> list[tuple[Place, float]]:
        place = place_of("vllm:num_requests_running", {"engine": "0", "model_name": f"m{name}"})
        assert place is not None
        return [(place, 1.0)]

    for number in range(MOST_MODELS):
        remember(models, shown(number), 0.001 * number)
    with pytest.raises(ExpositionInvalid, match="models"):
        remember(models, shown("one too many"), 1.0)
    assert len(models) == MOST_MODELS
    remember(models, shown("new"), 1000.0)
    assert len(models) == 1


def test_counters_that_are_others_at_each_scrape_are_refused_and_forgotten() -> None:
    """A label that changes with every request does not fill the memory of the scaler."""
    models: dict[Group, Model] = {}

    def shown(scrape: int) -> list[tuple[Place, float]]:
        names = [f"{scrape}-{number}" for number in range(5000)]
        labels = [{"engine": name, "model_name": "m"} for name in names]
        places = [place_of("vllm:generation_tokens_total", each) for each in labels]
        return [(place, 1.0) for place in places if place is not None]

    for scrape in range(4):
        remember(models, shown(scrape), 5.0 * scrape)
    with pytest.raises(ExpositionInvalid, match="change"):
        remember(models, shown(4), 20.0)
    remember(models, shown(99), 1000.0)
    assert len(dict(next(iter(models.values())).totals.grown())) == 5000
