"""Reading one page: our scanner beside prometheus_client's parser, on pages of a real engine.

CPU time of this process, the median of several rounds in turn, so that a busy machine disturbs
both alike. "Remembered" adds what a scrape does with the samples.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks._measure import machine
from scaler.adapters.exposition import Scanner
from scaler.adapters.page_memory import Group, Model, Place, place_of, remember
from scaler.adapters.vllm import Signal, names_of

CAPTURES = Path(__file__).parents[1] / "tests" / "data" / "captures"
NAMES = [name for signal in Signal for name in names_of(signal)]
ROUNDS, SLOW, FAST = 7, 5, 500


def micros(work: Callable[[], object], times: int) -> float:
    """Return the CPU time of one call."""
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times * 1e6


def measure(path: Path) -> str:
    """Compare on one page."""
    page = path.read_bytes()
    scanner: Scanner[Place] = Scanner(NAMES, place_of)
    models: dict[Group, Model] = {}
    now = 0.0

    def library() -> list[object]:
        return [f.samples for f in text_string_to_metric_families(page.decode())]

    def scrape() -> None:
        nonlocal now
        now += 5.0
        remember(models, scanner.scan(page), now)

    ours, theirs, whole = [], [], []
    for _ in range(ROUNDS):
        theirs.append(micros(library, SLOW))
        ours.append(micros(lambda: scanner.scan(page), FAST))
        whole.append(micros(scrape, FAST))
    ratio = statistics.median(t / o for t, o in zip(theirs, ours, strict=True))
    return (
        f"{path.stem:24} {len(page) / 1024:4.0f} KiB  library {statistics.median(theirs):7.0f} µs  "
        f"scanner {statistics.median(ours):4.0f} µs  {ratio:4.0f} ×  "
        f"scanned and remembered {statistics.median(whole):4.0f} µs"
    )


def main() -> None:
    """Print a line for each page."""
    print(machine())
    for path in sorted(CAPTURES.glob("*.txt")):
        print(measure(path))


main()
