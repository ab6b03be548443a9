"""No odd pod freezes a workload: what is decided while replicas do not come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.policy import Signal
from scaler.core.reasons import Reason
from scaler.core.workload import Scale
from tests.core.histories import BUSY, IDLE, decided, only, steady

KV = only(Signal.KV_CACHE)
HALF_EMPTY = replace(BUSY, kv_cache=0.3)
"""Four serving replicas that need two to three."""
FULL = replace(BUSY, kv_cache=0.85)
"""Four serving replicas that are just enough."""


@pytest.mark.parametrize(
    ("current", "overdue", "desired"),
    [
        pytest.param(5, 0, 3, id="one that comes is kept beside what is needed"),
        pytest.param(5, 1, 2, id="one that is overdue is not"),
        pytest.param(6, 1, 3, id="one of each"),
        pytest.param(12, 0, 12, id="mostly coming: nothing is given up"),
        pytest.param(12, 8, 2, id="mostly overdue: the rest decides"),
    ],
)
def test_a_replica_that_is_overdue_keeps_nothing(current: int, overdue: int, desired: int) -> None:
    """Only those that still count as coming widen the corridor."""
    sample = replace(HALF_EMPTY, overdue=overdue)
    decision = decided(steady(sample, 60), KV, scale=Scale(current=current))
    assert decision.desired == desired
    assert (Reason.OVERDUE in decision.notes) == (overdue > 0)


@pytest.mark.parametrize(
    ("current", "overdue", "failing", "desired"),
    [
        pytest.param(4, 0, 0, 4, id="all serve"),
        pytest.param(5, 1, 0, 5, id="one has no node: another would have none either"),
        pytest.param(5, 1, 1, 5, id="one fails, and there is one more than needed"),
        pytest.param(4, 1, 1, 4, id="one too many fails in a rollout"),
        pytest.param(7, 3, 3, 7, id="three fail beside four that serve"),
    ],
)
def test_a_replica_that_fails_takes_a_place(
    current: int, overdue: int, failing: int, desired: int
) -> None:
    """Demand for four needs four that serve, however many fail beside them."""
    sample = replace(FULL, overdue=overdue, failing=failing)
    decision = decided(steady(sample, 60), KV, scale=Scale(current=current))
    assert decision.desired == desired


def test_growth_is_not_held_up_by_a_crash_loop() -> None:
    """Three serve and two crash; demand for five gets seven, and no more however long it lasts."""
    sample = replace(FULL, serving=3, kv_cache=1.4 * 0.85, overdue=2, failing=2)
    decision = decided(steady(sample, 60), KV, scale=Scale(current=5))
    assert decision.desired == 7
    worse = replace(sample, overdue=90, failing=90)
    decision = decided(steady(worse, 60), KV, scale=Scale(current=95))
    assert decision.floor == 9


def test_an_idle_fleet_may_go_to_sleep_beside_a_crash_loop() -> None:
    """Idleness is proven by those that serve."""
    sample = replace(IDLE, overdue=1, failing=1)
    decision = decided(steady(sample, 60), scale=Scale(current=5))
    assert (decision.desired, decision.active) == (1, False)
