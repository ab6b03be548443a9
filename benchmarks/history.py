"""The last day of 1,000 workloads on the board: memory, what keeping costs, how fast it is read.

Every tick of the day is kept, with the fullest samples that there are; the yardstick is the same
rows as objects. An answer changes every ten minutes.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
import tracemalloc
from collections.abc import Iterator

from benchmarks._measure import resident_mib, told
from benchmarks._results import Line, Section
from scaler.control.archive import KEPT_FOR, Archive
from scaler.core.decision import Decision
from scaler.core.need import Need
from scaler.core.quantile import Percentile
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale, WorkloadKey
from scaler.edge.past import _columns

WORKLOADS, QUICK = 1_000, 50
AIM_MIB = 300.0
_END: Seconds = 1_800_000_000.0
_CHANGES_EACH = 40
_ASKED = 20


def lived(at: Seconds) -> tuple[Decision, Sample, Scale]:
    """Return a decision with nothing unknown about it; no number repeats itself."""
    part = at / TICK * 0.618 % 1.0
    count = 4 + int(at // (_CHANGES_EACH * TICK)) % 3
    sample = Sample(
        at=at,
        scraped_at=at - 5 * part,
        serving=count,
        waiting=9 * part,
        running=100 + part,
        queued=1,
        kv_cache=part,
        ttft=Percentile(value=part, lower=part / 2, upper=2 * part, observations=300 + part),
        first_token_rate=5 + part,
        token_rate=900 + part,
        prompt_token_rate=4000 + part,
        preemption_rate=part,
        rejection_rate=part,
        saturated=50 + part,
        activation=part,
    )
    decision = Decision(
        at=at,
        current=count,
        desired=count,
        advised=count,
        reason=Reason.STEADY,
        floor=count - 1,
        ceiling=count + 1,
        need=Need(low=count - part, high=count + part),
        sample=sample,
    )
    return decision, sample, Scale(current=count, max_replicas=20, ready=count)


def key_of(number: int) -> WorkloadKey:
    """Name a workload."""
    return WorkloadKey(namespace="llm", name=f"chat-{number}", trigger="0")


def day(ticks: int) -> Iterator[Seconds]:
    """Go through the last ticks up to the end of the day, and a little more than a day."""
    yield from (_END - back * TICK for back in reversed(range(ticks)))


def fill(archive: Archive, workloads: int) -> list[float]:
    """Let a day go by for all; return what keeping one row took, in µs, tick by tick."""
    took = []
    keys = [key_of(number) for number in range(workloads)]
    for at in day(int(1.05 * KEPT_FOR / TICK)):
        decision, sample, scale = lived(at)
        began = time.perf_counter()
        for key in keys:
            archive.keep(key, decision, sample=sample, scale=scale)
        took.append(1e6 * (time.perf_counter() - began) / workloads)
    return took


def as_objects() -> float:
    """Return how many KiB the rows that one workload keeps take as objects."""
    archive = Archive()
    fill(archive, 1)
    instants = [row.at for row, _ in archive.rows(key_of(0), 0.0, _END)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    kept = [lived(at) for at in instants]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return (after - before) / 1024


def reading(archive: Archive) -> tuple[list[float], list[float], int]:
    """Return what a day in columns and a day to rehearse took, in ms, and how many rows it has."""
    columns, records, rows = [], [], 0
    for number in range(_ASKED):
        began = time.perf_counter()
        found = [row for row, _ in archive.rows(key_of(number), 0.0, _END)]
        _columns(found)
        columns.append(1e3 * (time.perf_counter() - began))
        began = time.perf_counter()
        archive.record(key_of(number), 0.0, _END)
        records.append(1e3 * (time.perf_counter() - began))
        rows = len(found)
    return columns, records, rows


def measure(*, quick: bool) -> Section:
    """Fill an archive for a day and look at it."""
    workloads = QUICK if quick else WORKLOADS
    objects = as_objects()
    gc.collect()
    before = resident_mib(os.getpid())
    archive = Archive()
    took = fill(archive, workloads)
    gc.collect()
    mib = resident_mib(os.getpid()) - before
    each = 1024 * mib / workloads
    columns, records, rows = reading(archive)
    return Section(
        title="The last day on the board",
        lines=[
            Line(
                key="history-memory",
                what=f"memory of a day of {workloads} workloads, {rows} rows each",
                ours=f"{mib:.0f} MiB, {each:.0f} KiB a workload",
                yardstick=f"the same rows as objects: {objects:.0f} KiB a workload",
                ratio=each / objects,
            ),
            Line(
                key="history-aim",
                what="the same beside the aim",
                ours=f"{each:.0f} KiB a workload",
                yardstick=f"{AIM_MIB:.0f} MiB for 1,000: {1.024 * AIM_MIB:.0f} KiB",
                ratio=each / (1.024 * AIM_MIB),
                aim=1.0,
                tolerance=1.1,
            ),
        ],
        notes=[
            f"Keeping a tick of 1,000 workloads takes {statistics.median(took):.0f} ms.",
            f"Reading a day in columns takes {told(columns, ' ms', 0)}.",
            f"Reading a day to rehearse takes {told(records, ' ms', 0)}.",
        ],
    )
