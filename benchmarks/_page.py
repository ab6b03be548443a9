"""Writes docs/reference/benchmarks.md and its chart from the kept results.

What stands between the page's two markers is replaced, the rest of the page is written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks._results import Growth, Section, shown
from scaler.simulation.svg import COLOURS, Line, Panel, page

PAGE = Path("docs/reference/benchmarks.md")
CHART = Path("docs/reference/benchmarks/growth.svg")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
ORDER = ("rpc", "tick", "prometheus_cost", "reaction", "footprint", "soak", "simulate_hour")
"""What is looked for most comes first; the others follow by name."""


def write(sections: Mapping[str, Section], path: Path = PAGE, chart: Path = CHART) -> None:
    """Write page and chart anew."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    body = "".join(f"{line}\n" for line in told(sections))
    path.write_text(f"{before}{BEGIN}\n{body}{END}{after}", encoding="utf-8")
    grown = [growth for section in sections.values() for growth in section.growth]
    if grown:
        chart.parent.mkdir(parents=True, exist_ok=True)
        chart.write_text(drawn(grown), encoding="utf-8")


def told(sections: Mapping[str, Section]) -> Iterator[str]:
    """Write every section: a table of ratios, growth, notes."""
    named = [name for name in ORDER if name in sections]
    for name in [*named, *sorted(sections.keys() - set(named))]:
        section = sections[name]
        yield f"\n### {section.title}\n"
        yield f"`make bench ARGS={name}`, {section.ran}, load {section.load:g}.\n"
        if section.lines:
            rows = (
                (line.what, line.ours, line.yardstick, shown(line), _aim(line.aim))
                for line in section.lines
            )
            yield from _table(("what", "ours", "yardstick", "ratio", "aim"), rows)
            yield ""
        for growth in section.growth:
            yield from _growth(growth)
        if section.notes:
            yield from (f"- {note}" for note in section.notes)
            yield ""


def _aim(aim: float | None) -> str:
    return "" if aim is None else f"≤ {aim:g}"


def _growth(growth: Growth) -> Iterator[str]:
    aim = "" if growth.aim is None else f" (aim ≤ {growth.aim:g})"
    yield f"{growth.what}, exponent **{growth.exponent:.2f}**{aim}:\n"
    head = ("how many", *(f"{size:,.0f}" for size, _ in growth.points))
    yield from _table(head, [(growth.unit, *(f"{cost:.3g}" for _, cost in growth.points))])
    yield ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def drawn(grown: Sequence[Growth]) -> str:
    """Draw growth with both axes in powers of ten; a dashed line grows in proportion."""
    panels = []
    for number, growth in enumerate(grown):
        points = [(math.log10(size), math.log10(cost)) for size, cost in growth.points]
        start = points[0]
        proportion = [(x, start[1] + x - start[0]) for x, _ in points]
        colour = COLOURS[number % len(COLOURS)]
        label = f"exponent {growth.exponent:.2f}"
        panels.append(
            Panel(
                title=f"{growth.what} ({growth.unit}, powers of ten)",
                x_title="how many, powers of ten",
                lowest=None,
                lines=(
                    Line(label=label, points=points, colour=colour),
                    Line(label="in proportion", points=proportion, colour=colour, dashed=True),
                ),
            )
        )
    return page("growth", panels)
