"""The closed loop: reproducible, complete, and safe without metrics and with slow starts."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise

import pytest

from scaler.simulation.policies.port import Silence
from scaler.simulation.profiles import Profile
from scaler.simulation.report import Format, Row, write
from scaler.simulation.results import Moment, Result
from scaler.simulation.trial import Outage
from tests.simulation.worlds import FALLING, RISE, run, world

PROGRAM = """
from scaler.simulation.report import Format, Row, write
from tests.simulation.worlds import run, world
for name in ("corridor", "wva-v2"):
    print(write([Row(scenario="x", result=run(world(minutes=15), name)[0])], Format.JSON))
"""


def bytes_of(hashing: str) -> bytes:
    """Run two policies in a process of their own with its own order of hashes."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": hashing},
        capture_output=True,
        check=True,
    )
    return done.stdout


def served(result: Result) -> int:
    """Return how many requests were neither refused nor lost."""
    lost = result.rejected + result.cut_off + result.given_up + result.unfinished
    return result.arrived - lost


def test_same_seed_gives_the_same_bytes_in_any_process() -> None:
    """Two processes that hash differently write the same results."""
    first = bytes_of("1")
    assert b"wva-v2" in first
    assert first == bytes_of("2")


def test_another_seed_gives_other_results() -> None:
    """The seed reaches the traffic and the start-ups."""
    one, other = (run(world(minutes=15, seed=seed), "corridor")[0] for seed in (1, 2))
    assert one != other


def test_a_static_fleet_pays_for_its_replicas_and_nothing_else() -> None:
    """Three replicas for 40 minutes are two replica-hours, whatever was at the start."""
    result, moments = run(world(), "static-3")
    assert result.replica_hours == pytest.approx(2.0)
    assert {moment.spec for moment in moments} == {3}
    assert (result.scale_events, result.direction_changes, result.most_replicas) == (0, 0, 3)


def test_attainment_counts_all_that_arrived() -> None:
    """An overloaded fleet's lost requests are misses: attainment is below the share served."""
    result, _ = run(world(load=2.0), "static-2")
    assert result.given_up > 0
    assert result.slo_attainment < served(result) / result.arrived
    assert result.unfinished == 0


def test_every_tick_is_watched_once() -> None:
    """The record has one moment a tick, a tick apart, from the first to the end."""
    _, moments = run(world(minutes=10), "corridor")
    assert [moment.at for moment in moments] == [15.0 * tick for tick in range(1, 41)]


def test_start_up_delays_what_was_asked_for() -> None:
    """Between the wish and the replica lies a start-up, paid and not serving."""
    _, moments = run(world(RISE, start_up=180.0), "corridor")
    first = next(moment.at for moment in moments if moment.loading)
    ready = next(moment.at for moment in moments if moment.serving > moments[0].serving)
    assert 100.0 <= ready - first <= 300.0


@pytest.mark.parametrize("silence", list(Silence))
@pytest.mark.parametrize("profile", ["step", FALLING, "on-off"])
def test_an_outage_never_lowers_the_count_under_the_corridor(
    profile: str | Profile, silence: Silence
) -> None:
    """From its first blind tick to the end of the outage no replica is taken away."""
    outage = Outage(begin=550.0, end=2200.0, silence=silence)
    _, moments = run(world(profile, replicas=5, outage=outage), "corridor")
    assert not falls(moments, outage)


def test_without_the_outage_the_count_falls() -> None:
    """What the outage holds back would have happened: the test above has something to forbid."""
    _, moments = run(world(FALLING, replicas=5), "corridor")
    assert falls(moments, Outage(begin=550.0, end=2200.0))


def test_an_outage_lowers_the_count_of_a_query_that_becomes_zero() -> None:
    """KEDA's own scaler takes an empty answer for no demand: the case that the rule is made for."""
    outage = Outage(begin=1150.0, end=2200.0)
    _, moments = run(world("steady", replicas=5, outage=outage), "keda-running-waiting")
    assert falls(moments, outage)


def falls(moments: list[Moment], outage: Outage) -> list[float]:
    """Return when within the outage the count fell."""
    inside = [moment for moment in moments if outage.begin <= moment.at < outage.end]
    return [after.at for before, after in pairwise(inside) if after.spec < before.spec]


@pytest.mark.parametrize("start_up", [180.0, 600.0])
def test_a_slow_start_does_not_cascade(start_up: float) -> None:
    """However long replicas load, the corridor asks for about what the peak needs, once.

    The peak needs four replicas that serve; the same overload seen again and again while they load
    must not double the count again and again, as 4, 8, 16 would.
    """
    result, moments = run(world(RISE, minutes=60, start_up=start_up, most=40), "corridor")
    assert result.most_replicas <= 8
    loading = [moment.spec for moment in moments if moment.loading]
    assert loading == sorted(loading)


def test_a_fleet_that_was_never_full_errs_upwards() -> None:
    """Until a queue was seen, what was carried in calm is the limit, so nobody comes to wait.

    A fleet that starts quickly follows a rise with a few replicas more than its peak of four needs.
    """
    result, moments = run(world(RISE, minutes=60, start_up=30.0, most=40), "corridor")
    assert result.slo_attainment > 0.999
    assert all((moment.waiting or 0.0) < moment.serving for moment in moments)
    assert result.most_replicas <= 7


def test_results_can_be_written() -> None:
    """A result fits every format."""
    result, _ = run(world(minutes=5), "static-2")
    for form in Format:
        assert "static-2" in write([Row(scenario="small", result=result)], form)
