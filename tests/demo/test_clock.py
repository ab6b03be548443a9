"""The demo's clock."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.units import TICK
from scaler.demo.clock import FastClock, after_next_tick
from scaler.demo.errors import SpeedInvalid


@pytest.mark.parametrize("speed", [0.0, -1.0, 60.1, math.inf, math.nan])
def test_an_impossible_speed_is_refused(speed: float) -> None:
    """Time neither stands still, nor runs backwards or faster than a busy machine can follow."""
    with pytest.raises(SpeedInvalid, match="above 0 and at most 60"):
        FastClock(speed)


async def test_a_sleeper_never_wakes_early() -> None:
    """Whoever sleeps until an instant finds the clock at or past it."""
    clock = FastClock(60.0)
    for instant in (clock.now() - 5.0, clock.now() + 0.3, clock.now() + 1.0):
        await clock.sleep_until(instant)
        assert clock.now() >= instant


@pytest.mark.parametrize(
    ("now", "expected"),
    [(0.0, 4.0), (3.9, 4.0), (4.0, 19.0), (14.0, 19.0), (18.9, 19.0), (19.0, 34.0)],
)
def test_the_instant_after_the_next_tick(now: float, expected: float) -> None:
    """Four seconds after each tick, and never the same instant twice."""
    assert after_next_tick(now, 4.0) == expected


@given(
    now=st.floats(0, 4e9, allow_nan=False),
    delay=st.floats(0, 14.0, allow_nan=False),
)
def test_the_next_instant_is_ahead_and_near(now: float, delay: float) -> None:
    """Whatever the time, the wait is longer than nothing and at most a tick."""
    wait = after_next_tick(now, delay) - now
    assert 0.0 < wait <= TICK + 1e-6
