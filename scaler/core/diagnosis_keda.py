"""What KEDA, the HPA and the bounds say: whether what is asked for can come about at all."""

from __future__ import annotations

from scaler.core.corridor import round_up
from scaler.core.diagnosis_facts import Facts
from scaler.core.diagnosis_finding import (
    ADVICE,
    Found,
    Kind,
    NotKnown,
    Severity,
    Verdict,
    counted,
    named,
    quoted,
    span,
)
from scaler.core.pods import Condition, Situation
from scaler.core.policy import Mode
from scaler.core.units import Seconds

KEDA_KINDS = (
    Kind.PAUSED,
    Kind.METRIC_TYPE,
    Kind.SECOND_OWNER,
    Kind.HPA_NOT_SCALING,
    Kind.KEDA_NOT_READY,
    Kind.NO_WAY_TO_WAKE,
)

MOVES_WITHIN: Seconds = 1800.0
"""How far back moves of the count count."""

_MOVES_LEAST = 2
_WAKES_NOBODY = frozenset({"cpu", "memory"})
_UNKNOWN = NotKnown(why="what KEDA and the HPA are told is not known: no cluster, or no right")


def keda_verdicts(facts: Facts) -> dict[Kind, Verdict]:
    """Judge by the ScaledObject, its HPA and the bounds."""
    verdicts: dict[Kind, Verdict] = {
        Kind.SOURCE_SILENT: _silent(facts),
        Kind.AT_MAX: _at_max(facts),
    }
    situation = facts.situation
    if situation is None:
        return verdicts | dict.fromkeys(KEDA_KINDS, _UNKNOWN)
    # Who only watches owns neither the count nor the trigger that moves it.
    ours = facts.policy.mode is Mode.ACT
    return verdicts | {
        Kind.PAUSED: _paused(situation),
        Kind.METRIC_TYPE: _metric_type(situation) if ours else None,
        Kind.SECOND_OWNER: _second_owner(facts, situation) if ours else None,
        Kind.HPA_NOT_SCALING: _hpa(facts, situation),
        Kind.KEDA_NOT_READY: _keda(situation),
        Kind.NO_WAY_TO_WAKE: _zero(facts, situation) if ours else None,
    }


def _silent(facts: Facts) -> Verdict:
    if facts.trouble is None or (facts.targets_silent and _loads(facts)):
        return None
    last = facts.samples[-1].at if facts.samples else facts.looked_since
    silent = f" for {span(max(0.0, facts.now - last))}" if last is not None else ""
    return Found(
        severity=Severity.WARNING,
        evidence=f"The source has said nothing{silent}: {quoted(facts.trouble)}.",
        advice=ADVICE[Kind.SCRAPING_BLOCKED] if facts.targets_silent else None,
    )


def _loads(facts: Facts) -> bool:
    """Say whether no replica can answer yet, since none is Ready."""
    if facts.pods is not None:
        return not any(pod.ready for pod in facts.pods)
    return facts.scale is not None and facts.scale.ready == 0


def _at_max(facts: Facts) -> Verdict:
    most = facts.scale.max_replicas if facts.scale is not None else None
    if most is None:
        return NotKnown(why="maxReplicaCount is not known")
    lines, current = facts.decision.corridor, facts.decision.current
    if lines is None or current is None:
        return None if current == 0 else NotKnown(why="what demand needs is not known")
    wanted = round_up(lines.floor)
    if wanted <= most or current < most:
        return None
    return Found(
        severity=Severity.WARNING,
        evidence=f"Demand needs {wanted:.0f} replicas, maxReplicaCount is {most}.",
    )


def _paused(situation: Situation) -> Verdict:
    if not situation.paused:
        return None
    if situation.paused_replicas is not None:
        told = f"The ScaledObject is paused at {counted(situation.paused_replicas, 'replica')}."
    elif situation.in_paused != situation.out_paused:
        told = f"Scale-{'in' if situation.in_paused else 'out'} of the ScaledObject is paused."
    else:
        told = "The ScaledObject is paused."
    return Found(severity=Severity.NOTE, evidence=told)


def _metric_type(situation: Situation) -> Verdict:
    found = situation.metric_type
    if found is None:
        return NotKnown(why="the HPA's metric type is not known: it has no HPA, or no right")
    if found == "AverageValue":
        return None
    return Found(
        severity=Severity.CRITICAL,
        evidence=f"The HPA compares our count as {quoted(found)} instead of AverageValue.",
    )


def _second_owner(facts: Facts, situation: Situation) -> Verdict:
    lately = [at for at in facts.moves if facts.now - at <= MOVES_WITHIN]
    told = []
    if situation.other_owners:
        owners = [quoted(owner) for owner in situation.other_owners]
        told.append(f"is also written by {named(owners)}")
    if len(lately) >= _MOVES_LEAST:
        told.append(
            f"has gone {len(lately)} times in {span(MOVES_WITHIN)} where the scaler had "
            "not asked it to go"
        )
    if not told:
        return None
    return Found(
        severity=Severity.WARNING,
        evidence=f"The count {' and '.join(told)}.",
        occurrence=",".join(sorted(situation.other_owners)),
    )


def _hpa(facts: Facts, situation: Situation) -> Verdict:
    told = []
    for name in ("ScalingActive", "AbleToScale"):
        condition = situation.conditions.get(name)
        # At zero the HPA is off, and KEDA wakes the fleet.
        if condition is None or condition.status is not False or facts.decision.current == 0:
            continue
        told.append(_words(name, condition))
    if not told:
        return None
    of = f" {situation.hpa_name}" if situation.hpa_name else ""
    return Found(severity=Severity.CRITICAL, evidence=f"The HPA{of} says {'; '.join(told)}.")


def _keda(situation: Situation) -> Verdict:
    told = []
    for name, bad in (("Ready", False), ("Fallback", True)):
        condition = situation.conditions.get(name)
        if condition is not None and condition.status is bad:
            told.append(_words(name, condition))
    if not told:
        return None
    return Found(severity=Severity.WARNING, evidence=f"KEDA says {'; '.join(told)}.")


def _words(name: str, condition: Condition) -> str:
    why = f" ({quoted(condition.reason)})" if condition.reason else ""
    said = f": {quoted(condition.message)}" if condition.message else ""
    return f"{name}={condition.status}{why}{said}"


def _zero(facts: Facts, situation: Situation) -> Verdict:
    reaches_zero = situation.min_replicas == 0 or situation.idle_replicas == 0
    others = [each for each in situation.other_triggers if each not in _WAKES_NOBODY]
    if not reaches_zero or facts.wakes or others:
        return None
    asleep = facts.decision.current == 0
    now = "the fleet is at zero now" if asleep else "an idle fleet goes to zero"
    return Found(
        severity=Severity.CRITICAL if asleep else Severity.WARNING,
        evidence=f"minReplicaCount is 0 and the trigger has no activationQuery: {now}.",
    )
