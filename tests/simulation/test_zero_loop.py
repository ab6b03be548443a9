"""From zero and back, closed loop: real decisions, a simulated fleet and gateway, KEDA and HPA."""

from __future__ import annotations

import pytest

from scaler.core.gateway import ASKED_EVERY, LATCHED_FOR
from scaler.core.policy import Policy
from scaler.core.reasons import Reason
from scaler.core.units import TICK
from scaler.simulation.keda_types import Fallback, FallbackBehavior, ScaledObject
from scaler.simulation.requests import Ending
from tests.simulation.zero_worlds import LOAD, MOST, START, ZeroWorld, at_of, counts, request

pytestmark = pytest.mark.timeout(300)

HOUR = 3600.0
EIGHT = Policy(scale_in_window=300.0, concurrency_per_replica=16.0, headroom=0.5)
"""Of sixteen requests that a replica can run, eight are what it is planned for."""


async def test_one_request_wakes_a_fleet_and_leaves_it_as_it_was() -> None:
    """0, 1, ten minutes of loading, served, idle, 0: four steps, each once."""
    world = ZeroWorld([request(0, 101.0)])
    await world.passes(HOUR)
    assert counts(world) == [1, 0]
    woken, gone = (at for at, _ in world.writes)
    assert woken == 105.0
    assert world.pushes == [START + 105.0]
    served = woken + LOAD
    window = max(300.0, 2 * 180.0)
    earliest = served + window + world.scaled_object.cooldown_period
    assert earliest <= gone <= earliest + 120.0 + 2 * TICK + world.scaled_object.polling_interval
    assert world.fleet.outcomes.ended[Ending.SERVED] == 1
    assert world.reasons[-1] is Reason.AT_ZERO


@pytest.mark.parametrize("cooldown", [0.0, 60.0, 300.0])
@pytest.mark.parametrize("looks_at_pods", [True, False])
async def test_loading_outlasts_any_cooldown(cooldown: float, *, looks_at_pods: bool) -> None:
    """A load longer than cooldown and window is never cut off, wherever pods may be read."""
    scaled = ScaledObject(max_replicas=MOST, cooldown_period=cooldown)
    world = ZeroWorld([request(0, 101.0)], scaled_object=scaled, looks_at_pods=looks_at_pods)
    await world.passes(HOUR)
    assert counts(world) == [1, 0]
    assert world.writes[1][0] > world.writes[0][0] + LOAD + 300.0
    assert world.fleet.outcomes.ended[Ending.SERVED] == 1


@pytest.mark.parametrize(("burst", "first"), [(1, 1), (8, 1), (9, 2), (30, 4), (500, MOST)])
async def test_a_burst_gets_what_it_needs_at_once_and_no_more_while_it_loads(
    burst: int, first: int
) -> None:
    """KEDA makes one replica, the HPA the rest within seconds; a growing queue adds none."""
    held = [request(n, 101.0 + n * 1e-3) for n in range(burst)]
    later = [request(burst + n, 110.0 + 5.0 * n) for n in range(100)]
    world = ZeroWorld([*held, *later], policy=EIGHT)
    await world.passes(101.0 + LOAD - 30.0)
    assert counts(world) == sorted(counts(world))
    assert (at_of(world, 1), counts(world)[-1]) == (105.0, first)
    assert at_of(world, first) <= 105.0 + 2 * TICK + ASKED_EVERY


async def test_a_day_of_visits_wakes_the_fleet_once_each_and_locks_nobody_out() -> None:
    """Three visits an hour apart: three times to one and back, and every request served."""
    visits = [request(10 * v + n, HOUR * v + 7.0 * n) for v in range(3) for n in range(10)]
    world = ZeroWorld(visits)
    await world.passes(3 * HOUR)
    assert counts(world) == [1, 0] * 3
    assert world.fleet.outcomes.ended[Ending.SERVED] == 30
    assert len(world.pushes) == 3


async def test_a_trickle_keeps_a_fleet_that_is_mostly_idle() -> None:
    """A second of work a minute falls between most looks, and is no reason to go and come back."""
    world = ZeroWorld([request(n, 60.5 * n, output=50) for n in range(120)], replicas=1)
    await world.passes(2 * HOUR)
    assert counts(world) == []
    assert world.fleet.outcomes.ended[Ending.SERVED] == 119


@pytest.mark.parametrize("push", [True, False])
async def test_whoever_gives_up_between_two_polls_has_been_seen(*, push: bool) -> None:
    """The client leaves after six seconds; the next one finds a fleet on its way."""
    scaled = ScaledObject(max_replicas=MOST, polling_interval=30.0)
    impatient = request(0, 94.5, patience=6.0)
    world = ZeroWorld([impatient], push=push, scaled_object=scaled)
    await world.passes(300.0)
    assert impatient.ending is Ending.GIVEN_UP
    assert counts(world) == [1]
    assert at_of(world, 1) <= 94.5 + (ASKED_EVERY if push else scaled.polling_interval + 5.0)


async def test_demand_is_latched_for_no_longer_than_it_says() -> None:
    """Where KEDA polls too seldom and nothing is pushed, a client that left wakes nobody."""
    scaled = ScaledObject(max_replicas=MOST, polling_interval=3 * LATCHED_FOR)
    world = ZeroWorld([request(0, 10.5, patience=6.0)], push=False, scaled_object=scaled)
    await world.passes(HOUR)
    assert counts(world) == []


async def test_a_gateway_nobody_hears_of_wakes_nothing_and_takes_nothing_away() -> None:
    """Prometheus is down around the wake and around the end: both wait for it, and happen."""

    def down(at: float) -> bool:
        return 90.0 <= at - START < 600.0 or 1400.0 <= at - START < 3000.0

    world = ZeroWorld([request(0, 101.0)], silent=down)
    await world.passes(1.5 * HOUR)
    assert counts(world) == [1, 0]
    assert at_of(world, 1) == 600.0
    # Nobody said through the outage that nobody waits: the window begins anew behind it.
    assert at_of(world, 0) >= 3000.0 + 300.0
    assert Reason.GATEWAY_SILENT in world.reasons


async def test_where_nothing_can_wake_a_fleet_keda_s_fallback_can() -> None:
    """Without a query the scaler never says that it is idle at zero, and KEDA counts failures."""
    fallback = Fallback(
        replicas=1, failure_threshold=20, behavior=FallbackBehavior.CURRENT_IF_HIGHER
    )
    asleep = ZeroWorld([request(0, 101.0)], query=None)
    await asleep.passes(1800.0)
    assert counts(asleep) == []
    assert asleep.reasons[-1] is Reason.NO_WAY_TO_WAKE
    scaled = ScaledObject(max_replicas=MOST, fallback=fallback)
    helped = ZeroWorld([request(0, 101.0)], query=None, scaled_object=scaled)
    await helped.passes(1800.0)
    assert counts(helped) == [1]
    assert at_of(helped, 1) >= 20 * 30.0


async def test_requests_that_the_engines_do_not_see_keep_the_fleet() -> None:
    """The router is closed while the engines look idle: the gateway's queue speaks for them."""
    world = ZeroWorld([request(n, 400.0 + n) for n in range(5)], replicas=1)
    world.gateway.per_replica = 0
    await world.passes(HOUR)
    assert counts(world) == []
    assert len(world.gateway) == 5


async def test_a_restarted_scaler_takes_nothing_away_before_it_has_seen_a_window() -> None:
    """It remembers nothing, so the idle fleet stays for a window and a cooldown more."""
    world = ZeroWorld([request(0, 101.0)])
    await world.passes(1200.0)
    assert counts(world) == [1]
    await world.passes(HOUR)
    assert counts(world) == [1, 0]
    assert at_of(world, 0) >= 1200.0 + 360.0 - TICK + world.scaled_object.cooldown_period
