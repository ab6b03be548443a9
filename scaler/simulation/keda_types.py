"""A ScaledObject, what its triggers answer, and how KEDA reads their numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from scaler.core.units import Seconds
from scaler.simulation.errors import SimulationError
from scaler.simulation.hpa_types import Behavior, MetricTarget, MetricType
from scaler.simulation.quantity import milli

_ANNOTATION: Final = "autoscaling.keda.sh/"
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class KedaInvalid(SimulationError):
    """A ScaledObject that KEDA refuses or cannot act on."""


class ScalerError(SimulationError):
    """A scaler that did not answer: raise it from any method of a `Scaler`."""


class FallbackBehavior(StrEnum):
    """Which count a fallback stands for; the names are KEDA's."""

    STATIC = "static"
    CURRENT = "currentReplicas"
    CURRENT_IF_HIGHER = "currentReplicasIfHigher"
    CURRENT_IF_LOWER = "currentReplicasIfLower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """What KEDA puts in a failing trigger's place after more than `failure_threshold` failures."""

    replicas: int
    failure_threshold: int = 3
    behavior: FallbackBehavior = FallbackBehavior.STATIC

    def __post_init__(self) -> None:
        if self.replicas < 0 or self.failure_threshold < 0:
            raise KedaInvalid("a fallback's replicas and failureThreshold must not be negative")

    def count(self, current: int) -> int:
        """Return for how many replicas the fallback asks while `current` are wanted."""
        match self.behavior:
            case FallbackBehavior.STATIC:
                return self.replicas
            case FallbackBehavior.CURRENT:
                return current
            case FallbackBehavior.CURRENT_IF_HIGHER:
                return max(current, self.replicas)
            case FallbackBehavior.CURRENT_IF_LOWER:
                return min(current, self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """What annotations hold still.

    `everything` stops polling and removes the autoscaler; `replicas` does so at a given count.
    `scale_in` and `scale_out` hold one direction. `force_activation` is none of these, but an
    annotation as well: the triggers count as active.
    """

    everything: bool = False
    replicas: int | None = None
    scale_in: bool = False
    scale_out: bool = False
    force_activation: bool = False

    @property
    def stops(self) -> bool:
        """Say whether nothing is polled and no autoscaler exists."""
        return self.everything or self.replicas is not None

    @classmethod
    def from_annotations(cls, annotations: Mapping[str, str]) -> Pause:
        """Read a ScaledObject's annotations; other people's are ignored.

        Raises:
            KedaInvalid: `paused-replicas` is not a whole number from 0.
        """
        replicas = annotations.get(f"{_ANNOTATION}paused-replicas")
        if replicas is not None and not (replicas.isascii() and replicas.isdigit()):
            raise KedaInvalid(
                f"the annotation {_ANNOTATION}paused-replicas must be a count, not {replicas!r}"
            )

        def holds(name: str) -> bool:
            # KEDA takes a value that it cannot read for true.
            text = annotations.get(_ANNOTATION + name)
            return text is not None and text not in _FALSE

        return cls(
            everything=holds("paused"),
            replicas=None if replicas is None else int(replicas),
            scale_in=holds("paused-scale-in"),
            scale_out=holds("paused-scale-out"),
            force_activation=annotations.get(f"{_ANNOTATION}force-activation") in _TRUE,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledObject:
    """The parts of a ScaledObject that decide, with KEDA's defaults. Spans are in seconds."""

    min_replicas: int = 0
    max_replicas: int = 100
    idle_replicas: int | None = None
    polling_interval: Seconds = 30.0
    cooldown_period: Seconds = 300.0
    initial_cooldown_period: Seconds = 0.0
    fallback: Fallback | None = None
    behavior: Behavior | None = None
    pause: Pause = field(default_factory=Pause)

    def __post_init__(self) -> None:
        if not 0 <= self.min_replicas <= self.max_replicas or self.max_replicas < 1:
            raise KedaInvalid(
                "replica counts must be 0 <= minReplicaCount <= maxReplicaCount and the latter at "
                f"least 1, not {self.min_replicas} and {self.max_replicas}"
            )
        if self.idle_replicas is not None and not 0 <= self.idle_replicas < self.min_replicas:
            raise KedaInvalid(
                f"idleReplicaCount {self.idle_replicas} must be below "
                f"minReplicaCount {self.min_replicas}"
            )
        if not self.polling_interval > 0:
            raise KedaInvalid(f"pollingInterval must be above 0 s, not {self.polling_interval}")

    def hpa_behavior(self) -> Behavior | None:
        """Return the autoscaler's block; holding a direction makes one where there was none."""
        if not (self.pause.scale_in or self.pause.scale_out):
            return self.behavior
        block = self.behavior or Behavior()
        return block.without(scale_up=self.pause.scale_out, scale_down=self.pause.scale_in)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """A trigger's metric: its name, its target in units, and the trigger's `metricType`."""

    name: str
    target: float = 1.0
    type: MetricType = MetricType.AVERAGE_VALUE

    def hpa_target(self) -> MetricTarget:
        """Return the autoscaler's target; one below 0.0005 is refused there, as by the API."""
        return MetricTarget(type=self.type, milli=from_wire(self.target))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one trigger answered in one round.

    `spec` is `None` when GetMetricSpec failed. `values` is `None` when GetMetrics or IsActive
    failed, for KEDA throws the values away when IsActive fails; an empty tuple is an answer without
    a metric. `active` counts only beside values.
    """

    spec: MetricSpec | None
    values: tuple[float, ...] | None
    active: bool = False


class Scaler(Protocol):
    """What KEDA asks a trigger for; each method may raise `ScalerError`."""

    def metric_spec(self, now: Seconds) -> MetricSpec:
        """Return the metric's name and target."""
        ...

    def get_metrics(self, now: Seconds) -> tuple[float, ...]:
        """Return the metric's values in units; the autoscaler adds them."""
        ...

    def is_active(self, now: Seconds) -> bool:
        """Say whether the target should have replicas at all."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableScaler:
    """A `Scaler` made of plain callables of the time.

    `value` returns the metric in units, `active` whether there is demand; `None` from either is an
    answer that is not known, and becomes a `ScalerError`.
    """

    spec: MetricSpec
    value: Callable[[Seconds], float | None]
    active: Callable[[Seconds], bool | None]

    def metric_spec(self, now: Seconds) -> MetricSpec:  # noqa: ARG002 - it does not change
        """Return the metric's name and target."""
        return self.spec

    def get_metrics(self, now: Seconds) -> tuple[float, ...]:
        """Return the metric's only value."""
        value = self.value(now)
        if value is None:
            raise ScalerError(f"the value of {self.spec.name} is not known at {now:.0f} s")
        return (value,)

    def is_active(self, now: Seconds) -> bool:
        """Say whether there is demand."""
        active = self.active(now)
        if active is None:
            raise ScalerError(f"the activity of {self.spec.name} is not known at {now:.0f} s")
        return active


def from_wire(number: float, whole: int = 0) -> int:
    """Return in thousandths what KEDA makes of a scaler's answer.

    A number on the wire is a double and, for older releases, a whole number beside it: the latter
    counts unless the double is above 0, so NaN and a negative double become `whole`. KEDA writes
    the double with three decimals; infinity becomes 0, and so does a negative result.
    """
    if not number > 0:
        return max(0, whole) * 1000
    return 0 if math.isinf(number) else milli(f"{number:.3f}")
