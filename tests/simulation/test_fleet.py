"""A fleet: every request ends exactly once, the same seed gives the same bytes, and scaling."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.quantile import percentile
from scaler.core.sample import take_sample
from scaler.simulation.errors import ShapeInvalid
from scaler.simulation.fleet import Census, Fleet
from scaler.simulation.gateway import Gateway
from scaler.simulation.requests import Ending, Request
from scaler.simulation.router import SessionSticky, router_named
from scaler.simulation.shapes import EngineShape, FleetShape, StartUp, StepCost

COST = StepCost(base=0.02, per_token=1e-4, per_sequence=3e-4, per_context_token=1e-6)
ENGINE = EngineShape(cost=COST, max_num_seqs=6, blocks=60, max_model_len=900)
SHAPE = FleetShape(engine=ENGINE, start_up=StartUp(median=20.0, spread=0.3), drain=3.0)


def request(number: int, *, at: float, prompt: int = 50, output: int = 100) -> Request:
    """Make a request."""
    return Request(number=number, arrived=at, prompt=prompt, output=output)


def steady(count: int, *, every: float = 0.1) -> list[Request]:
    """Make evenly spaced requests."""
    return [request(number, at=number * every) for number in range(count)]


REQUESTS = st.lists(
    st.tuples(
        st.floats(0.0, 100.0),
        st.integers(1, 1000),
        st.integers(1, 300),
        st.sampled_from([math.inf, 0.0, 0.5, 5.0]),
        st.sampled_from([math.inf, 3.0, 20.0]),
    ),
    max_size=80,
)
SCALES = st.lists(st.tuples(st.floats(0.0, 120.0), st.integers(0, 5)), max_size=8)
GATEWAYS = st.sampled_from(
    [
        None,
        (None, 1000, True),
        (None, 1000, False),
        (3, 5, True),
        (3, 1000, True),
        (1, 1000, False),
    ]
)


@given(
    drawn=REQUESTS,
    scales=SCALES,
    limits=GATEWAYS,
    router=st.sampled_from(["round-robin", "least-loaded", "session-sticky"]),
    max_queued=st.sampled_from([None, 0, 4]),
    drain=st.sampled_from([0.0, 4.0]),
)
def test_every_request_ends_exactly_once_and_every_block_comes_back(
    drawn: list[tuple[float, int, int, float, float]],
    scales: list[tuple[float, int]],
    limits: tuple[int | None, int, bool] | None,
    router: str,
    max_queued: int | None,
    drain: float,
) -> None:
    """Whatever scales, gives up, is refused or preempted: the sums agree and nothing leaks."""
    arrivals = [
        Request(number=n, arrived=at, prompt=p, output=o, patience=a, timeout=b, session=n % 7)
        for n, (at, p, o, a, b) in enumerate(sorted(drawn))
    ]
    gateway = None
    if limits is not None:
        per_replica, room, hold = limits
        gateway = Gateway(per_replica=per_replica, max_queued=room, hold_at_zero=hold)
    ends: Counter[int] = Counter()
    fleet = Fleet(
        replace(SHAPE, engine=replace(ENGINE, max_queued=max_queued), drain=drain),
        arrivals=arrivals,
        router=router_named(router),
        gateway=gateway,
        on_end=lambda each: ends.update([each.number]),
    )
    for at, replicas in sorted(scales):
        fleet.scale(replicas, at)
        assert fleet.spec == replicas
    fleet.scale(2, 121.0)
    fleet.advance(2000.0)
    assert fleet.exhausted
    assert ends == Counter(range(len(arrivals)))
    outcomes = fleet.outcomes
    assert outcomes.arrived == outcomes.total_ended == len(arrivals)
    assert all(n == sum(r.ending is e for r in arrivals) for e, n in outcomes.ended.items())
    assert fleet.census() == Census(spec=2, loading=0, serving=2, draining=0)
    assert all(r.engine.blocks_free == ENGINE.blocks for r in fleet.replicas)
    assert all(r.ended_at is not None and r.ended_at >= r.arrived for r in arrivals)
    served = [r for r in arrivals if r.ending is Ending.SERVED]
    assert all(r.ttft is not None and r.tpot is not None for r in served)


def transcript(seed: int) -> str:
    """Run a fleet through a change of count and write everything down."""
    arrivals = [
        Request(number=n, arrived=n * 0.05, prompt=30 + n % 200, output=20 + n % 90, patience=9.0)
        for n in range(1500)
    ]
    ended: list[str] = []
    fleet = Fleet(
        SHAPE,
        arrivals=arrivals,
        seed=seed,
        on_end=lambda r: ended.append(f"{r.number} {r.ending} {r.ended_at!r} {r.ttft!r}"),
    )
    readings = []
    for tick in range(1, 20):
        fleet.scale(3 if 4 < tick < 12 else 1, tick * 15.0)
        readings.append(repr(fleet.reading(tick * 15.0)))
    return "\n".join([*ended, *readings, repr(fleet.replica_seconds())])


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    """Endings, readings and replica time are reproducible to the last digit."""
    assert transcript(7) == transcript(7)
    assert transcript(7) != transcript(8)


def test_a_new_replica_loads_before_it_serves_and_is_paid_from_the_start() -> None:
    """It takes its drawn start-up time, reports nothing until then, and costs all along."""
    shape = replace(SHAPE, start_up=StartUp(median=30.0, spread=0.0))
    fleet = Fleet(shape)
    fleet.scale(3, 10.0)
    assert fleet.census() == Census(spec=3, loading=2, serving=1, draining=0)
    before = fleet.reading(39.0, loading_unseen=True)
    assert (len(before.replicas), before.unseen) == (1, 2)
    after = fleet.reading(41.0)
    assert (len(after.replicas), after.unseen) == (3, 0)
    assert fleet.replica_seconds() == pytest.approx(41.0 + 2 * 31.0)


def test_a_replica_removed_while_it_loads_was_paid_until_then() -> None:
    """Start-ups that come to nothing cost what they cost."""
    fleet = Fleet(replace(SHAPE, start_up=StartUp(median=100.0, spread=0.0)))
    fleet.scale(2, 10.0)
    fleet.scale(1, 40.0)
    fleet.advance(50.0)
    assert fleet.replica_seconds() == pytest.approx(50.0 + 30.0)


def test_two_fleets_on_one_seed_meet_the_same_start_up_times() -> None:
    """The n-th replica starts as slowly whatever was done before it was made."""
    early, late = Fleet(SHAPE, seed=3), Fleet(SHAPE, seed=3)
    early.scale(4, 5.0)
    for replicas in (2, 3, 4):
        late.scale(replicas, 50.0 * replicas)
    spans = [[r.ready_at - r.created for r in f.replicas if r.number] for f in (early, late)]
    assert sorted(spans[0]) == pytest.approx(sorted(spans[1]))
    assert len(set(spans[0])) == 3


def test_loading_replicas_go_first_then_cheap_ones_then_the_youngest() -> None:
    """Scale-in takes what a ReplicaSet would take."""
    fleet = Fleet(replace(SHAPE, start_up=StartUp(median=10.0, spread=0.0)), replicas=2)
    fleet.scale(4, 0.0)
    fleet.advance(20.0)
    fleet.scale(5, 25.0)
    fleet.deletion_costs["vllm-0000"] = -5
    fleet.scale(4, 26.0)
    assert [r.name for r in fleet.replicas] == [f"vllm-000{n}" for n in range(4)]
    fleet.scale(3, 27.0)
    assert "vllm-0000" not in [r.name for r in fleet.replicas]
    fleet.scale(2, 28.0)
    assert [r.name for r in fleet.replicas] == ["vllm-0001", "vllm-0002"]


def test_a_draining_replica_finishes_its_requests_and_gets_no_new_ones() -> None:
    """What it had is served within the drain and paid for; the rest goes elsewhere."""
    arrivals = steady(100)
    fleet = Fleet(replace(SHAPE, drain=60.0), arrivals=arrivals, replicas=2)
    fleet.scale(1, 5.0)
    assert fleet.census().draining == 1
    drained = fleet.replicas[-1].engine
    assert drained.in_flight > 0
    fleet.advance(200.0)
    assert fleet.census() == Census(spec=1, loading=0, serving=1, draining=0)
    assert fleet.outcomes.ended[Ending.SERVED] == 100
    assert 5.5 < drained.now < 65.0
    assert fleet.replica_seconds() == pytest.approx(200.0 + drained.now)


def test_without_a_drain_what_a_removed_replica_had_is_cut_off() -> None:
    """The default of vLLM costs the requests in flight."""
    fleet = Fleet(replace(SHAPE, drain=0.0), arrivals=steady(100), replicas=2)
    fleet.scale(1, 5.0)
    fleet.advance(200.0)
    assert fleet.outcomes.ended[Ending.CUT_OFF] > 0
    assert fleet.outcomes.open == 0


@pytest.mark.parametrize(("hold", "served"), [(True, 20), (False, 0)])
def test_at_zero_replicas_a_gateway_holds_or_refuses(hold: bool, served: int) -> None:  # noqa: FBT001
    """Held requests are served once a replica is ready, with their wait in their TTFT."""
    gateway = Gateway(hold_at_zero=hold)
    fleet = Fleet(SHAPE, arrivals=steady(20), replicas=0, gateway=gateway)
    reading = fleet.reading(15.0)
    assert reading.activation == (20 if hold else 0)
    assert reading.replicas == ()
    fleet.scale(1, 15.0)
    fleet.advance(300.0)
    assert fleet.outcomes.ended[Ending.SERVED] == served
    assert fleet.outcomes.ended[Ending.REJECTED] == 20 - served
    median = fleet.outcomes.ttft.quantile(0.5)
    assert (median is not None and median > 15.0) if hold else median is None


def test_without_a_gateway_nobody_answers_at_zero_replicas() -> None:
    """A request that finds no replica is rejected."""
    fleet = Fleet(SHAPE, arrivals=steady(5), replicas=0)
    fleet.advance(10.0)
    assert fleet.outcomes.ended[Ending.REJECTED] == 5


def test_clients_give_up_in_the_gateways_queue_too() -> None:
    """Their places become free at once, and they were never sent to a replica."""
    gateway = Gateway(per_replica=1, max_queued=3)
    arrivals = [
        Request(number=n, arrived=n * 1.0, prompt=10, output=800, patience=2.5) for n in range(12)
    ]
    fleet = Fleet(SHAPE, arrivals=arrivals, gateway=gateway)
    fleet.advance(11.4)
    assert len(gateway) == 3
    fleet.advance(14.0)
    assert len(gateway) == 0
    ended = fleet.outcomes.ended
    assert (ended[Ending.GIVEN_UP], ended[Ending.REJECTED]) == (11, 0)
    assert [r.ended_at for r in arrivals[1:]] == [n + 2.5 for n in range(1, 12)]


def test_a_gateway_bounds_what_a_replica_has_and_what_waits() -> None:
    """Above both bounds it answers 429, which the reading shows as a rate."""
    gateway = Gateway(per_replica=2, max_queued=3)
    fleet = Fleet(SHAPE, arrivals=steady(400), gateway=gateway)
    fleet.reading(15.0)
    reading = fleet.reading(30.0)
    assert fleet.replicas[0].engine.in_flight == 2
    assert len(gateway) == 3
    assert reading.rejection_rate is not None
    assert reading.rejection_rate > 1.0
    fleet.advance(1000.0)
    ended = fleet.outcomes.ended
    assert ended[Ending.REJECTED] == gateway.rejected
    assert ended[Ending.SERVED] + ended[Ending.REJECTED] == 400


def test_rates_are_the_growth_of_counters_over_the_rate_window() -> None:
    """One scrape knows no rate; later ones look back two minutes and no further."""
    fleet = Fleet(SHAPE, arrivals=steady(1000, every=0.5))
    first = fleet.reading(0.0).replicas[0]
    assert first.first_token_rate is None
    assert first.prompt_token_rate is None
    assert fleet.reading(0.0).ttft is None
    for tick in range(1, 31):
        reading = fleet.reading(tick * 15.0)
    replica = reading.replicas[0]
    assert replica.first_token_rate == pytest.approx(2.0, rel=0.02)
    assert replica.token_rate == pytest.approx(200.0, rel=0.05)
    assert replica.prompt_token_rate == pytest.approx(2.0 * 50, rel=0.02)
    assert replica.preemption_rate == replica.rejection_rate == 0.0
    assert reading.ttft is not None
    assert reading.ttft.counts[-1] == pytest.approx(240, abs=2)
    p95 = percentile(reading.ttft)
    assert p95 is not None
    assert 0.0 < p95.value <= 0.25
    utilisation = fleet.scraper.utilisation()
    assert utilisation is not None
    assert 0.9 < utilisation <= 1.0


def test_busy_for_says_how_long_a_replica_has_had_work() -> None:
    """It grows while requests follow each other, up to the window, and is 0 when idle."""
    fleet = Fleet(SHAPE, arrivals=steady(1600, every=0.1))
    assert fleet.reading(30.0).replicas[0].busy_for == pytest.approx(30.0, abs=0.2)
    assert fleet.reading(150.0).replicas[0].busy_for == 120.0
    fleet.advance(3000.0)
    assert fleet.reading(3015.0).replicas[0].busy_for == 0.0


def test_a_frozen_replica_reads_as_stalled_once_the_window_has_passed() -> None:
    """Requests that run without a token for two minutes: not serving, and not idle."""
    fleet = Fleet(SHAPE, arrivals=steady(300, every=1.0), replicas=2)
    fleet.advance(60.0)
    fleet.replicas[0].engine.freeze(60.0)
    samples = [take_sample(fleet.reading(tick * 15.0)) for tick in range(1, 16)]
    assert [sample.stalled for sample in samples[:8]] == [0] * 8
    assert samples[-1].stalled == 1
    assert samples[-1].serving == 1


def test_a_reading_shows_draining_replicas_only_when_asked() -> None:
    """A source that looks at pods leaves terminating ones out; one that does not sees them."""
    fleet = Fleet(replace(SHAPE, drain=60.0), arrivals=steady(60), replicas=2)
    fleet.scale(1, 5.5)
    assert len(fleet.reading(6.0).replicas) == 1
    assert len(fleet.reading(6.0, draining=True).replicas) == 2


def test_a_replica_that_is_gone_takes_its_history_along() -> None:
    """The merged histogram is of those that report; with nobody there it is not known."""
    fleet = Fleet(SHAPE, arrivals=steady(600), replicas=2)
    fleet.reading(15.0)
    stays, goes = (replica.engine.counters.ttft for replica in fleet.replicas)
    before = stays.count, goes.count
    both = fleet.reading(30.0).ttft
    assert both is not None
    assert both.counts[-1] == stays.count + goes.count - sum(before)
    fleet.scale(1, 31.0)
    one = fleet.reading(45.0).ttft
    assert one is not None
    assert one.counts[-1] == stays.count - before[0]
    fleet.scale(0, 46.0)
    assert fleet.reading(60.0).ttft is None


def test_least_loaded_evens_out_what_round_robin_leaves_uneven() -> None:
    """When every second request is long, taking turns overloads one replica of two."""
    ends = {}
    for name in ("round-robin", "least-loaded"):
        arrivals = [
            request(n, at=n * 0.2, output=300 if n % 2 else 10, prompt=20) for n in range(300)
        ]
        fleet = Fleet(SHAPE, arrivals=arrivals, replicas=2, router=router_named(name))
        fleet.advance(1000.0)
        ends[name] = fleet.outcomes.ttft.quantile(0.95) or 0.0
    assert ends["least-loaded"] < ends["round-robin"] / 2


def test_a_session_stays_with_its_replica_and_few_move_when_one_is_added() -> None:
    """Sticky routing is stable, spreads sessions, and a fourth replica takes about a quarter."""
    router = SessionSticky()
    three = Fleet(SHAPE, replicas=3).replicas
    four = (*three, Fleet(SHAPE, replicas=4).replicas[3])
    sent = [Request(number=n, arrived=0, prompt=1, output=1, session=n) for n in range(2000)]
    before = [router.choose(each, three, 0.0).number for each in sent]
    after = [router.choose(each, four, 0.0).number for each in sent]
    assert before == [router.choose(each, three, 1.0).number for each in sent]
    assert min(Counter(before).values()) > 2000 / 3 * 0.85
    moved = [new for old, new in zip(before, after, strict=True) if new != old]
    assert set(moved) == {3}
    assert len(moved) == pytest.approx(500, rel=0.2)


def test_an_unknown_router_is_refused_by_name() -> None:
    """The message lists the ones that exist."""
    with pytest.raises(ShapeInvalid, match="round-robin, least-loaded, session-sticky"):
        router_named("random")
