"""Two policies put to one past, for whoever moves a threshold and looks at what it does."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.core.policy import Policy, Signal
from scaler.core.reasons import Reason
from scaler.core.units import Seconds
from scaler.tuning.prepared import Prepared
from scaler.tuning.rehearsal import Step, rehearse
from scaler.tuning.summary import Counts, Summary, summarize

CAVEAT = (
    "Open loop: the signals are those of the replicas that there were. With more or fewer of them "
    "they would have been lower or higher; how much, only a simulation says."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one policy came to; `time_over` are the seconds above each of its High thresholds."""

    replica_hours: float
    changes: int
    turns: int
    most: int
    time_over: dict[Signal, Seconds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A rehearsal, a column each: `desired` at the recorded `current`, `followed` had it been so.

    `ceiling` is None where nothing limits the count, and where `floor` is None, too.
    """

    at: tuple[Seconds, ...]
    current: tuple[int | None, ...]
    desired: tuple[int | None, ...]
    followed: tuple[int | None, ...]
    floor: tuple[int | None, ...]
    ceiling: tuple[int | None, ...]
    reason: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One policy on one past: its line, its figures, and those of the count that there was."""

    line: Line
    figures: Figures
    recorded: Figures
    seconds: Seconds
    unseen: Seconds
    unanswered: Seconds


def outcome(prepared: Prepared, policy: Policy) -> Outcome:
    """Put a policy to a past."""
    steps = list(rehearse(prepared, policy))
    summary = summarize(policy, steps)
    return Outcome(
        line=_line(steps),
        figures=figures(summary, summary.followed),
        recorded=figures(summary, summary.was),
        seconds=summary.seconds,
        unseen=summary.unseen,
        unanswered=summary.unanswered,
    )


def figures(summary: Summary, counts: Counts) -> Figures:
    """Return what one of a summary's two counts came to."""
    return Figures(
        replica_hours=counts.replica_hours,
        changes=counts.changes,
        turns=counts.turns,
        most=counts.most,
        time_over={signal: summary.over.get(signal, 0.0) for signal in Signal},
    )


def _line(steps: list[Step]) -> Line:
    decisions = [step.decision for step in steps]
    return Line(
        at=tuple(decision.at for decision in decisions),
        current=tuple(decision.current for decision in decisions),
        desired=tuple(decision.advised for decision in decisions),
        followed=tuple(step.followed for step in steps),
        floor=tuple(decision.floor for decision in decisions),
        ceiling=tuple(decision.proven_ceiling for decision in decisions),
        reason=tuple(decision.reason for decision in decisions),
    )
