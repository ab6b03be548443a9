"""The shapes of two public traces, small enough to ship: `data/README.md` says whose they are.

A shape keeps how many requests came in every ten seconds and how often each pair of prompt and
output lengths occurred, in cells. A trace drawn from it has the same counts; within ten seconds
and within a cell it is uniform, and it does not keep which lengths came when.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate
from random import Random

from scaler.core.units import Seconds
from scaler.simulation.errors import ProfileUnknown
from scaler.simulation.traces import Trace, TraceRow

SHIPPED = ("azure-conv", "azure-code")

_PER_OCTAVE = 12
_LONGEST = 1 << 17


def _edges() -> tuple[int, ...]:
    """Return the lower edges of the length cells: single tokens first, then 6 % wide."""
    drawn = {round(2 ** (step / _PER_OCTAVE)) for step in range(17 * _PER_OCTAVE + 1)}
    return tuple(sorted(drawn | {_LONGEST}))


EDGES = _edges()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceShape:
    """Arrivals per `bin_seconds`, and (prompt cell, output cell, count) of their lengths."""

    name: str
    bin_seconds: Seconds
    arrivals: tuple[int, ...]
    cells: tuple[tuple[int, int, int], ...]

    def draw(self, seed: int) -> Trace:
        """Make a trace of this shape; the same one for the same seed."""
        random = Random(f"shape:{self.name}:{seed}")  # noqa: S311 - not a secret
        bounds = list(accumulate(count for _, _, count in self.cells))
        rows = []
        for index, count in enumerate(self.arrivals):
            begin = index * self.bin_seconds
            for at in sorted(begin + random.random() * self.bin_seconds for _ in range(count)):
                cell = bisect_right(bounds, random.randrange(bounds[-1]))
                prompt, output, _ = self.cells[cell]
                rows.append(TraceRow(at, _within(prompt, random), _within(output, random)))
        duration = len(self.arrivals) * self.bin_seconds
        return Trace(name=self.name, rows=tuple(rows), duration=duration)


def _within(cell: int, random: Random) -> int:
    low, above = EDGES[cell], EDGES[cell + 1]
    return low if above == low + 1 else random.randrange(low, above)


def shape_of(trace: Trace, *, name: str, bin_seconds: Seconds = 10.0) -> TraceShape:
    """Aggregate a trace; lengths beyond 131,071 tokens count as that."""
    arrivals = Counter(int(row.at // bin_seconds) for row in trace.rows)
    cells = Counter((_cell(row.prompt), _cell(row.output)) for row in trace.rows)
    return TraceShape(
        name=name,
        bin_seconds=bin_seconds,
        arrivals=tuple(arrivals[index] for index in range(max(arrivals) + 1)),
        cells=tuple((prompt, output, cells[prompt, output]) for prompt, output in sorted(cells)),
    )


def _cell(tokens: int) -> int:
    return bisect_right(EDGES, min(tokens, _LONGEST - 1)) - 1


def shipped_shape(name: str) -> TraceShape:
    """Return a shape that comes with the package. Raises ProfileUnknown."""
    if name not in SHIPPED:
        raise ProfileUnknown(f"no trace is called {name!r}: choose one of {', '.join(SHIPPED)}")
    text = files("scaler.simulation").joinpath("data", f"{name}.json").read_text(encoding="utf-8")
    raw = json.loads(text)
    return TraceShape(
        name=name,
        bin_seconds=float(raw["bin_seconds"]),
        arrivals=tuple(raw["arrivals"]),
        cells=tuple((prompt, output, count) for prompt, output, count in raw["cells"]),
    )


def write_shape(shape: TraceShape) -> str:
    """Write a shape as the text of its data file."""
    return json.dumps(
        {
            "bin_seconds": shape.bin_seconds,
            "arrivals": shape.arrivals,
            "cells": shape.cells,
        },
        separators=(",", ":"),
    )
