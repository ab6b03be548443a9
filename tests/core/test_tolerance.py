"""The counts that an HPA with a tolerance obeys."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.reasons import Reason
from scaler.core.tolerance import obeyed
from scaler.core.workload import Scale
from tests.core.histories import scales

RAISED, HELD = Reason.TOLERANCE_ROUNDED_UP, Reason.TOLERANCE_HELD


def hpa(value: int, scale: Scale) -> int:
    """Return what the HPA makes of a value with target 1, written down apart from the core."""
    lowest, highest = max(1, scale.min_replicas), scale.max_replicas or math.inf
    if not lowest <= scale.current <= highest:
        return int(min(highest, max(lowest, scale.current)))
    ratio = value / scale.current
    if 1 - scale.tolerance_in <= ratio <= 1 + scale.tolerance_out:
        return scale.current
    return int(min(highest, max(lowest, value)))


@pytest.mark.parametrize(
    ("current", "aimed", "answer", "reason"),
    [
        pytest.param(9, 10, 10, None, id="9-out: a ninth is beyond a tenth"),
        pytest.param(10, 11, 12, RAISED, id="10-out: exactly a tenth is swallowed"),
        pytest.param(10, 12, 12, None, id="10-out-by-2"),
        pytest.param(11, 12, 13, RAISED, id="11-out"),
        pytest.param(20, 21, 23, RAISED, id="20-out-by-1"),
        pytest.param(20, 22, 23, RAISED, id="20-out-by-2: exactly a tenth"),
        pytest.param(20, 23, 23, None, id="20-out-by-3"),
        pytest.param(100, 101, 111, RAISED, id="100-out-by-1"),
        pytest.param(100, 110, 111, RAISED, id="100-out-by-10: a tenth in doubles"),
        pytest.param(9, 8, 8, None, id="9-in: a ninth is beyond a tenth"),
        pytest.param(10, 9, 10, HELD, id="10-in: exactly a tenth is swallowed"),
        pytest.param(10, 8, 8, None, id="10-in-by-2"),
        pytest.param(11, 10, 11, HELD, id="11-in"),
        pytest.param(20, 18, 20, HELD, id="20-in-by-2: exactly a tenth"),
        pytest.param(20, 17, 17, None, id="20-in-by-3"),
        pytest.param(100, 90, 100, HELD, id="100-in-by-10: exactly a tenth"),
        pytest.param(100, 89, 89, None, id="100-in-by-11"),
        pytest.param(1, 2, 2, None, id="one-replica-out"),
        pytest.param(10, 10, 10, None, id="no-step"),
    ],
)
def test_steps_at_a_tenth(current: int, aimed: int, answer: int, reason: Reason | None) -> None:
    """Steps up are raised to the first count that is obeyed, steps down inside are not taken."""
    scale = Scale(current=current, tolerance_out=0.1, tolerance_in=0.1)
    assert obeyed(aimed, scale) == (answer, reason)


@pytest.mark.parametrize("aimed", [99, 101])
def test_without_tolerance_every_step_is_obeyed(aimed: int) -> None:
    """A tolerance of 0 lets a single replica of a hundred through."""
    assert obeyed(aimed, Scale(current=100)) == (aimed, None)


def test_each_direction_has_a_tolerance_of_its_own() -> None:
    """A tolerance for steps up says nothing about steps down, and the other way round."""
    assert obeyed(19, Scale(current=20, tolerance_out=0.1)) == (19, None)
    assert obeyed(21, Scale(current=20, tolerance_in=0.1)) == (21, None)


def test_a_step_that_the_maximum_keeps_inside_the_tolerance_is_not_claimed() -> None:
    """Where max lies inside the tolerance no answer moves the HPA, and none pretends to."""
    assert obeyed(21, Scale(current=20, max_replicas=22, tolerance_out=0.1)) == (20, HELD)
    assert obeyed(21, Scale(current=20, max_replicas=23, tolerance_out=0.1)) == (23, RAISED)


@pytest.mark.parametrize(
    ("scale", "aimed"),
    [
        pytest.param(
            Scale(current=21, max_replicas=20, tolerance_in=0.1), 20, id="one above the maximum"
        ),
        pytest.param(
            Scale(current=20, min_replicas=21, tolerance_out=0.1), 21, id="one below the minimum"
        ),
    ],
)
def test_a_count_outside_its_bounds_comes_back_whatever_the_tolerance(
    scale: Scale, aimed: int
) -> None:
    """The HPA brings a count back to its bound without asking for metrics."""
    assert obeyed(aimed, scale) == (aimed, None)


def test_a_tolerance_without_end_ends() -> None:
    """A tolerance that swallows everything is answered with the count, not searched for ever."""
    assert obeyed(6, Scale(current=5, tolerance_out=math.inf)) == (5, HELD)


@given(scales(tolerances=(0.0, 0.05, 0.1, 0.3, 2.0)), st.integers(1, 200))
def test_every_answer_is_obeyed_or_the_count(scale: Scale, wanted: int) -> None:
    """The HPA does what the answer says, or the answer is what there is already."""
    aimed = scale.within_bounds(wanted)
    answer, reason = obeyed(aimed, scale)
    assert answer == scale.within_bounds(answer) or answer == scale.current
    if scale.within_bounds(scale.current) != scale.current:
        assert (answer, reason) == (aimed, None)
        return
    assert hpa(answer, scale) == answer
    assert (reason is None) == (answer == aimed)
    if aimed > scale.current and answer != aimed:
        between = range(aimed, answer if reason is RAISED else scale.within_bounds(math.inf) + 1)
        assert all(hpa(count, scale) == scale.current for count in between)
    if aimed < scale.current and answer != aimed:
        assert hpa(aimed, scale) == answer == scale.current
