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
_BLIND = frozenset({Reason.GAP, Reason.WARMING_UP, Reason.TOO_FEW_SCRAPES, Reason.LOADING})

_at = attrgetter("at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An answer with its reason.

    `desired` is a whole number of replicas; `None` means that nothing may be answered (gRPC
    UNAVAILABLE). `active` is `None` while neither activity nor idleness is proven. `notes` are
    further reasons that a person should know. `advised` is what `mode: act` would answer.
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
    overload_for: Seconds = 0.0
    calm_for: Seconds = 0.0
    silent_for: Seconds = 0.0


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
) -> Decision:
    """Decide at the tick `now`.

    `needs` are those of `samples` (see `need.needs`), ascending in time. `known_since` is when the
    workload was first asked for: silence is counted from there while nothing was ever heard.
    """
    if scale is None:
        return _unanswered(now, None, Reason.CURRENT_UNKNOWN)
    # A clock that was set back leaves samples in the future: nobody may know of them yet.
    last = bisect_right(samples, now, key=_at)
    samples, needs = samples[:last], needs[:last]
    if scale.current == 0:
        return _at_zero(policy, samples, scale, learned, now)
    silent_for = _silent_for(samples, now, known_since)
    if not samples or silent_for > _FRESH_TICKS * TICK:
        return _silent(policy, samples, scale, now, silent_for)
    decided = _within_corridor(policy, samples, needs, scale, learned, now)
    if policy.mode is Mode.ADVISE:
        return replace(decided, desired=_answerable(scale.current, scale))
    return decided


def with_notes(decision: Decision, previous: Decision | None) -> Decision:
    """Name a change of the count that this scaler did not ask for; the answer stays as it is."""
    if previous is None or decision.current is None or previous.current is None:
        return decision
    moved = decision.current not in (previous.current, previous.desired)
    if moved and decision.desired == decision.current:
        reasons = tuple(dict.fromkeys([*decision.notes, decision.reason]))
        return replace(decision, reason=Reason.MOVED_BY_OTHERS, notes=reasons)
    return decision


def _answerable(replicas: int, scale: Scale) -> int:
    """Keep an answer between 0 and max."""
    return min(replicas, scale.within_bounds(replicas)) if replicas else 0


def _unanswered(
    now: Seconds, current: int | None, reason: Reason, silent_for: Seconds = 0.0
) -> Decision:
    return Decision(
        at=now,
        current=current,
        desired=None,
        advised=None,
        reason=reason,
        active=None,
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
    policy: Policy, samples: Sequence[Sample], scale: Scale, learned: Learned, now: Seconds
) -> Decision:
    """At zero no engine shows demand; only the gateway can, and its silence proves nothing."""
    newest = samples[-1] if samples and now - samples[-1].at <= _FRESH_TICKS * TICK else None
    demand = newest.activation if newest is not None else None
    wanted, reason, active = 0, Reason.AT_ZERO, None if demand is None else demand > 0
    if demand is not None and demand > 0:
        places = (learned.saturation or demand) * (1 - policy.headroom)
        first = 1.0 if learned.saturation is None else demand / places
        wanted, reason = scale.within_bounds(round_up(first)), Reason.WOKEN
    return Decision(
        at=now,
        current=0,
        desired=wanted if policy.mode is Mode.ACT else 0,
        advised=wanted,
        reason=reason,
        active=active,
        learned=learned,
        sample=newest,
    )


def _within_corridor(
    policy: Policy,
    samples: Sequence[Sample],
    needs: Sequence[Need],
    scale: Scale,
    learned: Learned,
    now: Seconds,
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
        active=not _proven_idle(samples, lines, absent),
        notes=_notes(lines, newest, need, absent, reason),
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
    """Widen the corridor by the replicas that were asked for and have never been heard of."""
    absent = max(0, scale.current - newest.reporting - newest.unseen)
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


def _proven_idle(samples: Sequence[Sample], lines: Corridor, absent: int) -> bool:
    if absent or lines.in_window.missing:
        return False
    window = samples[len(samples) - lines.in_window.present :]
    return all(s.idle and s.unseen == 0 and not s.activation for s in window)


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
        _blind(lines.floor_reason),
        _blind(lines.ceiling_reason),
    ]
    return tuple(dict.fromkeys(note for note in found if note is not None and note != reason))
