"""What a record teaches whatever the policy: computed once, for as many rehearsals as one likes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from scaler.core.context import Context, look_back
from scaler.core.learned import Learned, Standing, learn
from scaler.core.minutes import Minutes
from scaler.core.policy import Policy
from scaler.core.sample import Sample
from scaler.core.slowdown import NO_SLOWDOWN, slowdown
from scaler.core.units import Seconds
from scaler.tuning.carrying import carried_over
from scaler.tuning.record import Moment, Record, standing_for

_at = attrgetter("at")
_NOTHING_STATED = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known at a moment: how many samples and minutes, and what any policy learns of them.

    What a policy states itself, and what its thresholds call carried, is not in `learned`.
    """

    moment: Moment
    samples: int
    minutes: int
    learned: Learned


class Prepared:
    """A record with its samples on every tick, its minutes, and what follows from them alone.

    A sample that stands for several ticks is looked at once: `looks` says of each of the samples
    which look it belongs to.
    """

    def __init__(self, record: Record) -> None:
        """Prepare a record; for a day on every tick that takes about a second."""
        self.record = record
        self.samples: list[Sample] = []
        self.looks: list[int] = []
        self.minutes = Minutes()
        self.known: list[Known] = []
        self._looked_at: list[int] = []
        self._slowdown = NO_SLOWDOWN
        self._contexts: dict[Seconds, list[Context]] = {}
        self._carried: dict[tuple[float, Seconds], list[float | None]] = {}
        for moment in record.moments:
            self._take(moment)

    def contexts(self, lead_time: Seconds) -> Sequence[Context]:
        """Return the context of each look under this lead time."""
        if lead_time not in self._contexts:
            self._contexts[lead_time] = [
                look_back(self.samples, index, lead_time) for index in self._looked_at
            ]
        return self._contexts[lead_time]

    def learned(self, policy: Policy, known: Known) -> Learned:
        """Return what this policy had learned by then."""
        basis = policy.waiting_low, policy.ttft_p95_high
        if basis not in self._carried:
            self._carried[basis] = carried_over(policy, self.minutes)
        learned = known.learned
        return Learned(
            saturation=policy.concurrency_per_replica or learned.saturation,
            carried=self._carried[basis][known.minutes - 1] if known.minutes else None,
            slowdown=learned.slowdown,
            lead_time=policy.lead_time or learned.lead_time,
            lead_time_observed=policy.lead_time is None and learned.lead_time_observed,
            prefill_bound=learned.prefill_bound,
        )

    def first_since(self, since: Seconds, known: Known) -> int:
        """Return the place of the first known sample that is not older than `since`."""
        return bisect_left(self.samples, since, hi=known.samples, key=_at)

    def sample_of(self, look: int) -> Sample:
        """Return the sample that a look was taken at."""
        return self.samples[self._looked_at[look]]

    def _take(self, moment: Moment) -> None:
        if moment.sample is not None:
            self._add(moment, moment.sample)
        held = Standing(slowdown=self._slowdown)
        learned = learn(
            _NOTHING_STATED, self.samples, self.minutes, moment.at, held, moment.lead_time
        )
        self.known.append(
            Known(
                moment=moment,
                samples=len(self.samples),
                minutes=len(self.minutes),
                learned=learned,
            )
        )

    def _add(self, moment: Moment, sample: Sample) -> None:
        before = len(self.minutes)
        for at in moment.ticks:
            self.samples.append(sample if at == moment.at else standing_for(sample, at))
            self.looks.append(len(self._looked_at))
            self.minutes.keep(self.samples[-1])
        self._looked_at.append(len(self.samples) - 1)
        if len(self.minutes) > before:
            self._slowdown = slowdown(self.minutes, self.minutes.at[-1])
