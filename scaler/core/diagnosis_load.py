"""What the engines' own signals say is short: cache, slots, replicas, or none of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from scaler.core.diagnosis_facts import LASTING, Facts
from scaler.core.diagnosis_finding import (
    Found,
    Kind,
    NotKnown,
    Severity,
    Verdict,
    counted,
    named,
    span,
)
from scaler.core.diagnosis_prompts import Prompts
from scaler.core.numbers import number
from scaler.core.quantile import ENOUGH_OBSERVATIONS
from scaler.core.reading import ReplicaReading
from scaler.core.sample import Sample, is_stalled
from scaler.core.units import RATE_WINDOW

LOAD_KINDS = (
    Kind.KV_CACHE_PRESSURE,
    Kind.SLOT_LIMITED,
    Kind.QUEUE_BOUND,
    Kind.PREFILL_BOUND,
    Kind.HIDDEN_DEMAND,
    Kind.HOT_REPLICA,
)

_CACHE_FULL, _CACHE_NEARLY_FULL, _CACHE_WITH_ROOM = 0.95, 0.9, 0.7
_PREEMPTIONS_LEAST, _PREEMPTIONS_SHARE = 3.0, 0.01
_FLAT_SHARE, _FULL_SHARE = 0.1, 0.9
_SILENT = "the engines' signals are not known: the source says nothing new"
_RATE_LIMIT = (
    "Nothing is full while these are refused, so it is somebody's rate limit or quota, not want "
    "of capacity: look in front of the engines."
)


def load_verdicts(facts: Facts) -> dict[Kind, Verdict]:
    """Judge by the samples of the last two minutes: what comes and goes within them is nothing."""
    verdicts: dict[Kind, Verdict] = {Kind.STALLED_ENGINE: _stalled(facts)}
    recent = facts.lasting()
    if facts.decision.current == 0:
        return verdicts | dict.fromkeys(LOAD_KINDS)
    blind = _blind(facts, recent)
    if blind is not None:
        return verdicts | dict.fromkeys(LOAD_KINDS, blind)
    cache = _kv_cache(facts, recent)
    slots = None if isinstance(cache, Found) else _slots(facts, recent)
    limited = isinstance(cache, Found) or isinstance(slots, Found)
    return verdicts | {
        Kind.KV_CACHE_PRESSURE: cache,
        Kind.SLOT_LIMITED: slots,
        Kind.QUEUE_BOUND: None if limited else _queue(facts, recent),
        Kind.PREFILL_BOUND: _prefill(facts, recent),
        Kind.HIDDEN_DEMAND: _refused(facts, recent),
        Kind.HOT_REPLICA: _hot(facts, recent),
    }


def _blind(facts: Facts, recent: Sequence[Sample]) -> NotKnown | None:
    if not facts.fresh:
        return NotKnown(why=_SILENT)
    if not recent:
        return NotKnown(why="the engines' signals are not known for long enough: two minutes")
    if any(sample.serving == 0 for sample in recent):
        return NotKnown(why="the engines' signals are not known: for a while no replica served")
    return None


def _stalled(facts: Facts) -> Verdict:
    if facts.decision.current == 0:
        return None
    if not facts.fresh:
        return NotKnown(why=_SILENT)
    newest = facts.samples[-1]
    if not newest.stalled:
        return None
    stuck = [r for r in facts.replicas if is_stalled(r) and not r.asleep]
    told = [f"{r.name} ({number(r.running)} running, {number(r.waiting)} waiting)" for r in stuck]
    which = f": {named(told)}" if told else ""
    return Found(
        severity=Severity.CRITICAL,
        evidence=(
            f"{newest.stalled} of {counted(newest.reporting, 'replica')} hold requests and have "
            f"produced no token for {span(RATE_WINDOW)}{which}."
        ),
        occurrence=",".join(sorted(r.name for r in stuck)),
        pods=tuple(r.name for r in stuck),
    )


def _serving(facts: Facts) -> list[ReplicaReading]:
    return [r for r in facts.replicas if not r.asleep and not is_stalled(r)]


# --- the KV cache ---------------------------------------------------------------------------------


def _kv_cache(facts: Facts, recent: Sequence[Sample]) -> Verdict:
    newest = recent[-1]
    if newest.preemption_rate is None and newest.kv_cache is None:
        return NotKnown(why="the engines publish neither cache usage nor preemptions")
    usages = [r.kv_cache for r in _serving(facts) if r.kv_cache is not None]
    fullest = max(usages, default=newest.kv_cache)
    preempting = (fullest is None or fullest >= _CACHE_NEARLY_FULL) and _preempts(recent)
    least = min(s.kv_cache if s.kv_cache is not None else 0.0 for s in recent)
    queued = least >= _CACHE_WITH_ROOM and _queues_for_cache(facts, recent)
    high = least >= facts.policy.kv_cache_high
    if not (preempting or queued or high or least >= _CACHE_FULL):
        return None
    prompts = Prompts.of(facts)
    if not (preempting or queued or prompts.much_longer or least >= _CACHE_FULL):
        return None
    parts = [*_usage(newest, fullest), *_preemptions(facts, newest), *prompts.sentences()]
    if newest.waiting > 0:
        parts.append(f"{number(newest.waiting_per_replica)} requests wait at each replica")
    return Found(severity=Severity.WARNING, evidence=f"{'; '.join(parts)}.")


def _queues_for_cache(facts: Facts, recent: Sequence[Sample]) -> bool:
    """Say whether requests wait at most replicas, all along, over caches above kvCacheHigh.

    A prompt waits until there is room for all of it, so a queue like that is one for cache. New
    replicas with empty caches lower the mean, but not that of the replicas with a queue.
    """
    low = facts.policy.waiting_low
    if not all(s.waiting_per_replica > low and not s.skewed for s in recent):
        return False
    behind = [r.kv_cache for r in _serving(facts) if r.waiting > 0 and r.kv_cache is not None]
    usage = fmean(behind) if behind else recent[-1].kv_cache
    return usage is not None and usage >= facts.policy.kv_cache_high


def _preempts(recent: Sequence[Sample]) -> bool:
    """Say whether more than a few requests lose their place, through all of two minutes."""
    newest = recent[-1]
    rate = newest.preemption_rate or 0.0
    enough = rate * RATE_WINDOW >= _PREEMPTIONS_LEAST
    share = rate >= _PREEMPTIONS_SHARE * (newest.first_token_rate or 0.0)
    return enough and share and all(s.preemption_rate for s in recent)


def _usage(newest: Sample, fullest: float | None) -> Iterator[str]:
    if newest.kv_cache is None or fullest is None:
        yield "Cache usage is not known"
        return
    yield f"The KV cache is {number(newest.kv_cache)} full (the fullest replica {number(fullest)})"


def _preemptions(facts: Facts, newest: Sample) -> Iterator[str]:
    if newest.preemption_rate is None:
        yield "preemptions are not known"
        return
    before = Prompts.earlier(facts)
    rates = [s.preemption_rate for s in before if s.preemption_rate is not None]
    then = f", {number(fmean(rates))} before" if rates else ""
    yield f"{number(newest.preemption_rate)} requests a second lose their place{then}"


# --- slots and the queue --------------------------------------------------------------------------


def _slots(facts: Facts, recent: Sequence[Sample]) -> Verdict:
    least = facts.policy.waiting_low
    if not all(s.waiting_per_replica > least and not s.skewed for s in recent):
        return None
    if any(s.kv_cache is None for s in recent):
        return NotKnown(why="the engines do not publish cache usage: slots or cache, which ends?")
    full = [s.saturated for s in recent if s.saturated is not None]
    fullest = max(s.kv_cache for s in recent if s.kv_cache is not None)
    if fullest >= _CACHE_WITH_ROOM or any(s.preemption_rate for s in recent) or not full:
        return None
    running = [r.running for r in _serving(facts) if r.waiting > 0]
    learned = facts.decision.learned
    saturation = learned.saturation if learned is not None else None
    if not (_stands_still(full) and _stands_still(running)):
        return None
    if saturation and min(full) < _FULL_SHARE * saturation:
        return None
    newest = recent[-1]
    return Found(
        severity=Severity.WARNING,
        evidence=(
            f"Every replica with a queue has run about {number(full[-1])} requests for "
            f"{span(LASTING)}, while {number(newest.waiting_per_replica)} wait at each and "
            f"the KV cache is only {number(fullest)} full."
        ),
    )


def _stands_still(counts: Sequence[float]) -> bool:
    """Say whether counts differ by a tenth at most, or by one.

    A count that stands still under a queue is a limit; one that moves is bound by work.
    """
    if not counts:
        return True
    return max(counts) - min(counts) <= max(1.0, _FLAT_SHARE * max(counts))


def _queue(facts: Facts, recent: Sequence[Sample]) -> Verdict:
    high = facts.policy.waiting_high
    lasting = all(s.waiting_per_replica >= high and not s.skewed for s in recent)
    if not lasting:
        return None
    newest, decision = recent[-1], facts.decision
    waited = f"{number(newest.waiting_per_replica)} requests have waited at each replica"
    parts = [f"{waited} for {span(LASTING)} (waitingHigh {number(high)})"]
    if newest.first_token_rate:
        through = newest.waiting / newest.first_token_rate
        parts.append(
            f"at {number(newest.first_token_rate)} first tokens a second the queue takes "
            f"{span(through)}"
        )
    growing = (
        decision.current is not None
        and decision.desired is not None
        and decision.desired > decision.current
    )
    if growing:
        parts.append(f"the fleet is growing from {decision.current} to {decision.desired}")
    severity = Severity.NOTE if growing else Severity.WARNING
    return Found(severity=severity, evidence=f"{'; '.join(parts)}.")


# --- prefill, refusals, routing -------------------------------------------------------------------


def _prefill(facts: Facts, recent: Sequence[Sample]) -> Verdict:
    newest, policy = recent[-1], facts.policy
    if newest.ttft is None:
        # A histogram that did not grow is no secret: nobody asked anything.
        silent = newest.first_token_rate is None
        return NotKnown(why="the engines publish no TTFT histogram") if silent else None
    slow = all(
        s.ttft is not None
        and s.ttft.observations >= ENOUGH_OBSERVATIONS
        and s.ttft.lower >= policy.ttft_p95_high
        for s in recent
    )
    learned = facts.decision.learned
    uncured = learned is not None and learned.prefill_bound
    # A smaller fleet under the same overload was slow, too: a long queue proves nothing.
    most = policy.waiting_high if uncured else policy.waiting_low
    # Those that waited before still show in the p95 of the two minutes after.
    calm = facts.since(facts.now - 2 * LASTING)
    if not slow or any(s.waiting_per_replica > most for s in calm):
        return None
    high = f"The TTFT p95 is {number(newest.ttft.value)} s (High {number(policy.ttft_p95_high)} s)"
    parts = [f"{high} with {number(newest.waiting_per_replica)} requests waiting at each replica"]
    if uncured:
        parts.append("a fleet a fifth smaller was as fast with as many requests in the last 2 h")
    parts += Prompts.of(facts).sentences()
    return Found(severity=Severity.WARNING, evidence=f"{'; '.join(parts)}.")


def _refused(facts: Facts, recent: Sequence[Sample]) -> Verdict:
    newest = recent[-1]
    if newest.rejection_rate is None:
        return NotKnown(
            why="refusals are not known: engines before vLLM 0.32 do not count them, and no "
            "rejectionQuery names a gateway's"
        )
    if not all(s.rejection_rate for s in recent):
        return None
    need = facts.decision.need
    loaded = newest.waiting > 0 or (need is not None and need.low_row is not None)
    evidence = (
        f"{number(newest.rejection_rate)} requests a second are refused, "
        f"{number(newest.first_token_rate or 0.0)} are served; {number(newest.waiting)} wait."
    )
    if loaded:
        return Found(severity=Severity.WARNING, evidence=evidence)
    return Found(severity=Severity.NOTE, evidence=evidence, advice=_RATE_LIMIT)


def _hot(facts: Facts, recent: Sequence[Sample]) -> Verdict:
    # One or two that wait at some, now here and now there, are no fault of the router.
    least = facts.policy.waiting_high
    if not all(s.skewed and s.waiting >= least * s.queued for s in recent):
        return None
    newest = recent[-1]
    hot = sorted((r for r in _serving(facts) if r.waiting > 0), key=lambda r: -r.waiting)
    cool = [r for r in _serving(facts) if r.waiting == 0]
    told = [f"{r.name} ({number(r.waiting)} waiting, {number(r.running)} running)" for r in hot]
    which = f": {named(told)}" if told else ""
    others = fmean(r.running for r in cool) if cool else 0.0
    rest = f"; the other {len(cool)} run {number(others)} on average" if cool else ""
    return Found(
        severity=Severity.WARNING,
        evidence=(
            f"Requests have waited at only {newest.queued} of "
            f"{counted(newest.serving, 'replica')} for {span(LASTING)}{which}{rest}."
        ),
        occurrence=",".join(sorted(r.name for r in hot)),
        pods=tuple(r.name for r in hot),
    )
