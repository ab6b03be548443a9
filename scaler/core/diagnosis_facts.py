"""What a diagnosis may look at: everything that is known of a workload at one tick."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter

from scaler.core.decision import Decision
from scaler.core.pods import Pod, Situation
from scaler.core.policy import Policy
from scaler.core.reading import ReplicaReading
from scaler.core.sample import Sample
from scaler.core.units import RATE_WINDOW, TICK, Seconds
from scaler.core.workload import Scale

LASTING: Seconds = RATE_WINDOW
"""What has held this long is more than a moment."""

_LEAST = 4
_FRESH: Seconds = 2 * TICK

_at = attrgetter("at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of it, at `now`; what nobody can know is None.

    `samples` ascend in time. `replicas` are the newest reading's, `heard` the names of those that
    have ever reported, since the source was first asked at `looked_since`. `trouble` is what the
    source says went wrong, `targets_silent` that it is the engines that did not answer it.
    `moves` are the times at which the count went where nobody here had asked it to go. `wakes`
    says whether the trigger has an activationQuery.
    """

    now: Seconds
    policy: Policy
    decision: Decision
    samples: Sequence[Sample] = ()
    scale: Scale | None = None
    replicas: tuple[ReplicaReading, ...] = ()
    heard: Collection[str] = frozenset()
    looked_since: Seconds | None = None
    trouble: str | None = None
    targets_silent: bool = False
    pods: tuple[Pod, ...] | None = None
    situation: Situation | None = None
    moves: tuple[Seconds, ...] = ()
    wakes: bool = False

    @property
    def fresh(self) -> bool:
        """Say whether the newest sample is young enough to speak of the present."""
        return bool(self.samples) and self.now - self.samples[-1].at <= _FRESH

    def since(self, start: Seconds, end: Seconds | None = None) -> Sequence[Sample]:
        """Return the samples in (start, end]; `end` is now where it is not given."""
        last = bisect_right(self.samples, self.now if end is None else end, key=_at)
        return self.samples[bisect_right(self.samples, start, hi=last, key=_at) : last]

    def lasting(self) -> Sequence[Sample]:
        """Return the samples of the last two minutes; none where they are too few to judge by."""
        recent = self.since(self.now - LASTING)
        return recent if len(recent) >= _LEAST else ()
