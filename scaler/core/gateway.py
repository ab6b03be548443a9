"""What waits at a workload's gateway: the only demand that a fleet of zero replicas can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scaler.core.corridor import round_up
from scaler.core.learned import Learned
from scaler.core.policy import Policy
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale

ASKED_EVERY: Seconds = 5.0
"""How often the gateways of fleets at zero are asked."""

LATCHED_FOR: Seconds = 90.0
"""For how long demand counts after it was last seen.

A request may come and go between two of KEDA's polls, and has to wake the fleet all the same. This
is three polls at KEDA's default of 30 s: one may fail, and one come late. What wakes a fleet for
nothing costs a start, so it is no longer than that.
"""

FRESH_FOR: Seconds = 2 * TICK
"""How old the answer that nobody waits may be: as old as the newest sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """What is known of a workload's gateway beside the samples.

    `asked` says whether the workload has an activationQuery. `answers` are (epoch seconds, demand)
    pairs, ascending, got between the ticks; `zero_at` is when the fleet was last seen to be at zero
    replicas, None where it was not.
    """

    asked: bool
    answers: tuple[tuple[Seconds, float], ...] = ()
    zero_at: Seconds | None = None


def demand_at_zero(
    gateway: Gateway | None, samples: Sequence[Sample], now: Seconds
) -> float | None:
    """Return the demand that a fleet at zero has; None while it is not known.

    It is the most that was seen within `LATCHED_FOR`, and 0 only where a fresh answer says so. An
    answer that is newer than `now` counts: a tick may take longer than until the next one comes.
    """
    known = _answers(gateway, samples, now - LATCHED_FOR)
    most = max((demand for _, demand in known), default=0.0)
    if most > 0:
        return most
    return 0.0 if any(at >= now - FRESH_FOR for at, _ in known) else None


def demand_of_waking(
    gateway: Gateway | None, samples: Sequence[Sample], now: Seconds
) -> float | None:
    """Return the demand for which a fleet was woken, for a while after; None where there is none.

    What came after the count left zero is not in it: a backlog that grows while the first replicas
    load says nothing of the rate at which requests arrive.
    """
    if gateway is None or gateway.zero_at is None:
        return None
    known = _answers(gateway, samples, now - LATCHED_FOR)
    most = max((demand for at, demand in known if at <= gateway.zero_at), default=0.0)
    return most if most > 0 else None


def first_answer(policy: Policy, scale: Scale, learned: Learned, demand: float) -> int:
    """Return how many replicas the demand at the gateway of a fleet at zero needs, at least one."""
    if learned.saturation is None:
        return scale.within_bounds(1)
    return scale.within_bounds(round_up(demand / (learned.saturation * (1 - policy.headroom))))


def gateway_notes(newest: Sample, scale: Scale, gateway: Gateway | None) -> tuple[Reason, ...]:
    """Say what is wrong with the way back from zero, where the fleet may go there."""
    if gateway is None or scale.min_replicas > 0:
        return ()
    if not gateway.asked:
        return (Reason.NO_WAY_TO_WAKE,)
    return (Reason.GATEWAY_SILENT,) if newest.activation is None else ()


def _answers(
    gateway: Gateway | None, samples: Sequence[Sample], since: Seconds
) -> list[tuple[Seconds, float]]:
    """Return what was answered after `since`, on the ticks and between them."""
    known = [answer for answer in gateway.answers if answer[0] > since] if gateway else []
    for sample in reversed(samples):
        if sample.at <= since:
            break
        if sample.activation is not None:
            known.append((sample.at, sample.activation))
    return known
