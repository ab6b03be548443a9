"""Results as a table, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scaler.simulation.results import Result

Cell = str | int | float | None


class Format(StrEnum):
    """How results are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A result and the scenario that it belongs to."""

    scenario: str
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """`name` in CSV and JSON, `head` in the table; floats get `digits` and, in the table, fewer."""

    name: str
    head: str
    value: Callable[[Row], Cell]
    digits: int = 4
    shown: int = 2
    in_table: bool = True


def _of(name: str, head: str, *, digits: int = 4, shown: int = 2, table: bool = True) -> _Column:
    return _Column(
        name=name,
        head=head,
        value=lambda row: getattr(row.result, name),
        digits=digits,
        shown=shown,
        in_table=table,
    )


_COLUMNS: tuple[_Column, ...] = (
    _of("policy", "policy"),
    _of("slo_attainment", "SLO", digits=6, shown=4),
    _of("replica_hours", "hours"),
    _of("ttft_p50", "TTFT p50"),
    _of("ttft_p95", "p95"),
    _of("ttft_p99", "p99"),
    _of("tpot_p95", "TPOT p95", digits=5, shown=3),
    _of("ratio_to_bound", "× bound"),
    _of("scale_events", "changes"),
    _of("direction_changes", "turns"),
    _of("preemptions", "preempted"),
    _of("rejected", "rejected"),
    _of("cut_off", "cut off"),
    _of("given_up", "given up"),
    _of("unfinished", "unfinished", table=False),
    _of("arrived", "arrived", table=False),
    _of("bound_hours", "bound", table=False),
    _of("most_replicas", "most", table=False),
    _Column(name="scenario", head="scenario", value=lambda row: row.scenario, in_table=False),
)

COLUMNS: tuple[str, ...] = tuple(column.name for column in _COLUMNS)
"""The columns of the CSV and the keys of the JSON, in their order."""


def write(rows: Sequence[Row], form: Format) -> str:
    """Write results, a line feed at the end. What is not known is `-`, an empty cell, or null."""
    match form:
        case Format.TABLE:
            return _table(rows)
        case Format.CSV:
            return _csv(rows)
        case Format.JSON:
            return json.dumps([_values(row) for row in rows], indent=2) + "\n"


def _values(row: Row) -> dict[str, Cell]:
    return {column.name: _rounded(column.value(row), column.digits) for column in _COLUMNS}


def _rounded(value: Cell, digits: int) -> Cell:
    # NaN (an attainment without a request) is not known, and JSON has no word for it.
    if isinstance(value, float):
        return round(value, digits) if value == value else None  # noqa: PLR0124 - NaN is not itself
    return value


def _csv(rows: Iterable[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        values = _values(row).values()
        writer.writerow(["" if value is None else value for value in values])
    return text.getvalue()


def _table(rows: Sequence[Row]) -> str:
    columns = [column for column in _COLUMNS if column.in_table]
    parts = []
    for scenario in dict.fromkeys(row.scenario for row in rows):
        lines = [[column.head for column in columns]]
        lines += [
            [_shown(column.value(row), column.shown) for column in columns]
            for row in rows
            if row.scenario == scenario
        ]
        parts.append(f"{scenario}\n{aligned(lines)}")
    return "\n".join(parts)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Set lines of cells as a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in lines
    )


def _shown(value: Cell, digits: int) -> str:
    value = _rounded(value, digits)
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)
