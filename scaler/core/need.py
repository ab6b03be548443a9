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

_TTFT_CAP = 1.5
_FULL_SHARE, _CARRIED_MARGIN = 0.9, 1.25


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
    low = max((r.low for r in rows), default=0.0)
    high = max(low, max((r.high for r in rows), default=math.inf))
    if sample.running == 0 and sample.waiting == 0:
        low = high = 0.0
    # A stalled replica does no work but takes a place that demand needs.
    low += min(sample.stalled, low)
    high += min(sample.stalled, high)
    known = sample.reporting + sample.unseen
    high = math.inf if 2 * sample.unseen > known else high + sample.unseen
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
        backlog = sample.waiting / (served * policy.drain_time)
        low = min(context.serving_mean * (1 + excess + backlog), most)
    return RowNeed(row=Row.QUEUE, low=low, high=max(high, low), note=note)


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
    ahead = sample.running + context.running_growth * learned.lead_time
    each = sample.running / sample.serving

    def fleet(target: float) -> float:
        """Return how many replicas bring each of them to `target` requests."""
        slower = (1 + learned.slowdown * target) / (1 + learned.slowdown * each)
        return ahead / target * slower

    places: list[float] = []
    low = 0.0
    if learned.saturation is not None:
        wanted = learned.saturation * (1 - policy.headroom)
        low = fleet(wanted)
        places.append(_FULL_SHARE * wanted)
    if learned.carried is not None:
        places.append(_CARRIED_MARGIN * learned.carried)
    if not context.complete or not places:
        # An incomplete trend knows nothing of what comes; nor does a fleet that never was full.
        busy = sample.running > 0 or (sample.waiting > 0 and not context.complete)
        high = math.inf if busy else 0.0
    else:
        high = fleet(min(places))
    return RowNeed(row=Row.CONCURRENCY, low=low, high=max(low, high))


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
    high = requests if slow else 0.0
    queueing = queueing or 0.0
    # A p95 in a bucket whose lower edge is the threshold is above it, though not by how much.
    certain = measured.lower >= policy.ttft_p95_high or queueing > policy.ttft_p95_high
    if not certain:
        return RowNeed(row=Row.TTFT, low=0.0, high=high)
    silence = _ttft_silence(sample, context, learned)
    if silence is not None:
        return RowNeed(row=Row.TTFT, low=0.0, high=high, note=silence)
    excess = max(measured.value, queueing) / policy.ttft_p95_high
    low = min(sample.serving * min(max(excess, 1.0), _TTFT_CAP), requests)
    return RowNeed(row=Row.TTFT, low=low, high=max(low, high))


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
