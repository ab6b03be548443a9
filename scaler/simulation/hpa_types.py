"""What the horizontal pod autoscaler is told, what it remembers and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Self

from scaler.core.units import Seconds
from scaler.simulation.errors import SimulationError
from scaler.simulation.quantity import INT32_MAX, milli

_WINDOW_MAX: Final = 3600
_PERIOD_MAX: Final = 1800


class HpaInvalid(SimulationError):
    """A specification that the Kubernetes API refuses."""


class MetricType(StrEnum):
    """How a metric's target is meant; the names are the API's."""

    AVERAGE_VALUE = "AverageValue"
    VALUE = "Value"


class SelectPolicy(StrEnum):
    """Which of several policies holds; `MAX` is the one that allows the largest change."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


class PolicyType(StrEnum):
    """Whether a policy's value counts pods or per cent of the pods at the period's start."""

    PODS = "Pods"
    PERCENT = "Percent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """At most `value` pods, or per cent, within `period` seconds."""

    type: PolicyType
    value: int
    period: int

    def __post_init__(self) -> None:
        if not 0 < self.value <= INT32_MAX:
            raise HpaInvalid(f"a policy's value must be above 0 and fit 32 bits, not {self.value}")
        if not 0 < self.period <= _PERIOD_MAX:
            raise HpaInvalid(f"a policy's period must be 1 to {_PERIOD_MAX} s, not {self.period}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One direction of a `behavior` block; `None` means that the user left it out.

    `window` is the stabilisation window in seconds, `tolerance` a share such as 0.1.
    """

    window: int | None = None
    select: SelectPolicy | None = None
    policies: tuple[Policy, ...] | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.window is not None and not 0 <= self.window <= _WINDOW_MAX:
            raise HpaInvalid(
                f"a stabilisation window must be 0 to {_WINDOW_MAX} s, not {self.window}"
            )
        if self.policies is not None and not self.policies:
            raise HpaInvalid("an empty list of policies is refused: leave it out for the defaults")
        if self.tolerance is not None and not self.tolerance >= 0:
            raise HpaInvalid(f"a tolerance must not be negative, but is {self.tolerance}")

    def over(self, defaults: Rules) -> Rules:
        """Return these rules with what was left out taken from `defaults`."""
        return Rules(
            window=defaults.window if self.window is None else self.window,
            select=defaults.select if self.select is None else self.select,
            policies=defaults.policies if self.policies is None else self.policies,
            tolerance=defaults.tolerance if self.tolerance is None else self.tolerance,
        )


_DOUBLING = Policy(type=PolicyType.PERCENT, value=100, period=15)
_UP_DEFAULTS = Rules(
    window=0,
    select=SelectPolicy.MAX,
    policies=(Policy(type=PolicyType.PODS, value=4, period=15), _DOUBLING),
)
_DOWN_DEFAULTS = Rules(select=SelectPolicy.MAX, policies=(_DOUBLING,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """A `behavior` block. No block at all is `None`, which is another code path: see `Hpa`."""

    scale_up: Rules = field(default_factory=Rules)
    scale_down: Rules = field(default_factory=Rules)

    def defaulted(self) -> Behavior:
        """Return the block as the API stores it: what was left out is filled in.

        The scale-down window stays open, since the controller's own setting fills it.
        """
        return Behavior(
            scale_up=self.scale_up.over(_UP_DEFAULTS),
            scale_down=self.scale_down.over(_DOWN_DEFAULTS),
        )

    def without(self, *, scale_up: bool = False, scale_down: bool = False) -> Behavior:
        """Return this block with the named directions disabled."""
        off = SelectPolicy.DISABLED
        return Behavior(
            scale_up=replace(self.scale_up, select=off) if scale_up else self.scale_up,
            scale_down=replace(self.scale_down, select=off) if scale_down else self.scale_down,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTarget:
    """An External metric's target, in thousandths."""

    type: MetricType = MetricType.AVERAGE_VALUE
    milli: int

    def __post_init__(self) -> None:
        if self.milli <= 0:
            raise HpaInvalid("a metric's target must be at least 0.001: the API refuses less")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """What the external metrics API answered: items in thousandths, to be added.

    No items at all is the same to the autoscaler as an error: the metric is not available.
    """

    items: tuple[int, ...]

    @classmethod
    def of(cls, *values: str | float) -> Self:
        """Return a value whose items are quantities or exact numbers."""
        return cls(items=tuple(milli(value) for value in values))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetScale:
    """The scale subresource: replicas wanted, and replicas that exist in whatever condition."""

    spec: int
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCount:
    """Pods that the scale target's selector matches, and how many of them are ready."""

    matching: int
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaSpec:
    """The autoscaler object, and the settings of its controller that it depends on.

    `downscale_stabilization` (s) and `tolerance` are the controller manager's flags, and
    `scale_to_zero` its feature switch, here with the release's defaults.
    """

    min_replicas: int = 1
    max_replicas: int
    metrics: tuple[MetricTarget, ...]
    behavior: Behavior | None = None
    tolerance: float = 0.1
    downscale_stabilization: Seconds = 300.0
    scale_to_zero: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.min_replicas <= self.max_replicas or self.max_replicas < 1:
            raise HpaInvalid(
                f"bounds must be 0 <= min <= max and max >= 1, not min {self.min_replicas} "
                f"and max {self.max_replicas}"
            )
        if not self.metrics:
            raise HpaInvalid("an autoscaler without metrics has nothing to decide on: name one")

    def tolerances(self) -> tuple[float, float]:
        """Return the tolerances upwards and downwards."""
        behavior = self.behavior or Behavior()
        up, down = behavior.scale_up.tolerance, behavior.scale_down.tolerance
        return (
            self.tolerance if up is None else up,
            self.tolerance if down is None else down,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of the autoscaler's status with its reason."""

    holds: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.holds}:{self.reason}"


@dataclass(slots=True, kw_only=True)
class HpaState:
    """What the controller keeps in memory between reconciles; a restart or deletion loses it.

    Pairs of a time in whole microseconds and a count: `proposals` before window, rate and bounds
    (`None` before the first reconcile), `added` and `removed` what each rescale changed.
    Conditions stay until a reconcile touches them.
    """

    proposals: list[tuple[int, int]] | None = None
    added: list[tuple[int, int]] = field(default_factory=list)
    removed: list[tuple[int, int]] = field(default_factory=list)
    able: Condition | None = None
    active: Condition | None = None
    limited: Condition | None = None
    scaled_to_zero: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """One reconcile's answer.

    `desired` is `spec.replicas` afterwards. `proposal` is the count by metrics alone; `None` when
    none was looked at or when they failed. `current` has what the status shows for each metric, in
    thousandths, `None` for a failed one; it is empty when none was looked at. `failed` counts the
    metrics that failed.
    """

    desired: int
    rescaled: bool
    proposal: int | None = None
    current: Sequence[int | None] = ()
    failed: int = 0
    able: Condition | None = None
    active: Condition | None = None
    limited: Condition | None = None
    scaled_to_zero: Condition | None = None
