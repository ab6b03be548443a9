"""Changes of answers in a SQLite file, so that a restart does not forget why the fleet moved."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import TypeAlias

import structlog

from scaler.control.archive import Change
from scaler.core.reasons import Reason
from scaler.core.units import Seconds
from scaler.core.workload import WorkloadKey

KEPT_FOR: Seconds = 30 * 86_400.0
MOST_ROWS = 500_000
"""About 100 MB. What is older goes first."""

MOST_WAITING = 20_000
"""Changes that wait to be written while the disk does not take any; the oldest go first."""

WRITTEN_EVERY: Seconds = 1.0
_TRIED_EVERY: Seconds = 30.0
_PRUNED_EVERY: Seconds = 3_600.0
_BUSY_FOR: Seconds = 2.0
_OURS, _FORM = 0x76_6C_6B_73, 1
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CHANGE = "at, current, desired, advised, floor, ceiling, reason"
_SCHEMA = f"""
CREATE TABLE decisions (
  namespace TEXT NOT NULL, name TEXT NOT NULL, trigger TEXT NOT NULL, at REAL NOT NULL,
  current INTEGER, desired INTEGER, advised INTEGER, floor INTEGER, ceiling INTEGER,
  reason TEXT NOT NULL
);
CREATE INDEX by_workload ON decisions (namespace, name, at);
CREATE INDEX by_time ON decisions (at);
PRAGMA application_id = {_OURS};
PRAGMA user_version = {_FORM};
"""

_Row: TypeAlias = tuple[str, str, str, float, object, object, object, object, object, str]

_log = structlog.get_logger(__name__)


class ForeignFile(Exception):
    """The file is somebody else's, or of a form that we do not know; it is left as it is."""


class DecisionFile:
    """Appends changes of answers to a file and reads them back, in a thread, never in a tick.

    `fault` says what went wrong at the last attempt; None while it is well. What cannot be written
    waits, up to `most_waiting` changes. A file that is broken is put aside as `….broken`.
    """

    def __init__(
        self,
        path: Path,
        *,
        kept_for: Seconds = KEPT_FOR,
        most: int = MOST_ROWS,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """Name the file; nothing is opened yet. At most `most` rows are kept, for `kept_for`."""
        self.fault: str | None = None
        self._path = path
        self._kept_for = kept_for
        self._most = most
        self._waiting: deque[_Row] = deque(maxlen=most_waiting)
        self._lost = 0
        self._pruned_at: float | None = None

    def note(self, key: WorkloadKey, change: Change) -> None:
        """Take a change to be written soon; returns at once."""
        if len(self._waiting) == self._waiting.maxlen:
            self._lost += 1
        place = (key.namespace, key.name, key.trigger)
        self._waiting.append((*place, *astuple(change)))

    async def run(self) -> None:
        """Write what waits, until cancelled."""
        while True:
            await self.flush()
            await asyncio.sleep(WRITTEN_EVERY if self.fault is None else _TRIED_EVERY)

    async def flush(self) -> None:
        """Write what waits now; what goes wrong is in `fault` and in the log, and never raised."""
        rows = list(self._waiting)
        if not rows:
            return
        if await self._attempt(lambda: self._write(rows)) is None:
            return
        for row in rows:
            if self._waiting and self._waiting[0] is row:
                self._waiting.popleft()

    async def changes(
        self, key: WorkloadKey, start: Seconds, end: Seconds, limit: int, but: Collection[str] = ()
    ) -> list[Change]:
        """Return the newest changes of a ScaledObject in [start, end), the newest first.

        Those of the triggers named in `but` are left out. Nothing where the file cannot be read.
        """
        return await self._attempt(lambda: self._read(key, start, end, limit, but)) or []

    async def _attempt(self, work: Callable[[], list[Change]]) -> list[Change] | None:
        try:
            found = await asyncio.to_thread(work)
        except (sqlite3.Error, OSError, ForeignFile) as error:
            self._complain(_plain(error))
            return None
        if self.fault is not None:
            _log.info("decision-file-works-again", file=str(self._path), lost=self._lost)
        self.fault, self._lost = None, 0
        return found

    def _complain(self, what: str) -> None:
        lost = f"; {self._lost} changes were dropped" if self._lost else ""
        fault = f"decisions cannot be kept in {self._path}: {what}{lost}"
        if fault != self.fault:
            _log.warning("decision-file-failed", error=fault)
        self.fault = fault

    def _write(self, rows: Sequence[_Row]) -> list[Change]:
        with self._opened() as file, file:
            marks = ",".join("?" * len(rows[0]))
            file.executemany(
                f"INSERT INTO decisions (namespace, name, trigger, {_CHANGE}) "  # noqa: S608
                f"VALUES ({marks})",
                rows,
            )
            self._prune(file, max(row[3] for row in rows))
        return []

    def _prune(self, file: sqlite3.Connection, now: Seconds) -> None:
        """Drop what is too old or too much; the pages that it leaves are used again."""
        ran = time.monotonic()
        if self._pruned_at is not None and ran - self._pruned_at < _PRUNED_EVERY:
            return
        self._pruned_at = ran
        file.execute("DELETE FROM decisions WHERE at < ?", (now - self._kept_for,))
        file.execute(
            "DELETE FROM decisions WHERE rowid <= (SELECT max(rowid) FROM decisions) - ?",
            (self._most,),
        )

    def _read(
        self, key: WorkloadKey, start: Seconds, end: Seconds, limit: int, but: Collection[str]
    ) -> list[Change]:
        if not self._path.exists():
            return []
        others = ",".join("?" * len(but))
        with self._opened() as file:
            rows = file.execute(
                f"SELECT {_CHANGE} FROM decisions WHERE namespace = ? AND name = ? "  # noqa: S608
                f"AND at >= ? AND at < ? AND trigger NOT IN ({others}) "
                "ORDER BY at DESC, rowid DESC LIMIT ?",
                (key.namespace, key.name, start, end, *but, limit),
            ).fetchall()
        return list(_changes(rows))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open the file, whoever broke or replaced it meanwhile. Raises as sqlite3 does."""
        try:
            with closing(sqlite3.connect(self._path, timeout=_BUSY_FOR)) as file:
                self._check(file)
                yield file
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _BROKEN:
                raise
            # One broken file is kept to look at; the next attempt starts a new one.
            self._path.replace(self._path.with_name(f"{self._path.name}.broken"))
            # What it had begun must not be undone in the new one.
            self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)
            raise

    def _check(self, file: sqlite3.Connection) -> None:
        ours = file.execute("PRAGMA application_id").fetchone()[0]
        form = file.execute("PRAGMA user_version").fetchone()[0]
        tables = file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not tables and not ours:
            file.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")
        elif (ours, form) != (_OURS, _FORM):
            raise ForeignFile("it is another program's, or another version's; name another file")


def _changes(rows: Sequence[Sequence[object]]) -> Iterator[Change]:
    """Read rows back; those with a reason that this version does not know are left out."""
    known = {reason.value: reason for reason in Reason}
    for at, current, desired, advised, floor, ceiling, reason in rows:
        if not isinstance(at, float) or str(reason) not in known:
            continue
        yield Change(
            at=at,
            current=_count(current),
            desired=_count(desired),
            advised=_count(advised),
            floor=_count(floor),
            ceiling=_count(ceiling),
            reason=known[str(reason)],
        )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _plain(error: Exception) -> str:
    """Say what it is and what helps."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    cures = {
        sqlite3.SQLITE_FULL: "the disk is full; make room",
        sqlite3.SQLITE_CANTOPEN: "it cannot be opened; is its folder there, and writable?",
        sqlite3.SQLITE_READONLY: "it may not be written; look at its owner and its volume",
        sqlite3.SQLITE_BUSY: "another process holds it; name a file for each scaler",
        sqlite3.SQLITE_IOERR: "the disk fails to read or write; look at its volume",
        sqlite3.SQLITE_CORRUPT: "it was broken; it is kept as .broken, and a new one begun",
        sqlite3.SQLITE_NOTADB: "it was no SQLite file; it is kept as .broken, and a new one begun",
    }
    return cures.get(code) or str(error) or type(error).__name__
