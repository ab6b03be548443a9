"""The past decided anew under another policy: the same decision, told what was known at the time.

It is open loop. What was seen belongs to the replicas that there were, not to those that another
answer would have brought; how the signals would have moved with them is the simulator's to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from scaler.core.decision import Decision, decide
from scaler.core.gateway import Gateway
from scaler.core.history import span_needed, windows
from scaler.core.lateness import count_to_decide_on, told
from scaler.core.learned import Learned
from scaler.core.need import UNKNOWN, Need, need_of
from scaler.core.policy import Policy
from scaler.core.tolerance import obeyed
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale
from scaler.tuning.prepared import Known, Prepared

_DROPPED_TOGETHER = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One moment decided anew; it stands for `step` seconds up to `decision.at`.

    `decision` is what would have been answered at the count that there was. `followed` is the count
    that there would be, had each answer been followed at once; None until a count is known.
    """

    decision: Decision
    followed: int | None
    step: Seconds


def rehearse(
    prepared: Prepared, policy: Policy, *, followed_from: Seconds = -math.inf
) -> Iterator[Step]:
    """Decide on each moment of a record, in order; answers are followed from an instant on.

    Answers to `activationQuery` between two ticks are in no record: a fleet at zero wakes up to a
    tick later than it did.
    """
    needs = _Needs(prepared, policy)
    previous: Decision | None = None
    followed: int | None = None
    zero_at: Seconds | None = None
    since = prepared.known[0].moment.at if prepared.known else 0.0
    for known in prepared.known:
        moment = known.moment
        learned = prepared.learned(policy, known)
        first = _first(prepared, policy, known, learned)
        samples = prepared.samples[first : known.samples]
        newest = samples[-1] if samples else None
        count = count_to_decide_on(moment.scale, previous, newest, moment.at)
        if count.scale is not None and count.scale.current == 0:
            zero_at = moment.at
        decision = decide(
            policy,
            samples,
            needs.of(known, learned, first),
            scale=count.scale,
            learned=learned,
            now=moment.at,
            known_since=since,
            gateway=Gateway(asked=prepared.record.asks_gateway, zero_at=zero_at),
        )
        previous = told(decision, previous, count)
        if moment.at >= followed_from:
            followed = _follow(followed, decision, count.scale)
        yield Step(decision=previous, followed=followed, step=moment.step)


def _first(prepared: Prepared, policy: Policy, known: Known, learned: Learned) -> int:
    """Return the first sample that a decision looks at, or one before it.

    Where nobody reports now, how long that has been so decides, and that may lie further back.
    """
    newest = prepared.samples[known.samples - 1] if known.samples else None
    span = windows(policy, learned) + TICK
    if newest is None or newest.reporting == 0:
        span = span_needed(policy, learned)
    # One more shows that history began before the windows do.
    return max(0, prepared.first_since(known.moment.at - span, known) - 1)


def _follow(followed: int | None, decision: Decision, scale: Scale | None) -> int | None:
    """Return where the count goes from `followed`, were it the scaler's alone."""
    if scale is None:
        return followed
    if followed is None:
        followed = scale.current
    if scale.current == 0:
        return followed if decision.advised is None else decision.advised
    followed = scale.within_bounds(followed)
    if decision.floor is None or decision.ceiling is None:
        return max(followed, decision.advised or 0) if decision.demand else followed
    aimed = max(decision.floor, min(decision.ceiling, followed))
    return obeyed(aimed, replace(scale, current=followed))[0]


class _Needs:
    """The needs of the samples under one policy, computed anew when something else is learned."""

    def __init__(self, prepared: Prepared, policy: Policy) -> None:
        self._prepared = prepared
        self._policy = policy
        self._learned: Learned | None = None
        self._first = 0
        self._needs: list[Need] = []

    def of(self, known: Known, learned: Learned, first: int) -> list[Need]:
        """Return the needs of the samples from `first` on."""
        if learned != self._learned or not 0 <= first - self._first <= len(self._needs):
            self._learned, self._first, self._needs = learned, first, []
        prepared = self._prepared
        contexts = prepared.contexts(learned.lead_time)
        looks = prepared.looks
        need, needed = UNKNOWN, -1
        for index in range(self._first + len(self._needs), known.samples):
            if looks[index] != needed:
                needed = looks[index]
                sample = prepared.sample_of(needed)
                need = need_of(sample, contexts[needed], self._policy, learned)
            self._needs.append(need)
        if first - self._first > _DROPPED_TOGETHER:
            del self._needs[: first - self._first]
            self._first = first
        return self._needs[first - self._first :]
