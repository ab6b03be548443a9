"""Plays cells over the machine's cores; each job is a scaler, or a few of them."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import structlog

from tests.outages import scraped
from tests.outages.cells import PAGES, Cell, Fault, Part, cells_of
from tests.outages.keeping import Moment, Verdict, judged

Play = Callable[[Sequence[Cell], Path], Mapping[Cell, Sequence[Moment]]]
Job = tuple[Play, list[Cell]]


def jobs_of(cells: Iterable[Cell]) -> list[Job]:
    """Put cells together that one scaler can play: each job has the twins that it needs."""
    found: dict[tuple[Part, Fault | None], list[Cell]] = {}
    for cell in cells:
        if cell.fault is None:
            continue
        found.setdefault((cell.part, cell.fault), []).append(cell)
    return [
        (_PLAYS[part], sorted({cell.twin for cell in own}, key=_order) + own)
        for (part, _), own in found.items()
    ]


def _order(cell: Cell) -> str:
    return cell.name


_PLAYS: Mapping[Part, Play] = dict.fromkeys(PAGES, scraped.play)

PARTS = tuple(_PLAYS)


def everything(parts: Sequence[str] = PARTS) -> list[Cell]:
    """Return every cell of these parts."""
    return cells_of(*(Part(each) for each in parts))


def verdicts(job: Job) -> list[Verdict]:
    """Play a job."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    play, cells = job
    with tempfile.TemporaryDirectory(prefix="outages-") as directory:
        return judged(play(cells, Path(directory)))


def in_parallel(cells: Iterable[Cell]) -> list[Verdict]:
    """Play all, telling how far it has got."""
    jobs = jobs_of(cells)
    began = time.monotonic()
    found: list[Verdict] = []
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        waiting = [pool.submit(verdicts, job) for job in sorted(jobs, key=lambda j: -len(j[1]))]
        for done, each in enumerate(as_completed(waiting), start=1):
            found += each.result()
            took = time.monotonic() - began
            sys.stderr.write(f"{done} of {len(jobs)} jobs, {len(found)} cells, {took:.0f} s\n")
    return sorted(found, key=lambda verdict: verdict.cell)
