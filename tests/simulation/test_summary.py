"""What a matrix comes to: sums by hand, who dominates whom, and what is saved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.simulation.report import Row
from scaler.simulation.results import Result
from scaler.simulation.summary import Overall, dominated, overall, saved_hours, write_summary

RESULT = Result(
    policy="corridor",
    slo_attainment=0.9,
    replica_hours=10.0,
    ttft_p50=None,
    ttft_p95=None,
    ttft_p99=None,
    tpot_p95=None,
    bound_hours=5.0,
    scale_events=4,
    direction_changes=1,
    preemptions=0,
    rejected=0,
    cut_off=0,
    given_up=3,
    unfinished=0,
    arrived=100,
    most_replicas=7,
)


def row(scenario: str, policy: str, attained: float, hours: float) -> Row:
    """Return a result that differs in these alone."""
    result = replace(RESULT, policy=policy, slo_attainment=attained, replica_hours=hours)
    return Row(scenario=scenario, result=result)


def test_a_policy_is_put_together_over_its_scenarios() -> None:
    """Attainment is a mean in which each scenario counts alike; hours and events are sums."""
    rows = [row("a", "corridor", 0.9, 10.0), row("b", "corridor", 0.7, 2.5)]
    (found,) = overall(rows)
    assert (found.policy, found.scenarios) == ("corridor", 2)
    assert found.slo_attainment == pytest.approx(0.8)
    assert found.misses == pytest.approx(0.2)
    assert (found.replica_hours, found.bound_hours) == (12.5, 10.0)
    assert (found.scale_events, found.direction_changes, found.given_up) == (8, 2, 6)


def test_only_scenarios_that_all_have_run_count() -> None:
    """A peer that has not run a scenario is not compared on it, nor is anybody else."""
    rows = [
        row("a", "corridor", 0.9, 10.0),
        row("a", "peer", 0.8, 20.0),
        row("b", "corridor", 0.1, 99.0),
    ]
    assert [(o.policy, o.replica_hours) for o in overall(rows)] == [
        ("corridor", 10.0),
        ("peer", 20.0),
    ]
    assert overall([row("a", "corridor", 0.9, 1.0), row("b", "peer", 0.9, 1.0)]) == []
    assert overall([]) == []


def test_a_bound_that_is_missing_once_is_not_known_in_all() -> None:
    """A sum over some of the scenarios would be too low."""
    rows = [row("a", "corridor", 0.9, 1.0), row("b", "corridor", 0.9, 1.0)]
    rows[1] = replace(rows[1], result=replace(rows[1].result, bound_hours=None))
    assert overall(rows)[0].bound_hours is None


@pytest.mark.parametrize(
    ("attained", "hours", "beats"),
    [
        pytest.param(0.9, 10.0, False, id="equal"),
        pytest.param(0.9, 9.9, True, id="cheaper"),
        pytest.param(0.91, 10.0, True, id="better"),
        pytest.param(0.91, 9.0, True, id="both"),
        pytest.param(0.95, 10.1, False, id="better-and-dearer"),
        pytest.param(0.89, 5.0, False, id="worse-and-cheaper"),
    ],
)
def test_a_peer_dominates_only_if_nothing_speaks_for_ours(
    attained: float, hours: float, *, beats: bool
) -> None:
    """At least as good on both, and better on one."""
    rows = [row("a", "corridor", 0.9, 10.0), row("a", "peer", attained, hours)]
    found = dominated(rows, "corridor")
    assert [(d.scenario, d.peer.result.policy) for d in found] == ([("a", "peer")] if beats else [])


def totals(attained: float, hours: float) -> Overall:
    """Return a policy with these totals."""
    return overall([row("a", "x", attained, hours)])[0]


@pytest.mark.parametrize(
    ("peers", "saved"),
    [
        pytest.param([(0.9, 20.0)], 0.5, id="as-good"),
        pytest.param([(0.95, 16.0), (0.99, 40.0)], 0.375, id="the-cheapest-that-is-better"),
        pytest.param([(0.8, 10.0), (1.0, 30.0)], 0.5, id="half-way-between-two"),
        pytest.param([(0.8, 1.0)], None, id="none-is-as-good"),
        pytest.param([(0.9, 8.0)], -0.25, id="a-cheaper-one"),
        pytest.param([], None, id="nobody"),
    ],
)
def test_what_is_saved_against_the_cheapest_that_is_as_good(
    peers: list[tuple[float, float]], saved: float | None
) -> None:
    """Ours attains 0.9 for 10 hours."""
    found = saved_hours(totals(0.9, 10.0), [totals(*peer) for peer in peers])
    assert found == (None if saved is None else pytest.approx(saved))


@given(
    peers=st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(1.0, 100.0)), min_size=1),
    more=st.tuples(st.floats(0.0, 1.0), st.floats(1.0, 100.0)),
)
def test_one_peer_more_never_makes_ours_look_better(
    peers: list[tuple[float, float]], more: tuple[float, float]
) -> None:
    """Who is compared with more rivals saves no more."""
    ours = totals(0.9, 10.0)
    fewer = saved_hours(ours, [totals(*peer) for peer in peers])
    found = saved_hours(ours, [totals(*peer) for peer in [*peers, more]])
    if fewer is not None:
        assert found is not None
        assert found <= fewer + 1e-9


def test_the_summary_says_what_was_saved_and_where_ours_lost() -> None:
    """One table over the shared scenarios, then a sentence each."""
    rows = [
        *(row("a", "corridor", 0.9, 10.0), row("a", "peer", 0.9, 30.0)),
        *(row("b", "corridor", 0.8, 6.0), row("b", "peer", 0.9, 5.0)),
    ]
    told = write_summary(rows, "corridor")
    assert told.startswith("over 2 scenarios\n")
    assert "corridor  0.8500" in told
    assert "corridor: 54.3% fewer replica-hours than the cheapest peer" in told
    assert "b: peer is at least as good on both counts (0.9000 at 5.00 h, not 0.8000" in told


def test_the_summary_says_that_ours_lost_nowhere() -> None:
    """Where no peer dominates, and none attains as much, both are said."""
    rows = [row("a", "corridor", 0.9, 10.0), row("a", "peer", 0.8, 1.0)]
    told = write_summary(rows, "corridor")
    assert "no peer, and no mix of two, attains as much" in told
    assert "in no scenario is a peer at least as good" in told
    assert "in no scenario" not in write_summary(rows, "somebody-else")
    assert write_summary([], "corridor") == ""
