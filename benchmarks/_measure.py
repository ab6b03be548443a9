"""What the benchmarks share: the machine, the CPU time of another process, medians of ratios."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path


def machine() -> str:
    """Describe where this ran."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    now = datetime.now(tz=UTC).date().isoformat()
    return f"{now}, {os.cpu_count()} × {model}, Python {platform.python_version()}"


def cpu_seconds(pid: int) -> float:
    """Return the time that a process's threads have run, to the nanosecond.

    A thread that has ended is not counted: look at servers, whose threads stay.
    """
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text("utf-8").split()[0]) for task in tasks) / 1e9


def ratios(ours: Sequence[float], yardstick: Sequence[float]) -> list[float]:
    """Return the ratios of what was measured in turn, pair by pair."""
    return [own / other for own, other in zip(ours, yardstick, strict=True)]


def resident_mib(pid: int) -> float:
    """Return a process's resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def told(values: Sequence[float], unit: str = "", digits: int = 2) -> str:
    """Write the median with its range."""
    median = statistics.median(values)
    return f"{median:.{digits}f}{unit} ({min(values):.{digits}f}–{max(values):.{digits}f})"
