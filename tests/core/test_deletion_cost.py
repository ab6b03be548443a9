"""Which pods get which deletion cost: worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.decision import Decision
from scaler.core.deletion_cost import changes, cost_of, is_ours, leaving
from scaler.core.learned import Learned
from scaler.core.need import Need
from scaler.core.pods import Pod
from scaler.core.policy import Mode, Policy
from scaler.core.reading import ReplicaReading
from scaler.core.reasons import Reason
from scaler.core.workload import Scale
from tests.core.histories import NOW
from tests.core.illness import pod, replica

POLICY = Policy(scale_in_window=600.0)
SCALE = Scale(current=8, min_replicas=2, max_replicas=20)
CALM = Decision(
    at=NOW,
    current=8,
    desired=8,
    advised=8,
    reason=Reason.SCALE_IN_PENDING,
    need=Need(low=0.0, high=4.2),
    learned=Learned(lead_time=180.0),
    calm_for=540.0,
)
"""Eight replicas that for nine of ten minutes have needed five."""


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, 3),
        ({"calm_for": 525.0}, 0),
        ({"calm_for": 600.0}, 3),
        ({"calm_for": 0.0}, 0),
        ({"need": Need(low=0.0, high=float("inf"))}, 0),
        ({"need": None}, 0),
        # An idle fleet keeps its minimum.
        ({"need": Need(low=0.0, high=0.0)}, 6),
        ({"need": Need(low=0.0, high=8.0)}, 0),
        # Under way: what is asked for, whatever calm says.
        ({"desired": 5}, 3),
        ({"desired": 5, "calm_for": 0.0, "need": None}, 3),
        ({"desired": 9}, 0),
        ({"desired": None}, 0),
        ({"current": None}, 0),
    ],
)
def test_how_many_are_about_to_go(changed: Mapping[str, object], expected: int) -> None:
    """In the last minute of the window as many as calm gives up, then as many as are asked."""
    decision = replace(CALM, **changed)  # type: ignore[arg-type]
    assert leaving(POLICY, decision, SCALE) == expected


def test_who_only_advises_marks_nothing() -> None:
    """What is not asked for does not come; nor is anything near while the bounds are unknown."""
    advising = replace(POLICY, mode=Mode.ADVISE)
    assert leaving(advising, replace(CALM, desired=5), SCALE) == 0
    assert leaving(POLICY, CALM, None) == 0


def test_the_window_is_never_shorter_than_two_lead_times() -> None:
    """Near is told from the window that is in force, not from the one that was written."""
    slow = replace(CALM, learned=Learned(lead_time=400.0))
    assert leaving(POLICY, slow, SCALE) == 0
    assert leaving(POLICY, replace(slow, calm_for=740.0), SCALE) == 3


@pytest.mark.parametrize(
    ("requests", "cost"),
    [
        (0.0, -1000),
        (0.2, -999),
        (1.0, -999),
        (2.0, -998),
        (3.0, -998),
        (4.0, -997),
        (7.0, -997),
        (8.0, -996),
        (64.0, -993),
        (1e30, -936),
        (-1.0, -1000),
    ],
)
def test_a_cost_grows_by_one_with_each_doubling(requests: float, cost: int) -> None:
    """Small changes of the load change no annotation, and every cost is known as ours."""
    assert cost_of(requests) == cost
    assert is_ours(cost)


@pytest.mark.parametrize("cost", [None, 0, -1, 100, -1001, -935, 2147483647])
def test_other_costs_are_not_ours(cost: int | None) -> None:
    """What a person or another controller wrote is told apart from what we write."""
    assert not is_ours(cost)


def busy(**running: float) -> tuple[ReplicaReading, ...]:
    """Return replicas that run so many requests, by pod."""
    return tuple(replica(name, running=count) for name, count in running.items())


LOADS = busy(a=0.0, b=3.0, c=9.0, d=40.0)


def there(*names: str, **costs: int) -> tuple[Pod, ...]:
    """Return Ready pods of these names, and more that have a cost."""
    plain = [pod(name) for name in names]
    return (*plain, *(pod(name, deletion_cost=cost) for name, cost in costs.items()))


@pytest.mark.parametrize(
    ("pods", "count", "expected"),
    [
        (there("a", "b", "c", "d"), 0, {}),
        (there("a", "b", "c", "d"), 1, {"a": -1000}),
        (there("a", "b", "c", "d"), 2, {"a": -1000, "b": -998}),
        (there("a", "b", "c", "d"), 9, {"a": -1000, "b": -998, "c": -996, "d": -994}),
        # On change only.
        (there("b", "c", "d", a=-1000), 1, {}),
        (there("b", "c", "d", a=-990), 1, {"a": -1000}),
        # No longer chosen, or nobody goes any more.
        (there("a", "b", "c", d=-994), 1, {"a": -1000, "d": None}),
        (there("b", "c", a=-1000, d=-994), 0, {"a": None, "d": None}),
        # What somebody else wrote is neither changed nor taken away.
        (there("b", "c", "d", a=-5), 1, {"b": -998}),
        (there("b", "c", "d", a=7), 0, {}),
        # Who does not report is not called idle.
        (there("x", "b", "c", "d"), 1, {"b": -998}),
        ((), 3, {}),
    ],
)
def test_the_least_busy_go_first(
    pods: tuple[Pod, ...], count: int, expected: dict[str, int | None]
) -> None:
    """As many as go get a cost, the idle one the lowest; nothing else is written."""
    assert changes(pods, LOADS, count) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # The controller removes it first by itself: it is one of those that go.
        ({"ready": False}, {}),
        # It is going already, and its place was counted out.
        ({"terminating": True}, {"b": -998}),
    ],
)
def test_pods_that_go_anyway_are_counted(
    changed: Mapping[str, object], expected: dict[str, int | None]
) -> None:
    """A pod that is not Ready spares a mark; one that ends is no candidate."""
    first = replace(pod("a"), **changed)  # type: ignore[arg-type]
    assert changes((first, pod("b"), pod("c"), pod("d")), LOADS, 1) == expected


def test_waiting_requests_would_be_cut_off_too() -> None:
    """A replica with a queue has more to lose than one that only runs."""
    loads = (replica("a", running=4.0, waiting=60.0), replica("b", running=20.0))
    assert changes(there("a", "b"), loads, 1) == {"b": -995}


def test_a_stalled_or_sleeping_replica_has_nothing_to_lose() -> None:
    """Requests at an engine that makes no token are lost anyway."""
    loads = (replica("a", running=90.0, token_rate=0.0), replica("b", running=1.0))
    assert changes(there("a", "b"), loads, 1) == {"a": -1000}
    asleep = (replica("a", running=90.0, asleep=True), replica("b", running=1.0))
    assert changes(there("a", "b"), asleep, 1) == {"a": -1000}


def test_whoever_was_chosen_stays_chosen_among_equals() -> None:
    """Loads of the same magnitude change places all the time, and nothing is written for it."""
    loads = busy(a=5.0, b=4.0)
    assert changes(there("b", a=-997), loads, 1) == {}
    assert changes(there("b", a=-997), busy(a=8.0, b=4.0), 1) == {"a": None, "b": -997}


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6), st.sampled_from([None, None, 0, -7, -1000, -995]), st.booleans()
        ),
        max_size=8,
    ),
    st.integers(0, 9),
)
def test_what_is_written_is_never_written_twice(
    fleet: list[tuple[float, int | None, bool]], count: int
) -> None:
    """Once the costs are there nothing is to be written, and at most `count` are chosen."""
    pods = [
        pod(f"p{index}", deletion_cost=cost, ready=ready)
        for index, (_, cost, ready) in enumerate(fleet)
    ]
    loads = [replica(f"p{index}", running=load) for index, (load, _, _) in enumerate(fleet)]
    written = changes(pods, loads, count)
    after = [
        replace(each, deletion_cost=written.get(each.name, each.deletion_cost)) for each in pods
    ]
    assert changes(after, loads, count) == {}
    assert sum(is_ours(each.deletion_cost) for each in after) <= count
    others = {p.name for p in pods if p.deletion_cost is not None and not is_ours(p.deletion_cost)}
    assert not others & written.keys()
