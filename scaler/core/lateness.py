"""Tells a count that is read late from one that nobody has changed yet, or whose pods are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scaler.core.decision import Decision
from scaler.core.moves import with_notes
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale

LATE_AT_MOST: Seconds = 45.0
"""A view of the cluster is at most half a minute old, and is looked at once a tick."""

SETTLED_AFTER: Seconds = 30.0
"""So old may the view of the pods be that goes with a fresh count."""

_FRESH: Seconds = 2 * TICK


def late_since(
    scale: Scale | None, previous: Decision | None, newest: Sample | None, now: Seconds
) -> Seconds | None:
    """Return since when the count must be taken for one that is read late; None where it is not.

    The HPA may have taken away what was given up before that is to be seen. Then exactly those
    replicas have gone silent whose pods are still called Ready, and to hold the count that is read
    would ask for them again: the HPA goes up at once, whatever it does on the way down.
    """
    if scale is None or previous is None or newest is None or now - newest.at > _FRESH:
        return None
    asked = previous.desired
    gone = asked is not None and asked < scale.current and newest.reporting <= asked
    if not gone or newest.reporting + newest.unseen < scale.current:
        return None
    since = now if previous.late_since is None else previous.late_since
    return since if now - since < LATE_AT_MOST else None


def settling_since(scale: Scale | None, previous: Decision | None, now: Seconds) -> Seconds | None:
    """Return since when a count is known whose pods may not be; None where they must be by now.

    Counts and pods are watched apart. Replicas of which only the count tells yet may have served
    for long, where the API server was away, and what was seen says nothing of them.
    """
    if scale is None or previous is None:
        return None
    if previous.current is None or 0 < previous.current < scale.current:
        return now
    since = previous.settling_since
    return since if since is not None and now - since < SETTLED_AFTER else None


def presumed(scale: Scale, previous: Decision) -> Scale:
    """Return the scale as it must be by now: the HPA has done what it was asked for."""
    return replace(scale, current=scale.current if previous.desired is None else previous.desired)


def noted(decision: Decision, since: Seconds | None) -> Decision:
    """Say in a decision that it rests on a presumed count."""
    if since is None:
        return decision
    return replace(decision, late_since=since, notes=(*decision.notes, Reason.COUNT_LATE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The count to decide on, and how far it is to be trusted.

    `late_since` says since when `scale` is presumed, not read, `settling_since` since when the pods
    behind it may not be known; None where that is not so.
    """

    scale: Scale | None
    late_since: Seconds | None = None
    settling_since: Seconds | None = None


def count_to_decide_on(
    scale: Scale | None, previous: Decision | None, newest: Sample | None, now: Seconds
) -> Count:
    """Return what a count that was read at `now` has to be taken for."""
    late = late_since(scale, previous, newest, now)
    if late is not None and scale is not None and previous is not None:
        scale = presumed(scale, previous)
    settling = settling_since(scale, previous, now)
    if settling is not None and scale is not None:
        scale = replace(scale, settling=True)
    return Count(scale=scale, late_since=late, settling_since=settling)


def told(decision: Decision, previous: Decision | None, count: Count) -> Decision:
    """Say in a decision what its count rests on, and who else has moved it."""
    decision = noted(with_notes(decision, previous), count.late_since)
    if count.settling_since is None:
        return decision
    return replace(decision, settling_since=count.settling_since)
