"""Writes the outage matrix as a page: a row for the faults that are met alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.outages.cells import Cell, Length, Part, Phase
from tests.outages.keeping import Verdict
from tests.outages.never import NEVER, never_seen

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "outages.md"

HEAD = """\
# Outages

<!-- Written by make outages; edits are lost. -->

What KEDA gets, what the fleet does and what you see while something is out of order. Every line
rests on cells that are played: the real adapter meets the fault over real sockets, time is stepped,
KEDA and the HPA decide as they do, and a twin to which nothing happens is played beside it.

**The law of every cell.** No fault lowers the count, none wakes a fleet or puts it to sleep, the
answers come back by themselves, and the fault can be seen within two ticks (30 s) of being
distinguishable from health. A user's own `fallback.replicas` is KEDA's affair and is not played.
"""

PEERS = {
    Part.ENGINES: (
        "AIBrix puts 0.0 in the place of a page that fails, so that its mean falls and the fleet "
        "is halved. keda-kaito-scaler answers an error once its newest value is 45 s old, which "
        "holds."
    ),
    Part.ONE_POD: (
        "AIBrix counts the missing pod as 0.0. WVA leaves the pod out, but decides nothing for the "
        "model while any pod is missing; keda-kaito-scaler's gate does the same."
    ),
    Part.PROMETHEUS: (
        "KEDA's Prometheus scaler takes an empty result, NaN and Inf for 0 by default "
        "(`ignoreNullValues: true`), and so does keda-inference-scaler with an empty result: the "
        "fleet goes to its minimum. Errors hold in both."
    ),
    Part.KEDA: (
        "Every external scaler shares this: KEDA's `fallback` never acts on one that KEDA cannot "
        "reach."
    ),
}
"""What is known of others, where it is."""


def page(verdicts: Sequence[Verdict]) -> str:
    """Return the page."""
    lines = [HEAD, *_summary(verdicts)]
    for part in dict.fromkeys(verdict.cell.part for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.cell.part is part]
        lines += ["", f"## {part[0].upper()}{part[1:]}", "", *_table(own)]
        if part in PEERS:
            lines += ["", f"**Others.** {PEERS[part]}"]
    return "\n".join([*lines, *_never(verdicts)]) + "\n"


def summary(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Count the cells, by what became of them."""
    return {
        "cells": len(verdicts),
        "break the law": sum(bool(v.breaches) for v in verdicts),
        "change nothing": sum(v.alike and v.seen is None for v in verdicts),
        "are seen": sum(v.seen is not None for v in verdicts),
        "are never seen": sum(never_seen(v) for v in verdicts),
    }


def _summary(verdicts: Sequence[Verdict]) -> list[str]:
    counts = summary(verdicts)
    rows = [f"| {name} | {count:,} |" for name, count in counts.items()]
    spans = ", ".join(f"{length} ({length.ticks * 15} s)" for length in Length)
    return [
        f"Phases: {', '.join(Phase)}. Lengths: {spans}; `holdFor` is 300 s.",
        "",
        "| what | number |",
        "|---|---|",
        *rows,
    ]


def _table(verdicts: Sequence[Verdict]) -> list[str]:
    """Make a row of the faults that are met alike, above zero and at zero."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for fault in dict.fromkeys(v.cell.fault for v in verdicts):
        for where in ("running", "idle", "at zero", "first start"):
            own = [v for v in verdicts if v.cell.fault is fault and _where(v.cell) == where]
            if own:
                rows.setdefault((where, *_row(own)), []).append(str(fault))
    head = ["| when | faults | KEDA gets | the fleet | you see |", "|---|---|---|---|---|"]
    return head + [
        f"| {where} | {', '.join(faults)} | {got} | {fleet} | {seen} |"
        for (where, got, fleet, seen), faults in sorted(rows.items())
    ]


def _where(cell: Cell) -> str:
    named = (Phase.IDLE, Phase.AT_ZERO, Phase.FIRST_START)
    return cell.phase.value if cell.phase in named else "running"


def _row(own: Sequence[Verdict]) -> tuple[str, str, str]:
    got = [
        _listed(a for v in own if v.cell.length is length for a in v.answers) for length in Length
    ]
    up = any(v.counts[1] > v.counts[0] for v in own)
    down = any(v.counts[1] < v.counts[0] for v in own)
    moves = [word for word, does in (("may grow", up), ("shrinks as its twin", down)) if does]
    fleet = " and ".join(moves) or "keeps its count"
    signs = _listed(f"`{sign}`" for v in own for sign in sorted(v.signs))
    late = max((v.seen for v in own if v.seen is not None), default=0)
    after = f", within {15 * (late + 1)} s" if signs else ""
    return _by_length(got), fleet, (signs or "nothing: the answers are its twin's") + after


def _by_length(got: Sequence[str]) -> str:
    if len(set(got)) == 1:
        return got[0]
    return "; ".join(
        f"{length}: {told}" for length, told in zip(("one tick", "short", "long"), got, strict=True)
    )


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))


def _never(verdicts: Sequence[Verdict]) -> list[str]:
    """Name the cells that nobody can tell from health."""
    counts = dict.fromkeys(NEVER, 0)
    for verdict in verdicts:
        key = verdict.cell.part, verdict.cell.fault
        if key in counts and never_seen(verdict):
            counts[key] += 1
    rows = [
        f"| {part} | {fault} | {counts[part, fault]} | {why} |"
        for (part, fault), why in NEVER.items()
        if counts[part, fault]
    ]
    if not rows:
        return []
    about = "These move the answers, and look like health all the same."
    table = ["| what | fault | cells | why |", "|---|---|---|---|", *rows]
    return ["", "## What nobody can see", "", about, "", *table]
