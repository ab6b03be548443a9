"""Request traces: reading a user's own, and the shapes of two public ones.

Two formats are read. Azure's CSV has the columns `TIMESTAMP` (ISO 8601, UTC where it does not
say), `ContextTokens` and `GeneratedTokens`. JSON lines have `timestamp` (ms), `input_length` and
`output_length` (tokens); other keys are ignored.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from scaler.core.units import Seconds
from scaler.simulation.errors import TraceInvalid

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
JSON_KEYS = ("timestamp", "input_length", "output_length")


class TraceRow(NamedTuple):
    """One request: when it came (seconds after the trace began) and its lengths in tokens."""

    at: Seconds
    prompt: int
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Requests in order of time, and the span after which the trace may be repeated."""

    name: str
    rows: tuple[TraceRow, ...]
    duration: Seconds

    @property
    def rate(self) -> float:
        """Return the mean number of requests per second."""
        return len(self.rows) / self.duration


def read_trace(path: Path) -> Trace:
    """Read a trace in either format, told apart by its first character. Raises TraceInvalid."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            return parse_trace(lines, name=path.name)
    except OSError as error:
        raise TraceInvalid(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceInvalid(f"{path} is not UTF-8 text: is it compressed?") from error


def parse_trace(lines: Iterable[str], *, name: str) -> Trace:
    """Read a trace from lines of text. Raises TraceInvalid.

    Rows may be in any order. A length of 0 is read as 1: an engine computes at least one token.
    """
    numbered = ((n, line) for n, line in enumerate(lines, start=1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise TraceInvalid(f"{name} is empty: a trace needs at least one request")
    rest = _chain(first, numbered)
    is_json = first[1].lstrip().startswith("{")
    rows = list(_json_rows(rest, name) if is_json else _csv_rows(rest, name))
    if not rows:
        raise TraceInvalid(f"{name} has a header and no request below it")
    rows.sort()
    begin = rows[0].at
    shifted = tuple(TraceRow(row.at - begin, row.prompt, row.output) for row in rows)
    return Trace(name=name, rows=shifted, duration=_duration(shifted))


def _chain(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _duration(rows: tuple[TraceRow, ...]) -> Seconds:
    # One mean gap after the last request, so that a repetition keeps the rate.
    span = rows[-1].at
    return span + span / (len(rows) - 1) if span > 0 else 1.0


def _csv_rows(lines: Iterator[tuple[int, str]], name: str) -> Iterator[TraceRow]:
    _, header = next(lines)
    columns = [column.strip() for column in next(csv.reader([header]))]
    missing = [column for column in AZURE_COLUMNS if column not in columns]
    if missing:
        raise TraceInvalid(
            f"{name}, line 1: column {missing[0]} is missing; a CSV trace has "
            f"{', '.join(AZURE_COLUMNS)}, a JSON-lines one {', '.join(JSON_KEYS)}"
        )
    for number, line in lines:
        cells = next(csv.reader([line]))
        if len(cells) != len(columns):
            raise TraceInvalid(
                f"{name}, line {number}: {len(cells)} cells where the header has {len(columns)}"
            )
        row = dict(zip(columns, cells, strict=True))
        yield _row(row, AZURE_COLUMNS, _instant, f"{name}, line {number}")


def _json_rows(lines: Iterator[tuple[int, str]], name: str) -> Iterator[TraceRow]:
    for number, line in lines:
        where = f"{name}, line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise TraceInvalid(f"{where}: not JSON ({error.msg}); cut off?") from error
        if not isinstance(row, dict):
            raise TraceInvalid(f"{where}: {line.strip()[:40]} where an object is expected")
        yield _row(row, JSON_KEYS, _milliseconds, where)


def _row(
    row: Mapping[str, object],
    keys: tuple[str, str, str],
    when: Callable[[object], Seconds],
    where: str,
) -> TraceRow:
    missing = [key for key in keys if key not in row]
    if missing:
        raise TraceInvalid(f"{where}: {missing[0]} is missing")
    at, prompt, output = (row[key] for key in keys)
    try:
        return TraceRow(when(at), _tokens(prompt), _tokens(output))
    except ValueError as error:
        raise TraceInvalid(f"{where}: {error}") from error


def _instant(value: object) -> Seconds:
    try:
        instant = datetime.fromisoformat(str(value).strip())
    except ValueError as error:
        raise ValueError(f"{value!r} is not a time like 2023-11-16 18:15:46.68") from error
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


def _milliseconds(value: object) -> Seconds:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"timestamp {value!r} is not a number of milliseconds")
    return value / 1000.0


def _tokens(value: object) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        return max(1, int(value))
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return max(1, value)
    raise ValueError(f"{value!r} is not a number of tokens (0 or more)")
