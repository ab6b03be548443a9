"""Compares new results with the committed ones: ratios and exponents, never absolute times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks._results import Section

EXPONENT_TOLERANCE = 0.1
"""By how much an exponent of growth may be above the committed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one ratio or exponent. `limit` is the highest that passes."""

    key: str
    was: float
    now: float | None
    limit: float

    @property
    def passes(self) -> bool:
        """Say whether it is there and within its tolerance."""
        return self.now is not None and self.now <= self.limit

    def __str__(self) -> str:
        """Say it in a line."""
        if self.now is None:
            return f"GONE   {self.key}: was {self.was:.3g}, and nothing measures it any more"
        word = "ok    " if self.passes else "WORSE "
        return f"{word} {self.key}: {self.now:.3g}, was {self.was:.3g}, at most {self.limit:.3g}"


def compared(kept: Mapping[str, Section], found: Mapping[str, Section]) -> list[Verdict]:
    """Judge every committed line of the benchmarks that ran; what is new has nothing to meet.

    NaN never passes. A shorter run need not have what only whole runs measure.
    """
    return [
        verdict
        for name, section in found.items()
        if name in kept
        for verdict in _section(kept[name], section)
    ]


def _section(kept: Section, found: Section) -> Iterator[Verdict]:
    ratios = {line.key: line.ratio for line in found.lines}
    for line in kept.lines:
        if line.whole_runs and line.key not in ratios:
            continue
        limit = line.ratio * line.tolerance
        yield Verdict(key=line.key, was=line.ratio, now=ratios.get(line.key), limit=limit)
    exponents = {growth.key: growth.exponent for growth in found.growth}
    for growth in kept.growth:
        was = growth.exponent
        now = exponents.get(growth.key)
        yield Verdict(key=growth.key, was=was, now=now, limit=was + EXPONENT_TOLERANCE)
