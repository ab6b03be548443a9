"""What is remembered of a selection: fine samples for the windows, minutes to learn from."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from scaler.core.context import look_back, trend_span
from scaler.core.corridor import widest_out_span
from scaler.core.decision import scale_in_span
from scaler.core.learned import Learned, Standing, learn, standing
from scaler.core.minutes import RECENT, REMEMBERED, Minutes
from scaler.core.need import UNKNOWN, Need, need_of
from scaler.core.policy import Policy
from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds, tick_at

_MARGIN: Seconds = 600.0
_DROPPED_TOGETHER = 20

_at = attrgetter("at")


class History:
    """Samples of one selection, ascending, one a tick; and its day in minutes.

    `version` grows whenever anything but the newest end changes, so that what was computed from
    older samples can be told to be out of date. `replicas` are the newest reading's names, `placed`
    says that pods told whose they are.
    `known_from` is the earliest tick that was asked for, `missed_from` the first tick that failed
    and may be read back.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.samples: list[Sample] = []
        self.minutes = Minutes()
        self.version = 0
        self.replicas: frozenset[str] = frozenset()
        self.placed = False
        self.known_from: Seconds | None = None
        self.missed_from: Seconds | None = None

    @property
    def newest(self) -> Sample | None:
        """Return the newest sample."""
        return self.samples[-1] if self.samples else None

    def add(self, sample: Sample) -> None:
        """Remember a sample; of two at one tick the first stays, so that answers do not flicker.

        Samples younger than it were taken while the clock was ahead of the time, and go.
        """
        if self.samples and sample.at < self.samples[-1].at:
            del self.samples[bisect_right(self.samples, sample.at, key=_at) :]
            self.minutes.forget_after(sample.at)
            self.version += 1
        if not self.samples or sample.at > self.samples[-1].at:
            self.samples.append(sample)
            self.minutes.keep(sample)

    def fill(self, recalled: Iterable[Sample]) -> int:
        """Put samples read back where there are none, or partial ones; return how many."""
        kept = {sample.at: sample for sample in self.samples if not sample.partial}
        missing = [sample for sample in recalled if sample.at not in kept]
        if missing:
            found = {sample.at: sample for sample in [*self.samples, *missing]}
            self.samples = [found[at] for at in sorted(found)]
            self._relearn([])
        return len(missing)

    def doubt(self, since: Seconds) -> None:
        """Call the samples from `since` on partial: there were pods that nobody had told of.

        They are read back where the source remembers.
        """
        first = bisect_left(self.samples, since, key=_at)
        doubted = self.samples[first:]
        if doubted:
            self.samples[first:] = [replace(sample, partial=True) for sample in doubted]
            self.version += 1
            self.missed_from = min(doubted[0].at, self.missed_from or math.inf)

    def recall_minutes(self, recalled: Iterable[Sample]) -> None:
        """Put older minutes, read back, before those that are known."""
        self._relearn(sorted(recalled, key=_at))

    def forget(self, now: Seconds, span: Seconds) -> None:
        """Drop fine samples older than `span`, and minutes older than a day."""
        first = bisect_left(self.samples, now - span, key=_at)
        # Dropping many at a time spares computing the rest anew at every tick.
        if first >= _DROPPED_TOGETHER:
            del self.samples[:first]
            self.version += 1
        self.minutes.forget(now - REMEMBERED)

    def gaps(self, start: Seconds, end: Seconds) -> list[Seconds]:
        """Return the ticks in [start, end] without a sample."""
        have = {sample.at for sample in self.samples}
        first, last = int(-(-start // TICK)), int(tick_at(end) // TICK)
        return [tick * TICK for tick in range(first, last + 1) if tick * TICK not in have]

    def _relearn(self, older: Sequence[Sample]) -> None:
        """Build the minutes anew: those read back, those known, and the fine samples."""
        fresh = Minutes()
        known = self.minutes
        rows = {sample.at: sample for sample in older}
        rows.update({sample.at: sample for sample in self.samples})
        fresh.merge(known, rows)
        self.minutes = fresh
        self.version += 1


def span_needed(policy: Policy, learned: Learned) -> Seconds:
    """Return how far back fine samples are needed: for windows, their contexts and silence."""
    asked = windows(policy, learned) + trend_span(learned.lead_time)
    return max(RECENT, asked + _MARGIN, policy.hold_for + _MARGIN)


def windows(policy: Policy, learned: Learned) -> Seconds:
    """Return how far back a decision looks at needs."""
    return max(scale_in_span(policy, learned), widest_out_span(policy.scale_out_window))


class Judgement:
    """The needs of a history under one policy, kept up to date instead of computed anew."""

    def __init__(self) -> None:
        """Start with nothing computed."""
        self.needs: list[Need] = []
        self.learned = Learned()
        self.current: int | None = None
        self.contested_since: Seconds | None = None
        self._held = Standing()
        self._held_basis: tuple[Policy, int, int, Seconds] | None = None
        self._basis: tuple[Policy, Learned, int] | None = None

    def update(
        self, policy: Policy, history: History, now: Seconds, lead_time: Seconds | None = None
    ) -> None:
        """Bring `learned` and `needs` (one for each of the history's samples) up to date."""
        minutes = history.minutes
        known_to = minutes.at[-1] if minutes.at else 0.0
        held_basis = (policy, history.version, len(minutes), known_to)
        if held_basis != self._held_basis:
            self._held, self._held_basis = standing(policy, minutes, known_to), held_basis
        self.learned = learn(policy, history.samples, minutes, now, self._held, lead_time)
        basis = (policy, self.learned, history.version)
        samples = history.samples
        if basis != self._basis:
            # Needs older than the windows are asked by nobody; their context is not kept either.
            oldest = now - windows(policy, self.learned) - TICK
            first = bisect_left(samples, oldest, key=_at)
            self.needs = [UNKNOWN] * first
            self._basis = basis
        for index in range(len(self.needs), len(samples)):
            context = look_back(samples, index, self.learned.lead_time)
            self.needs.append(need_of(samples[index], context, policy, self.learned))
