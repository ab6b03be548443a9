"""Writes the figures of docs/explanation/evidence.md from the results of a matrix.

Run as `python -m benchmarks._evidence FILE.jsonl [FILE.jsonl ...]` from the project root. The files
are those that `scaler simulate --matrix --output DIR` keeps; rows of several runs are put together.
What stands between the page's two markers is replaced, the rest of the page is written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from scaler.simulation.charts import plane
from scaler.simulation.comparison import read_rows
from scaler.simulation.policies import CORRIDOR
from scaler.simulation.report import Row
from scaler.simulation.results import Result
from scaler.simulation.summary import Overall, dominated, overall, saved_hours

PAGE = Path("docs/explanation/evidence.md")
CHART = Path("docs/explanation/evidence/matrix.svg")
STATIC = "static-"
_NEAR = 0.05
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def main() -> None:
    """Read the rows, and write page and chart."""
    rows = [row for name in sys.argv[1:] for row in read_rows(Path(name))]
    rows = _shared(rows)
    if not rows:
        sys.exit("no scenario has a row of every policy: give the files of a finished matrix")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    figures = "\n".join(_figures(rows))
    PAGE.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}", encoding="utf-8")
    CHART.parent.mkdir(parents=True, exist_ok=True)
    CHART.write_text(_chart(rows), encoding="utf-8")


def _shared(rows: Sequence[Row]) -> list[Row]:
    """Keep the scenarios that every policy has run, each policy's last row of each."""
    newest = {(row.scenario, row.result.policy): row for row in rows}
    policies = {policy for _, policy in newest}
    whole = {s for s, _ in newest if all((s, policy) in newest for policy in policies)}
    return [row for (scenario, _), row in newest.items() if scenario in whole]


def _figures(rows: Sequence[Row]) -> Iterator[str]:
    everyone = sorted(overall(rows), key=lambda each: -each.slo_attainment)
    own = next(each for each in everyone if each.policy == CORRIDOR)
    peers = [each for each in everyone if each is not own]
    yield f"### Over all {own.scenarios} scenarios\n"
    yield from _table(
        ("policy", "SLO", "misses", "hours", "× bound", "changes", "turns", "cut off"),
        (_overall_cells(each) for each in everyone),
    )
    yield ""
    yield from _verdict(rows, own, peers)
    yield "\n### Scenario by scenario\n"
    yield from _table(
        ("scenario", "corridor", "turns", "× bound", "cheapest peer as good", "best peer as cheap"),
        (_scenario_cells(rows, scenario) for scenario in dict.fromkeys(r.scenario for r in rows)),
    )


def _verdict(rows: Sequence[Row], own: Overall, peers: Sequence[Overall]) -> Iterator[str]:
    scaling = [peer for peer in peers if not peer.policy.startswith(STATIC)]
    for who, those in (("peer that scales", scaling), ("peer, static fleets too", peers)):
        saved = saved_hours(own, those)
        if saved is None:
            yield f"- No {who}, and no mix of two, attains as much over the matrix."
        else:
            yield (
                f"- Against the cheapest {who}, or mix of two, that attains as much over the "
                f"matrix: **{saved:.0%}** fewer replica-hours."
            )
    near = [peer for peer in peers if peer.slo_attainment >= own.slo_attainment - _NEAR]
    for peer in sorted(near, key=lambda each: each.replica_hours):
        ratio = own.direction_changes / peer.direction_changes if peer.direction_changes else None
        turns = "it never turns" if ratio is None else f"{ratio:.2f} × its direction changes"
        yield (
            f"- Against `{peer.policy}` ({peer.slo_attainment:.4f} at {peer.replica_hours:.0f} h): "
            f"{_misses(own, peer)}, {own.replica_hours / peer.replica_hours:.2f} × its hours, "
            f"{turns}."
        )
    lost = dominated(rows, CORRIDOR)
    for loss in lost:
        ours, theirs = loss.ours.result, loss.peer.result
        yield (
            f"- **Lost:** on `{loss.scenario}` `{theirs.policy}` is at least as good on both: "
            f"{theirs.slo_attainment:.4f} at {theirs.replica_hours:.2f} h, the corridor "
            f"{ours.slo_attainment:.4f} at {ours.replica_hours:.2f} h."
        )
    if not any(not loss.peer.result.policy.startswith(STATIC) for loss in lost):
        yield (
            "- In no scenario is a peer that scales at least as good on both counts and better "
            "on one."
        )


def _misses(own: Overall, peer: Overall) -> str:
    return f"{own.misses / peer.misses:.2f} × its misses" if peer.misses > 0 else "it misses none"


def _overall_cells(each: Overall) -> tuple[str, ...]:
    return (
        f"`{each.policy}`",
        f"{each.slo_attainment:.4f}",
        f"{each.misses:.4f}",
        f"{each.replica_hours:.1f}",
        f"{each.replica_hours / each.bound_hours:.2f}" if each.bound_hours else "–",
        str(each.scale_events),
        str(each.direction_changes),
        str(each.cut_off),
    )


def _scenario_cells(rows: Iterable[Row], scenario: str) -> tuple[str, ...]:
    here = {row.result.policy: row.result for row in rows if row.scenario == scenario}
    ours = here.pop(CORRIDOR)
    as_good = [r for r in here.values() if r.slo_attainment >= ours.slo_attainment]
    as_cheap = [r for r in here.values() if r.replica_hours <= ours.replica_hours]
    cheapest = min(as_good, key=lambda r: r.replica_hours, default=None)
    best = max(as_cheap, key=lambda r: r.slo_attainment, default=None)
    ratio = ours.ratio_to_bound

    return (
        scenario.removesuffix("/seed-1"),
        f"{ours.slo_attainment:.4f} at {ours.replica_hours:.1f}",
        str(ours.direction_changes),
        "–" if ratio is None else f"{ratio:.2f}",
        _told(cheapest),
        _told(best),
    )


def _told(result: Result | None) -> str:
    if result is None:
        return "none"
    return f"`{result.policy}` {result.slo_attainment:.4f} at {result.replica_hours:.1f}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for line in lines:
        yield f"| {' | '.join(line)} |"


def _chart(rows: Sequence[Row]) -> str:
    """Draw the plane of all policies, each at its sums over the matrix."""
    first = {row.result.policy: row for row in reversed(rows)}
    marks = [
        _summed(first[each.policy], each)
        for each in sorted(overall(rows), key=lambda e: e.policy != CORRIDOR)
    ]
    return plane("over the whole matrix", marks)


def _summed(row: Row, each: Overall) -> Row:
    result = replace(
        row.result, slo_attainment=each.slo_attainment, replica_hours=each.replica_hours
    )
    return replace(row, result=result)


if __name__ == "__main__":
    main()
