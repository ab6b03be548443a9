"""Plays the whole matrix and writes the page on it; ends with 1 where a cell breaks the law."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.outages.document import PAGE, page, summary
from tests.outages.run import PARTS, everything, in_parallel
from tests.outages.test_matrix import lawful


def main(path: Path) -> int:
    """Play, write, and tell what is wrong."""
    found = in_parallel(everything(sys.argv[1:] or PARTS))
    path.write_text(page(found), encoding="utf-8")
    wrong = [verdict for verdict in found if not lawful(verdict)]
    for verdict in wrong:
        told = "; ".join(verdict.breaches) or f"seen first at tick {verdict.seen}"
        sys.stderr.write(f"{verdict.cell.name}: {told}\n")
    sys.stderr.write(f"{summary(found)}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(PAGE))
