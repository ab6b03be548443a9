"""Charts as plain SVG: panels with axes, lines and points, and no more than that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

Point = tuple[float, float]

INK, GRID = "#333333", "#dddddd"
COLOURS = (
    *("#1b6ca8", "#d1495b", "#3a7d44", "#e08e0b", "#6f4e9c", "#00818a", "#a0522d", "#555555"),
    *("#b5179e", "#7a8b00", "#264653", "#ff6f61"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series: points in order; `None` breaks the line."""

    label: str
    points: Sequence[Point | None]
    colour: str
    steps: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A labelled point."""

    label: str
    at: Point
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Axes with lines and marks. `lowest` and `highest` fix the y axis where given."""

    title: str
    x_title: str = ""
    lines: Sequence[Line] = ()
    marks: Sequence[Mark] = ()
    height: int = 150
    lowest: float | None = 0.0
    highest: float | None = None


@dataclass(slots=True)
class _Frame:
    """Where data lands on the page."""

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    out: list[str] = field(default_factory=list)

    def place(self, point: Point) -> Point:
        across = (point[0] - self.x[0]) / (self.x[1] - self.x[0])
        up = (point[1] - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + across * self.width, self.top + (1 - up) * self.height


_WIDTH, _LEFT, _RIGHT, _HEAD, _GAP = 960, 60, 190, 40, 52


def page(title: str, panels: Sequence[Panel]) -> str:
    """Draw panels one below the other."""
    top, body = float(_HEAD), []
    for panel in panels:
        body += _panel(panel, top)
        top += panel.height + _GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top:.0f}" '
        f'viewBox="0 0 {_WIDTH} {top:.0f}" font-family="sans-serif" font-size="11">'
    )
    white = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, white, _text(_LEFT, 20, title, size=14), *body, "</svg>"]) + "\n"


def _panel(panel: Panel, top: float) -> list[str]:
    points = [point for line in panel.lines for point in line.points if point is not None]
    points += [mark.at for mark in panel.marks]
    frame = _Frame(
        left=_LEFT,
        top=top,
        width=_WIDTH - _LEFT - _RIGHT,
        height=panel.height,
        x=_range((x for x, _ in points), None, None),
        y=_range((y for _, y in points), panel.lowest, panel.highest),
    )
    _axes(frame, panel)
    for line in panel.lines:
        _line(frame, line)
    for mark in panel.marks:
        x, y = frame.place(mark.at)
        frame.out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{mark.colour}"/>')
        frame.out.append(_text(x + 6, y + 4, mark.label, colour=mark.colour))
    legend = [(line.label, line.colour) for line in panel.lines]
    for index, (label, colour) in enumerate(legend):
        y = top + 10 + 14 * index
        frame.out.append(_text(_WIDTH - _RIGHT + 12, y, label, colour=colour))
    return frame.out


def _range(
    values: Iterable[float], lowest: float | None, highest: float | None
) -> tuple[float, float]:
    known = [value for value in values if math.isfinite(value)]
    low = min(known, default=0.0) if lowest is None else lowest
    high = max(known, default=1.0) if highest is None else highest
    return (low, high) if high > low else (low, low + 1.0)


def _axes(frame: _Frame, panel: Panel) -> None:
    frame.out.append(_text(frame.left, frame.top - 6, panel.title, colour=INK))
    for value in ticks(*frame.y):
        _, y = frame.place((frame.x[0], value))
        right = frame.left + frame.width
        frame.out.append(
            f'<path d="M{frame.left:.1f} {y:.1f}H{right:.1f}" stroke="{GRID}" fill="none"/>'
        )
        frame.out.append(_text(frame.left - 6, y + 4, f"{value:g}", anchor="end"))
    bottom = frame.top + frame.height
    for value in ticks(*frame.x):
        x, _ = frame.place((value, frame.y[0]))
        frame.out.append(_text(x, bottom + 14, f"{value:g}", anchor="middle"))
    if panel.x_title:
        frame.out.append(_text(frame.left + frame.width, bottom + 28, panel.x_title, anchor="end"))


def ticks(low: float, high: float) -> list[float]:
    """Return round values from `low` to `high`, about five."""
    raw = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 10) for index in range(first, last + 1)]


def _line(frame: _Frame, line: Line) -> None:
    commands, pen, height = [], "M", 0.0
    for point in line.points:
        if point is None or not math.isfinite(point[1]):
            pen = "M"
            continue
        x, y = frame.place((point[0], min(max(point[1], frame.y[0]), frame.y[1])))
        if line.steps and pen == "L":
            commands.append(f"L{x:.1f} {height:.1f}")
        commands.append(f"{pen}{x:.1f} {y:.1f}")
        pen, height = "L", y
    dashes = ' stroke-dasharray="5 3"' if line.dashed else ""
    if commands:
        frame.out.append(
            f'<path d="{"".join(commands)}" stroke="{line.colour}" fill="none"{dashes}/>'
        )


def _text(
    x: float, y: float, text: str, *, colour: str = INK, anchor: str = "start", size: int = 11
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" '
        f'font-size="{size}">{escape(text)}</text>'
    )
