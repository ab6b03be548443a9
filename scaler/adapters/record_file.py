"""A workload's record as a file: a line that says what it is, then a line of JSON a moment.

A file whose name ends in `.gz` is compressed.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from scaler.core.units import TICK, Seconds
from scaler.tuning.ports import PastUnreadable
from scaler.tuning.record import Moment, Record

VERSION = 1
_FORM = "scaler-record"
_MOMENT = TypeAdapter(Moment)


def write_record(record: Record, path: Path) -> None:
    """Write a record. Raises PastUnreadable where the file cannot be written."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "wt", encoding="utf-8", newline="\n") as packed:
                packed.writelines(lines_of(record))
        else:
            with path.open("w", encoding="utf-8", newline="\n") as plain:
                plain.writelines(lines_of(record))
    except OSError as error:
        raise PastUnreadable(f"{path} cannot be written: {error.strerror}") from error


def read_record(path: Path) -> Record:
    """Read a record. Raises PastUnreadable, naming the line at fault."""
    try:
        if _is_packed(path):
            with gzip.open(path, "rt", encoding="utf-8") as packed:
                return record_of(packed, str(path))
        with path.open(encoding="utf-8") as plain:
            return record_of(plain, str(path))
    except UnicodeDecodeError as error:
        raise PastUnreadable(f"{path} is no record: it is not UTF-8 text") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise PastUnreadable(f"{path} is cut off or damaged: export it again") from error
    except OSError as error:
        raise PastUnreadable(f"{path} cannot be read: {error.strerror or error}") from error


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def lines_of(record: Record) -> Iterator[str]:
    """Write a record's lines, each with its line feed."""
    head = {
        "form": _FORM,
        "version": VERSION,
        "namespace": record.namespace,
        "name": record.name,
        "asks_gateway": record.asks_gateway,
        "moments": len(record.moments),
    }
    yield _line(head)
    for moment in record.moments:
        yield _line(_plain(moment))


def record_of(lines: Iterable[str], place: str) -> Record:
    """Read a record from its lines. Raises PastUnreadable."""
    numbered = enumerate(lines, start=1)
    _, first = next(numbered, (1, ""))
    head = _head(first, place)
    moments: list[Moment] = []
    for number, line in numbered:
        moment = _moment(line, f"{place}, line {number}")
        if moments and moment.at - moment.step < moments[-1].at:
            raise PastUnreadable(
                f"{place}, line {number}: its time lies before that of the line before: the clock "
                "was set back, or lines were put together out of order; sort them, or cut the "
                "file there"
            )
        moments.append(moment)
    if len(moments) != head["moments"]:
        raise PastUnreadable(
            f"{place} has {len(moments)} moments where its first line promises {head['moments']}: "
            "it is cut off; export it again"
        )
    return Record(
        namespace=head["namespace"],
        name=head["name"],
        asks_gateway=head["asks_gateway"],
        moments=tuple(moments),
    )


def _head(line: str, place: str) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get("form") != _FORM:
        raise PastUnreadable(
            f'{place}, line 1: this is no record (its first line has no "form": "{_FORM}"); '
            "scaler replay --export writes one"
        )
    if head.get("version") != VERSION:
        raise PastUnreadable(
            f"{place}, line 1: its version is {str(head.get('version'))[:20]}, and this scaler "
            f"reads version {VERSION}: export it with this scaler, or read it with a newer one"
        )
    wanted = {"namespace": str, "name": str, "asks_gateway": bool, "moments": int}
    for key, kind in wanted.items():
        if not isinstance(head.get(key), kind):
            raise PastUnreadable(f'{place}, line 1: "{key}" is missing or of the wrong kind')
    return head


def _moment(line: str, place: str) -> Moment:
    try:
        moment = _MOMENT.validate_python(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise PastUnreadable(f"{place}: {_said(error)}") from error
    problem = _odd(moment)
    if problem is not None:
        raise PastUnreadable(f"{place}: {problem}")
    return moment


def _odd(moment: Moment) -> str | None:
    """Say what keeps a moment from being one; None where nothing does."""
    if not math.isfinite(moment.at) or moment.at % TICK:
        return f"its time {moment.at:.15g} is not on the grid of {TICK:g} s"
    if not _is_step(moment.step):
        return f"its step {moment.step:g} is no multiple of {TICK:g} s"
    if moment.sample is not None and moment.sample.at != moment.at:
        return "its sample is of another time"
    return None


def _is_step(step: Seconds) -> bool:
    return math.isfinite(step) and step >= TICK and step % TICK == 0


def _said(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place or 'the moment'}: {first['msg']}"
    return "this is no line of JSON; the file is cut off, or was edited"


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Write a value as JSON has it: without what is the default, and ∞ as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(own)
            for field in fields(value)
            if (own := getattr(value, field.name)) != field.default or field.default is MISSING
        }
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
