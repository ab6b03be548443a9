"""A record that is written and read back is the same record, and a broken line is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from scaler.adapters.record_file import lines_of, read_record, record_of, write_record
from scaler.tuning.ports import PastUnreadable
from scaler.tuning.record import Record
from tests.core.histories import BUSY, steady
from tests.tuning.records import record_of as recorded
from tests.tuning.records import records


@settings(max_examples=60)
@given(records())
def test_what_is_written_is_read_back_the_same(record: Record) -> None:
    """Every moment, to the last digit of every number."""
    assert record_of(lines_of(record), "it") == record


@pytest.mark.parametrize("name", ["past.jsonl", "past.jsonl.gz"])
def test_a_file_may_be_compressed(tmp_path: Path, name: str) -> None:
    """By its name when it is written, by its first bytes when it is read."""
    record = recorded(steady(BUSY, 20))
    write_record(record, tmp_path / name)
    packed = (tmp_path / name).read_bytes()[:2] == b"\x1f\x8b"
    assert packed == name.endswith(".gz")
    moved = (tmp_path / name).rename(tmp_path / "elsewhere")
    assert read_record(moved) == record


def _lines() -> list[str]:
    return list(lines_of(recorded(steady(BUSY, 5))))


def _edited(line: str, **values: object) -> str:
    return json.dumps({**json.loads(line), **values}) + "\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], r"line 1: this is no record"),
        (["{}\n"], r"line 1: this is no record"),
        ([_edited(_lines()[0], version=9), *_lines()[1:]], r"line 1: its version is 9"),
        ([_edited(_lines()[0], name=3), *_lines()[1:]], r'line 1: "name" is missing'),
        (_lines()[:4], r"has 3 moments where its first line promises 5"),
        ([*_lines()[:3], "{\n", *_lines()[4:]], r"line 4: this is no line of JSON"),
        ([*_lines()[:3], "[]\n", *_lines()[4:]], r"line 4: the moment: "),
        ([*_lines()[:2], _edited(_lines()[2], at="soon")], r"line 3: at: .*number"),
        ([*_lines()[:2], _edited(_lines()[2], at=7.0)], r"line 3: its time 7 is not on the grid"),
        ([*_lines()[:2], _edited(_lines()[2], at="inf")], r"line 3: its time inf"),
        ([*_lines()[:2], _edited(_lines()[2], step=7.0)], r"line 3: its step 7 is no multiple"),
        ([*_lines()[:2], _edited(_lines()[2], at=15.0)], r"line 3: its sample is of another time"),
        ([*_lines()[:2], *_lines()[1:]], r"line 3: its time lies before .* clock was set back"),
    ],
)
def test_a_broken_line_is_named(lines: list[str], said: str) -> None:
    """With its number, and in words."""
    with pytest.raises(PastUnreadable, match=said):
        record_of(lines, "past.jsonl")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """One that is missing, binary, or a compressed one that is cut off."""
    with pytest.raises(PastUnreadable, match="No such file"):
        read_record(tmp_path / "nothing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PastUnreadable, match="not UTF-8"):
        read_record(tmp_path / "binary")
    (tmp_path / "cut.gz").write_bytes(gzip.compress("".join(_lines()).encode())[:-9])
    with pytest.raises(PastUnreadable, match="cut off or damaged"):
        read_record(tmp_path / "cut.gz")
    with pytest.raises(PastUnreadable, match="cannot be written"):
        write_record(recorded(steady(BUSY, 2)), tmp_path / "no" / "place")
