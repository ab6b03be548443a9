"""A million histories with faults: how many answers are wrong.

Run as `python -m benchmarks histories`, or by itself with a number of seeds and the first of them.
Each seed makes a fleet's past, what befalls it, a policy and a count; see `tests.core.faulted`.
Ends with an error, and names the seeds, where a law does not hold.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from tests.core.faulted import broken, case_of

SEEDS = 1_000_000
_AT_ONCE = 2_000


def wrong_among(part: tuple[int, int]) -> list[str]:
    """Say what is wrong with the cases from one seed to before another."""
    return [f"seed {seed}: {each}" for seed in range(*part) for each in broken(case_of(seed))]


def parts(first: int, count: int) -> Iterator[tuple[int, int]]:
    """Cut the seeds into parts."""
    for begin in range(first, first + count, _AT_ONCE):
        yield begin, min(begin + _AT_ONCE, first + count)


def main() -> None:
    """Try the seeds, and say what was found."""
    count, first = (int(word) for word in (*sys.argv[1:], *(str(SEEDS), "0")[len(sys.argv) - 1 :]))
    began = time.perf_counter()
    found: list[str] = []
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for wrong in pool.imap_unordered(wrong_among, parts(first, count)):
            found += wrong
            print("\n".join(wrong), end="\n" if wrong else "", flush=True)
    took = time.perf_counter() - began
    print(f"{count:,} histories from seed {first}: {len(found)} wrong answers, {took:.0f} s")
    if found:
        sys.exit("a law does not hold: see above")


if __name__ == "__main__":
    main()
