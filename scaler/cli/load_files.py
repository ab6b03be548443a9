"""The files of a load test: its result, its course, and a chart of that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scaler.adapters.load_ledger import Interval, Ledger
from scaler.cli.load_plan import Run
from scaler.cli.load_report import as_csv, judged, render, rounded
from scaler.simulation.report import Cell, Format
from scaler.simulation.requests import Ending
from scaler.simulation.svg import COLOURS, Line, Panel, Point, page

_MINUTE = 60.0
_BLUE, _RED, _GREEN, _AMBER = COLOURS[:4]
_GREY = "#999999"


def write_files(run: Run, folder: Path) -> None:
    """Write `results.csv`, `series.csv` and `load.svg`. Raises OSError."""
    rows = series(run.ledger)
    texts = {"results.csv": render(run, Format.CSV), "load.svg": _chart(run, rows)}
    if rows:
        texts["series.csv"] = as_csv(rows)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def series(ledger: Ledger) -> list[dict[str, Cell]]:
    """Return a row for each interval: what became of the requests that came in it.

    `at` is in seconds since the traffic began, the warm-up included; `open` are the requests that
    had been sent and not ended when the interval did.
    """
    rows, open_then = [], 0
    for index, interval in enumerate(ledger.intervals):
        open_then += interval.outcomes.arrived - interval.ended
        rows.append(_row(index * ledger.every, interval, open_then))
    return rows


def _row(at: float, interval: Interval, open_then: int) -> dict[str, Cell]:
    outcomes = interval.outcomes
    return {
        "at": at,
        "arrived": outcomes.arrived,
        "open": open_then,
        **judged(outcomes),
        **{str(ending): outcomes.ended[ending] for ending in Ending},
        "unsent": interval.unsent,
        "unfinished": outcomes.open - interval.unsent,
        "late_p99": rounded(interval.late.quantile(0.99)),
    }


def _chart(run: Run, rows: Sequence[dict[str, Cell]]) -> str:
    slo, every = run.plan.slo, run.ledger.every

    def line(label: str, name: str, colour: str, over: float = 1.0) -> Line:
        points = [_point(row["at"], row[name], over) for row in rows]
        return Line(label=label, points=points, colour=colour)

    def promise(height: float) -> Line:
        points = [_point(row["at"], height) for row in rows]
        return Line(label="SLO", points=points, colour=_GREY, dashed=True)

    panels = [
        Panel(
            title="requests a second, by when they came",
            lines=(
                line("arrived", "arrived", _GREY, every),
                line("served", "served", _GREEN, every),
                line("rejected", "rejected", _RED, every),
                line("given up", "given_up", _AMBER, every),
                line("cut off", "cut_off", _BLUE, every),
            ),
        ),
        Panel(title="requests open", height=100, lines=(line("", "open", _BLUE),)),
        Panel(
            title="TTFT (s)",
            lines=(
                line("p50", "ttft_p50", _BLUE),
                line("p95", "ttft_p95", _RED),
                promise(slo.ttft),
            ),
        ),
        Panel(
            title="TPOT p95 (s)",
            height=100,
            lines=(line("", "tpot_p95", _BLUE), promise(slo.tpot)),
        ),
        Panel(
            title="share that kept the SLO",
            x_title="minutes",
            height=100,
            lines=(line("", "slo_attainment", _BLUE),),
            highest=1.0,
        ),
    ]
    return page(f"{run.model}: {run.scenario}", panels)


def _point(at: Cell, value: Cell, over: float = 1.0) -> Point | None:
    if isinstance(at, float) and isinstance(value, int | float):
        return at / _MINUTE, value / over
    return None
