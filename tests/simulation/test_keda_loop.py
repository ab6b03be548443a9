"""When KEDA asks whom, and what becomes of a fleet over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.units import Seconds
from scaler.simulation.keda import Keda, KedaLoop, observed
from scaler.simulation.keda_types import (
    CallableScaler,
    Fallback,
    FallbackBehavior,
    MetricSpec,
    Observation,
    Pause,
    ScaledObject,
    Scaler,
    ScalerError,
)
from tests.simulation.keda_fakes import FAILED, FREE, MUTE, SPEC, ZERO, seen


def run(loop: KedaLoop, replicas: int, until: Seconds) -> dict[Seconds, int]:
    """Step a loop to a time; return the changes of the count. Pods are ready at once."""
    changes: dict[Seconds, int] = {}
    while loop.due <= until:
        now = loop.due
        after = loop.step(now, *seen(replicas))
        if after != replicas:
            changes[now] = replicas = after
    return changes


def scaler(
    value: Callable[[Seconds], float | None], active: Callable[[Seconds], bool | None] | None = None
) -> CallableScaler:
    """Return a scaler that is active while its value is above 0."""

    def above_zero(now: Seconds) -> bool:
        known = value(now)
        return known is not None and known > 0

    return CallableScaler(spec=SPEC, value=value, active=active or above_zero)


@dataclass
class Recorder:
    """A scaler that notes what it is asked and when, and fails where told to."""

    fails: str = ""
    asked: list[tuple[str, Seconds]] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return what was asked, in order."""
        return [name for name, _ in self.asked]

    def times(self, asked: str) -> list[Seconds]:
        """Return when one thing was asked."""
        return [at for name, at in self.asked if name == asked]

    def metric_spec(self, now: Seconds) -> MetricSpec:
        """Note it."""
        self._note("spec", now)
        return SPEC

    def get_metrics(self, now: Seconds) -> tuple[float, ...]:
        """Note it."""
        self._note("metrics", now)
        return (2.0,)

    def is_active(self, now: Seconds) -> bool:
        """Note it."""
        self._note("active", now)
        return True

    def _note(self, name: str, now: Seconds) -> None:
        self.asked.append((name, now))
        if name == self.fails:
            raise ScalerError(name)


@pytest.mark.parametrize(
    ("fails", "asked", "observation"),
    [
        ("spec", ["spec"] * 2, MUTE),
        ("metrics", ["spec", *["metrics"] * 2], FAILED),
        ("active", ["spec", *["metrics", "active"] * 2], FAILED),
    ],
)
def test_a_failing_call_is_tried_once_more(
    fails: str, asked: list[str], observation: Observation
) -> None:
    """What comes after it is not asked, and what came before it does not count."""
    recorder = Recorder(fails=fails)
    assert observed(recorder, 0) == observation
    assert recorder.names() == asked


def test_who_asks_when() -> None:
    """Half a minute has one discovery, two polls and two reconciles of the autoscaler."""
    recorder = Recorder()
    loop = KedaLoop(Keda(ZERO, created=0), [recorder], start=0, sync_offset=7)
    run(loop, 2, until=30)
    assert recorder.times("spec") == [0, 0, 7, 22, 30]
    assert recorder.times("metrics") == recorder.times("active") == [0, 7, 22, 30]


def test_at_zero_only_the_poll_asks() -> None:
    """The autoscaler is off, so no scaler hears of it."""
    recorder = Recorder()
    loop = KedaLoop(Keda(ZERO, created=0), [recorder], start=0, sync_offset=7)
    for now in (0.0, 7.0, 22.0):
        loop.step(now, *seen(0))
    assert recorder.times("metrics") == [0]


def test_a_day_in_the_life_of_a_fleet() -> None:
    """From zero, up with demand, down again, and to zero after the cooldown."""
    demand = scaler(lambda now: 5.0 if 60 <= now < 600 else 0.0)
    loop = KedaLoop(Keda(ScaledObject(behavior=FREE), created=0), [demand], start=0)
    assert run(loop, 0, until=1200) == {60: 5, 600: 1, 900: 0}


def test_the_loop_sees_the_last_activity_at_a_poll_only() -> None:
    """The last poll with demand was at 570 s: 300 s later nothing has ended, at the next it has."""
    demand = scaler(lambda now: 1.0 if now < 600 else 0.0)
    loop = KedaLoop(Keda(ZERO, created=0), [demand], start=0)
    assert run(loop, 1, until=1200) == {900: 0}


def test_an_outage_freezes_the_fleet_whatever_its_age() -> None:
    """Without a fallback nothing moves while the scaler fails."""
    demand = scaler(lambda now: 6.0 if now < 60 else None)
    loop = KedaLoop(Keda(ScaledObject(behavior=FREE), created=0), [demand], start=0)
    assert run(loop, 1, until=7200) == {0: 6}


def test_an_outage_with_a_fallback() -> None:
    """Polls and the autoscaler both count: the fourth failure comes after half a minute."""
    demand = scaler(lambda now: 6.0 if now < 60 else None)
    fallback = Fallback(replicas=9, behavior=FallbackBehavior.CURRENT_IF_HIGHER)
    scaled_object = ScaledObject(behavior=FREE, fallback=fallback)
    loop = KedaLoop(Keda(scaled_object, created=0), [demand], start=0)
    assert run(loop, 1, until=7200) == {0: 6, 90: 9}


def test_a_pause_at_a_count_and_back() -> None:
    """The count is set once; other people may change it; afterwards the autoscaler begins anew."""
    demand = scaler(lambda _: 6.0)
    scaled_object = ScaledObject(behavior=FREE)
    keda = Keda(scaled_object, created=0)
    loop = KedaLoop(keda, [demand], start=0)
    assert run(loop, 1, until=60) == {0: 6}
    loop.change(61, replace(scaled_object, pause=Pause(replicas=2)))
    assert run(loop, 6, until=90) == {61: 2}
    assert keda.hpa is None
    assert run(loop, 3, until=300) == {}
    loop.change(301, scaled_object)
    assert run(loop, 3, until=360) == {315: 6}


@pytest.mark.parametrize(
    ("pause", "changes"),
    [
        pytest.param(Pause(), {0: 8, 600: 2}, id="free"),
        pytest.param(Pause(scale_in=True), {0: 8}, id="no way in"),
        pytest.param(Pause(scale_out=True), {600: 2}, id="no way out"),
    ],
)
def test_a_paused_direction(pause: Pause, changes: dict[Seconds, int]) -> None:
    """One direction is held in the autoscaler as well."""
    demand = scaler(lambda now: 8.0 if now < 600 else 2.0)
    scaled_object = ScaledObject(min_replicas=1, behavior=FREE, pause=pause)
    loop = KedaLoop(Keda(scaled_object, created=0), [demand], start=0)
    assert run(loop, 4, until=1200) == changes


def test_without_a_spec_nothing_starts() -> None:
    """A scaler that cannot say its spec is asked again; until then nobody scales."""

    class Late(Recorder):
        def metric_spec(self, now: Seconds) -> MetricSpec:
            if now < 60:
                raise ScalerError("not yet")
            return super().metric_spec(now)

    late: Scaler = Late()
    loop = KedaLoop(Keda(ZERO, created=0), [late], start=0, sync_offset=7)
    assert run(loop, 0, until=120) == {60: 1, 67: 2}


def test_an_unknown_answer_is_an_error_and_not_zero() -> None:
    """None from a callable becomes a failed call."""
    assert observed(scaler(lambda _: None), 0).values is None
    assert observed(scaler(lambda _: 4.0, lambda _: None), 0).values is None


@given(
    values=st.lists(st.none() | st.floats(0, 40), min_size=1, max_size=40),
    low=st.integers(0, 5),
    fallback=st.none() | st.builds(Fallback, replicas=st.integers(0, 20)),
    start=st.integers(0, 10),
)
def test_the_count_stays_between_zero_and_max(
    values: list[float | None], low: int, fallback: Fallback | None, start: int
) -> None:
    """With and without failures and fallback no answer leaves the ScaledObject's bounds."""
    demand = scaler(lambda now: values[int(now // 30) % len(values)])
    scaled_object = ScaledObject(min_replicas=low, max_replicas=10, fallback=fallback)
    changes = run(KedaLoop(Keda(scaled_object, created=0), [demand], start=0), start, until=1800)
    assert all(low <= replicas <= 10 for replicas in changes.values())
