"""Which setting to take: cheaper within the promises by more than chance, or the present one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scaler.core.policy import Policy
from scaler.tuning.closed_loop import Judged
from scaler.tuning.slo import Promise

LEAST_GAIN = 0.02
"""Of the replica-hours, or of the requests that miss: less is not worth an edit."""

_DEVIATIONS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A setting with what each seed made of it; all candidates have the same seeds in one order."""

    policy: Policy
    trials: tuple[Judged, ...]

    @property
    def replica_hours(self) -> float:
        """Return the mean over the seeds."""
        return fmean(trial.replica_hours for trial in self.trials)

    @property
    def missed(self) -> tuple[float, ...]:
        """Return the mean shares of requests that miss each promise, then any of them."""
        shares = zip(*(trial.missed for trial in self.trials), strict=True)
        return tuple(fmean(each) for each in shares)

    def keeps(self, promises: Sequence[Promise]) -> bool:
        """Say whether every promise is kept, in the mean over the seeds."""
        pairs = zip(promises, self.missed[:-1], strict=True)
        return all(share <= each.allowed + 1e-12 for each, share in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The setting to take and why, in a sentence; `keep` where it is the present one."""

    candidate: Candidate
    keep: bool
    why: str


def advise(
    present: Candidate,
    others: Sequence[Candidate],
    promises: Sequence[Promise],
    largest: Judged | None = None,
) -> Advice:
    """Choose among settings. `largest` is what the largest fleet that may be came to."""
    wanted = " and ".join(map(str, promises))
    keeping = [each for each in (present, *others) if each.keeps(promises)]
    if not keeping:
        return _nearest(present, others, wanted, _hopeless(promises, largest))
    cheapest = min(keeping, key=lambda each: each.replica_hours)
    if present not in keeping:
        why = (
            f"the present setting does not keep {wanted}: {present.missed[-1]:.2%} of the requests "
            f"miss; this one keeps it, with {cheapest.missed[-1]:.2%} missing, for "
            f"{cheapest.replica_hours:.1f} replica-hours instead of {present.replica_hours:.1f}"
        )
        return Advice(candidate=cheapest, keep=False, why=why)
    saved = [
        ours.replica_hours - theirs.replica_hours
        for ours, theirs in zip(present.trials, cheapest.trials, strict=True)
    ]
    if cheapest is present or not _beyond_chance(saved, present.replica_hours):
        why = f"keep it: it keeps {wanted}, and nothing that was tried saves more than chance does"
        return Advice(candidate=present, keep=True, why=why)
    why = (
        f"both keep {wanted}; this one takes {cheapest.replica_hours:.1f} replica-hours instead of "
        f"{present.replica_hours:.1f}"
    )
    return Advice(candidate=cheapest, keep=False, why=why)


def pareto(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those that no other beats in both misses and replica-hours, cheapest first."""
    chosen: list[Candidate] = []
    for each in sorted(candidates, key=lambda c: (c.replica_hours, c.missed[-1])):
        if not chosen or each.missed[-1] < chosen[-1].missed[-1]:
            chosen.append(each)
    return chosen


def _nearest(present: Candidate, others: Sequence[Candidate], wanted: str, hopeless: str) -> Advice:
    best = min((present, *others), key=lambda each: (each.missed[-1], each.replica_hours))
    fewer = [
        ours.missed[-1] - theirs.missed[-1]
        for ours, theirs in zip(present.trials, best.trials, strict=True)
    ]
    said = f"no setting that was tried keeps {wanted}{hopeless}"
    if best is present or not _beyond_chance(fewer, present.missed[-1]):
        why = f"{said}; keep it: nothing comes nearer by more than chance"
        return Advice(candidate=present, keep=True, why=why)
    why = (
        f"{said}; this one comes nearest: {best.missed[-1]:.2%} of the requests miss instead of "
        f"{present.missed[-1]:.2%}, for {best.replica_hours:.1f} replica-hours instead of "
        f"{present.replica_hours:.1f}"
    )
    return Advice(candidate=best, keep=False, why=why)


def _hopeless(promises: Sequence[Promise], largest: Judged | None) -> str:
    if largest is None:
        return ""
    pairs = zip(promises, largest.missed[:-1], strict=True)
    broken = [str(each) for each, share in pairs if share > each.allowed]
    if not broken:
        return ""
    return (
        f": with maxReplicaCount replicas all of the time {largest.missed[-1]:.2%} of the requests "
        f"miss, so {' and '.join(broken)} cannot be met by scaling"
    )


def _beyond_chance(gains: Sequence[float], of: float) -> bool:
    """Say whether a paired gain is worth it and larger than what the seeds make of it."""
    gain = fmean(gains)
    noise = stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
    return min(gains) > 0 and gain > LEAST_GAIN * of and gain > _DEVIATIONS * noise
