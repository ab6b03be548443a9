"""What KEDA decides from what triggers answered: activation, cooldown, fallback, bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf, nan

import pytest

from scaler.core.units import Seconds
from scaler.simulation.hpa_types import (
    HpaInvalid,
    MetricType,
)
from scaler.simulation.keda import Keda
from scaler.simulation.keda_types import (
    Fallback,
    FallbackBehavior,
    KedaInvalid,
    MetricSpec,
    Observation,
    Pause,
    ScaledObject,
    from_wire,
)
from tests.simulation.keda_fakes import BUSY, FAILED, FREE, IDLE, MUTE, SPEC, ZERO, seen


def operator(
    scaled_object: ScaledObject, specs: Iterable[MetricSpec | None] = (SPEC,), created: Seconds = 0
) -> Keda:
    """Return KEDA after its first look at a ScaledObject."""
    keda = Keda(scaled_object, created=created)
    assert keda.reconcile(scaled_object, list(specs))
    return keda


TWO = ScaledObject(min_replicas=2, max_replicas=10)
RESTING = ScaledObject(min_replicas=2, max_replicas=10, idle_replicas=0)
SAFE = Fallback(replicas=3, failure_threshold=0)


@pytest.mark.parametrize(
    ("scaled_object", "replicas", "observation", "answer"),
    [
        pytest.param(ZERO, 0, BUSY, 1, id="activity lifts zero to one"),
        pytest.param(TWO, 0, BUSY, 2, id="activity lifts zero to min"),
        pytest.param(TWO, 1, BUSY, 1, id="activity leaves what is above zero to the autoscaler"),
        pytest.param(TWO, 0, IDLE, 2, id="min holds without activity"),
        pytest.param(TWO, 5, IDLE, 5, id="above min nobody goes to zero"),
        pytest.param(RESTING, 1, BUSY, 2, id="activity lifts idle to min"),
        pytest.param(RESTING, 0, IDLE, 0, id="idle stays idle below min"),
        pytest.param(RESTING, 5, IDLE, 0, id="idle although min is two"),
        pytest.param(ZERO, 5, IDLE, 0, id="to zero at once where nothing was ever active"),
        pytest.param(ZERO, 0, IDLE, 0, id="zero stays zero"),
        pytest.param(ZERO, 5, FAILED, 5, id="a failure is not idleness"),
        pytest.param(ZERO, 5, MUTE, 5, id="nor is a failing GetMetricSpec"),
        pytest.param(TWO, 0, FAILED, 0, id="a failure lifts nothing to min"),
        pytest.param(replace(ZERO, fallback=SAFE), 5, MUTE, 5, id="a fallback waits"),
        pytest.param(replace(ZERO, fallback=SAFE), 0, FAILED, 1, id="a fallback lifts zero"),
        pytest.param(replace(ZERO, fallback=SAFE), 0, MUTE, 0, id="not without a spec"),
        pytest.param(
            replace(ZERO, fallback=Fallback(replicas=0)),
            5,
            FAILED,
            0,
            id="a fallback to none takes a failure for idleness",
        ),
        pytest.param(
            replace(ZERO, pause=Pause(force_activation=True)), 0, IDLE, 1, id="forced activation"
        ),
        pytest.param(replace(ZERO, pause=Pause(scale_out=True)), 0, BUSY, 0, id="no way out"),
        pytest.param(replace(ZERO, pause=Pause(scale_in=True)), 5, IDLE, 5, id="no way in"),
        pytest.param(replace(ZERO, pause=Pause(everything=True)), 0, BUSY, 0, id="paused"),
    ],
)
def test_one_poll(
    scaled_object: ScaledObject, replicas: int, observation: Observation, answer: int
) -> None:
    """What a poll does to the count, a minute after creation."""
    keda = operator(scaled_object)
    assert keda.poll(60, [observation], *seen(replicas)) == answer


def test_one_active_trigger_is_enough() -> None:
    """Triggers are joined by or, also beside a failing one."""
    other = MetricSpec(name="other")
    keda = operator(ZERO, (SPEC, other))
    assert (
        keda.poll(0, [FAILED, Observation(spec=other, values=(1.0,), active=True)], *seen(0)) == 1
    )


@pytest.mark.parametrize(("at", "answer"), [(300.0, 4), (300.001, 0)])
def test_the_cooldown_is_over_only_after_its_last_instant(at: Seconds, answer: int) -> None:
    """Exactly cooldownPeriod after the last activity the fleet is still there."""
    keda = operator(ZERO)
    assert keda.poll(0, [BUSY], *seen(4)) == 4
    assert keda.poll(at, [IDLE], *seen(4)) == answer


@pytest.mark.parametrize(("at", "answer"), [(60.0, 4), (60.001, 0)])
def test_the_initial_cooldown_guards_what_was_never_active(at: Seconds, answer: int) -> None:
    """It counts from the ScaledObject's creation."""
    keda = operator(replace(ZERO, initial_cooldown_period=60), created=0)
    assert keda.poll(at, [IDLE], *seen(4)) == answer


@pytest.mark.parametrize(
    ("refresh", "answer"),
    [
        pytest.param(lambda keda: keda.poll(200, [BUSY], *seen(4)), 4, id="a poll"),
        pytest.param(lambda keda: keda.pushed(200, seen(4)[0]), 4, id="a push"),
        pytest.param(lambda keda: keda.poll(200, [BUSY, MUTE], *seen(4)), 0, id="not with errors"),
    ],
)
def test_activity_starts_the_cooldown_anew(refresh: Callable[[Keda], int], answer: int) -> None:
    """A poll beside a failing trigger does not."""
    keda = operator(ZERO)
    keda.poll(0, [BUSY], *seen(4))
    assert refresh(keda) == 4
    assert keda.poll(400, [IDLE], *seen(4)) == answer


def test_waking_a_fleet_starts_its_cooldown() -> None:
    """What has just come from zero does not go back at the next idle poll."""
    keda = operator(ZERO)
    assert keda.poll(1000, [BUSY], *seen(0)) == 1
    assert keda.poll(1030, [IDLE], *seen(1)) == 1


def test_a_push_lifts_zero() -> None:
    """An external-push trigger need not wait for the poll, unless all is paused."""
    assert operator(ZERO).pushed(1, seen(0)[0]) == 1
    assert operator(replace(ZERO, pause=Pause(everything=True))).pushed(1, seen(0)[0]) == 0


@pytest.mark.parametrize(
    ("behavior", "current", "answer"),
    [
        (FallbackBehavior.STATIC, 8, 5),
        (FallbackBehavior.STATIC, 2, 5),
        (FallbackBehavior.CURRENT, 8, 8),
        (FallbackBehavior.CURRENT, 2, 2),
        (FallbackBehavior.CURRENT_IF_HIGHER, 8, 8),
        (FallbackBehavior.CURRENT_IF_HIGHER, 2, 5),
        (FallbackBehavior.CURRENT_IF_LOWER, 8, 5),
        (FallbackBehavior.CURRENT_IF_LOWER, 2, 2),
    ],
)
@pytest.mark.parametrize("metric_type", MetricType)
def test_a_fallback_takes_effect_after_more_failures_than_the_threshold(
    behavior: FallbackBehavior, current: int, answer: int, metric_type: MetricType
) -> None:
    """Until then the count is frozen; a success ends it."""
    fallback = Fallback(replicas=5, failure_threshold=2, behavior=behavior)
    spec = MetricSpec(name="demand", target=2.5, type=metric_type)
    keda = operator(ScaledObject(min_replicas=1, fallback=fallback, behavior=FREE), (spec,))
    failed = [Observation(spec=spec, values=None)]
    assert keda.sync(0, failed, *seen(current)) == current
    assert keda.poll(1, failed, *seen(current)) == current
    assert keda.sync(15, failed, *seen(current)) == answer
    assert keda.failures == {"demand": 3}
    keda.poll(16, [Observation(spec=spec, values=(1.0,))], *seen(answer))
    assert keda.failures == {}
    assert keda.sync(30, failed, *seen(7)) == 7


def test_a_fallback_of_type_value_needs_ready_pods() -> None:
    """Without one there is nothing to divide by, and the count is frozen."""
    spec = MetricSpec(name="demand", type=MetricType.VALUE)
    fallback = Fallback(replicas=5, failure_threshold=0)
    keda = operator(ScaledObject(min_replicas=1, fallback=fallback, behavior=FREE), (spec,))
    assert keda.sync(0, [Observation(spec=spec, values=None)], *seen(3, ready=0)) == 3


def test_a_failing_spec_never_reaches_the_fallback() -> None:
    """However often GetMetricSpec fails, no failure is counted and nothing moves."""
    keda = operator(replace(ZERO, fallback=Fallback(replicas=5)))
    for tick in range(20):
        assert keda.sync(15.0 * tick, [MUTE], *seen(3)) == 3
        assert keda.poll(15.0 * tick, [MUTE], *seen(3)) == 3
    assert keda.failures == {}


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        pytest.param(BUSY, (7.0,), 7, id="the larger of two"),
        pytest.param(BUSY, None, 4, id="down is held by a failing one"),
        pytest.param(FAILED, (7.0,), 7, id="up is not"),
        pytest.param(MUTE, (7.0,), 4, id="a failing spec poisons the others"),
        pytest.param(BUSY, (), 4, id="an empty list is not available"),
        pytest.param(BUSY, (3.0, 3.0), 6, id="values of one metric are added"),
    ],
)
def test_two_triggers(first: Observation, second: tuple[float, ...] | None, answer: int) -> None:
    """What the autoscaler makes of two triggers, from four replicas."""
    other = MetricSpec(name="other")
    keda = operator(ScaledObject(behavior=FREE), (SPEC, other))
    assert keda.sync(0, [first, Observation(spec=other, values=second)], *seen(4)) == answer


def test_a_trigger_that_failed_at_discovery_is_left_out() -> None:
    """The autoscaler is made of the others, until the ScaledObject changes."""
    other = MetricSpec(name="other")
    keda = operator(ScaledObject(behavior=FREE), (None, other))
    answered = [Observation(spec=SPEC, values=(9.0,)), Observation(spec=other, values=(2.0,))]
    assert keda.sync(0, answered, *seen(1)) == 2
    assert keda.reconcile(keda.scaled_object, (SPEC, other))
    assert keda.sync(15, answered, *seen(2)) == 9


def test_a_metric_that_changed_its_name_is_not_found() -> None:
    """The autoscaler keeps asking for the old name."""
    keda = operator(ScaledObject(behavior=FREE))
    renamed = Observation(spec=MetricSpec(name="new"), values=(9.0,))
    assert keda.sync(0, [renamed], *seen(1)) == 1


def test_nothing_discovered_leaves_all_as_it_was() -> None:
    """Without a single spec there is no autoscaler yet, and no change of an old one."""
    keda = Keda(ZERO, created=0)
    assert not keda.reconcile(ZERO, [None])
    assert not keda.wants_metrics(seen(3)[0])
    assert keda.sync(0, [MUTE], *seen(3)) == 3


def test_the_autoscaler_s_least_is_one() -> None:
    """With minReplicaCount 0 only KEDA goes to zero, and only KEDA comes back."""
    keda = operator(ScaledObject(behavior=FREE))
    assert keda.sync(0, [IDLE], *seen(4)) == 1
    assert keda.sync(15, [BUSY], *seen(0)) == 0


def test_a_target_of_nothing_is_refused() -> None:
    """KEDA writes three decimals, so a target below 0.0005 is 0 to the API."""
    with pytest.raises(HpaInvalid, match=r"at least 0\.001"):
        operator(ZERO, (MetricSpec(name="demand", target=0.0004),))


@pytest.mark.parametrize(
    ("number", "whole", "thousandths"),
    [
        (3.0, 0, 3000),
        (3.0004, 0, 3000),
        (3.0006, 0, 3001),
        (3.0, 7, 3000),
        (0.0, 7, 7000),
        (nan, 0, 0),
        (nan, 7, 7000),
        (inf, 7, 0),
        (-inf, 0, 0),
        (-3.0, 0, 0),
        (0.0, -7, 0),
    ],
)
def test_numbers_on_the_wire(number: float, whole: int, thousandths: int) -> None:
    """What is no number never reaches the autoscaler as one, but may as nothing."""
    assert from_wire(number, whole) == thousandths


@pytest.mark.parametrize(
    ("annotations", "pause"),
    [
        ({}, Pause()),
        ({"somebody.else/paused": "true"}, Pause()),
        ({"autoscaling.keda.sh/paused": "true"}, Pause(everything=True)),
        ({"autoscaling.keda.sh/paused": "false"}, Pause()),
        ({"autoscaling.keda.sh/paused": "perhaps"}, Pause(everything=True)),
        ({"autoscaling.keda.sh/paused-replicas": "0"}, Pause(replicas=0)),
        ({"autoscaling.keda.sh/paused-scale-in": "true"}, Pause(scale_in=True)),
        ({"autoscaling.keda.sh/paused-scale-out": "true"}, Pause(scale_out=True)),
        ({"autoscaling.keda.sh/force-activation": "true"}, Pause(force_activation=True)),
        ({"autoscaling.keda.sh/force-activation": "perhaps"}, Pause()),
    ],
)
def test_annotations(annotations: dict[str, str], pause: Pause) -> None:
    """A pause that cannot be read is a pause."""
    assert Pause.from_annotations(annotations) == pause


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: ScaledObject(min_replicas=3, max_replicas=2), id="min above max"),
        pytest.param(lambda: ScaledObject(max_replicas=0), id="no room"),
        pytest.param(lambda: ScaledObject(idle_replicas=0), id="idle not below min"),
        pytest.param(lambda: ScaledObject(polling_interval=0), id="no interval"),
        pytest.param(lambda: Fallback(replicas=-1), id="a negative fallback"),
        pytest.param(
            lambda: Pause.from_annotations({"autoscaling.keda.sh/paused-replicas": "many"}),
            id="a paused count that is none",
        ),
    ],
)
def test_what_keda_refuses_is_refused(build: Callable[[], object]) -> None:
    """A ScaledObject that cannot work cannot be simulated."""
    with pytest.raises(KedaInvalid):
        build()
