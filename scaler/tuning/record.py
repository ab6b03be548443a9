"""A workload's recorded history: what was seen and what the scale target counted.

Whoever kept it, a Prometheus, a file or the board, it is decided on in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What was known at one tick.

    `at` lies on the tick grid. `sample` is None where nothing was heard, `scale` where the count
    was not known, `lead_time` (seconds) where no start had been observed. `step` says for how long,
    up to `at`, the moment stands: a tick, or a multiple of it where only that was kept.
    """

    at: Seconds
    sample: Sample | None
    scale: Scale | None
    lead_time: Seconds | None = None
    step: Seconds = TICK

    @property
    def ticks(self) -> Iterator[Seconds]:
        """Go through the ticks that the moment stands for, itself the last."""
        count = round(self.step / TICK)
        return (self.at - back * TICK for back in reversed(range(count)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A workload's moments, ascending; the spans that they stand for do not overlap.

    `asks_gateway` says that the workload had an activationQuery.
    """

    namespace: str
    name: str
    moments: tuple[Moment, ...]
    asks_gateway: bool = False

    def __post_init__(self) -> None:
        """Refuse moments that are no history."""
        for moment in self.moments:
            if moment.at % TICK or moment.step < TICK or moment.step % TICK:
                raise ValueError(f"a moment at {moment.at} for {moment.step} s is off the grid")
            if moment.sample is not None and moment.sample.at != moment.at:
                raise ValueError(f"the sample of {moment.sample.at} is not that of {moment.at}")
        for earlier, later in pairwise(self.moments):
            if later.at - later.step < earlier.at:
                raise ValueError(f"the moments of {earlier.at} and {later.at} overlap")

    @property
    def coarsest(self) -> Seconds:
        """Return the longest step of any moment; a tick where there is none."""
        return max((moment.step for moment in self.moments), default=TICK)

    def between(self, start: Seconds, end: Seconds) -> Record:
        """Return the moments in [start, end]."""
        kept = tuple(moment for moment in self.moments if start <= moment.at <= end)
        return replace(self, moments=kept)


def apart(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """Let each of these, ascending, stand for no more than the time since the one before it."""
    kept: list[Moment] = []
    for moment in moments:
        free = moment.at - kept[-1].at if kept else moment.step
        kept.append(moment if moment.step <= free else replace(moment, step=free))
    return tuple(kept)


def standing_for(sample: Sample, at: Seconds) -> Sample:
    """Return a sample as of another tick that it stands for, scraped as long before it."""
    return replace(sample, at=at, scraped_at=sample.scraped_at + at - sample.at)
