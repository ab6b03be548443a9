"""What a replay needs from whoever remembers: the past of one workload, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from scaler.core.units import Seconds
from scaler.core.workload import Scale, Selection
from scaler.tuning.record import Moment


class PastUnreadable(Exception):
    """The past cannot be read; the message says in a sentence why, and what helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a ScaledObject scales: its kind and name, and the name of KEDA's HPA for it."""

    kind: str
    name: str
    hpa: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Whose past is wanted, over [start, end] in epoch seconds.

    `lead_in` is for how long (seconds) before the range every tick is wanted, so that the windows
    are covered at its start; what lies up to a day before may be coarser. `bounds` is a scale with
    any count: its other fields are the workload's.
    """

    namespace: str
    name: str
    selection: Selection
    target: Target
    bounds: Scale
    start: Seconds
    end: Seconds
    lead_in: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The next moments, ascending, and what is to be told of them.

    `share` is how much of everything has been read by now, 0 to 1.
    """

    moments: tuple[Moment, ...]
    share: float
    notes: tuple[str, ...] = ()


class Past(Protocol):
    """Who remembers."""

    def pages(self, wanted: Wanted) -> AsyncIterator[Page]:
        """Read the past back, oldest first, the moments before the range included.

        Raises PastUnreadable.
        """
