"""What a workload's own history teaches: how much a replica runs, how long one takes to come."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from scaler.core.policy import Policy
from scaler.core.quantile import ENOUGH_OBSERVATIONS
from scaler.core.sample import Sample
from scaler.core.units import Seconds

MINUTE: Seconds = 60.0
"""What lies further back than `RECENT` is remembered at this step, aligned to the epoch."""

RECENT: Seconds = 1800.0
"""Samples as young as this are learned from one by one."""

REMEMBERED: Seconds = 86_400.0
"""How far back anything is learned from."""

DEFAULT_LEAD_TIME: Seconds = 180.0
LONGEST_LEAD_TIME: Seconds = 900.0

_SATURATED_NEWEST, _SATURATED_LEAST = 40, 8
_HELD_MINUTES = 3
_SMALLER_FLEET, _NO_WORSE, _CURE_SPAN = 0.8, 1.1, 7200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What the decision takes as given at one moment.

    `saturation` is how many requests a full replica runs at once, `carried` the most that a
    replica has run while the fleet was calm (requests per replica); None while unknown.
    `lead_time` is seconds from a replica's creation to serving. `prefill_bound` says that a
    clearly smaller fleet carried as many requests with a TTFT no worse: replicas do not cure it.
    """

    saturation: float | None = None
    carried: float | None = None
    lead_time: Seconds = DEFAULT_LEAD_TIME
    prefill_bound: bool = False


class Minutes:
    """A day of a workload, one row a minute, in columns: 56 bytes a row, not a sample's 600."""

    __slots__ = ("at", "running", "saturated", "serving", "ttft", "ttft_lower", "waiting")

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self.at = array("d")
        self.serving = array("d")
        self.running = array("d")
        self.waiting = array("d")
        self.saturated = array("d")
        self.ttft = array("d")
        self.ttft_lower = array("d")

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.at)

    def keep(self, sample: Sample) -> None:
        """Remember a sample that lies on the minute grid and is younger than all before it.

        A fleet that is only half seen teaches nothing: its row says that nobody served.
        """
        if sample.at % MINUTE or (self.at and sample.at <= self.at[-1]):
            return
        seen = sample.unseen == 0
        few = sample.ttft is None or sample.ttft.observations < ENOUGH_OBSERVATIONS
        enough = None if few else sample.ttft
        self.at.append(sample.at)
        self.serving.append(sample.serving if seen else 0)
        self.running.append(sample.running)
        self.waiting.append(sample.waiting)
        self.saturated.append(math.nan if sample.saturated is None else sample.saturated)
        self.ttft.append(math.nan if enough is None else enough.value)
        self.ttft_lower.append(math.nan if enough is None else enough.lower)

    def merge(self, known: Minutes, samples: Mapping[Seconds, Sample]) -> None:
        """Fill an empty memory from rows that are known and samples by time; known rows win."""
        places = {at: index for index, at in enumerate(known.at)}
        for at in sorted({*places, *(at for at in samples if at % MINUTE == 0)}):
            if at in places:
                for name in self.__slots__:
                    getattr(self, name).append(getattr(known, name)[places[at]])
            else:
                self.keep(samples[at])

    def forget(self, before: Seconds) -> None:
        """Drop the rows older than `before`."""
        count = bisect_left(self.at, before)
        if count:
            for name in self.__slots__:
                del getattr(self, name)[:count]


def learn(
    policy: Policy,
    samples: Sequence[Sample],
    minutes: Minutes,
    now: Seconds,
    held: float | None,
    observed_lead_time: Seconds | None = None,
) -> Learned:
    """Learn from `samples` (ascending, the last `RECENT` seconds are used) and `minutes`.

    `held` is what `carried` says of the minutes; it changes once a minute at most. What the policy
    states is taken as stated. Whoever holds the same history learns the same.
    """
    lead_time = policy.lead_time or min(observed_lead_time or DEFAULT_LEAD_TIME, LONGEST_LEAD_TIME)
    return Learned(
        saturation=policy.concurrency_per_replica or saturation(samples, minutes, now),
        carried=held,
        lead_time=lead_time,
        prefill_bound=is_prefill_bound(samples[-1], minutes, now) if samples else False,
    )


def saturation(samples: Sequence[Sample], minutes: Minutes, now: Seconds) -> float | None:
    """Return the median running of replicas with a queue, over the newest 40 looks (8 at least)."""
    horizon = now - RECENT
    newest = [
        sample.saturated
        for sample in reversed(samples)
        if horizon < sample.at <= now and sample.saturated is not None and sample.saturated > 0
    ][:_SATURATED_NEWEST]
    first = bisect_left(minutes.at, now - REMEMBERED)
    for index in range(bisect_right(minutes.at, horizon) - 1, first - 1, -1):
        if len(newest) >= _SATURATED_NEWEST:
            break
        if minutes.saturated[index] > 0:
            newest.append(minutes.saturated[index])
    return median(newest) if len(newest) >= _SATURATED_LEAST else None


def carried(policy: Policy, minutes: Minutes, now: Seconds) -> float | None:
    """Return the most running per replica that was held for two minutes while the fleet was calm.

    Calm: no more waiting than `waitingLow` a replica, a TTFT not known to be above High, and every
    replica seen. Three consecutive minutes on the grid hold it for two minutes.
    """
    first = bisect_left(minutes.at, now - REMEMBERED)
    last = bisect_right(minutes.at, now)
    best = 0.0
    held: list[float] = []
    previous = -math.inf
    for index in range(first, last):
        serving, at = minutes.serving[index], minutes.at[index]
        calm = (
            serving > 0
            and minutes.waiting[index] <= policy.waiting_low * serving
            and not minutes.ttft_lower[index] >= policy.ttft_p95_high
        )
        if not calm or at - previous != MINUTE:
            held = []
        if calm:
            held.append(minutes.running[index] / serving)
            if len(held) >= _HELD_MINUTES:
                best = max(best, min(held[-_HELD_MINUTES:]))
        previous = at
    return best if best > 0 else None


def is_prefill_bound(newest: Sample, minutes: Minutes, now: Seconds) -> bool:
    """Say whether a fleet at least a fifth smaller did as well in the last two hours.

    As well: as many requests running, with a TTFT p95 at most a tenth above the present one.
    """
    if newest.ttft is None or newest.serving == 0:
        return False
    first = bisect_left(minutes.at, now - _CURE_SPAN)
    smaller, worst = _SMALLER_FLEET * newest.serving, _NO_WORSE * newest.ttft.value
    return any(
        0 < minutes.serving[index] <= smaller
        and minutes.running[index] >= newest.running > 0
        and minutes.ttft[index] <= worst
        for index in range(first, bisect_right(minutes.at, now))
    )
