"""The file of decisions: it outlives a restart, and no fault of a disk reaches a tick."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.adapters.decision_file import DecisionFile
from scaler.control.archive import Change
from scaler.core.reasons import Reason
from scaler.core.workload import WorkloadKey

CHAT = WorkloadKey(namespace="prod", name="chat", trigger="1")
NOON = 1_800_000_000.0
GREW = Change(
    at=NOON, current=4, desired=6, advised=6, floor=6, ceiling=None, reason=Reason.SCALE_OUT_QUEUE
)
LOST = Change(
    at=NOON + 30,
    current=None,
    desired=None,
    advised=None,
    floor=None,
    ceiling=None,
    reason=Reason.CURRENT_UNKNOWN,
)


async def kept(file: DecisionFile, *changes: Change, key: WorkloadKey = CHAT) -> None:
    """Write changes."""
    for change in changes:
        file.note(key, change)
    await file.flush()


def fault_of(file: DecisionFile) -> str:
    """Return what went wrong last; empty while all is well."""
    return file.fault or ""


async def of(file: DecisionFile, key: WorkloadKey = CHAT, *, limit: int = 100) -> list[Change]:
    """Read all changes of a workload."""
    return await file.changes(key, 0.0, NOON + 1e9, limit)


async def test_a_restart_reads_what_was_written(tmp_path: Path) -> None:
    """Another process on the same file knows the same, the newest first."""
    path = tmp_path / "decisions.db"
    await kept(DecisionFile(path), GREW, LOST)
    again = DecisionFile(path)
    assert await of(again) == [LOST, GREW]
    assert await of(again, limit=1) == [LOST]
    assert await again.changes(CHAT, NOON, NOON + 30, 10) == [GREW]
    assert not fault_of(again)


async def test_workloads_and_triggers_are_told_apart(tmp_path: Path) -> None:
    """Nobody reads another's decisions; an edited trigger reads those of its past."""
    file = DecisionFile(tmp_path / "decisions.db")
    await kept(file, GREW)
    await kept(file, LOST, key=replace(CHAT, trigger="2"))
    await kept(file, LOST, key=replace(CHAT, namespace="other"))
    assert await of(file) == [LOST, GREW]
    assert await file.changes(CHAT, 0.0, NOON + 1e9, 10, but=["2"]) == [GREW]
    assert await of(file, replace(CHAT, name="none")) == []


async def test_nothing_is_read_where_nothing_was_written(tmp_path: Path) -> None:
    """And reading makes no file."""
    file = DecisionFile(tmp_path / "decisions.db")
    assert await of(file) == []
    assert not (tmp_path / "decisions.db").exists()


@pytest.mark.parametrize("content", [b"no database at all" * 100, None])
async def test_a_broken_file_is_put_aside(tmp_path: Path, content: bytes | None) -> None:
    """It is named, kept to look at, and what waits is written to a new one."""
    path = tmp_path / "decisions.db"
    if content is None:
        await kept(DecisionFile(path), *(replace(GREW, at=NOON + n) for n in range(2000)))
        whole = bytearray(path.read_bytes())
        whole[4096:] = os.urandom(len(whole) - 4096)
        content = bytes(whole)
    path.write_bytes(content)
    journal = tmp_path / "decisions.db-journal"
    journal.write_bytes(b"half a step")
    file = DecisionFile(path)
    await kept(file, GREW)
    assert str(path) in fault_of(file)
    assert ".broken" in fault_of(file)
    assert (tmp_path / "decisions.db.broken").read_bytes() == content
    assert not journal.exists()
    await file.flush()
    assert not fault_of(file)
    assert await of(file) == [GREW]


async def test_a_full_disk_is_a_plain_fault_and_mends_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be written waits until there is room."""
    path = tmp_path / "decisions.db"
    file = DecisionFile(path)
    await kept(file, GREW)
    connect = sqlite3.connect

    def full(place: Path, timeout: float) -> sqlite3.Connection:
        connection = connect(place, timeout=timeout)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    many = [replace(GREW, at=NOON + 60 + n) for n in range(2000)]
    monkeypatch.setattr(sqlite3, "connect", full)
    await kept(file, *many)
    assert fault_of(file) == f"decisions cannot be kept in {path}: the disk is full; make room"
    monkeypatch.undo()
    await file.flush()
    assert not fault_of(file)
    assert len(await of(file, limit=5000)) == 2001


async def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    """The message says what to look at."""
    file = DecisionFile(tmp_path / "none" / "decisions.db")
    await kept(file, GREW)
    assert "is its folder there, and writable?" in fault_of(file)


async def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    """A path that was mistaken costs nobody their data."""
    path = tmp_path / "others.db"
    with sqlite3.connect(path) as others:
        others.execute("CREATE TABLE precious (value)")
    others.close()
    before = path.read_bytes()
    file = DecisionFile(path)
    await kept(file, GREW)
    assert "another program's" in fault_of(file)
    assert path.read_bytes() == before


async def test_the_file_is_bounded_in_age_and_in_size(tmp_path: Path) -> None:
    """What is too old, or too much, goes first."""
    path = tmp_path / "decisions.db"
    await kept(DecisionFile(path), *(replace(GREW, at=NOON + n) for n in range(100)))
    await kept(DecisionFile(path, most=10), replace(GREW, at=NOON + 100))
    assert [change.at - NOON for change in await of(DecisionFile(path))] == [*range(100, 90, -1)]
    await kept(DecisionFile(path, kept_for=60.0), replace(GREW, at=NOON + 155))
    assert [change.at - NOON for change in await of(DecisionFile(path))][-1] == 95


async def test_what_waits_is_bounded(tmp_path: Path) -> None:
    """With a disk that takes nothing the memory does not grow, and the loss is told."""
    file = DecisionFile(tmp_path / "none" / "decisions.db", most_waiting=3)
    await kept(file, *(replace(GREW, at=NOON + n) for n in range(5)))
    assert "2 changes were dropped" in fault_of(file)
