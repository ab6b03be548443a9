"""How much a step slows for each request beside the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.context import look_back
from scaler.core.learned import Learned
from scaler.core.minutes import MINUTE, Minutes
from scaler.core.need import Row, need_of
from scaler.core.policy import Policy
from scaler.core.slowdown import slowdown
from tests.core.histories import BUSY, NOW, stamped, steady


def remembered(
    *each: float, base: float = 0.02, slope: float = 0.001, waiting: float = 0.0
) -> Minutes:
    """Return minutes of four replicas that ran so much each, on an engine with this step."""
    minutes = Minutes()
    for back, running in zip(reversed(range(len(each))), each, strict=True):
        tokens = 4 * running / (base + slope * running)
        sample = replace(BUSY, running=4 * running, token_rate=tokens, waiting=waiting)
        minutes.keep(stamped(sample, NOW - back * MINUTE))
    return minutes


@pytest.mark.parametrize(
    ("minutes", "found"),
    [
        pytest.param(Minutes(), 0.0, id="nothing-remembered"),
        pytest.param(remembered(*[10.0] * 60), 0.0, id="one-load-has-no-slope"),
        pytest.param(remembered(*[10.0] * 5, *[14.0] * 5), 0.0, id="loads-too-near-each-other"),
        pytest.param(remembered(*[10.0] * 5, *[40.0] * 5), 0.05, id="two-loads"),
        pytest.param(remembered(*[10.0] * 5, *[40.0] * 2), 0.0, id="a-load-seen-twice-only"),
        pytest.param(remembered(*[10.0] * 300, *[40.0] * 3), 0.05, id="rare-loads-count-as-much"),
        pytest.param(
            remembered(*[10.0] * 5, *[40.0] * 5, waiting=4.5), 0.0, id="a-queue-is-not-calm"
        ),
        pytest.param(
            remembered(*[10.0] * 5, *[40.0] * 5, slope=-0.0001), 0.0, id="a-faster-step-is-noise"
        ),
        pytest.param(
            remembered(*[10.0] * 5, *[40.0] * 5, base=0.0), 0.4, id="a-step-always-has-a-base"
        ),
        pytest.param(
            remembered(*[10.0] * 5, *[40.0] * 5, *[25.0] * 361), 0.0, id="after-six-hours-forgotten"
        ),
    ],
)
def test_the_slope_over_the_base(minutes: Minutes, found: float) -> None:
    """A straight line through what the fleet showed under different loads."""
    assert slowdown(minutes, NOW) == pytest.approx(found, abs=1e-9)


def test_an_oversized_fleet_is_seen_through() -> None:
    """Sixteen replicas that run 5 each would, on this engine, not be four that run 20."""
    learned = Learned(saturation=40.0, slowdown=0.05)
    policy = Policy(headroom=0.5)
    oversized = replace(BUSY, serving=16, running=80.0)
    samples = steady(oversized, 21, NOW)
    need = need_of(samples[-1], look_back(samples, 20, 180.0), policy, learned)
    row = next(row for row in need.rows if row.row is Row.CONCURRENCY)
    assert row.low == pytest.approx(80 / 20 * (1 + 0.05 * 20) / (1 + 0.05 * 5))


@given(
    base=st.floats(0.001, 0.1),
    slope=st.floats(0.0001, 0.01),
    fleet=st.integers(1, 40),
)
def test_the_need_does_not_depend_on_the_size_of_the_fleet(
    base: float, slope: float, fleet: int
) -> None:
    """On an engine with such a step, fleets of any size ask for the same count."""
    rho, target = slope / base, 20.0
    wanted = 10.0
    # What `fleet` replicas run in all when ten replicas would run `target` each.
    tokens = wanted * target / (base + slope * target)
    room = fleet - slope * tokens
    if room <= 0.1:
        return
    running = base * tokens * fleet / room
    policy = Policy(concurrency_per_replica=40.0, headroom=0.5)
    samples = steady(replace(BUSY, serving=fleet, running=running), 21, NOW)
    learned = Learned(saturation=40.0, slowdown=rho)
    need = need_of(samples[-1], look_back(samples, 20, 180.0), policy, learned)
    row = next(row for row in need.rows if row.row is Row.CONCURRENCY)
    assert row.low == pytest.approx(wanted, rel=1e-6)
