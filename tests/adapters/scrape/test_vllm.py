"""What series mean and how a replica's fold to one, whatever their order and their version."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.vllm import (
    FAMILIES,
    PREFIXES,
    Engine,
    Gauges,
    Load,
    Signal,
    edge_of,
    engine_of,
    fold_gauges,
    fold_replica,
    keep_gauge,
    merge_latencies,
    names_of,
    part_of,
    signal_of,
)
from scaler.core.reading import LatencyBuckets

INF = math.inf
ENGINE = ("0", "", "")
OTHER = ("1", "", "")


def gauges(running: float | None = 2.0, waiting: float | None = 3.0, **more: float) -> Gauges:
    """Make one engine's gauges; None leaves one out."""
    given_ = {"running": running, "waiting": waiting, **more}
    return {Signal(name): value for name, value in given_.items() if value is not None}


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("signal", Signal)
def test_each_name_has_one_meaning_under_each_prefix(prefix: str, signal: Signal) -> None:
    """Old and new names, the rewritten colon, and Ray's prefix all say the same."""
    for stem in FAMILIES[signal]:
        assert signal_of(prefix + stem) is signal
        assert prefix + stem in names_of(signal)


@pytest.mark.parametrize(
    "name",
    [
        "num_requests_running",
        "vllm:num_requests_swapped",
        "vllm:cpu_cache_usage_perc",
        "vllm:time_to_first_token_seconds_sum",
        "vllm:time_to_first_token_seconds_created",
        "vllm:generation_tokens",
        "vllm:generation_tokens_created",
        "sglang:num_requests_running",
        "myvllm:num_requests_running",
    ],
)
def test_other_names_have_none(name: str) -> None:
    """What only looks like ours is not read."""
    assert signal_of(name) is None


@pytest.mark.parametrize(
    ("signal", "labels", "part"),
    [
        (Signal.RUNNING, {"engine": "0"}, ""),
        (Signal.RUNNING, {"engine": "0", "server": ""}, ""),
        (Signal.RUNNING, {"engine": "0", "server": "http://a"}, None),
        (Signal.WAITING_BY_REASON, {"reason": "capacity"}, ""),
        (Signal.WAITING_BY_REASON, {"reason": "deferred"}, None),
        (Signal.WAITING_BY_REASON, {}, None),
        (Signal.SLEEP_STATE, {"sleep_state": "awake"}, ""),
        (Signal.SLEEP_STATE, {"sleep_state": "discard_all"}, None),
        (Signal.REJECTIONS, {"reason": "max_num_queued_reqs"}, "max_num_queued_reqs"),
        (Signal.TTFT_BUCKET, {"le": "1"}, "1.0"),
        (Signal.TTFT_BUCKET, {"le": "1e0"}, "1.0"),
        (Signal.TTFT_BUCKET, {"le": "+Inf"}, "inf"),
        (Signal.TTFT_BUCKET, {"le": "much"}, None),
        (Signal.TTFT_BUCKET, {"le": "NaN"}, None),
        (Signal.TTFT_BUCKET, {}, None),
    ],
)
def test_parts_of_a_signal(signal: Signal, labels: dict[str, str], part: str | None) -> None:
    """Reasons are told apart, edges are numbers, and what must not be read is not."""
    assert part_of(signal, labels) == part


@pytest.mark.parametrize(
    ("le", "edge"),
    [("0.5", 0.5), ("5e-1", 0.5), ("Inf", INF), ("-Inf", None), ("nan", None), ("", None)],
)
def test_edges_are_numbers(le: str, edge: float | None) -> None:
    """Neither text order nor spelling matters."""
    assert edge_of(le) == edge


def test_rays_workers_are_engines_of_their_own() -> None:
    """They all call themselves engine 0."""
    assert engine_of({"engine": "0", "WorkerId": "a"}) != engine_of(
        {"engine": "0", "WorkerId": "b"}
    )
    assert engine_of({"model_name": "m"}) == ("", "", "")


@pytest.mark.parametrize("values", [(0.0, 0.653, 0.0), (math.nan, 0.653), (0.653, math.nan)])
def test_of_one_thing_seen_twice_the_highest_stays(values: tuple[float, ...]) -> None:
    """Processes that do not hold a gauge show 0, and a broken value hides no good one."""
    found: Gauges = {}
    for value in values:
        keep_gauge(found, Signal.KV_CACHE, value)
    assert found == {Signal.KV_CACHE: 0.653}


@pytest.mark.parametrize(
    ("engines", "idle", "load"),
    [
        pytest.param({ENGINE: gauges(kv_cache=0.5)}, [], (2.0, 3.0, 0.5, 1), id="one"),
        pytest.param(
            {ENGINE: gauges(kv_cache=0.5), OTHER: gauges(0.0, 40.0, kv_cache=1.0)},
            [],
            (2.0, 43.0, 0.75, 2),
            id="two-are-added-and-averaged",
        ),
        pytest.param(
            {ENGINE: gauges(waiting=9.0, waiting_by_reason=4.0)},
            [],
            (2.0, 4.0, None, 1),
            id="by-reason-replaces-the-plain-gauge",
        ),
        pytest.param(
            {ENGINE: gauges(waiting=None, waiting_by_reason=4.0)},
            [],
            (2.0, 4.0, None, 1),
            id="by-reason-alone",
        ),
        pytest.param({}, [ENGINE, OTHER], (0.0, 0.0, 0.0, 2), id="idle-before-the-first-request"),
        pytest.param(
            {ENGINE: gauges(kv_cache=0.5)}, [OTHER], (2.0, 3.0, 0.25, 2), id="one-of-two-is-idle"
        ),
        pytest.param({ENGINE: gauges(kv_cache=0.5)}, [ENGINE], (2.0, 3.0, 0.5, 1), id="not-twice"),
        pytest.param(
            {ENGINE: gauges()}, [OTHER], (2.0, 3.0, None, 2), id="no-cache-gauge-is-no-zero"
        ),
        pytest.param(
            {ENGINE: gauges(kv_cache=math.nan)}, [], (2.0, 3.0, None, 1), id="broken-cache-gauge"
        ),
        pytest.param({ENGINE: gauges(kv_cache=85.0)}, [], (2.0, 3.0, None, 1), id="no-fraction"),
        pytest.param(
            {ENGINE: gauges(kv_cache=-0.1), OTHER: gauges(kv_cache=0.4)},
            [],
            (4.0, 6.0, 0.4, 2),
            id="mean-over-what-is-known",
        ),
    ],
)
def test_engines_fold_to_one_replica(
    engines: dict[Engine, Gauges],
    idle: list[Engine],
    load: tuple[float, float, float | None, int],
) -> None:
    """Requests are added, cache usage is averaged, nothing is counted twice."""
    found = fold_gauges(engines, idle)
    assert found is not None
    assert (found.running, found.waiting, found.kv_cache, found.engines) == load


@pytest.mark.parametrize(
    "engines",
    [
        pytest.param({}, id="nothing"),
        pytest.param({ENGINE: gauges(None, None, kv_cache=0.5)}, id="cache-gauge-only"),
        pytest.param({ENGINE: gauges(waiting=None)}, id="no-waiting"),
        pytest.param({ENGINE: gauges(running=None)}, id="no-running"),
        pytest.param({ENGINE: gauges(running=math.nan)}, id="nan"),
        pytest.param({ENGINE: gauges(waiting=INF)}, id="inf"),
        pytest.param({ENGINE: gauges(waiting=-1.0)}, id="negative"),
        pytest.param({ENGINE: gauges(waiting_by_reason=math.nan)}, id="nan-by-reason"),
        pytest.param({ENGINE: gauges(), OTHER: gauges(running=-1.0)}, id="one-of-two"),
    ],
)
def test_what_cannot_be_is_no_report(engines: dict[Engine, Gauges]) -> None:
    """A replica with an engine that says nonsense has not reported: it is not half of itself."""
    assert fold_gauges(engines) is None


@pytest.mark.parametrize(
    ("states", "asleep"),
    [([], False), ([1.0], False), ([0.0], True), ([0.0, 1.0], False), ([0.0, 0.0], True)],
)
def test_a_replica_sleeps_when_all_its_engines_do(states: list[float], *, asleep: bool) -> None:
    """An engine that does not tell is awake."""
    engines: dict[Engine, Gauges] = {
        (str(n),): gauges(sleep_state=state) for n, state in enumerate(states)
    }
    found = fold_gauges(engines or {ENGINE: gauges()})
    assert found is not None
    assert found.asleep is asleep


def test_a_replica_with_nothing_to_do_is_not_busy() -> None:
    """Rates that are no amount are not known, and an idle replica has been busy for no time."""
    load = Load(running=0.0, waiting=0.0, kv_cache=0.0, engines=1, asleep=False)
    rates = {Signal.TOKENS: math.nan, Signal.FIRST_TOKENS: 0.0, Signal.REJECTIONS: None}
    found = fold_replica("a", load, rates, 60.0)
    assert (found.busy_for, found.token_rate, found.first_token_rate) == (0.0, None, 0.0)
    assert (found.rejection_rate, found.preemption_rate) == (None, None)


amounts = st.integers(0, 100).map(float) | st.sampled_from([math.nan, INF, -1.0])
engine_gauges = st.dictionaries(
    st.sampled_from(
        [
            Signal.RUNNING,
            Signal.WAITING,
            Signal.WAITING_BY_REASON,
            Signal.KV_CACHE,
            Signal.SLEEP_STATE,
        ]
    ),
    amounts,
)
engine_sets = st.dictionaries(
    st.tuples(st.sampled_from("0123"), st.just(""), st.just("")), engine_gauges, max_size=4
)


@given(engine_sets, st.randoms(use_true_random=False))
def test_the_order_of_engines_does_not_matter(
    engines: dict[Engine, Gauges], chance: random.Random
) -> None:
    """However a page lists its engines, the replica is the same, and never beyond what can be."""
    shuffled = list(engines.items())
    chance.shuffle(shuffled)
    found = fold_gauges(engines)
    assert fold_gauges(dict(shuffled)) == found
    if found is not None:
        assert math.isfinite(found.running)
        assert math.isfinite(found.waiting)
        assert min(found.running, found.waiting) >= 0.0
        assert found.kv_cache is None or 0.0 <= found.kv_cache <= 1.0


@pytest.mark.parametrize(
    ("growths", "merged"),
    [
        ([], None),
        ([{1.0: 5.0}], None),
        ([{1.0: math.nan, INF: 5.0}], None),
        ([{1.0: -1.0, INF: 5.0}, {1.0: 2.0, INF: 3.0}], ((1.0, INF), (2.0, 3.0))),
        ([{1.0: 2.0, INF: 3.0}, {1.0: 4.0, INF: 4.0}], ((1.0, INF), (6.0, 7.0))),
        # Only at edges that both have is the sum known.
        (
            [{1.0: 2.0, 10.0: 3.0, INF: 3.0}, {1.0: 1.0, 10.0: 1.0, 20.0: 5.0, INF: 9.0}],
            ((1.0, 10.0, INF), (3.0, 4.0, 12.0)),
        ),
        # What observed nothing takes no edge away.
        ([{1.0: 2.0, INF: 3.0}, {5.0: 0.0, INF: 0.0}], ((1.0, INF), (2.0, 3.0))),
        ([{1.0: 0.0, INF: 0.0}], ((1.0, INF), (0.0, 0.0))),
        # A reset between two buckets' values may leave a dip.
        ([{1.0: 5.0, 2.0: 4.0, INF: 6.0}], ((1.0, 2.0, INF), (5.0, 5.0, 6.0))),
    ],
)
def test_histograms_add_up_where_they_can(
    growths: list[dict[float, float]],
    merged: tuple[tuple[float, ...], tuple[float, ...]] | None,
) -> None:
    """Layouts of two versions share edges; elsewhere nothing is made up."""
    expected = None if merged is None else LatencyBuckets(edges=merged[0], counts=merged[1])
    assert merge_latencies(growths) == expected


observations = st.lists(st.floats(0.0, 100.0), max_size=20)
layouts = st.sets(st.sampled_from([0.1, 0.5, 1.0, 2.5, 10.0, 40.0]))


def histogram(edges: set[float], seen: list[float]) -> dict[float, float]:
    """Count observations as a histogram does."""
    return {edge: float(sum(value <= edge for value in seen)) for edge in (*edges, INF)}


@given(st.lists(st.tuples(layouts, observations), min_size=1, max_size=4))
def test_a_merged_count_is_the_true_count(replicas: list[tuple[set[float], list[float]]]) -> None:
    """At each edge of the result stands how many of all observations lie at or below it."""
    merged = merge_latencies(histogram(edges, seen) for edges, seen in replicas)
    assert merged is not None
    everything = [value for _, seen in replicas for value in seen]
    assert merged.edges == tuple(sorted(merged.edges))
    assert merged.edges[-1] == INF
    for edge, count in zip(merged.edges, merged.counts, strict=True):
        assert count == sum(value <= edge for value in everything)
