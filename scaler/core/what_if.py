"""What would change an answer, found by asking the decision's own functions about other samples.

A what-if is about a load that stays: the newest sample, changed in one value, seen again and again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from scaler.core.context import Context
from scaler.core.corridor import round_up
from scaler.core.decision import Decision, scale_in_span
from scaler.core.learned import Learned
from scaler.core.need import Need, Row, RowNeed, need_of
from scaler.core.numbers import number, seconds
from scaler.core.policy import Mode, Policy, Signal
from scaler.core.quantile import ENOUGH_OBSERVATIONS, Percentile
from scaler.core.reasons import Reason
from scaler.core.sample import Sample

_MOST_PER_REPLICA = 4096.0
_SLOWEST_TTFT = 600.0
_HALVINGS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class _Knob:
    """One value of a sample that a what-if turns; `least` is where it stands, `most` the end."""

    signal: Signal
    least: float
    most: float
    turn: Callable[[float], Sample]
    say: Callable[[float], str]


def what_would_change(policy: Policy, decision: Decision) -> tuple[str, ...]:
    """Return sentences on what would make the answer another one; none where nothing is known."""
    sample, need = decision.sample, decision.need
    if decision.current is None or decision.desired is None or sample is None or need is None:
        return ()
    if policy.mode is Mode.ACT and decision.desired != decision.current:
        way = f"The fleet is on its way from {decision.current} to {decision.desired}"
        return (f"{way}; what comes next is decided on from there.",)
    learned = decision.learned or Learned()
    return (
        *_upwards(policy, decision, decision.current, sample, need, learned),
        *_downwards(policy, decision, decision.current, sample, need, learned),
    )


def steadily(sample: Sample, policy: Policy, learned: Learned) -> Need:
    """Return what a sample would ask for if it were seen again and again."""
    context = Context(
        waiting_growth=0.0,
        running_growth=0.0,
        complete=True,
        serving_mean=float(sample.serving),
        serving_least=sample.serving,
        waiting_mean=sample.waiting,
        just_grew=False,
        before=sample,
    )
    return need_of(sample, context, policy, learned)


def _upwards(
    policy: Policy,
    decision: Decision,
    current: int,
    sample: Sample,
    need: Need,
    learned: Learned,
) -> Iterator[str]:
    window = decision.corridor.out_window.span if decision.corridor else policy.scale_out_window
    if decision.reason is Reason.AT_MAX:
        yield "More replicas: only a higher maxReplicaCount."
        return
    asked = round_up(need.low)
    if asked > current:
        rest = max(0.0, window - decision.overload_for)
        still = f"for {seconds(rest)} more" if rest else "at the next tick too"
        yield (
            f"More replicas: the newest sample asks for {asked:.0f}. If that stays so {still}, "
            "the answer rises, as far as maxReplicaCount allows."
        )
        return
    for knob in _knobs(policy, sample, learned):
        reached = _smallest(knob, lambda s: round_up(steadily(s, policy, learned).low) > current)
        if reached is not None:
            count = round_up(steadily(knob.turn(reached), policy, learned).low)
            yield (
                f"More replicas: {knob.say(reached)}, for {seconds(window)}, "
                f"would ask for {count:.0f}."
            )


def _knobs(policy: Policy, sample: Sample, learned: Learned) -> Iterator[_Knob]:
    serving = sample.serving
    if not serving:
        return
    if Signal.WAITING in policy.signals:
        now = sample.waiting_per_replica
        yield _Knob(
            signal=Signal.WAITING,
            least=now,
            most=_MOST_PER_REPLICA,
            turn=lambda v: replace(sample, waiting=v * serving, queued=serving),
            say=lambda v: (
                f"{number(v - now)} more waiting requests per replica "
                f"({number(v)} instead of {number(now)})"
            ),
        )
        if learned.saturation is not None or learned.carried is not None:
            run = sample.running / serving
            yield _Knob(
                signal=Signal.WAITING,
                least=run,
                most=_MOST_PER_REPLICA,
                turn=lambda v: replace(sample, running=v * serving),
                say=lambda v: f"{number(v)} running requests per replica (now {number(run)})",
            )
    if Signal.KV_CACHE in policy.signals and sample.kv_cache is not None:
        used = sample.kv_cache
        yield _Knob(
            signal=Signal.KV_CACHE,
            least=used,
            most=1.0,
            turn=lambda v: replace(sample, kv_cache=v),
            say=lambda v: f"a KV-cache usage of {number(v)} (now {number(used)})",
        )
    if Signal.TTFT in policy.signals:
        yield _ttft_knob(sample)


def _ttft_knob(sample: Sample) -> _Knob:
    known = sample.ttft
    now = f"now {number(known.value)} s" if known is not None else "now not known"

    def turn(value: float) -> Sample:
        observations = float(ENOUGH_OBSERVATIONS)
        slow = Percentile(value=value, lower=value, upper=value, observations=observations)
        rate = sample.first_token_rate
        return replace(sample, ttft=slow, first_token_rate=1.0 if rate is None else rate)

    return _Knob(
        signal=Signal.TTFT,
        least=known.value if known is not None else 0.0,
        most=_SLOWEST_TTFT,
        turn=turn,
        say=lambda v: f"a TTFT p95 of {number(v)} s ({now})",
    )


def _smallest(knob: _Knob, holds: Callable[[Sample], bool]) -> float | None:
    """Return the least value, as it will be printed, at which something holds; None where none is.

    More of any signal never asks for fewer replicas, so halving finds the border.
    """
    if holds(knob.turn(knob.least)) or not holds(knob.turn(knob.most)):
        return None
    low, high = knob.least, knob.most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(knob.turn(middle)) else (middle, high)
    # What is printed must itself be enough; a border that does not count itself is just below it.
    step = 10.0 ** (math.floor(math.log10(high)) - 2)
    whole = math.ceil(high / step - 1e-9)
    printed = (min(knob.most, steps * step) for steps in (whole, whole + 1))
    return next((value for value in printed if holds(knob.turn(value))), high)


def _downwards(
    policy: Policy,
    decision: Decision,
    current: int,
    sample: Sample,
    need: Need,
    learned: Learned,
) -> Iterator[str]:
    window = scale_in_span(policy, learned)
    if decision.reason is Reason.AT_MIN:
        yield "Fewer replicas: only a lower minReplicaCount."
        return
    if current <= 1:
        return
    missing = decision.corridor.in_window.missing if decision.corridor else 0
    blind = f" Of that window {missing} samples are missing." if missing else ""
    if decision.calm_for:
        rest = max(0.0, window - decision.calm_for)
        yield (
            f"Fewer replicas: the newest samples need fewer than {current}. If that stays so for "
            f"{seconds(rest)} more, with every tick seen, the answer falls.{blind}"
        )
        return
    hindrances = [*_hindrances(policy, sample, need, learned, current - 1)]
    if hindrances:
        yield (f"Fewer replicas: for {seconds(window)}, {'; '.join(hindrances)}.{blind}")


def _hindrances(
    policy: Policy, sample: Sample, need: Need, learned: Learned, wanted: int
) -> Iterator[str]:
    """Say for each row that asks for more than `wanted` replicas where it would let one go."""
    if 2 * sample.unseen > sample.reporting + sample.unseen:
        yield "at least half of the replicas must report"
    for row in need.rows:
        if round_up(row.high) > wanted:
            yield _release(row, policy, sample, learned, wanted)
    beside = sample.stalled + sample.unseen
    if beside and not any(round_up(row.high) > wanted for row in need.rows):
        yield f"the {beside} replicas that are stalled or do not report must be back"


def _release(row: RowNeed, policy: Policy, sample: Sample, learned: Learned, wanted: int) -> str:
    if row.row is Row.QUEUE:
        return (
            f"at most {number(policy.waiting_low)} waiting requests per replica "
            f"(now {number(sample.waiting_per_replica)})"
        )
    if row.row is Row.KV_CACHE:
        if sample.kv_cache is None:
            return "a KV-cache usage that is known"
        most = policy.kv_cache_low * wanted / sample.serving
        return f"a KV-cache usage of at most {number(most)} (now {number(sample.kv_cache)})"
    if row.row is Row.TTFT:
        known = f"now {number(sample.ttft.value)} s" if sample.ttft is not None else "now not known"
        low = number(policy.ttft_p95_low)
        return f"a TTFT p95 surely at most {low} s, those that wait included ({known})"
    return _release_of_concurrency(policy, sample, learned, wanted)


def _release_of_concurrency(policy: Policy, sample: Sample, learned: Learned, wanted: int) -> str:
    alone = replace(policy, signals=frozenset({Signal.WAITING}))

    def enough(running: float) -> bool:
        changed = replace(sample, running=running, waiting=0.0, queued=0)
        rows = steadily(changed, alone, learned).rows
        return all(round_up(row.high) <= wanted for row in rows if row.row is Row.CONCURRENCY)

    low, high = 0.0, sample.serving * _MOST_PER_REPLICA
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    if low < 1.0:
        return (
            "nothing running, or a fleet that has learned how many requests a replica carries "
            "(concurrencyPerReplica says it at once)"
        )
    return f"at most {number(low)} running requests in all (now {number(sample.running)})"
