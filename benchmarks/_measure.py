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
    """Return the user and system time that a process has used, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return a process's resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def told(values: Sequence[float], unit: str = "", digits: int = 2) -> str:
    """Write the median with its range."""
    median = statistics.median(values)
    return f"{median:.{digits}f}{unit} ({min(values):.{digits}f}–{max(values):.{digits}f})"
