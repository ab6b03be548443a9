"""What a rehearsal came to, in figures that two of them can be compared by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scaler.core.policy import Policy, Signal
from scaler.core.quantile import ENOUGH_OBSERVATIONS
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import Seconds
from scaler.tuning.rehearsal import Step


@dataclass(slots=True)
class Counts:
    """What a count of replicas came to: hours of replicas, changes, and turns between up and down.

    The seconds in which nobody knew the count are in no figure.
    """

    replica_hours: float = 0.0
    changes: int = 0
    turns: int = 0
    most: int = 0
    _last: int | None = None
    _direction: int = 0

    def add(self, count: int | None, lasts: Seconds) -> None:
        """Go on with a count that lasts so many seconds."""
        if count is None:
            return
        self.replica_hours += count * lasts / 3600.0
        self.most = max(self.most, count)
        if self._last is not None and count != self._last:
            direction = 1 if count > self._last else -1
            self.changes += 1
            self.turns += self._direction == -direction
            self._direction = direction
        self._last = count


@dataclass(slots=True)
class Summary:
    """What was beside what would have been, over `seconds`.

    `was` is the recorded count, `followed` the one that there would be had each answer been
    followed at once. `over` are the seconds in which a signal was above the policy's High, as
    recorded. `reasons` are the seconds for which each reason was given, `unanswered` those for
    which nothing could be answered, `unseen` those without a sample.
    """

    seconds: Seconds = 0.0
    was: Counts = field(default_factory=Counts)
    followed: Counts = field(default_factory=Counts)
    over: defaultdict[Signal, Seconds] = field(default_factory=lambda: defaultdict(float))
    reasons: defaultdict[Reason, Seconds] = field(default_factory=lambda: defaultdict(float))
    unanswered: Seconds = 0.0
    unseen: Seconds = 0.0


def summarize(policy: Policy, steps: Iterable[Step]) -> Summary:
    """Sum a rehearsal up."""
    summary = Summary()
    for step in steps:
        decision, lasts = step.decision, step.step
        summary.seconds += lasts
        summary.was.add(decision.current, lasts)
        summary.followed.add(step.followed, lasts)
        summary.reasons[decision.reason] += lasts
        summary.unanswered += lasts * (decision.advised is None)
        sample = decision.sample
        summary.unseen += lasts * (sample is None)
        if sample is not None:
            for signal in above(policy, sample):
                summary.over[signal] += lasts
    return summary


def above(policy: Policy, sample: Sample) -> list[Signal]:
    """Return the signals that are above the policy's High, those that may not move it included."""
    ttft, kv_cache = sample.ttft, sample.kv_cache
    known = ttft if ttft is not None and ttft.observations >= ENOUGH_OBSERVATIONS else None
    over: Mapping[Signal, bool] = {
        Signal.WAITING: sample.waiting_per_replica >= policy.waiting_high,
        Signal.TTFT: known is not None and known.value > policy.ttft_p95_high,
        Signal.KV_CACHE: kv_cache is not None and kv_cache > policy.kv_cache_high,
    }
    return [signal for signal, is_over in over.items() if is_over]
