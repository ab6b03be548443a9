"""What a policy sees of a fleet, and how it answers.

A policy is told the time and what was scraped; it has no clock and does no I/O. One that KEDA
scales answers through triggers, and the autoscaler's own model stands between its answer and the
count; one with a controller of its own writes the count itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.simulation.keda_types import ScaledObject, Scaler
from scaler.simulation.replica import Replica


class Silence(StrEnum):
    """How metrics are missing."""

    EMPTY = "empty"
    """The source answers, and has no series: targets are lost."""
    UNREACHABLE = "unreachable"
    """The source itself gives no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What was to be seen at one tick.

    `reading` is what a scrape source made of it, and `replicas` are those that were scraped, their
    engines standing at `at`; while `silence` says why there is nothing, the one is None and the
    other empty. `spec` and `ready` are the cluster's own, which no outage of metrics hides.
    `lead_time` is the median of the last five start-ups that were observed, `utilisation` the share
    of time in which a replica's step was under way, mean over replicas.
    """

    at: Seconds
    reading: Reading | None
    silence: Silence | None
    replicas: tuple[Replica, ...]
    spec: int
    ready: int
    lead_time: Seconds | None = None
    utilisation: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Between which counts a policy may choose."""

    min_replicas: int = 1
    max_replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a policy would tell a person about its latest answer."""

    answer: float | None = None
    floor: int | None = None
    ceiling: int | None = None
    reason: str = ""


class Policy(Protocol):
    """A way to choose the number of replicas. It holds state: make a new one for each trial."""

    @property
    def name(self) -> str:
        """Return the name that results are listed under."""
        ...

    def observe(self, view: View) -> None:
        """Take in one tick."""
        ...

    def note(self) -> Note:
        """Explain the latest answer."""
        ...


@runtime_checkable
class KedaPolicy(Policy, Protocol):
    """A policy that KEDA asks, and whose answers the horizontal pod autoscaler follows."""

    @property
    def scaled_object(self) -> ScaledObject:
        """Return the ScaledObject, as published."""
        ...

    @property
    def triggers(self) -> Sequence[Scaler]:
        """Return what KEDA asks."""
        ...


@runtime_checkable
class DirectPolicy(Policy, Protocol):
    """A policy with a controller of its own, which runs every `interval` seconds."""

    @property
    def interval(self) -> Seconds:
        """Return the seconds between two runs."""
        ...

    def replicas(self, now: Seconds, *, spec: int, ready: int, in_flight: int) -> int:
        """Return the count that is wanted now."""
        ...


AnyPolicy = KedaPolicy | DirectPolicy
