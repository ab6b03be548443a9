"""How long replicas take to come, by their own timestamps."""

from __future__ import annotations

import random

import pytest

from scaler.core.lead_time import observed_lead_time
from scaler.core.pods import Pod
from tests.core.placing import loading, pod

HOUR = 3600.0


def fleet(*took: float) -> list[Pod]:
    """Return pods that took so long, the first the newest."""
    return [pod(f"p-{i}", took=each, age=HOUR * (i + 1)) for i, each in enumerate(took)]


@pytest.mark.parametrize(
    ("pods", "lead_time"),
    [
        pytest.param([], None, id="no pods"),
        pytest.param([loading("p-0", 50)], None, id="none has ever been Ready"),
        pytest.param(fleet(120.0), 120.0, id="one"),
        pytest.param(fleet(60.0, 60.0, 60.0, 300.0, 300.0, 300.0), 60.0, id="the newest five"),
        pytest.param(fleet(100.0, 200.0, 300.0, 400.0), 250.0, id="an even number"),
        pytest.param(fleet(30.0, 400.0, 400.0), 400.0, id="a warm start among cold ones"),
        pytest.param(fleet(1200.0, 1300.0), 900.0, id="at most fifteen minutes"),
        pytest.param(fleet(120.0, 7200.0), 120.0, id="Ready anew after two hours"),
        pytest.param(fleet(7200.0, 9000.0, 80_000.0), None, id="all Ready anew: nothing is known"),
        pytest.param(fleet(600.0, 7200.0, 9000.0), 600.0, id="all but the newest Ready anew"),
        pytest.param([pod("p-0", took=500.0, restarts=1)], None, id="one that crashed on the way"),
        pytest.param(
            [pod("g-0", took=300.0), pod("g-0-1", replica="g-0", leader=False, took=20.0)],
            300.0,
            id="a group starts when its leader serves",
        ),
        pytest.param([pod("p-0", took=0.0)], None, id="no time at all"),
        pytest.param([pod("p-0", took=90.0, terminating=True)], 90.0, id="one that goes has come"),
    ],
)  # fmt: skip
def test_the_lead_time(pods: list[Pod], lead_time: float | None) -> None:
    """The median of the newest starts that can be believed."""
    assert observed_lead_time(pods) == lead_time


def test_the_order_of_the_pods_says_nothing() -> None:
    """A cluster lists them in any order, and every scaler learns the same."""
    pods = fleet(50.0, 70.0, 90.0, 110.0, 130.0, 150.0, 170.0)
    shuffled = random.Random(3).sample(pods, len(pods))  # noqa: S311 - no secret
    assert observed_lead_time(shuffled) == observed_lead_time(pods) == 90.0
