"""An explanation as text for a terminal and as plain data for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TypeAlias

from scaler.core.explain import Because, Explained, Sustained
from scaler.core.numbers import number, seconds

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


def to_plain(value: object) -> Plain:
    """Turn dataclasses into what JSON can hold; what is not finite becomes None, as unknown is."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return to_plain(value.value)
    if isinstance(value, tuple | list | frozenset):
        ordered = sorted(value) if isinstance(value, frozenset) else value
        return [to_plain(item) for item in ordered]
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"{type(value).__name__} has no plain form")


def to_text(explained: Explained) -> str:
    """Write an explanation for a person in front of a terminal."""
    return "\n".join(_lines(explained)) + "\n"


def time_of(at: float) -> str:
    """Write an instant, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def instant_of(at: float) -> str:
    """Write an instant as commands take it: RFC 3339."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _lines(e: Explained) -> Iterator[str]:
    yield f"{e.namespace}/{e.name}  (trigger {e.trigger}, {time_of(e.at)})"
    yield f"  {e.summary}"
    yield from _because("reason", e.because)
    for note in e.notes:
        yield from _because("also", note)
    if e.trouble:
        yield f"  source   {e.trouble}"
    if e.fault:
        yield f"  config   {e.fault}"
    yield ""
    yield f"  corridor {_corridor(e)}"
    yield f"  active   {'not known' if e.active is None else 'yes' if e.active else 'no'}"
    if e.fleet is not None:
        yield (
            f"  replicas {e.fleet.serving} serving, {e.fleet.loading} loading, "
            f"{e.fleet.unseen} unseen, {e.fleet.overdue} overdue, {e.fleet.stalled} stalled, "
            f"{e.fleet.asleep} asleep; "
            f"{number(e.fleet.running)} requests running, {number(e.fleet.waiting)} waiting"
        )
    if e.silent_for:
        yield f"  silent   for {seconds(e.silent_for)}"
    yield from _signals(e)
    yield from _sustained(e)
    yield from _list("learned", e.learned.sentences if e.learned is not None else ())
    yield from _list("what would change the answer", e.would_change)


def _because(word: str, because: Because) -> Iterator[str]:
    yield f"  {word:<8} {because.reason.value}: {because.meaning}"
    yield f"           {because.cure}"


def _corridor(e: Explained) -> str:
    if e.floor is None:
        return "not known"
    floor = f"at least {e.floor}"
    if e.floor_because is not None:
        floor += f" ({e.floor_because.value})"
    ceiling = f"at most {e.ceiling}" if e.ceiling is not None else "no ceiling proven"
    if e.ceiling_because is not None:
        ceiling += f" ({e.ceiling_because.value})"
    return f"{floor}, {ceiling}"


def _signals(e: Explained) -> Iterator[str]:
    if e.signals:
        yield ""
        yield "  signals"
    for signal in e.signals:
        unused = "" if signal.in_use else " (not in use)"
        yield f"    {signal.signal.value:<9}{signal.sentence}{unused}"
        for row in signal.rows:
            yield f"             {row.sentence}"


def _sustained(e: Explained) -> Iterator[str]:
    rows = [("overload", e.overload), ("calm", e.calm)]
    known = [(word, held) for word, held in rows if held is not None]
    if known:
        yield ""
        yield "  sustained"
    for word, held in known:
        yield f"    {word:<9}{_held(held)}"


def _held(held: Sustained) -> str:
    seen = f"{held.samples} of {held.ticks} samples seen"
    return f"for {seconds(held.held_for)} of {seconds(held.needed)}, {seen}"


def _list(title: str, sentences: tuple[str, ...]) -> Iterator[str]:
    if sentences:
        yield ""
        yield f"  {title}"
    for sentence in sentences:
        yield f"    {sentence}"
