"""How many replicas one sample says that demand needs: at least `low`, at most `high`.

Each row looks at one signal and gives an interval. A row that knows nothing gives 0 and infinity:
silence is never idleness. All rows are absolute: while replicas load, the same overload asks for
the same count, so nothing cascades.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scaler.core.context import Context, look_back
from scaler.core.learned import Learned
from scaler.core.policy import Policy, Signal
from scaler.core.quantile import ENOUGH_OBSERVATIONS
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import Seconds

_TTFT_CAP = 1.5
_TAIL, _CURABLE = 3.0, 0.5
SHORTEST_DRAIN: Seconds = 60.0
_CARRIED_MARGIN, _TREND_SHARE = 1.25, 0.5


class Row(StrEnum):
    """The rows; queue and concurrency go together under the signal `waiting`."""

    QUEUE = "queue"
    CONCURRENCY = "concurrency"
    KV_CACHE = "kv-cache"
    TTFT = "ttft"


REASON_OF_ROW = {
    Row.QUEUE: Reason.SCALE_OUT_QUEUE,
    Row.CONCURRENCY: Reason.SCALE_OUT_CONCURRENCY,
    Row.KV_CACHE: Reason.SCALE_OUT_KV_CACHE,
    Row.TTFT: Reason.SCALE_OUT_TTFT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNeed:
    """One row's interval, in replicas before rounding; `note` says why a row keeps silent."""

    row: Row
    low: float
    high: float
    note: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a sample asks for: the largest low and the largest high of the rows in use."""

    low: float
    high: float
    rows: tuple[RowNeed, ...] = ()
    notes: tuple[Reason, ...] = ()

    @property
    def low_row(self) -> Row | None:
        """Return the row that asks for the most; None where no row asks for anything."""
        best = max(self.rows, key=lambda r: r.low, default=None)
        return best.row if best is not None and best.low > 0 else None


UNKNOWN = Need(low=0.0, high=math.inf)


def needs(policy: Policy, samples: Sequence[Sample], learned: Learned) -> list[Need]:
    """Return the need of each sample; the samples are in ascending order of time."""
    return [
        need_of(sample, look_back(samples, index, learned.lead_time), policy, learned)
        for index, sample in enumerate(samples)
    ]


def need_of(sample: Sample, context: Context, policy: Policy, learned: Learned) -> Need:
    """Return what one sample asks for, given its context."""
    if sample.serving == 0:
        return Need(low=0.0, high=math.inf, notes=(Reason.NOTHING_SERVING,))
    rows = tuple(_rows(sample, context, policy, learned))
    low = max([r.low for r in rows], default=0.0)
    high = max(low, max([r.high for r in rows], default=math.inf))
    if sample.running == 0 and sample.waiting == 0:
        low = high = 0.0
    # One that is not heard is taken to need as much as each of the others, a replica at least.
    unseen = sample.unseen * max(1.0, high / sample.serving) if sample.unseen else 0.0
    # A stalled replica does no work but takes a place that demand needs.
    low += min(sample.stalled, low)
    high += min(sample.stalled, high)
    known = sample.reporting + sample.unseen
    blind = sample.partial or 2 * sample.unseen > known
    high = math.inf if blind else high + unseen
    notes = tuple(dict.fromkeys([r.note for r in rows if r.note is not None]))
    return Need(low=low, high=high, rows=rows, notes=notes)


def _rows(sample: Sample, context: Context, policy: Policy, learned: Learned) -> Iterator[RowNeed]:
    if Signal.WAITING in policy.signals:
        yield _queue(sample, context, policy, learned)
        yield _concurrency(sample, context, policy, learned)
    if Signal.KV_CACHE in policy.signals:
        yield _kv_cache(sample, policy)
    if Signal.TTFT in policy.signals:
        yield _ttft(sample, context, policy, learned)


def _queue(sample: Sample, context: Context, policy: Policy, learned: Learned) -> RowNeed:
    per_replica = sample.waiting_per_replica
    before = context.before
    calm_before = before is not None and before.waiting_per_replica <= policy.waiting_low
    high = math.inf if per_replica > policy.waiting_low and not calm_before else 0.0
    rejected, note = _rejected(sample, policy, learned)
    overloaded = per_replica >= policy.waiting_high or rejected > 0
    if not overloaded:
        return RowNeed(row=Row.QUEUE, low=0.0, high=high, note=note)
    if sample.skewed:
        return RowNeed(row=Row.QUEUE, low=0.0, high=high, note=Reason.SKEWED)
    arriving = sample.waiting + (context.waiting_growth + rejected) * learned.lead_time
    # A replica that runs nothing would divide by zero; each serves at least one request at a time.
    most = sample.serving * (1 + arriving / max(sample.running, sample.serving))
    served = sample.first_token_rate
    if served is None or served <= 0:
        low = most
    else:
        excess = (context.waiting_growth + rejected) / served
        backlog = sample.waiting / (served * drain_time(policy, learned))
        low = min(context.serving_mean * (1 + excess + backlog), most)
    return RowNeed(row=Row.QUEUE, low=low, high=max(high, low), note=note)


def drain_time(policy: Policy, learned: Learned) -> Seconds:
    """Return within which time a backlog should be gone: half the lead time unless it is stated.

    A backlog grows for about a lead time before anything helps. Half of that is soon enough for
    those who wait in it, and long enough that the backlog of a slow start asks for no more than
    twice its rate.
    """
    return policy.drain_time or max(SHORTEST_DRAIN, learned.lead_time / 2)


def _rejected(sample: Sample, policy: Policy, learned: Learned) -> tuple[float, Reason | None]:
    """Return the refused requests per second that are demand, and a note on those that are not."""
    rate = sample.rejection_rate or 0.0
    if rate <= 0:
        return 0.0, None
    full = (
        learned.saturation is not None
        and sample.running >= sample.serving * learned.saturation * (1 - policy.headroom)
    )
    if sample.waiting > 0 or full:
        return rate, None
    return 0.0, Reason.REJECTIONS_WITHOUT_LOAD


def _concurrency(sample: Sample, context: Context, policy: Policy, learned: Learned) -> RowNeed:
    each = sample.running / sample.serving
    slope = learned.slowdown.per_request(sample.prompt_token_rate, sample.token_rate)

    def fleet(requests: float, target: float) -> float:
        """Return how many replicas bring each of them to `target` of so many requests."""
        return requests / target * (1 + slope * target) / (1 + slope * each)

    low, high = 0.0, math.inf
    wanted, known = _targets(policy, learned)
    if wanted is not None:
        # A trend of a few minutes is worth half of what it promises.
        ahead = sample.running + context.running_growth * learned.lead_time * _TREND_SHARE
        # While a backlog is served, running shows what a fleet can do, not what is asked of it:
        # each replica that comes would fill and ask for the next.
        low = min(fleet(ahead, wanted), context.serving_least / (1 - policy.headroom))
    if known is not None and context.complete:
        high = fleet(sample.running, known)
    elif sample.running == 0 and (context.complete or sample.waiting == 0):
        # An incomplete trend knows nothing of what comes; nor does a fleet that never was full.
        high = 0.0
    return RowNeed(row=Row.CONCURRENCY, low=low, high=max(low, high))


def _targets(policy: Policy, learned: Learned) -> tuple[float | None, float | None]:
    """Return how many requests a replica should run when the fleet grows, and when it shrinks.

    Until a queue shows what a full replica runs, what one has carried in calm is all that is
    proven, and a quarter more of it is risked; a single request at least, lest two of them ask for
    a fleet. So much is never exceeded by shrinking.
    """
    carried = None if learned.carried is None else proven(learned.carried)
    if learned.saturation is None:
        return None if carried is None else max(1.0, carried), carried
    wanted = learned.saturation * (1 - policy.headroom)
    return wanted, wanted if carried is None else min(wanted, carried)


def proven(carried: float) -> float:
    """Return how many requests a replica may run that has carried so many in calm.

    A quarter more, or where that is less what chance alone adds to few requests: a standard
    deviation of a count that is spread as Poisson has it.
    """
    return max(_CARRIED_MARGIN * carried, carried + math.sqrt(carried))


def _kv_cache(sample: Sample, policy: Policy) -> RowNeed:
    if sample.kv_cache is None:
        return RowNeed(row=Row.KV_CACHE, low=0.0, high=math.inf)
    used = sample.serving * sample.kv_cache
    return RowNeed(
        row=Row.KV_CACHE, low=used / policy.kv_cache_high, high=used / policy.kv_cache_low
    )


def _ttft(sample: Sample, context: Context, policy: Policy, learned: Learned) -> RowNeed:
    requests = sample.running + sample.waiting
    measured = sample.ttft
    if measured is None and sample.first_token_rate is None:
        return RowNeed(row=Row.TTFT, low=0.0, high=math.inf)
    if measured is None or measured.observations < ENOUGH_OBSERVATIONS:
        return RowNeed(row=Row.TTFT, low=0.0, high=requests if sample.waiting > 0 else 0.0)
    queueing = _queueing_time(sample, policy)
    slow = queueing is None or max(measured.upper, queueing) > policy.ttft_p95_low
    high = requests if slow and _waited(sample, context, policy) else 0.0
    queueing = queueing or 0.0
    # A p95 in a bucket whose lower edge is the threshold is above it, though not by how much.
    certain = measured.lower >= policy.ttft_p95_high or queueing > policy.ttft_p95_high
    if not certain:
        return RowNeed(row=Row.TTFT, low=0.0, high=high)
    silence = _ttft_silence(sample, context, learned)
    if silence is not None:
        return RowNeed(row=Row.TTFT, low=0.0, high=high, note=silence)
    excess = max(measured.value, queueing) / policy.ttft_p95_high
    # What was slow were the replicas that there were when those requests came.
    low = min(context.serving_least * min(max(excess, 1.0), _TTFT_CAP), requests)
    return RowNeed(row=Row.TTFT, low=low, high=max(low, high))


def _waited(sample: Sample, context: Context, policy: Policy) -> bool:
    """Say whether waiting is a part worth curing of a slow first token; yes where it is not known.

    By Little's law requests wait `waiting / first_token_rate` on average, and of waits that are
    spread exponentially the p95 is three times the mean. Below half of the lower threshold, what is
    slow is the prompts' own computation, and no replica shortens that.
    """
    served, waiting = sample.first_token_rate, context.waiting_mean
    if served is None or served <= 0 or waiting is None:
        return True
    return _TAIL * waiting / served > _CURABLE * policy.ttft_p95_low


def _queueing_time(sample: Sample, policy: Policy) -> float | None:
    """Return how long the queue would take at the present rate of first tokens; None: not known.

    The histogram holds only requests that already got a token, so it cannot show those that wait.
    """
    if sample.waiting_per_replica <= policy.waiting_low:
        return 0.0
    served = sample.first_token_rate
    if served is None:
        return None
    return sample.waiting / served if served > 0 else math.inf


def _ttft_silence(sample: Sample, context: Context, learned: Learned) -> Reason | None:
    if sample.skewed:
        return Reason.SKEWED
    if context.just_grew:
        return Reason.LOADING
    return Reason.PREFILL_BOUND if learned.prefill_bound else None
