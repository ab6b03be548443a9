"""No odd pod freezes a workload: what is decided while replicas do not come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.policy import Signal
from scaler.core.reasons import Reason
from scaler.core.workload import Scale
from tests.core.histories import BUSY, IDLE, QUEUEING, decided, only, steady

KV = only(Signal.KV_CACHE)
HALF_EMPTY = replace(BUSY, kv_cache=0.3)
"""Four serving replicas that need two to three."""


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


def test_growth_is_not_held_up_by_a_crash_loop() -> None:
    """What queues at those that serve asks for more than the count with those that do not."""
    sample = replace(QUEUEING, serving=3, queued=3, waiting=900.0, overdue=2)
    decision = decided(steady(sample, 60), scale=Scale(current=5))
    assert decision.desired is not None
    assert decision.desired > 5


def test_an_idle_fleet_shrinks_beside_a_crash_loop_and_sleeps_without_it() -> None:
    """Kubernetes takes the one first that is not Ready; until then nobody knows what it was at."""
    beside = decided(steady(replace(IDLE, overdue=1), 60), scale=Scale(current=5))
    assert (beside.desired, beside.active) == (1, True)
    without = decided(steady(IDLE, 60), scale=Scale(current=4))
    assert (without.desired, without.active) == (1, False)
