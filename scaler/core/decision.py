"""The decision: how many replicas the workload gets, and why.

A pure function of samples, policy, scale and time. Whoever holds the same history answers alike.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from scaler.core.corridor import Corridor, corridor, round_up
from scaler.core.gateway import (
    Gateway,
    demand_at_zero,
    demand_of_waking,
    first_answer,
    gateway_notes,
)
from scaler.core.learned import Learned
from scaler.core.need import Need
from scaler.core.policy import Mode, Policy
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.tolerance import obeyed
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale

_FRESH_TICKS = 2
_LEAD_TIMES_IN = 2.0
_BLIND = frozenset(
    {
        Reason.GAP,
        Reason.WARMING_UP,
        Reason.TOO_FEW_SCRAPES,
        Reason.LOADING,
        Reason.SETTLING,
        Reason.PODS_LATE,
    }
)

_at = attrgetter("at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An answer with its reason.

    `desired` is a whole number of replicas; `None` means that nothing may be answered (gRPC
    UNAVAILABLE). `active` is `None` while neither activity nor idleness is proven. `notes` are
    further reasons that a person should know. `advised` is what `mode: act` would answer.
    `demand` is what waits, or has waited a moment ago, at the gateway of a fleet at zero;
    `moved_at` when somebody else moved the count, of late; `late_since` since when the count is
    taken for one that is read late, and `current` for what was asked for; `settling_since` since
    when the count is known, while its pods may not be.
    `overload_for` and `calm_for` say how long, within the window in question, the newest samples
    have asked for more, or for fewer, replicas than `current`.
    """

    at: Seconds
    current: int | None
    desired: int | None
    advised: int | None
    reason: Reason
    active: bool | None = True
    notes: tuple[Reason, ...] = ()
    floor: int | None = None
    ceiling: int | None = None
    corridor: Corridor | None = None
    learned: Learned | None = None
    sample: Sample | None = None
    need: Need | None = None
    demand: float | None = None
    moved_at: Seconds | None = None
    late_since: Seconds | None = None
    settling_since: Seconds | None = None
    overload_for: Seconds = 0.0
    calm_for: Seconds = 0.0
    silent_for: Seconds = 0.0

    @property
    def proven_ceiling(self) -> int | None:
        """Return the ceiling; None where no calm has proven one."""
        proven = self.corridor is not None and math.isfinite(self.corridor.ceiling)
        return self.ceiling if proven else None


def scale_in_span(policy: Policy, learned: Learned) -> Seconds:
    """Return the scale-in window: what could not be back in time is not given away."""
    return max(policy.scale_in_window, _LEAD_TIMES_IN * learned.lead_time)


def decide(
    policy: Policy,
    samples: Sequence[Sample],
    needs: Sequence[Need],
    *,
    scale: Scale | None,
    learned: Learned,
    now: Seconds,
    known_since: Seconds,
    gateway: Gateway | None = None,
) -> Decision:
    """Decide at `now`, a tick or, for a fleet at zero, between two.

    `needs` are those of `samples` (see `need.needs`), ascending in time. `known_since` is when the
    workload was first asked for: silence is counted from there while nothing was ever heard.
    Without a `gateway` the samples alone tell what waits at it.
    """
    # A clock that was set back leaves samples in the future: nobody may know of them yet.
    last = bisect_right(samples, now, key=_at)
    samples, needs = samples[:last], needs[:last]
    if scale is None:
        demand = demand_at_zero(gateway, samples, now) if policy.mode is Mode.ACT else None
        return _unanswered(now, None, Reason.CURRENT_UNKNOWN, demand=demand)
    if scale.current == 0:
        return _at_zero(policy, samples, scale, learned, now, gateway)
    silent_for = _silent_for(samples, now, known_since)
    if not samples or silent_for > _FRESH_TICKS * TICK:
        if (woken := demand_of_waking(gateway, samples, now)) is not None:
            return _woken(policy, scale, learned, now, woken)
        if gateway is not None and gateway.zero_at is not None:
            # Where there was nobody, nobody could be heard.
            silent_for = min(silent_for, max(0.0, now - gateway.zero_at))
        return _silent(policy, samples, scale, now, silent_for)
    decided = _within_corridor(policy, samples, needs, scale, learned, now, gateway)
    if policy.mode is Mode.ADVISE:
        # Inactive would be an act, too: KEDA would take the fleet to zero.
        return replace(decided, desired=_answerable(scale.current, scale), active=True)
    return decided


def _answerable(replicas: int, scale: Scale) -> int:
    """Keep an answer between 0 and max."""
    return min(replicas, scale.within_bounds(replicas)) if replicas else 0


def _unanswered(
    now: Seconds,
    current: int | None,
    reason: Reason,
    silent_for: Seconds = 0.0,
    demand: float | None = None,
) -> Decision:
    return Decision(
        at=now,
        current=current,
        desired=None,
        advised=None,
        reason=reason,
        # Whatever the count is: with somebody waiting it must not be zero.
        active=True if demand else None,
        demand=demand,
        silent_for=silent_for,
    )


def _silent_for(samples: Sequence[Sample], now: Seconds, known_since: Seconds) -> Seconds:
    """Return for how long no replica has been heard of."""
    for sample in reversed(samples):
        if sample.reporting > 0:
            return now - sample.at
    return max(0.0, now - known_since)


def _silent(
    policy: Policy, samples: Sequence[Sample], scale: Scale, now: Seconds, silent_for: Seconds
) -> Decision:
    if scale.ready == 0:
        reason = Reason.LOADING
    elif not samples and silent_for <= _FRESH_TICKS * TICK:
        reason = Reason.NOT_YET_SAMPLED
    elif silent_for <= policy.hold_for:
        reason = Reason.SOURCE_SILENT
    else:
        return _unanswered(now, scale.current, Reason.SILENT_TOO_LONG, silent_for=silent_for)
    held = _answerable(scale.current, scale)
    return Decision(
        at=now,
        current=scale.current,
        desired=held,
        advised=held,
        reason=reason,
        active=True,
        silent_for=silent_for,
    )


def _at_zero(
    policy: Policy,
    samples: Sequence[Sample],
    scale: Scale,
    learned: Learned,
    now: Seconds,
    gateway: Gateway | None,
) -> Decision:
    """At zero no engine shows demand; only the gateway can, and its silence proves nothing."""
    newest = samples[-1] if samples and now - samples[-1].at <= _FRESH_TICKS * TICK else None
    demand = demand_at_zero(gateway, samples, now)
    wanted, reason, active = 0, Reason.AT_ZERO, None if demand is None else demand > 0
    if demand:
        wanted, reason = first_answer(policy, scale, learned, demand), Reason.WOKEN
    elif demand is None and gateway is not None:
        reason = Reason.GATEWAY_SILENT if gateway.asked else Reason.NO_WAY_TO_WAKE
    acts = policy.mode is Mode.ACT
    return Decision(
        at=now,
        current=0,
        desired=wanted if acts else 0,
        advised=wanted,
        reason=reason,
        active=active if acts or not active else False,
        learned=learned,
        sample=newest,
        demand=demand,
    )


def _woken(policy: Policy, scale: Scale, learned: Learned, now: Seconds, demand: float) -> Decision:
    """Answer for the demand that woke the fleet: KEDA's own first step is to one replica only."""
    held = _answerable(scale.current, scale)
    first = max(held, first_answer(policy, scale, learned, demand))
    return Decision(
        at=now,
        current=scale.current,
        desired=first if policy.mode is Mode.ACT else held,
        advised=first,
        reason=Reason.WOKEN if first > held else Reason.LOADING,
        active=True,
        learned=learned,
        demand=demand,
    )


def _within_corridor(
    policy: Policy,
    samples: Sequence[Sample],
    needs: Sequence[Need],
    scale: Scale,
    learned: Learned,
    now: Seconds,
    gateway: Gateway | None,
) -> Decision:
    newest, need = samples[-1], needs[-1]
    in_span = scale_in_span(policy, learned)
    lines = corridor(samples, needs, now, policy.scale_out_window, in_span)
    lines, absent = _with_absent(lines, newest, scale)
    floor = scale.within_bounds(round_up(lines.floor))
    ceiling = scale.within_bounds(round_up(lines.ceiling))
    aimed = max(floor, min(ceiling, scale.current))
    desired, tolerated = obeyed(aimed, scale)
    calm_for = _held_for(
        samples, needs, lines.in_window.span, lambda n: _fewer(n.high + absent, scale)
    )
    overload_for = _held_for(samples, needs, lines.out_window.span, lambda n: _more(n.low, scale))
    reason = tolerated or _reason(lines, aimed, scale, overload_for, calm_for, need)
    return Decision(
        at=now,
        current=scale.current,
        desired=desired,
        advised=desired,
        reason=reason,
        active=not _proven_idle(samples, lines, absent, gateway),
        notes=(
            *_notes(lines, newest, need, absent, reason),
            *gateway_notes(newest, scale, gateway),
        ),
        floor=floor,
        ceiling=ceiling,
        corridor=lines,
        learned=learned,
        sample=newest,
        need=need,
        overload_for=overload_for,
        calm_for=calm_for,
        silent_for=now - newest.at,
    )


def _with_absent(lines: Corridor, newest: Sample, scale: Scale) -> tuple[Corridor, int]:
    """Widen the corridor by the replicas that were asked for and have never been heard of.

    Those that are overdue no longer count as coming. While the count is settling, nobody knows how
    many those are.
    """
    absent = max(0, scale.current - newest.reporting - newest.unseen - newest.overdue)
    if scale.settling:
        reason = lines.ceiling_reason or Reason.SETTLING
        return replace(lines, ceiling=math.inf, ceiling_reason=reason), absent
    if not absent:
        return lines, 0
    if 2 * (absent + newest.unseen) > scale.current:
        reason = lines.ceiling_reason or Reason.LOADING
        return replace(lines, ceiling=math.inf, ceiling_reason=reason), absent
    return replace(lines, ceiling=lines.ceiling + absent), absent


def _more(replicas: float, scale: Scale) -> bool:
    return scale.within_bounds(round_up(replicas)) > scale.current


def _fewer(replicas: float, scale: Scale) -> bool:
    return scale.within_bounds(round_up(replicas)) < scale.current


def _held_for(
    samples: Sequence[Sample],
    needs: Sequence[Need],
    at_most: Seconds,
    holds: Callable[[Need], bool],
) -> Seconds:
    """Return for how long, up to the newest sample and without a gap, something has held.

    What lies before the window is not counted: one scaler may have forgotten it already.
    """
    held = 0.0
    expected = samples[-1].at
    for sample, need in zip(reversed(samples), reversed(needs), strict=True):
        if held >= at_most or sample.at != expected or not holds(need):
            break
        held += TICK
        expected -= TICK
    return held


def _proven_idle(
    samples: Sequence[Sample], lines: Corridor, absent: int, gateway: Gateway | None
) -> bool:
    """Say whether nothing was going on, at the engines or at the gateway, in the whole window."""
    if absent or lines.in_window.missing:
        return False
    asked = gateway is not None and gateway.asked
    window = samples[len(samples) - lines.in_window.present :]
    return all(
        # A request may fit between two samples: what it leaves is tokens.
        s.idle
        and s.unseen == 0
        # It may have lost its readiness under the very load that nobody sees.
        and s.overdue == 0
        and not s.token_rate
        and (s.activation == 0 if asked else not s.activation)
        for s in window
    )


def _reason(
    lines: Corridor,
    aimed: int,
    scale: Scale,
    overload_for: Seconds,
    calm_for: Seconds,
    need: Need,
) -> Reason:
    if aimed != scale.current:
        return _reason_to_move(lines, aimed, scale)
    if not need.rows:
        return Reason.NOTHING_SERVING
    if scale.max_replicas == scale.current and round_up(lines.floor) > scale.current:
        return Reason.AT_MAX
    if overload_for:
        return _blind(lines.floor_reason) or Reason.SCALE_OUT_PENDING
    if calm_for:
        return _blind(lines.ceiling_reason) or Reason.SCALE_IN_PENDING
    knows_nothing = math.isinf(need.high) and need.low == 0
    if knows_nothing or lines.ceiling_reason is Reason.WARMING_UP:
        return _blind(lines.ceiling_reason) or Reason.STEADY
    if scale.current == max(1, scale.min_replicas) and round_up(lines.ceiling) <= scale.current:
        return Reason.AT_MIN
    return Reason.STEADY


def _reason_to_move(lines: Corridor, aimed: int, scale: Scale) -> Reason:
    if aimed == scale.within_bounds(scale.current):
        return Reason.WITHIN_BOUNDS
    if aimed < scale.current:
        return Reason.SCALE_IN
    return lines.floor_reason or Reason.SCALE_OUT_CONCURRENCY


def _blind(reason: Reason | None) -> Reason | None:
    return reason if reason in _BLIND else None


def _notes(
    lines: Corridor, newest: Sample, need: Need, absent: int, reason: Reason
) -> tuple[Reason, ...]:
    found = [
        *need.notes,
        Reason.STALLED if newest.stalled else None,
        Reason.LOADING if absent else None,
        Reason.UNSEEN if newest.unseen else None,
        Reason.OVERDUE if newest.overdue else None,
        _blind(lines.floor_reason),
        _blind(lines.ceiling_reason),
    ]
    return tuple(dict.fromkeys(note for note in found if note is not None and note != reason))
