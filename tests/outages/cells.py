"""The cells of the outage matrix: what is at fault, how, when, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import product


class Part(StrEnum):
    """What is at fault."""

    ENGINES = "engine pages"
    ONE_POD = "one pod"
    HALF = "half the pods"
    PROMETHEUS = "Prometheus"
    PARTIAL = "Prometheus, in part"
    GATEWAY = "gateway query"
    API_SERVER = "Kubernetes API"
    SCALED_OBJECTS = "ScaledObject watch"
    KEDA = "KEDA"


class Fault(StrEnum):
    """What goes wrong."""

    REFUSED = "refused"
    SILENT = "silent"
    TRICKLE = "slow trickle"
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    BUSY = "429"
    FAILING = "5xx"
    HTML = "HTML"
    TRUNCATED = "truncated"
    EMPTY = "empty result"
    NAN = "NaN"
    STALE = "stale values"
    FROZEN = "frozen values"
    SKEWED = "clock skew"
    RENAMED = "renamed metric"
    DNS = "DNS"


class Phase(StrEnum):
    """What the fleet is doing when it happens."""

    RISING = "rising"
    PEAK = "peak"
    FALLING = "falling"
    IDLE = "idle"
    AT_ZERO = "at zero"
    FIRST_START = "first start"


class Length(StrEnum):
    """For how long: against `holdFor`, which is 20 ticks."""

    TICK = "one tick"
    SHORT = "shorter than holdFor"
    LONG = "longer than holdFor"

    @property
    def ticks(self) -> int:
        """Return the number of ticks that see the fault."""
        return {Length.TICK: 1, Length.SHORT: 8, Length.LONG: 26}[self]


WARM_UP = 26
"""Ticks before the fault: more than the scale-in window."""

RECOVERY = 26
"""Ticks looked at after it."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One cell; `fault` None is the twin to which nothing happens."""

    part: Part
    fault: Fault | None
    phase: Phase
    length: Length = Length.LONG

    @property
    def name(self) -> str:
        """Return a name that Kubernetes would take."""
        words = (self.part, self.fault or "well", self.phase, self.length.name)
        return "-".join(words).lower().replace(" ", "-").replace(",", "").replace(".", "")

    @property
    def ends(self) -> int:
        """Return the first tick, counted from the fault's first, that sees no fault."""
        return self.length.ticks if self.fault is not None else 0

    def at_fault(self, tick: int) -> bool:
        """Say whether a tick sees the fault."""
        return 0 <= tick < self.ends

    @property
    def twin(self) -> Cell:
        """Return the cell that this one is held against."""
        return Cell(self.part, None, self.phase)


PAGES = (Part.ENGINES, Part.ONE_POD, Part.HALF)


def cells_of(*parts: Part, faults: tuple[Fault, ...] = tuple(Fault)) -> list[Cell]:
    """Return every cell of these parts, and their twins."""
    twins = [Cell(part, None, phase) for part, phase in product(parts, Phase)]
    return twins + [Cell(*each) for each in product(parts, faults, Phase, Length)]
