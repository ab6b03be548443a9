"""A replay as a table, as CSV, as JSON, and as one HTML page that needs nothing else."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from enum import StrEnum
from html import escape

from scaler.core.explain import because, explain
from scaler.core.policy import Signal
from scaler.core.rendering import instant_of, to_plain, to_text
from scaler.core.sample import Sample
from scaler.core.workload import WorkloadKey
from scaler.simulation.report import aligned
from scaler.simulation.svg import COLOURS, Line, Panel, Point, page
from scaler.tuning.comparison import CAVEAT, figures
from scaler.tuning.rehearsal import Step
from scaler.tuning.replay import Replay

_HEAD = ("time", "was", "answered", "would be", "more", "reason")
_HOUR = 3600.0


class Format(StrEnum):
    """How a replay is written."""

    TABLE = "table"
    CSV = "csv"
    HTML = "html"
    JSON = "json"


def write(replay: Replay, form: Format) -> str:
    """Write a replay, a line feed at the end."""
    return {
        Format.TABLE: _table,
        Format.CSV: _csv,
        Format.HTML: _html,
        Format.JSON: _json,
    }[form](replay)


def explained(replay: Replay, key: WorkloadKey, whence: str) -> str:
    """Explain a replay's last step, and say from where and how finely it was recomputed."""
    step = replay.steps[-1]
    at = instant_of(step.decision.at)
    head = (
        f"At {at}, recomputed from {whence} with a moment each {step.step:g} s, under the trigger "
        "as it is given here; what was answered then may differ."
    )
    told = to_text(explain(key, replay.policy, step.decision))
    return "\n".join([head, *replay.notes, "", told])


def _table(replay: Replay) -> str:
    rows = aligned([_HEAD[:-1], *(_cells(change)[:-1] for change in replay.changes())])
    head, *lines = rows.splitlines()
    told = zip(lines, replay.changes(), strict=True)
    whole = [f"{head}  reason", *(f"{line}  {_cells(change)[-1]}" for line, change in told)]
    return "\n".join([*whole, "", *_summary(replay), *replay.notes, CAVEAT]) + "\n"


def _cells(step: Step) -> list[str]:
    decision, followed = step.decision, step.followed
    was = decision.current
    more = "-" if followed is None or was is None else f"{followed - was:+d}"
    counts = [_count(count) for count in (was, decision.advised, followed)]
    reason = f"{decision.reason.value}: {because(decision.reason).meaning}"
    return [instant_of(decision.at), *counts, more, reason]


def _count(count: int | None) -> str:
    return "-" if count is None else str(count)


def _summary(replay: Replay) -> list[str]:
    found = replay.summary
    return [
        f"{name}: {counts.replica_hours:.2f} replica-hours, {counts.changes} changes, "
        f"{counts.turns} turns, at most {counts.most} replicas"
        for name, counts in (("was", found.was), ("would have been", found.followed))
    ] + [f"{signal.value} above High for {found.over[signal]:g} s" for signal in Signal]


def _csv(replay: Replay) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_tick(replay.steps[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_tick, replay.steps))
    return text.getvalue()


def _tick(step: Step) -> dict[str, object]:
    decision = step.decision
    sample = decision.sample
    return {
        "time": instant_of(decision.at),
        "at": decision.at,
        "was": decision.current,
        "answered": decision.advised,
        "would_be": step.followed,
        "floor": decision.floor,
        "ceiling": decision.proven_ceiling,
        "reason": decision.reason.value,
        **{name: None if sample is None else value(sample) for name, value in _SIGNALS.items()},
    }


def _json(replay: Replay) -> str:
    found = replay.summary
    told = {
        "caveat": CAVEAT,
        "notes": list(replay.notes),
        "summary": {
            "seconds": found.seconds,
            "unseen": found.unseen,
            "unanswered": found.unanswered,
            "was": to_plain(figures(found, found.was)),
            "would_have_been": to_plain(figures(found, found.followed)),
        },
        "ticks": [to_plain(_tick(step)) for step in replay.steps],
    }
    return json.dumps(told, indent=1) + "\n"


_SIGNALS: dict[str, Callable[[Sample], float | None]] = {
    "waiting_per_replica": lambda s: s.waiting_per_replica,
    "ttft_p95": lambda s: None if s.ttft is None else s.ttft.value,
    "kv_cache": lambda s: s.kv_cache,
}


def _html(replay: Replay) -> str:
    title = f"Replay of {replay.record.namespace}/{replay.record.name}"
    cells = ([f"<td>{escape(cell)}</td>" for cell in _cells(c)] for c in replay.changes())
    rows = "\n".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    heads = "".join(f"<th>{head}</th>" for head in _HEAD)
    told = "".join(f"<p>{escape(note)}</p>" for note in (*_summary(replay), *replay.notes, CAVEAT))
    style = "body{font-family:sans-serif}td,th{padding:2px 8px;text-align:left}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{style}</style></head><body><h1>{escape(title)}</h1>{told}"
        f"{page(title, _panels(replay))}<table><tr>{heads}</tr>\n{rows}</table></body></html>\n"
    )


def _panels(replay: Replay) -> list[Panel]:
    policy = replay.policy
    blue, red, green, amber = COLOURS[:4]
    counts = Panel(
        title="replicas",
        height=220,
        lines=(
            _line(replay, "floor", lambda s: s.decision.floor, red),
            _line(replay, "ceiling", lambda s: s.decision.proven_ceiling, green),
            _line(replay, "was", lambda s: s.decision.current, blue),
            _line(replay, "would have been", lambda s: s.followed, amber),
        ),
    )
    bounds = (
        (policy.waiting_low, policy.waiting_high),
        (policy.ttft_p95_low, policy.ttft_p95_high),
        (policy.kv_cache_low, policy.kv_cache_high),
    )
    panels = [counts]
    for (name, value), (low, high) in zip(_SIGNALS.items(), bounds, strict=True):
        lines = (
            _line(replay, "High", _always(high), red),
            _line(replay, "Low", _always(low), green),
            _line(replay, name, _seen(value), blue),
        )
        panels.append(Panel(title=name, x_title="hours", height=110, lines=lines))
    return panels


def _always(value: float) -> Callable[[Step], float | None]:
    return lambda _: value


def _seen(value: Callable[[Sample], float | None]) -> Callable[[Step], float | None]:
    def of(step: Step) -> float | None:
        sample = step.decision.sample
        return None if sample is None else value(sample)

    return of


def _line(replay: Replay, label: str, value: Callable[[Step], float | None], colour: str) -> Line:
    start = replay.steps[0].decision.at
    points: list[Point | None] = []
    for step in replay.steps:
        found = value(step)
        at = (step.decision.at - start) / _HOUR
        points.append(None if found is None else (at, float(found)))
    return Line(label=label, points=points, colour=colour, steps=True)
