"""The lower bound: below what any policy paid, and each step of its proof on its own."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.simulation.bound import LowerBound, best_path
from scaler.simulation.engine import Engine
from scaler.simulation.policies import PEERS
from scaler.simulation.priced import Demand, Prices
from scaler.simulation.profiles import Profile
from scaler.simulation.requests import Request
from scaler.simulation.schedules import best_schedule, counts_for, steps_for
from scaler.simulation.shapes import COMPUTE_BOUND, ENGINES, MEMORY_BOUND, EngineShape
from scaler.simulation.trial import World
from scaler.simulation.work import Sharing, Work, least_work
from tests.simulation.worlds import RISE, run, world

POLICIES = ("corridor", *PEERS, "static-3", "static-5")
WORLDS: dict[str, World] = {
    "step": world("step", minutes=20, load=1.6),
    "rise": world(RISE, minutes=20, start_up=300.0),
    "on-off": world("on-off", minutes=20, load=1.6, start_up=20.0),
}
BOUNDS = {name: LowerBound(place) for name, place in WORLDS.items()}

LENGTHS = st.tuples(st.integers(1, 6000), st.integers(1, 300))


@pytest.mark.parametrize(("name", "policy"), list(product(WORLDS, POLICIES)))
def test_no_policy_pays_less(name: str, policy: str) -> None:
    """Every policy's cost is at least the bound at the attainment that it reached."""
    result, _ = run(WORLDS[name], policy)
    assert result.replica_hours >= BOUNDS[name].hours(result.slo_attainment)


def test_no_schedule_pays_less() -> None:
    """Hindsight is still a policy: the best schedule found lies above the bound, and not far."""
    place = world(
        Profile(name="bump", about="", duration=1.0, points=((0.4, 0.3), (0.5, 1.0))), minutes=20
    )
    found = best_schedule(place, 0.98, trials=6)
    assert found is not None
    least = LowerBound(place).hours(found.result.slo_attainment)
    assert least <= found.result.replica_hours <= 2.5 * least


@pytest.mark.parametrize("name", list(WORLDS))
def test_the_bound_grows_with_attainment(name: str) -> None:
    """More requests within the SLO never cost less; none cost the minimum fleet."""
    place, bound = WORLDS[name], BOUNDS[name]
    values = [bound.seconds(share / 20) for share in range(21)]
    assert values[0] == pytest.approx(place.workload.length)
    # Prices are sought for each attainment anew, so a later search may do slightly worse.
    assert all(later >= 0.995 * earlier for earlier, later in pairwise(values))
    assert values[-1] > 1.3 * values[0]


def test_starts_make_the_bound_dearer() -> None:
    """With a load that comes and goes, slow replicas cost more than quick ones."""
    slow, quick = (
        LowerBound(world("on-off", minutes=60, start_up=start_up)).seconds(0.95)
        for start_up in (300.0, 1.0)
    )
    assert slow > 1.05 * quick


@given(
    engine=st.sampled_from(list(ENGINES.values())),
    lengths=st.lists(LENGTHS, min_size=1, max_size=40),
    hit_rate=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_no_engine_does_it_with_less_work(
    engine: EngineShape, lengths: list[tuple[int, int]], hit_rate: float
) -> None:
    """Whatever is batched together, the time spent is at least everybody's least work."""
    shape = EngineShape(
        cost=engine.cost,
        max_num_seqs=engine.max_num_seqs,
        blocks=engine.blocks,
        max_model_len=engine.max_model_len,
        prefix_hit_rate=hit_rate,
    )
    busy = busy_seconds(shape, lengths)
    for sharing in Sharing:
        works = [least_work(shape, prompt, output, sharing) for prompt, output in lengths]
        least = math.fsum(work.prefill + work.decode for work in works if work is not None)
        assert busy >= least * (1 - 1e-9)


@pytest.mark.parametrize(
    ("shape", "sharing", "count"),
    [(COMPUTE_BOUND, Sharing.SLOTS, 320), (MEMORY_BOUND, Sharing.CACHE, 800)],
)
def test_a_full_engine_comes_close_to_the_least_work(
    shape: EngineShape, sharing: Sharing, count: int
) -> None:
    """The bound on work is not idle talk: a saturated engine is within a quarter of it."""
    work = least_work(shape, 1000, 200, sharing)
    assert work is not None
    least = count * (work.prefill + work.decode)
    assert busy_seconds(shape, [(1000, 200)] * count) <= 1.25 * least


def test_a_prompt_that_no_engine_takes_has_no_work() -> None:
    """It is always a miss."""
    assert least_work(COMPUTE_BOUND, 32_768, 1, Sharing.SLOTS) is None


def busy_seconds(shape: EngineShape, lengths: list[tuple[int, int]]) -> float:
    """Return how long an engine's steps take for requests that all come at once."""
    engine = Engine(shape)
    for number, (prompt, output) in enumerate(lengths):
        engine.submit(Request(number=number, arrived=0.0, prompt=prompt, output=output), 0.0)
    engine.advance(1e9)
    assert engine.in_flight == 0
    return engine.counters.busy_seconds


NEED = st.lists(st.floats(0.0, 20.0), min_size=1, max_size=6)


@given(need=NEED, grid=st.sampled_from([30.0, 100.0, 500.0]))
def test_prices_keep_to_the_proof(need: list[float], grid: float) -> None:
    """The path begins at the top, stays in the band, and never falls faster than time."""
    path = best_path(need, grid=grid, height=100.0)
    assert len(path) == len(need) + 1
    assert path[0] == 100.0
    assert all(0.0 <= level <= 100.0 for level in path)
    assert all(before - after <= grid + 1e-6 for before, after in pairwise(path))


@given(need=st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_prices_are_the_best_on_their_grid(need: list[int]) -> None:
    """Trying every path finds no better one."""
    levels = [100.0 * level / 16 for level in range(17)]

    def gain(path: tuple[float, ...]) -> float:
        rises = (after - before for before, after in pairwise(path))
        return math.fsum(n * rise for n, rise in zip(need, rises, strict=True))

    found = best_path([float(n) for n in need], grid=1000.0, height=100.0)
    best = max(gain((100.0, *rest)) for rest in product(levels, repeat=len(need)))
    assert gain(tuple(found)) == pytest.approx(best)


REQUESTS = st.lists(
    st.tuples(st.floats(0, 99), st.floats(0, 5), st.floats(0, 30), *[st.floats(0.01, 4)] * 2),
    min_size=1,
    max_size=30,
)


@given(
    requests=REQUESTS,
    prices=st.lists(st.floats(0, 3), min_size=10, max_size=10),
    share=st.floats(0, 1),
)
def test_the_cheapest_requests_are_added_up(
    requests: list[tuple[float, float, float, float, float]], prices: list[float], share: float
) -> None:
    """The sum without looking at each is the sum over the sorted values."""
    demand = Demand(grid=10.0, bins=10)
    values = []
    beyond = [*prices, 0.0]
    for since, first, more, prefill, decode in requests:
        demand.add(since, since + first, since + first + more, Work(prefill=prefill, decode=decode))
        begin, middle, end = (
            min(int(at // 10), 10) for at in (since, since + first, since + first + more)
        )
        low, lowest = min(beyond[begin : middle + 1]), min(beyond[begin : end + 1])
        values.append(low * prefill + lowest * decode)
    demand.close()
    served = round(share * len(values))
    worth, _ = demand.value(Prices(work=prices, floor=[0.5] * 10), served, 2)
    assert worth == pytest.approx(math.fsum(sorted(values)[:served]) + 2 * 10.0 * 5.0)


@pytest.mark.parametrize(
    ("need", "factor", "start_up", "expected"),
    [
        ([1.0, 1.0], 1.0, 60.0, [1, 1]),
        ([0.0, 0.0], 1.0, 60.0, [1, 1]),
        ([1.0, 2.1, 1.0], 1.0, 30.0, [3, 3, 1]),  # ready a minute before
        ([3.0, 1.0, 1.0, 3.0], 1.0, 300.0, [3, 3, 3, 3]),  # the valley is too short
        ([3.0, 1.0, 1.0, 1.0, 1.0, 3.0], 1.0, 60.0, [3, 1, 1, 1, 3, 3]),
        ([2.0, 2.0], 1.5, 60.0, [3, 3]),
    ],
)
def test_counts_of_a_schedule(
    need: list[float], factor: float, start_up: float, expected: list[int]
) -> None:
    """What serves in each minute, by hand."""
    assert counts_for(need, factor, start_up, 1) == expected


def test_a_schedule_orders_ahead() -> None:
    """What is to serve in minute three is asked for three minutes earlier."""
    assert steps_for([1, 1, 1, 1, 4, 1], 0.0, 180.0) == ((0.0, 1), (60.0, 4), (300.0, 1))
