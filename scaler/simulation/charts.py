"""The two pictures of a comparison: a trial over time, and cost against SLO with every policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scaler.simulation.report import Row
from scaler.simulation.results import Moment
from scaler.simulation.svg import COLOURS, Line, Mark, Panel, Point, page

_HOUR = 3600.0
_GREY = "#999999"


def over_time(title: str, moments: Sequence[Moment]) -> str:
    """Draw the count in its corridor, and the signals below it."""
    blue, red, green, amber = COLOURS[:4]
    count = Panel(
        title="replicas",
        height=220,
        lines=(
            _series("floor", moments, lambda m: m.floor, red, steps=True, dashed=True),
            _series("ceiling", moments, lambda m: m.ceiling, green, steps=True, dashed=True),
            _series("spec.replicas", moments, lambda m: m.spec, blue, steps=True),
            _series("serving", moments, lambda m: m.serving, amber, steps=True),
        ),
    )
    signals: tuple[tuple[str, Callable[[Moment], float | None]], ...] = (
        ("requests waiting", lambda m: m.waiting),
        ("requests running", lambda m: m.running),
        ("TTFT p95 (s)", lambda m: m.ttft),
    )
    panels = [count]
    panels += [
        Panel(title=name, height=100, lines=(_series("", moments, value, blue),))
        for name, value in signals
    ]
    cache = _series("", moments, lambda m: m.kv_cache, blue)
    panels.append(
        Panel(title="KV cache in use", x_title="hours", height=100, lines=(cache,), highest=1.0)
    )
    return page(title, panels)


def plane(title: str, rows: Sequence[Row], bound: Sequence[Point] = ()) -> str:
    """Draw every policy by its replica-hours and its SLO attainment, and the lower bound.

    `bound` has (replica-hours, attainment) of the lower bound.
    """
    marks = [
        Mark(
            label=row.result.policy,
            at=(row.result.replica_hours, row.result.slo_attainment),
            colour=COLOURS[index % len(COLOURS)],
        )
        for index, row in enumerate(rows)
    ]
    lines = [Line(label="lower bound", points=bound, colour=_GREY, dashed=True)] if bound else []
    panel = Panel(
        title="SLO attainment over replica-hours",
        x_title="replica-hours",
        height=480,
        lines=lines,
        marks=marks,
        highest=1.0,
    )
    return page(title, [panel])


def _series(
    label: str,
    moments: Sequence[Moment],
    value: Callable[[Moment], float | None],
    colour: str,
    *,
    steps: bool = False,
    dashed: bool = False,
) -> Line:
    points: list[Point | None] = []
    for moment in moments:
        found = value(moment)
        points.append(None if found is None else (moment.at / _HOUR, float(found)))
    return Line(label=label, points=points, colour=colour, steps=steps, dashed=dashed)
