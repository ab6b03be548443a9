"""What a benchmark found: lines of ours beside a yardstick, growth, notes; kept as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks._measure import machine

KEPT = Path("docs/reference/benchmarks.json")
"""The committed results, beside the page that shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Ours beside its yardstick, measured in the same run.

    `ratio` is ours by the yardstick's, so that less is better. `spread` are the lowest and the
    highest of the repeated ratios. A later ratio may be `tolerance` times as high and still pass.
    `whole_runs` says that a shorter run leaves it out.
    """

    key: str
    what: str
    ours: str
    yardstick: str
    ratio: float
    spread: tuple[float, float] | None = None
    aim: float | None = None
    tolerance: float = 1.3
    whole_runs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What something costs as there is more of it: (how many, cost) in `unit`."""

    key: str
    what: str
    unit: str
    points: Sequence[tuple[float, float]]
    aim: float | None = None

    @property
    def exponent(self) -> float:
        """Return the slope on a log-log chart: 1 is in proportion."""
        return exponent(self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """All that one benchmark found. `ran` says where and when, `load` how busy the machine was."""

    title: str
    lines: Sequence[Line] = field(default_factory=list)
    growth: Sequence[Growth] = field(default_factory=list)
    notes: Sequence[str] = field(default_factory=list)
    ran: str = field(default_factory=machine)
    load: float = field(default_factory=lambda: round(os.getloadavg()[1], 1))

    def told(self) -> str:
        """Write it for a terminal."""
        lines = [
            f"  {line.what}: {line.ours} | {line.yardstick} | {shown(line)}" for line in self.lines
        ]
        grown = [f"  {g.what}: exponent {g.exponent:.2f} {list(g.points)}" for g in self.growth]
        notes = [f"  - {note}" for note in self.notes]
        return "\n".join([f"{self.title} ({self.ran}; load {self.load})", *lines, *grown, *notes])


def shown(line: Line) -> str:
    """Write a line's ratio with its spread."""
    spread = "" if line.spread is None else f" ({line.spread[0]:.2g}–{line.spread[1]:.2g})"
    return f"{line.ratio:.3g}{spread}"


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Fit cost = a × size ** exponent by least squares of the logarithms."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    across = sum((x - mean_x) ** 2 for x, _ in logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / across


def read(path: Path = KEPT) -> dict[str, Section]:
    """Read kept results, by the names of the benchmarks."""
    if not path.exists():
        return {}
    return {name: section_of(told) for name, told in json.loads(path.read_text("utf-8")).items()}


def section_of(told: Mapping[str, object]) -> Section:
    """Read one section as `plain` writes it."""
    lines = [Line(**{**line, "spread": _pair(line["spread"])}) for line in _rows(told["lines"])]
    growth = [
        Growth(**{**row, "points": [(x, y) for x, y in row["points"]]})
        for row in _rows(told["growth"])
    ]
    return Section(**{**told, "lines": lines, "growth": growth})  # type: ignore[arg-type]


def _rows(value: object) -> list[dict[str, object]]:
    return value if isinstance(value, list) else []


def _pair(value: object) -> tuple[float, float] | None:
    return (value[0], value[1]) if isinstance(value, list) else None


def plain(section: Section) -> dict[str, object]:
    """Write a section as JSON can hold it."""
    return asdict(section)


def keep(found: Mapping[str, Section], path: Path = KEPT) -> dict[str, Section]:
    """Replace the sections that were found anew, and keep the others; returns all of them."""
    whole = {**read(path), **found}
    text = json.dumps({name: plain(whole[name]) for name in sorted(whole)}, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")
    return whole
