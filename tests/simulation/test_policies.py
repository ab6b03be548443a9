"""What each peer answers to inputs whose answer was worked out by hand."""

from __future__ import annotations

import pytest

from scaler.core.reading import LatencyBuckets, Reading, ReplicaReading
from scaler.simulation.hpa_types import PodCount, TargetScale
from scaler.simulation.keda import Keda, KedaLoop
from scaler.simulation.keda_types import ScalerError
from scaler.simulation.policies import (
    PEERS,
    PolicyUnknown,
    inference_scaler,
    kaito,
    policy_named,
    static_size,
    wva,
)
from scaler.simulation.policies.port import Bounds, DirectPolicy, KedaPolicy, Silence, View
from scaler.simulation.shapes import COMPUTE_BOUND

BOUNDS = Bounds(max_replicas=20)


def reading(
    count: int = 4,
    *,
    waiting: float = 0.0,
    running: float = 0.0,
    kv: float | None = None,
    ttft: float | None = None,
    token_rate: float | None = None,
) -> Reading:
    """Make a reading of replicas that are all alike; `ttft` puts all first tokens below it."""
    replicas = tuple(
        ReplicaReading(
            name=f"r{number}",
            waiting=waiting,
            running=running,
            kv_cache=kv,
            token_rate=token_rate,
        )
        for number in range(count)
    )
    buckets = None
    if ttft is not None:
        buckets = LatencyBuckets(edges=(ttft, float("inf")), counts=(100.0, 100.0))
    return Reading(at=0.0, scraped_at=0.0, replicas=replicas, ttft=buckets)


def view(
    seen: Reading | None,
    *,
    at: float = 0.0,
    spec: int = 4,
    ready: int | None = None,
    utilisation: float | None = None,
    silence: Silence | None = None,
) -> View:
    """Make a view of a fleet; where nothing was read, the metrics are missing."""
    if seen is None and silence is None:
        silence = Silence.EMPTY
    return View(
        at=at,
        reading=seen,
        silence=silence,
        replicas=(),
        spec=spec,
        ready=spec if ready is None else ready,
        utilisation=utilisation,
    )


def keda_policy(name: str) -> KedaPolicy:
    """Make a policy that KEDA asks."""
    policy = policy_named(name, BOUNDS)
    assert isinstance(policy, KedaPolicy)
    return policy


def settled(policy: KedaPolicy, spec: int, *, seconds: float = 330.0) -> int:
    """Return the count after the autoscaler has followed an unchanged answer for a while."""
    loop = KedaLoop(Keda(policy.scaled_object, created=0.0), policy.triggers, start=0.0)
    while loop.due <= seconds:
        scale = TargetScale(spec=spec, status=spec)
        spec = loop.step(loop.due, scale, PodCount(matching=spec, ready=spec))
    return spec


@pytest.mark.parametrize(
    ("name", "seen", "expected"),
    [
        ("keda-waiting", reading(4, waiting=12.0), 10),  # 48 / 5
        ("keda-waiting", reading(4, waiting=5.0), 4),
        ("keda-waiting", reading(4, waiting=5.4), 4),  # 1.08 is within the tolerance
        ("keda-waiting", reading(4, running=200.0), 1),  # full, and nothing waits yet
        ("keda-waiting@24", reading(4, waiting=12.0), 2),
        ("keda-running-waiting", reading(4, running=24.0, waiting=8.0), 8),  # 128 / 16
        ("keda-running-waiting@8", reading(4, running=4.0, waiting=0.0), 2),
        ("keda-waiting", reading(4, waiting=1000.0), 20),  # the maximum
    ],
)
def test_keda_prometheus_divides_the_sum(name: str, seen: Reading, expected: int) -> None:
    """AverageValue: ceil(sum / threshold), whatever the count is now."""
    policy = keda_policy(name)
    policy.observe(view(seen))
    assert settled(policy, 4) == expected


def test_keda_prometheus_takes_an_empty_answer_for_zero() -> None:
    """`ignoreNullValues` is true by default, so lost targets mean no demand."""
    policy = keda_policy("keda-waiting")
    policy.observe(view(None, silence=Silence.EMPTY))
    assert policy.triggers[0].get_metrics(0.0) == (0.0,)
    assert settled(policy, 4) == 1


@pytest.mark.parametrize(
    "name", ["keda-waiting", "keda-running-waiting", "inference-scaler", "hpa-sm", "kaito"]
)
def test_an_unreachable_source_holds_the_count(name: str) -> None:
    """An error is not a value: the autoscaler stays where it is."""
    policy = keda_policy(name)
    policy.observe(view(None, silence=Silence.UNREACHABLE))
    with pytest.raises(ScalerError):
        policy.triggers[0].get_metrics(0.0)
    assert settled(policy, 4) == 4


def test_the_average_value_trap_collapses_four_full_replicas_to_two() -> None:
    """A full cache is 143 % of the threshold; divided by 100 that is two, not 1.43 times four."""
    policy = keda_policy("inference-scaler")
    policy.observe(view(reading(4, kv=1.0)))
    assert settled(policy, 4) == 2


def test_without_the_trap_the_same_metric_scales_out() -> None:
    """Of type Value it is a ratio: ceil(4 × 1.43), and again from there."""
    policy = keda_policy("inference-scaler-value")
    policy.observe(view(reading(4, kv=1.0)))
    assert settled(policy, 4, seconds=10.0) == 6


@pytest.mark.parametrize(
    ("waiting", "kv", "expected"),
    [(3.0, 0.0, 100.0), (0.0, 0.7, 100.0), (6.0, 0.7, 200.0), (1.5, 0.35, 50.0), (0.0, 0.0, 0.0)],
)
def test_inference_saturation(waiting: float, kv: float, expected: float) -> None:
    """The nearer of both thresholds, in per cent."""
    assert inference_scaler.saturation(waiting=waiting, kv_cache=kv) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("waiting", "queue_time", "ready", "expected"),
    [
        (6.0, 3.0, True, 2.0),
        (6.0, 3.0, False, 1.0),  # the gate: somebody still loads
        (6.0, 1.9, True, 1.0),  # both must agree
        (5.0, 3.0, True, 1.0),  # above, not at
        (0.5, 0.4, True, 0.5),
        (0.5, 0.4, False, 0.5),  # the gate does not hold back scaling in
        (0.5, 0.5, True, 1.0),
        (1.0, 0.1, True, 1.0),
    ],
)
def test_kaito_formula(waiting: float, queue_time: float, ready: bool, expected: float) -> None:  # noqa: FBT001 - a table
    """Out only where all agree and all are ready, in only where all agree."""
    found = kaito.ratio(waiting_per_replica=waiting, queue_time=queue_time, all_ready=ready)
    assert found == expected


@pytest.mark.parametrize(("seconds", "expected"), [(45.0, 4), (75.0, 5), (330.0, 5), (400.0, 6)])
def test_kaito_moves_one_pod_in_five_minutes(seconds: float, expected: int) -> None:
    """Twice the pods are asked for at once; the rules let one come after a minute, then 300 s."""
    policy = keda_policy("kaito")
    loop = KedaLoop(Keda(policy.scaled_object, created=0.0), policy.triggers, start=0.0)
    spec = 4
    while loop.due <= seconds:
        now = loop.due
        policy.observe(view(reading(4, waiting=9.0, ttft=4.0), at=now, spec=spec))
        scale = TargetScale(spec=spec, status=spec)
        spec = loop.step(now, scale, PodCount(matching=spec, ready=spec))
    assert spec == expected


def test_kaito_holds_on_values_older_than_45_seconds() -> None:
    """A stale value is an error, not the last word."""
    policy = keda_policy("kaito")
    policy.observe(view(reading(4, ttft=0.1), at=0.0))
    assert policy.triggers[0].get_metrics(45.0) == (0.5,)
    with pytest.raises(ScalerError):
        policy.triggers[0].get_metrics(46.0)


@pytest.mark.parametrize(
    ("demand", "ready", "pending", "expected"),
    [
        (340.0, 4, 0, 0),  # 400 / 100 are exactly four
        (341.0, 4, 0, 1),
        (680.0, 4, 0, 4),
        (680.0, 4, 3, 1),  # those that load count
        (281.0, 5, 0, 0),  # 401.4 of 500: less than one is spare
        (280.0, 5, 0, -1),
        (0.0, 4, 0, -3),  # one stays
    ],
)
def test_wva_counts_in_tokens(demand: float, ready: int, pending: int, expected: int) -> None:
    """Out above 85 % of the capacity, in below 70 %, with 100 tokens a replica."""
    found = wva.change(demand=demand, capacity=100.0, ready=ready, pending=pending)
    assert found == expected


@pytest.mark.parametrize(
    ("prompt", "output", "expected"),
    [
        (900.0, 100.0, 32 * 950.0),  # 2048 × 100 / 1000 are 204: the slots limit it
        (1990.0, 10.0, 10.24 * 1995.0),  # 2048 × 10 / 2000: the step's tokens do
        (0.0, 0.0, float("inf")),
    ],
)
def test_wva_derives_a_capacity(prompt: float, output: float, expected: float) -> None:
    """N = min(B·O / (I + O), S) requests of I + O/2 tokens."""
    lengths = wva.Lengths(prompt=prompt, output=output)
    assert wva.derived(lengths, step_tokens=2048, sequences=32) == pytest.approx(expected)


def test_wva_learns_its_capacity_from_full_replicas() -> None:
    """Tokens in use while five wait replace the derived figure; the memory caps both."""
    capacity = wva.Capacity()
    lengths = wva.Lengths(prompt=900.0, output=100.0)
    idle = [wva.Load(tokens=0.0, waiting=0.0)]
    assert capacity.of(idle, lengths, COMPUTE_BOUND) == pytest.approx(32 * 950.0)
    full = [wva.Load(tokens=tokens, waiting=5.0) for tokens in (20_000.0, 22_000.0)]
    capacity.of(full, lengths, COMPUTE_BOUND)
    assert capacity.of(idle, lengths, COMPUTE_BOUND) == pytest.approx(21_000.0)
    memory = COMPUTE_BOUND.blocks * COMPUTE_BOUND.block_size * 0.8
    huge = wva.Lengths(prompt=90_000.0, output=10_000.0)
    assert wva.Capacity().of(idle, huge, COMPUTE_BOUND) == pytest.approx(memory)


def knative(flights: list[int], *, ready: int, spec: int | None = None) -> list[int]:
    """Return what Knative answers to requests in flight, two seconds apart."""
    policy = policy_named("knative@10", BOUNDS)
    assert isinstance(policy, DirectPolicy)
    return [
        policy.replicas(2.0 * n, spec=spec or ready, ready=ready, in_flight=flight)
        for n, flight in enumerate(flights)
    ]


def test_knative_follows_the_mean_of_a_minute() -> None:
    """A step within the panic threshold comes in as the stable window fills."""
    answers = knative([40] * 30 + [70] * 30, ready=4)
    assert answers[29] == 4
    assert answers[44] == 6  # 15 of 30 at 70: 55 / 10
    assert answers[59] == 7


def test_knative_panics_on_six_seconds_of_twice_the_load() -> None:
    """Three samples at twice the ready pods are enough; for a minute the count does not fall."""
    answers = knative([40] * 30 + [90] * 3 + [10] * 27, ready=4)
    assert answers[29] == 4
    assert answers[32] == 9
    assert answers[59] == 9


def test_knative_halves_at_most() -> None:
    """One step down keeps half of the ready pods."""
    assert knative([0], ready=8) == [4]


@pytest.mark.parametrize(
    ("utilisation", "seconds", "expected"),
    [(0.98, 5.0, 5), (0.87, 330.0, 4), (0.73, 330.0, 4), (0.5, 5.0, 4), (0.02, 330.0, 1)],
)
def test_hpa_on_sm_utilisation(utilisation: float, seconds: float, expected: int) -> None:
    """Ready pods × utilisation / 0.8, a tolerance of a tenth, down only after five minutes."""
    policy = keda_policy("hpa-sm")
    policy.observe(view(reading(4), utilisation=utilisation))
    assert settled(policy, 4, seconds=seconds) == expected


def test_cpu_never_calls_for_more() -> None:
    """A replica whose step never ends and that streams 2000 tokens a second uses 1.1 of 8 cores."""
    policy = keda_policy("hpa-cpu")
    policy.observe(view(reading(4, token_rate=2000.0), utilisation=1.0))
    assert policy.note().answer == pytest.approx(1.1 / 8)
    assert settled(policy, 4) == 1


@pytest.mark.parametrize("name", ["corridor", *PEERS, "static-7"])
def test_every_name_makes_a_policy_that_bears_it(name: str) -> None:
    """Names lead to policies, and results are listed under the same name."""
    assert policy_named(name, BOUNDS).name == name


@pytest.mark.parametrize(
    "name", ["", "kedaa", "static-0", "static-", "kaito@3", "knative@", "knative@x", "hpa-sm@nan"]
)
def test_unknown_names_are_refused(name: str) -> None:
    """The message lists what there is."""
    with pytest.raises(PolicyUnknown):
        policy_named(name, BOUNDS)


@pytest.mark.parametrize(("name", "size"), [("static-12", 12), ("corridor", None)])
def test_static_fleets_start_at_their_size(name: str, size: int | None) -> None:
    """Only static fleets bring their own start."""
    assert static_size(name) == size
