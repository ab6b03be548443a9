"""Runs of a real engine on disk, so that a comparison can be made anew without the engine."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.engine.real import Run

_RUN = TypeAdapter(Run)


def keep(folder: Path, name: str, run: Run) -> None:
    """Write a run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_bytes(_RUN.dump_json(run))


def kept(folder: Path, name: str) -> Run | None:
    """Read a run; None where there is none."""
    path = folder / f"{name}.json"
    return _RUN.validate_json(path.read_bytes()) if path.exists() else None
