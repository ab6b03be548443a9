"""Settings are drawn within bounds, screened over the cores, and the best are chosen."""

from __future__ import annotations

from functools import cache

import pytest

from scaler.core.policy import Policy
from scaler.tuning.closed_loop import record_of_world
from scaler.tuning.record import Record
from scaler.tuning.search import KNOBS, Screened, changed, front, screen_all, settings
from tests.tuning.fleets import small_world


@cache
def spiky() -> Record:
    """Record an hour of spikes."""
    return record_of_world(small_world("spike", load=0.4, start_up=120.0, hours=1.0), Policy())


def screened(policies: list[Policy], jobs: int = 1) -> list[Screened]:
    """Screen without progress."""
    return screen_all(spiky(), Policy(), policies, 2.0, jobs=jobs, progress=lambda _, __: None)


def test_settings_cover_each_range_evenly_and_come_from_the_seed() -> None:
    """A quarter of them lies in each quarter of each range; a Low stays below its High."""
    drawn = settings(Policy(), 200, seed=1)
    assert drawn == settings(Policy(), 200, seed=1) != settings(Policy(), 200, seed=2)
    for name, knob in KNOBS.items():
        values = [getattr(policy, name) for policy in drawn]
        assert knob.low <= min(values) <= max(values) <= knob.high
        below = sum(value < knob.at(0.5) for value in values)
        assert 0.3 < below / len(values) < 0.7
    for policy in drawn:
        assert policy.waiting_low < policy.waiting_high
        assert policy.ttft_p95_low < policy.ttft_p95_high
        assert policy.kv_cache_low < policy.kv_cache_high


def test_more_headroom_costs_more_and_is_short_less_often() -> None:
    """The screening's figures go the way that they should."""
    lean, rich = screened([changed(Policy(), {"headroom": share}) for share in (0.0, 0.7)])
    assert lean.replica_hours < rich.replica_hours
    assert lean.short >= rich.short


def test_processes_find_what_one_finds() -> None:
    """Whatever the number of jobs, in the order of the settings."""
    policies = list(settings(Policy(), 4, seed=1))
    assert screened(policies, jobs=2) == screened(policies)


def test_an_interrupt_keeps_what_was_found() -> None:
    """After the third of six, three are kept."""

    def interrupt(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    policies = settings(Policy(), 6, seed=1)
    found = screen_all(spiky(), Policy(), policies, 2.0, jobs=1, progress=interrupt)
    assert [each.policy for each in found] == list(policies[:3])


@pytest.mark.parametrize(
    ("most", "expected"),
    [(3, [(1, 0.5), (2, 0.2), (4, 0.1)]), (2, [(1, 0.5), (4, 0.1)]), (9, None)],
)
def test_the_best_are_those_that_none_beats(
    most: int, expected: list[tuple[float, float]] | None
) -> None:
    """A layer that does not fit is thinned, its ends kept; then the next layer follows."""
    points = [(1, 0.5), (2, 0.2), (3, 0.3), (4, 0.1), (5, 0.1)]
    given = [Screened(policy=Policy(), replica_hours=h, short=s) for h, s in points]
    chosen = [(each.replica_hours, each.short) for each in front(given, most)]
    assert sorted(chosen) == (points if expected is None else expected)
