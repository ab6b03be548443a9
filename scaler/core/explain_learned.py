"""What a decision took as given, explained: each quantity, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scaler.core.learned import Learned
from scaler.core.need import proven
from scaler.core.numbers import number, seconds
from scaler.core.policy import Policy
from scaler.core.units import Seconds


class Origin(StrEnum):
    """Who says how much a quantity is: the trigger, the workload's own history, or nobody yet."""

    STATED = "stated"
    LEARNED = "learned"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedExplained:
    """What the decision takes as given; None where it is not learned yet."""

    saturation: float | None
    saturation_origin: Origin | None
    carried: float | None
    lead_time: Seconds
    lead_time_origin: Origin
    sentences: tuple[str, ...]


def explain_learned(policy: Policy, learned: Learned) -> LearnedExplained:
    """Explain what a decision took as given under a policy."""
    return LearnedExplained(
        saturation=learned.saturation,
        saturation_origin=_origin_of_saturation(policy, learned),
        carried=learned.carried,
        lead_time=learned.lead_time,
        lead_time_origin=_origin_of_lead_time(policy, learned),
        sentences=(
            _saturation(policy, learned),
            _carried(learned),
            _slowdown(learned),
            _lead_time(policy, learned),
        ),
    )


def _saturation(policy: Policy, learned: Learned) -> str:
    if learned.saturation is None:
        known = "no headroom is kept" if learned.carried is None else "calm is the measure"
        return (
            f"How many requests a full replica runs is not learned yet: {known} until "
            "replicas have had a queue in eight samples, or concurrencyPerReplica says it."
        )
    origin = _origin_of_saturation(policy, learned)
    most = learned.saturation * (1 - policy.headroom)
    return (
        f"A full replica runs {number(learned.saturation)} requests ({origin}); with a headroom of "
        f"{number(policy.headroom)} more replicas are wanted from {number(most)} on each."
    )


def _carried(learned: Learned) -> str:
    if learned.carried is None:
        return "What a replica carries in calm is not learned yet."
    told = f"In calm a replica has carried {number(learned.carried)} requests"
    if learned.saturation is not None:
        return f"{told}."
    most = max(1.0, proven(learned.carried))
    return f"{told}; more replicas are wanted from {number(most)} on each."


def _slowdown(learned: Learned) -> str:
    running, prompt = 100 * learned.slowdown.running, 100 * learned.slowdown.prompt
    if running == prompt == 0:
        return "By how much a step slows with each request is not learned yet: taken as nothing."
    return (
        f"A step slows with each request by {number(running)} % of its base, and by "
        f"{number(prompt)} % for each prompt token that goes with a generated one."
    )


def _lead_time(policy: Policy, learned: Learned) -> str:
    origin = _origin_of_lead_time(policy, learned)
    told = {Origin.LEARNED: "learned from its pods", Origin.DEFAULT: "assumed until seen"}
    return (
        f"A replica takes {seconds(learned.lead_time)} from creation to serving "
        f"({told.get(origin, origin.value)})."
    )


def _origin_of_saturation(policy: Policy, learned: Learned) -> Origin | None:
    if learned.saturation is None:
        return None
    return Origin.STATED if policy.concurrency_per_replica else Origin.LEARNED


def _origin_of_lead_time(policy: Policy, learned: Learned) -> Origin:
    if policy.lead_time is not None:
        return Origin.STATED
    return Origin.LEARNED if learned.lead_time_observed else Origin.DEFAULT
