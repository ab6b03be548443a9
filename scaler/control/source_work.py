"""What a source has asked of others since it started, for the scaler's own metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.control.ports import (
    SelectionInvalid,
    SourceAnswerInvalid,
    SourceBusy,
    SourceDenied,
    SourceUnreachable,
)
from scaler.core.units import Seconds

OK = "ok"
_ERRORS = (SourceUnreachable, SourceDenied, SourceBusy, SourceAnswerInvalid, SelectionInvalid)
_NEVER_YET = dict.fromkeys((OK, *(error.kind for error in _ERRORS)), 0)


def outcomes(counted: Mapping[str, int]) -> dict[str, int]:
    """Return the counts with every known outcome among them, or a first failure would show no rise.

    An outcome is `ok` or a `SourceError.kind`.
    """
    return {**_NEVER_YET, **counted}


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests of one kind: those that have ended, by outcome, and how long they took in all.

    A request with its retries counts once. `retried` counts its further attempts, `partial` the
    answers of which the other side says that something may be missing.
    """

    ended: Mapping[str, int]
    seconds: Seconds
    retried: int = 0
    partial: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """How many targets a source scrapes, and how many of them failed when last scraped."""

    known: int
    failing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceWork:
    """All requests of a source by kind, and the bytes of their answers, decompressed.

    `targets` is None where the source scrapes none. `faults` says of each file that it reads again
    and again whether that fails: what was read before stays in force then.
    """

    requests: Mapping[str, Requests]
    received: int
    targets: Targets | None = None
    faults: Mapping[str, bool] = field(default_factory=dict)

    def beside(self, other: SourceWork) -> SourceWork:
        """Return both together; the targets and faults are this one's."""
        return SourceWork(
            requests={**other.requests, **self.requests},
            received=self.received + other.received,
            targets=self.targets,
            faults=self.faults,
        )
