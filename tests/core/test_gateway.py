"""What a gateway says of a fleet at zero, how long that counts, and what it makes of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.gateway import FRESH_FOR, LATCHED_FOR, Gateway, demand_at_zero, demand_of_waking
from scaler.core.learned import Learned
from scaler.core.policy import Mode, Policy
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK
from scaler.core.workload import Scale
from tests.core.histories import IDLE, NOW, decided, row_of, steady

ZERO = Scale(current=0, max_replicas=10)
EMPTY = Sample(at=NOW, scraped_at=NOW)
SIXTEEN = Learned(saturation=32.0)
"""With half of it kept free a replica carries sixteen requests."""

HALF = Policy(headroom=0.5)


def heard(*answers: tuple[float, float], zero_at: float | None = NOW) -> Gateway:
    """Return a gateway that answered (seconds ago, demand)."""
    known = sorted((NOW - ago, demand) for ago, demand in answers)
    return Gateway(asked=True, answers=tuple(known), zero_at=zero_at)


@pytest.mark.parametrize(
    ("answers", "demand"),
    [
        pytest.param([], None, id="never-answered"),
        pytest.param([(0.0, 0.0)], 0.0, id="nobody-waits"),
        pytest.param([(FRESH_FOR, 0.0)], 0.0, id="nobody-waited-half-a-minute-ago"),
        pytest.param([(FRESH_FOR + 1, 0.0)], None, id="silent-for-longer"),
        pytest.param([(5.0, 3.0)], 3.0, id="three-wait"),
        pytest.param([(10.0, 0.0), (5.0, 1.0), (0.0, 0.0)], 1.0, id="came-and-went"),
        pytest.param([(15.0, 7.0), (5.0, 2.0)], 7.0, id="the-most"),
        pytest.param([(LATCHED_FOR - 1, 1.0)], 1.0, id="just-latched"),
        pytest.param([(LATCHED_FOR, 1.0), (0.0, 0.0)], 0.0, id="no-longer-latched"),
        pytest.param([(LATCHED_FOR, 1.0)], None, id="no-longer-latched-and-silent"),
        pytest.param([(-5.0, 1.0)], 1.0, id="asked-while-a-tick-took-long"),
    ],
)
def test_how_long_an_answer_counts(
    answers: list[tuple[float, float]], demand: float | None
) -> None:
    """Demand is latched for three of KEDA's polls; that nobody waits must be fresh."""
    assert demand_at_zero(heard(*answers), [], NOW) == demand
    found = decided([], scale=ZERO, gateway=heard(*answers))
    assert found.active is (None if demand is None else demand > 0)
    assert found.desired == (1 if demand else 0)
    assert found.demand == demand


def test_samples_and_answers_between_them_count_together() -> None:
    """Whichever of the two saw demand, it is seen."""
    samples = steady(replace(EMPTY, activation=4.0), 1, NOW - TICK)
    assert demand_at_zero(heard((0.0, 0.0)), samples, NOW) == 4.0
    assert demand_at_zero(heard((5.0, 9.0)), samples, NOW) == 9.0


@pytest.mark.parametrize(
    ("demand", "learned", "desired"),
    [
        pytest.param(0.5, SIXTEEN, 1, id="a-little"),
        pytest.param(16.0, SIXTEEN, 1, id="exactly-one-replica's"),
        pytest.param(17.0, SIXTEEN, 2, id="more"),
        pytest.param(1e9, SIXTEEN, 10, id="the-maximum"),
        pytest.param(1e9, Learned(), 1, id="nothing-learned"),
    ],
)
@pytest.mark.parametrize("current", [0, 1])
def test_the_first_answer(demand: float, learned: Learned, desired: int, current: int) -> None:
    """At zero, and once KEDA has made its own first step to one, the same count is asked for."""
    scale = replace(ZERO, current=current, ready=0)
    found = decided(
        [], HALF, scale=scale, learned=learned, gateway=heard((5.0, demand), zero_at=NOW - 2.0)
    )
    assert (found.desired, found.active) == (desired, True)
    assert found.reason is (Reason.WOKEN if desired > current else Reason.LOADING)


@pytest.mark.parametrize("ready", [0, None])
def test_a_backlog_that_grows_while_replicas_load_asks_for_no_more(ready: int | None) -> None:
    """Ten minutes of loading let a queue grow at any rate: the first answer stays the answer."""
    scale = Scale(current=2, max_replicas=20, ready=ready)
    for late in range(0, 600, 15):
        backlog = steady(replace(EMPTY, activation=17.0 + late), late // 15 + 1, NOW + late)
        woken = Gateway(asked=True, answers=((NOW - 5.0, 17.0),), zero_at=NOW - 2.0)
        found = decided(backlog, HALF, scale=scale, learned=SIXTEEN, now=NOW + late, gateway=woken)
        held = ready == 0 or late < HALF.hold_for
        assert (found.desired, found.active) == ((2, True) if held else (None, None))


def test_what_woke_a_fleet_is_no_demand_of_one_that_was_never_at_zero() -> None:
    """Only a fleet that was seen at zero has been woken."""
    assert demand_of_waking(heard((5.0, 3.0), zero_at=None), [], NOW) is None
    assert demand_of_waking(None, [], NOW) is None
    assert demand_of_waking(heard((5.0, 3.0), zero_at=NOW - 6.0), [], NOW) is None


def test_a_fleet_just_woken_is_not_silent_for_as_long_as_it_was_at_zero() -> None:
    """Where nobody looks at pods, the hours at zero are no outage of the source."""
    old = steady(replace(IDLE, serving=1), 4, NOW - 7200)
    silent = decided(old, scale=Scale(current=1))
    assert (silent.desired, silent.reason) == (None, Reason.SILENT_TOO_LONG)
    woken = decided(old, scale=Scale(current=1), gateway=heard(zero_at=NOW - 100.0))
    assert (woken.desired, woken.active) == (1, True)
    assert woken.reason is Reason.SOURCE_SILENT
    assert woken.silent_for == 100.0


@pytest.mark.parametrize(
    ("activations", "active"),
    [
        pytest.param([0.0] * 40, False, id="answered-throughout"),
        pytest.param([0.0] * 39 + [1.0], True, id="somebody-waits"),
        pytest.param([1.0] + [0.0] * 39, True, id="somebody-waited"),
        pytest.param([0.0] * 20 + [None] + [0.0] * 19, True, id="one-answer-missing"),
        pytest.param([None] * 40, True, id="never-answered"),
    ],
)
def test_a_gateway_that_is_asked_must_say_that_nobody_waits(
    activations: Sequence[float | None], *, active: bool
) -> None:
    """Engines look idle while the gateway holds requests: who goes to zero asks it first."""
    idle = replace(IDLE, serving=1)
    samples = row_of(*[replace(idle, activation=activation) for activation in activations])
    scale = Scale(current=1, min_replicas=0)
    assert decided(samples, scale=scale, gateway=Gateway(asked=True)).active is active


@pytest.mark.parametrize("current", [0, 1])
def test_advice_never_acts(current: int) -> None:
    """KEDA takes an inactive fleet to zero and an active one from it: advice does neither."""
    policy = Policy(mode=Mode.ADVISE)
    samples = steady(replace(IDLE, serving=current, activation=3.0 if current == 0 else 0.0), 60)
    found = decided(samples, policy, scale=Scale(current=current, min_replicas=0))
    assert (found.desired, found.active) == (current, current > 0)


def test_advice_on_waking_is_published_and_not_given() -> None:
    """Once something else has woken the fleet, the count stays its."""
    policy = replace(HALF, mode=Mode.ADVISE)
    gateway = heard((5.0, 40.0), zero_at=NOW - 2.0)
    scale = Scale(current=1, max_replicas=9, ready=0)
    found = decided([], policy, scale=scale, learned=SIXTEEN, gateway=gateway)
    assert (found.desired, found.advised) == (1, 3)


@pytest.mark.parametrize(("demand", "active"), [(3.0, True), (0.0, None)])
def test_demand_counts_even_where_the_count_is_not_known(
    demand: float, *, active: bool | None
) -> None:
    """Somebody waits, so the fleet must not be at zero; that nobody waits says nothing of it."""
    found = decided([], scale=None, gateway=heard((5.0, demand), zero_at=None))
    assert (found.desired, found.active) == (None, active)
    advising = decided([], Policy(mode=Mode.ADVISE), scale=None, gateway=heard((5.0, demand)))
    assert advising.active is None


ANSWERS = st.lists(
    st.tuples(st.integers(0, 40).map(lambda back: back * 5.0), st.sampled_from([0.0, 0.5, 30.0])),
    max_size=12,
)


@given(ANSWERS, st.integers(0, 20).map(lambda late: late * 5.0))
def test_silence_never_adds_and_never_takes_away(
    answers: list[tuple[float, float]], late: float
) -> None:
    """As time goes by unanswered, demand turns into not knowing, never into idleness."""
    now, then = (
        decided([], scale=ZERO, gateway=heard(*answers), now=NOW + more).active
        for more in (0.0, late)
    )
    if then is True:
        assert now is True
    if then is False:
        assert now is not None
    if now is None:
        assert then is None


@given(ANSWERS, ANSWERS)
def test_more_answers_of_nobody_waiting_hide_no_demand(
    answers: list[tuple[float, float]], zeros: list[tuple[float, float]]
) -> None:
    """A demand that was seen once is not outvoted."""
    found = decided([], scale=ZERO, gateway=heard(*answers)).active
    more = heard(*answers, *((ago, 0.0) for ago, _ in zeros))
    if found:
        assert decided([], scale=ZERO, gateway=more).active
