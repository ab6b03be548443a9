"""Runs the benchmarks, each in a process of its own: `make bench ARGS="rpc tick"` picks some.

`make bench` keeps what they find, and writes the page. `--check` (`make bench-check`) compares
with what is kept instead, and fails where a ratio got worse than its tolerance; the benchmarks
then take shorter where they can.
"""

from __future__ import annotations

import importlib
import json
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import _page, _results
from benchmarks._check import compared

HERE = Path(__file__).parent
BY_NAME = {"histories", "soak"}
"""Those that take an hour run when they are named."""
KNOWN = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))


def main(words: Sequence[str]) -> None:
    """Run those that are named, or all but the longest."""
    check = "--check" in words
    names = [word for word in words if word != "--check"]
    unknown = [name for name in names if name not in KNOWN]
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)} (there are: {', '.join(KNOWN)})")
    kept = _results.read()
    wanted = names or [name for name in (sorted(kept) if check else KNOWN) if name not in BY_NAME]
    found = {name: section for name in wanted if (section := _found(name, quick=check))}
    if not check:
        _page.write(_results.keep(found))
        return
    verdicts = compared(kept, found)
    print("\n".join(map(str, verdicts)))
    if not all(verdict.passes for verdict in verdicts):
        sys.exit("a ratio is worse than its tolerance allows: see above")


def _found(name: str, *, quick: bool) -> _results.Section | None:
    """Run one in a process of its own; None where it only prints."""
    print(f"\n== {name}", flush=True)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "benchmarks", "--one", name, file.name]
        subprocess.run([*command, "--quick"] if quick else command, check=True)
        text = Path(file.name).read_text(encoding="utf-8")
    return _results.section_of(json.loads(text)) if text else None


def _one(name: str, path: Path, *, quick: bool) -> None:
    """Measure, in this process."""
    sys.path.insert(0, str(HERE))  # as if it were run by itself
    sys.argv = [name]
    module = importlib.import_module(f"benchmarks.{name}")
    if not hasattr(module, "measure"):
        runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
        return
    section: _results.Section = module.measure(quick=quick)
    print(section.told(), flush=True)
    path.write_text(json.dumps(_results.plain(section)), encoding="utf-8")


if sys.argv[1:2] == ["--one"]:
    _one(sys.argv[2], Path(sys.argv[3]), quick="--quick" in sys.argv)
else:
    main(sys.argv[1:])
