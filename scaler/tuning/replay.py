"""A replay: what would have been answered beside what happened, over a range of the past."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scaler.core.policy import Policy
from scaler.core.units import Seconds
from scaler.tuning.gaps import oddities
from scaler.tuning.prepared import Prepared
from scaler.tuning.record import Record
from scaler.tuning.rehearsal import Step, rehearse
from scaler.tuning.summary import Summary, summarize


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The steps of a range, ascending, what they came to, and what is to be told of the past."""

    record: Record
    policy: Policy
    steps: tuple[Step, ...]
    summary: Summary
    notes: tuple[str, ...]

    def changes(self) -> Iterator[Step]:
        """Go through the moments at which a count changed, the first one included.

        That is the count that was, the answer at it, or the count that there would be, had each
        answer since the start of the range been followed at once.
        """
        before: tuple[int | None, int | None, int | None] | None = None
        for step in self.steps:
            decision = step.decision
            now = decision.current, decision.advised, step.followed
            if now != before:
                yield step
            before = now


def replay(record: Record, policy: Policy, start: Seconds, notes: tuple[str, ...] = ()) -> Replay:
    """Replay a record under a policy from `start` on; what lies before is only learned from."""
    steps = tuple(
        step
        for step in rehearse(Prepared(record), policy, followed_from=start)
        if step.decision.at >= start
    )
    within = record.between(start, record.moments[-1].at) if record.moments else record
    return Replay(
        record=record,
        policy=policy,
        steps=steps,
        summary=summarize(policy, steps),
        notes=(*notes, *oddities(within)),
    )
