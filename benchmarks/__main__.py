"""Runs the benchmarks, one after another: `make bench ARGS="exposition rpc"` picks some."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
KNOWN = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))


def main() -> None:
    """Run those that are named, or all."""
    wanted = sys.argv[1:] or KNOWN
    unknown = [name for name in wanted if name not in KNOWN]
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)} (there are: {', '.join(KNOWN)})")
    sys.path.insert(0, str(HERE))  # as if each were run by itself
    for name in wanted:
        print(f"\n== {name}", flush=True)
        sys.argv = [name]
        runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")


main()
