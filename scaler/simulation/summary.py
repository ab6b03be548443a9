"""A matrix in one table: each policy over all scenarios, and what that says of ours."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scaler.simulation.report import Row, aligned


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """One policy over the scenarios that every policy of the matrix has run.

    `slo_attainment` is the mean over scenarios, each counted alike; all else is a sum.
    `bound_hours` adds up the lower bounds at the policy's own attainment in each scenario.
    """

    policy: str
    scenarios: int
    slo_attainment: float
    replica_hours: float
    bound_hours: float | None
    scale_events: int
    direction_changes: int
    given_up: int
    cut_off: int
    preemptions: int

    @property
    def misses(self) -> float:
        """Return the mean share of requests that missed their SLO."""
        return 1.0 - self.slo_attainment


@dataclass(frozen=True, slots=True, kw_only=True)
class Dominated:
    """A scenario in which a peer was at least as good as ours on both counts, and better on one."""

    scenario: str
    ours: Row
    peer: Row


def overall(rows: Iterable[Row]) -> list[Overall]:
    """Put each policy's rows together; a scenario that lacks a policy's row is left out for all."""
    by_policy: defaultdict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        by_policy[row.result.policy][row.scenario] = row
    shared = set.intersection(*map(set, by_policy.values())) if by_policy else set()
    if not shared:
        return []
    return [
        _together(policy, [found[scenario] for scenario in sorted(shared)])
        for policy, found in by_policy.items()
    ]


def dominated(rows: Iterable[Row], ours: str) -> list[Dominated]:
    """Return every scenario and peer that leaves our policy no reason to be chosen there."""
    listed = list(rows)
    own = {row.scenario: row for row in listed if row.result.policy == ours}
    return [
        Dominated(scenario=row.scenario, ours=own[row.scenario], peer=row)
        for row in listed
        if row.scenario in own and row.result.policy != ours and _beats(row, own[row.scenario])
    ]


def saved_hours(ours: Overall, peers: Sequence[Overall]) -> float | None:
    """Return the share of replica-hours saved against the cheapest peer that is as good as ours.

    Peers may be mixed: between two of them attainment and hours go along a straight line. None
    where no peer, and no mix, is as good.
    """
    hours = [p.replica_hours for p in peers if p.slo_attainment >= ours.slo_attainment]
    hours += [
        low.replica_hours
        + (high.replica_hours - low.replica_hours)
        * (ours.slo_attainment - low.slo_attainment)
        / (high.slo_attainment - low.slo_attainment)
        for low in peers
        for high in peers
        if low.slo_attainment < ours.slo_attainment < high.slo_attainment
    ]
    return 1.0 - ours.replica_hours / min(hours) if hours and min(hours) > 0 else None


def write_summary(rows: Sequence[Row], ours: str) -> str:
    """Return the matrix as one table and, where our policy is among its, what it says of ours."""
    everyone = overall(rows)
    if not everyone:
        return ""
    head = (
        "policy",
        "SLO",
        "misses",
        "hours",
        "× bound",
        "changes",
        "turns",
        "given up",
        "cut off",
    )
    lines = [head, *(_cells(each) for each in everyone)]
    text = f"over {everyone[0].scenarios} scenarios\n{aligned(lines)}"
    own = [each for each in everyone if each.policy == ours]
    peers = [each for each in everyone if each.policy != ours]
    return text + _verdict(own[0], peers, dominated(rows, ours)) if own and peers else text


def _cells(each: Overall) -> tuple[str, ...]:
    ratio = each.replica_hours / each.bound_hours if each.bound_hours else None
    return (
        each.policy,
        f"{each.slo_attainment:.4f}",
        f"{each.misses:.4f}",
        f"{each.replica_hours:.1f}",
        "-" if ratio is None else f"{ratio:.2f}",
        str(each.scale_events),
        str(each.direction_changes),
        str(each.given_up),
        str(each.cut_off),
    )


def _verdict(own: Overall, peers: Sequence[Overall], lost: Sequence[Dominated]) -> str:
    saved = saved_hours(own, peers)
    told = [
        f"{own.policy}: no peer, and no mix of two, attains as much"
        if saved is None
        else f"{own.policy}: {saved:.1%} fewer replica-hours than the cheapest peer, or mix of two,"
        " that attains as much"
    ]
    told += [
        f"{each.scenario}: {each.peer.result.policy} is at least as good on both counts "
        f"({each.peer.result.slo_attainment:.4f} at {each.peer.result.replica_hours:.2f} h, not "
        f"{each.ours.result.slo_attainment:.4f} at {each.ours.result.replica_hours:.2f} h)"
        for each in lost
    ]
    if not lost:
        told.append("in no scenario is a peer at least as good on both counts and better on one")
    return "\n".join(["", *told, ""])


def _together(policy: str, rows: Sequence[Row]) -> Overall:
    results = [row.result for row in rows]
    bounds = [result.bound_hours for result in results]
    known = [bound for bound in bounds if bound is not None]
    return Overall(
        policy=policy,
        scenarios=len(rows),
        slo_attainment=math.fsum(r.slo_attainment for r in results) / len(results),
        replica_hours=math.fsum(r.replica_hours for r in results),
        bound_hours=math.fsum(known) if len(known) == len(bounds) else None,
        scale_events=sum(r.scale_events for r in results),
        direction_changes=sum(r.direction_changes for r in results),
        given_up=sum(r.given_up for r in results),
        cut_off=sum(r.cut_off for r in results),
        preemptions=sum(r.preemptions for r in results),
    )


def _beats(peer: Row, ours: Row) -> bool:
    a, b = peer.result, ours.result
    as_good = a.slo_attainment >= b.slo_attainment and a.replica_hours <= b.replica_hours
    better = a.slo_attainment > b.slo_attainment or a.replica_hours < b.replica_hours
    return as_good and better
