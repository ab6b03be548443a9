"""KEDA's operator in simulated time: activation, fallback, and the autoscaler that it feeds.

`Keda` decides from what triggers answered and makes no calls: whoever asks real scalers can use it.
`KedaLoop` asks `Scaler` objects when KEDA would. Both follow KEDA 2.20, in which GetMetrics goes
before IsActive, a failed call is tried once more at once, fallback also acts while polling, and
GetMetricSpec failing never counts towards it. Not modelled: `useCachedMetrics`, scaling modifiers
and calls that take long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from scaler.core.units import Seconds
from scaler.simulation.hpa import SYNC_PERIOD, Hpa
from scaler.simulation.hpa_types import (
    HpaSpec,
    MetricType,
    MetricValue,
    PodCount,
    Reconciled,
    TargetScale,
)
from scaler.simulation.keda_types import (
    MetricSpec,
    Observation,
    ScaledObject,
    Scaler,
    ScalerError,
    from_wire,
)

Answer = TypeVar("Answer")


class Keda:
    """One ScaledObject: how polls, pushes and the autoscaler change `spec.replicas`.

    `hpa` is `None` before the first successful `reconcile` and while paused; removing it loses its
    memory. `answer` is the autoscaler's latest. `failures` counts, for each metric, the failures
    since the last success; nothing is counted without a fallback.
    """

    def __init__(
        self,
        scaled_object: ScaledObject,
        *,
        created: Seconds,
        tolerance: float = 0.1,
        downscale_stabilization: Seconds = 300.0,
    ) -> None:
        self.scaled_object = scaled_object
        self.hpa: Hpa | None = None
        self.answer: Reconciled | None = None
        self.failures: dict[str, int] = {}
        self.last_active: Seconds | None = None
        self._created = created
        self._tolerance = tolerance
        self._downscale_stabilization = downscale_stabilization
        self._metrics: tuple[tuple[int, str], ...] = ()

    def reconcile(self, scaled_object: ScaledObject, specs: Sequence[MetricSpec | None]) -> bool:
        """Take a new or changed ScaledObject and bring the autoscaler in line with it.

        Triggers whose spec is `None` (GetMetricSpec failed) are left out of the autoscaler until
        the next change. False means that none was known: nothing changed, KEDA tries again later.
        """
        known = [(index, spec) for index, spec in enumerate(specs) if spec is not None]
        if scaled_object.pause.stops:
            self.scaled_object, self.hpa, self.answer = scaled_object, None, None
            return True
        if not known:
            return False
        spec = HpaSpec(
            min_replicas=max(1, scaled_object.min_replicas),
            max_replicas=scaled_object.max_replicas,
            metrics=tuple(each.hpa_target() for _, each in known),
            behavior=scaled_object.hpa_behavior(),
            tolerance=self._tolerance,
            downscale_stabilization=self._downscale_stabilization,
        )
        self.scaled_object = scaled_object
        self._metrics = tuple((index, each.name) for index, each in known)
        if self.hpa is None:
            self.hpa = Hpa(spec)
        else:
            self.hpa.spec = spec
        return True

    def poll(
        self, now: Seconds, seen: Sequence[Observation], scale: TargetScale, pods: PodCount
    ) -> int:
        """Return `spec.replicas` after a round of the polling loop.

        `seen` has one observation for each trigger, in the ScaledObject's order.
        """
        if self.scaled_object.pause.stops:
            return scale.spec
        active = failed = False
        for each in seen:
            if each.spec is None:
                failed = True
            elif each.values is None:
                failed = True
                active |= self._fallback(each.spec, scale, pods) is not None
            else:
                self.failures.pop(each.spec.name, None)
                active |= each.active
        return self._requested(now, scale.spec, active=active, failed=failed)

    def pushed(self, now: Seconds, scale: TargetScale) -> int:
        """Return `spec.replicas` after a trigger of type external-push sent `true`.

        KEDA ignores a pushed `false`.
        """
        if self.scaled_object.pause.stops:
            return scale.spec
        return self._requested(now, scale.spec, active=True, failed=False)

    def wants_metrics(self, scale: TargetScale) -> bool:
        """Say whether the autoscaler will ask for metrics when it next sees this scale."""
        return self.hpa is not None and self.hpa.wants_metrics(scale)

    def sync(
        self, now: Seconds, seen: Sequence[Observation], scale: TargetScale, pods: PodCount
    ) -> int:
        """Return `spec.replicas` after a reconcile of the autoscaler.

        `seen` has one observation for each trigger, and is not read where `wants_metrics` is false.
        """
        if self.hpa is None:
            return scale.spec
        values: list[MetricValue | None] = []
        if self.hpa.wants_metrics(scale):
            values = [self._value(index, name, seen, scale, pods) for index, name in self._metrics]
        self.answer = self.hpa.reconcile(now, scale, values, pods)
        return self.answer.desired

    def _value(
        self,
        index: int,
        name: str,
        seen: Sequence[Observation],
        scale: TargetScale,
        pods: PodCount,
    ) -> MetricValue | None:
        """Return what the autoscaler gets for a metric.

        A trigger that no longer has this name gives nothing, and so does every trigger while any
        of them fails to say its spec.
        """
        own = seen[index]
        if own.spec is None or own.spec.name != name:
            return None
        if own.values is None:
            items = self._fallback(own.spec, scale, pods)
        else:
            self.failures.pop(name, None)
            items = tuple(from_wire(value) for value in own.values)
        if items is None or any(each.spec is None for each in seen):
            return None
        return MetricValue(items=items)

    def _fallback(
        self, spec: MetricSpec, scale: TargetScale, pods: PodCount
    ) -> tuple[int, ...] | None:
        """Count a failure; return the fallback's value in thousandths where it takes effect."""
        fallback = self.scaled_object.fallback
        if fallback is None:
            return None
        self.failures[spec.name] = self.failures.get(spec.name, 0) + 1
        if self.failures[spec.name] <= fallback.failure_threshold:
            return None
        replicas = float(fallback.count(scale.spec))
        if spec.type is MetricType.VALUE:
            if pods.ready == 0:
                return None
            replicas /= pods.ready
        return (int(spec.target * 1000 * replicas),)

    def _requested(self, now: Seconds, current: int, *, active: bool, failed: bool) -> int:
        """Return the count after KEDA has looked at activity: to zero, from zero, or as it is."""
        wanted = self.scaled_object
        if active or wanted.pause.force_activation:
            return self._activated(now, current, failed=failed)
        if failed and (wanted.fallback is None or wanted.fallback.replicas != 0):
            return current
        idle = wanted.idle_replicas
        if (idle is not None and current > idle) or (current > 0 and wanted.min_replicas == 0):
            return self._deactivated(now, current)
        if idle is None and current < wanted.min_replicas:
            return wanted.min_replicas
        return current

    def _activated(self, now: Seconds, current: int, *, failed: bool) -> int:
        wanted = self.scaled_object
        below_idle = wanted.idle_replicas is not None and current < wanted.min_replicas
        if current == 0 or below_idle:
            if wanted.pause.scale_out:
                return current
            self.last_active = now
            return max(1, wanted.min_replicas)
        if not failed:
            self.last_active = now
        return current

    def _deactivated(self, now: Seconds, current: int) -> int:
        """Return the idle count once the cooldown is over; a fleet never active has another."""
        wanted = self.scaled_object
        if wanted.pause.scale_in:
            return current
        if self.last_active is None:
            over = self._created + wanted.initial_cooldown_period < now
        else:
            over = self.last_active + wanted.cooldown_period < now
        if not over:
            return current
        return wanted.idle_replicas or 0  # without one, only a minimum of 0 comes here


class KedaLoop:
    """Asks scalers when KEDA and the autoscaler would, and says what `spec.replicas` becomes.

    Drive it by calling `step` at every `due`. At the same instant the poll goes before the
    autoscaler, which then sees the polled count. `start` is when the ScaledObject is created;
    the autoscaler reconciles every 15 s from `sync_offset` after that.
    """

    def __init__(
        self,
        keda: Keda,
        scalers: Sequence[Scaler],
        *,
        start: Seconds,
        sync_offset: Seconds = 0.0,
    ) -> None:
        self._keda = keda
        self._scalers = scalers
        self._poll_at = start
        self._sync_at = start + sync_offset
        self._pending: ScaledObject | None = keda.scaled_object
        self._hold_at: int | None = None

    @property
    def due(self) -> Seconds:
        """When something happens next."""
        return min(self._poll_at, self._sync_at)

    def change(self, now: Seconds, scaled_object: ScaledObject) -> None:
        """Replace the ScaledObject; KEDA reconciles and polls at once."""
        self._pending = scaled_object
        self._poll_at = now

    def step(self, now: Seconds, scale: TargetScale, pods: PodCount) -> int:
        """Do what is due at `now` and return `spec.replicas`; before `due` that is nothing."""
        replicas = scale.spec
        if self._poll_at <= now:
            replicas = self._poll(now, scale, pods)
            self._poll_at = now + self._keda.scaled_object.polling_interval
        if self._sync_at <= now:
            replicas = self._sync(now, TargetScale(spec=replicas, status=scale.status), pods)
            self._sync_at += SYNC_PERIOD * (1 + (now - self._sync_at) // SYNC_PERIOD)
        return replicas

    def _poll(self, now: Seconds, scale: TargetScale, pods: PodCount) -> int:
        # Until a spec is known KEDA neither polls nor scales; here it tries again at the next poll.
        if self._pending is not None and not self._reconciled(now, self._pending):
            return scale.spec
        if self._hold_at is not None:
            held, self._hold_at = self._hold_at, None
            return held
        if self._keda.scaled_object.pause.stops:
            return scale.spec
        return self._keda.poll(now, self._observed(now), scale, pods)

    def _reconciled(self, now: Seconds, scaled_object: ScaledObject) -> bool:
        paused = scaled_object.pause.stops
        specs = [] if paused else [observed_spec(scaler, now) for scaler in self._scalers]
        if not self._keda.reconcile(scaled_object, specs):
            return False
        self._pending = None
        self._hold_at = scaled_object.pause.replicas
        return True

    def _sync(self, now: Seconds, scale: TargetScale, pods: PodCount) -> int:
        asks = self._keda.wants_metrics(scale)
        return self._keda.sync(now, self._observed(now) if asks else (), scale, pods)

    def _observed(self, now: Seconds) -> list[Observation]:
        return [observed(scaler, now) for scaler in self._scalers]


def observed_spec(scaler: Scaler, now: Seconds) -> MetricSpec | None:
    """Ask a scaler for its spec, twice where it fails, and return `None` where it fails again."""
    return _twice(lambda: scaler.metric_spec(now))


def observed(scaler: Scaler, now: Seconds) -> Observation:
    """Ask a scaler as KEDA does; without a spec it is asked nothing else."""
    spec = observed_spec(scaler, now)
    if spec is None:
        return Observation(spec=None, values=None)
    # In this order: a failing GetMetrics keeps IsActive from being asked.
    answer = _twice(lambda: (scaler.get_metrics(now), scaler.is_active(now)))
    if answer is None:
        return Observation(spec=spec, values=None)
    return Observation(spec=spec, values=answer[0], active=answer[1])


def _twice(ask: Callable[[], Answer]) -> Answer | None:
    for _ in range(2):
        try:
            return ask()
        except ScalerError:
            continue
    return None
