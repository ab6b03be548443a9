"""The whole explanation of one decision: what a person needs to see that it is right, or wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from scaler.core.decision import Decision, scale_in_span
from scaler.core.explain_learned import LearnedExplained, explain_learned
from scaler.core.learned import Learned
from scaler.core.need import Need, Row, RowNeed
from scaler.core.numbers import number
from scaler.core.policy import Mode, Policy, Signal
from scaler.core.quantile import ENOUGH_OBSERVATIONS
from scaler.core.reasons import EXPLANATIONS, Reason
from scaler.core.sample import Sample
from scaler.core.units import Seconds
from scaler.core.what_if import what_would_change
from scaler.core.workload import WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Because:
    """A reason with what it means and what helps."""

    reason: Reason
    meaning: str
    cure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The replicas that the newest sample saw, and what they do together; rates per second."""

    serving: int
    stalled: int
    asleep: int
    unseen: int
    loading: int
    overdue: int
    running: float
    waiting: float
    first_token_rate: float | None
    token_rate: float | None
    preemption_rate: float | None
    rejection_rate: float | None
    activation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExplained:
    """What one row makes of the newest sample, in replicas; an unlimited `high` says nothing."""

    row: Row
    low: float
    high: float
    note: Reason | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalExplained:
    """One signal against its thresholds; `value` is None where nobody knows it."""

    signal: Signal
    in_use: bool
    value: float | None
    unit: str
    low: float
    high: float
    sentence: str
    rows: tuple[RowExplained, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """For how long, up to the newest sample, something has held, and for how long it must."""

    held_for: Seconds
    needed: Seconds
    samples: int
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A decision, explained. Counts are replicas; an unproven `ceiling` is None."""

    namespace: str
    name: str
    trigger: str
    at: Seconds
    mode: Mode
    current: int | None
    desired: int | None
    advised: int | None
    active: bool | None
    summary: str
    because: Because
    notes: tuple[Because, ...]
    floor: int | None
    ceiling: int | None
    floor_because: Reason | None
    ceiling_because: Reason | None
    fleet: Fleet | None
    signals: tuple[SignalExplained, ...]
    overload: Sustained | None
    calm: Sustained | None
    silent_for: Seconds
    learned: LearnedExplained | None
    would_change: tuple[str, ...]
    trouble: str | None
    fault: str | None


def explain(
    key: WorkloadKey,
    policy: Policy,
    decision: Decision,
    *,
    trouble: str | None = None,
    fault: str | None = None,
) -> Explained:
    """Explain a decision that was made under a policy."""
    lines, sample, learned = decision.corridor, decision.sample, decision.learned
    return Explained(
        namespace=key.namespace,
        name=key.name,
        trigger=key.trigger,
        at=decision.at,
        mode=policy.mode,
        current=decision.current,
        desired=decision.desired,
        advised=decision.advised,
        active=decision.active,
        summary=_summary(policy, decision),
        because=because(decision.reason),
        notes=tuple(because(note) for note in decision.notes),
        floor=decision.floor,
        ceiling=decision.proven_ceiling,
        floor_because=lines.floor_reason if lines is not None else None,
        ceiling_because=lines.ceiling_reason if lines is not None else None,
        fleet=_fleet(sample) if sample is not None else None,
        signals=tuple(_signals(policy, sample, decision.need)) if sample is not None else (),
        overload=_overload(decision),
        calm=_calm(policy, decision),
        silent_for=decision.silent_for,
        learned=explain_learned(policy, learned) if learned is not None else None,
        would_change=what_would_change(policy, decision),
        trouble=trouble,
        fault=fault,
    )


def because(reason: Reason) -> Because:
    """Return a reason with its meaning and cure."""
    found = EXPLANATIONS[reason]
    return Because(reason=reason, meaning=found.meaning, cure=found.cure)


def _summary(policy: Policy, decision: Decision) -> str:
    current = "an unknown number of" if decision.current is None else str(decision.current)
    have = f"{current} {_replicas(decision.current)}"
    if decision.desired is None:
        return f"{have}; the scaler answers nothing, so the HPA keeps the count."
    if policy.mode is Mode.ADVISE and decision.advised != decision.desired:
        return f"{have}; the scaler only advises, and would ask for {decision.advised}."
    if decision.desired == decision.current:
        return f"{have}, and that stays."
    return f"{have}; the scaler asks for {decision.desired}."


def _replicas(count: int | None) -> str:
    return "replica" if count == 1 else "replicas"


def _fleet(sample: Sample) -> Fleet:
    return Fleet(
        serving=sample.serving,
        stalled=sample.stalled,
        asleep=sample.asleep,
        unseen=sample.unseen,
        loading=sample.loading,
        overdue=sample.overdue,
        running=sample.running,
        waiting=sample.waiting,
        first_token_rate=sample.first_token_rate,
        token_rate=sample.token_rate,
        preemption_rate=sample.preemption_rate,
        rejection_rate=sample.rejection_rate,
        activation=sample.activation,
    )


def _overload(decision: Decision) -> Sustained | None:
    if decision.corridor is None:
        return None
    window = decision.corridor.out_window
    return Sustained(
        held_for=decision.overload_for,
        needed=window.span,
        samples=window.present,
        ticks=window.ticks,
    )


def _calm(policy: Policy, decision: Decision) -> Sustained | None:
    if decision.corridor is None:
        return None
    window = decision.corridor.in_window
    needed = scale_in_span(policy, decision.learned or Learned())
    return Sustained(
        held_for=decision.calm_for, needed=needed, samples=window.present, ticks=window.ticks
    )


def _signals(policy: Policy, sample: Sample, need: Need | None) -> Iterator[SignalExplained]:
    rows = {row.row: row for row in need.rows} if need is not None else {}
    waiting = sample.waiting_per_replica if sample.serving else None
    for signal, value, unit, low, high, names in (
        (
            Signal.WAITING,
            waiting,
            "waiting requests per replica",
            policy.waiting_low,
            policy.waiting_high,
            (Row.QUEUE, Row.CONCURRENCY),
        ),
        (
            Signal.TTFT,
            sample.ttft.value if sample.ttft is not None else None,
            "s TTFT p95",
            policy.ttft_p95_low,
            policy.ttft_p95_high,
            (Row.TTFT,),
        ),
        (
            Signal.KV_CACHE,
            sample.kv_cache,
            "of the KV cache",
            policy.kv_cache_low,
            policy.kv_cache_high,
            (Row.KV_CACHE,),
        ),
    ):
        yield SignalExplained(
            signal=signal,
            in_use=signal in policy.signals,
            value=value,
            unit=unit,
            low=low,
            high=high,
            sentence=_level(value, unit, low, high, _ttft(sample, policy, signal)),
            rows=tuple(_row(rows[name]) for name in names if name in rows),
        )


def _level(value: float | None, unit: str, low: float, high: float, told: _Told | None) -> str:
    """Say where a value stands between its thresholds."""
    if value is None:
        return "not known"
    if told is None:
        told = _Told(at_least=value, at_most=value)
    if told.silent is not None:
        return told.silent
    text = f"{number(value)} {unit}{told.beside}"
    if told.at_least >= high:
        return f"{text}: at or above High ({number(high)})"
    if told.at_most > low:
        return f"{text}: between Low ({number(low)}) and High ({number(high)})"
    return f"{text}: at or below Low ({number(low)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """Between which values a signal surely lies, and what must be said of that."""

    at_least: float
    at_most: float
    beside: str = ""
    silent: str | None = None


def _ttft(sample: Sample, policy: Policy, signal: Signal) -> _Told | None:
    """A p95 is known only to its bucket, and the histogram does not hold those that still wait."""
    measured = sample.ttft
    if signal is not Signal.TTFT or measured is None:
        return None
    if measured.observations < ENOUGH_OBSERVATIONS:
        few = f"too few requests for a p95: {number(measured.observations)} in two minutes"
        return _Told(at_least=0.0, at_most=math.inf, silent=few)
    queueing, beside = 0.0, ""
    if sample.waiting_per_replica > policy.waiting_low:
        served = sample.first_token_rate
        queueing = sample.waiting / served if served else math.inf
        beside = f", those that wait {number(queueing)} s"
    return _Told(
        at_least=max(measured.lower, queueing),
        at_most=max(measured.upper, queueing),
        beside=f" (between {number(measured.lower)} and {number(measured.upper)}{beside})",
    )


def _row(row: RowNeed) -> RowExplained:
    low = f"asks for {number(row.low)} replicas" if row.low > 0 else "asks for none"
    high = "gives none up" if math.isinf(row.high) else f"could do with {number(row.high)}"
    note = f" ({row.note.value})" if row.note is not None else ""
    return RowExplained(
        row=row.row,
        low=row.low,
        high=row.high,
        note=row.note,
        sentence=f"{row.row.value} {low} and {high}{note}",
    )
