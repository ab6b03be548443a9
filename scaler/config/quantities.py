"""Reads durations, numbers, counts, fractions, names and lists as users write them."""

from __future__ import annotations

import re
from collections.abc import Callable

from scaler.config.faults import Unreadable, nearest
from scaler.core.policy import Mode, Signal
from scaler.core.units import Seconds

_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15}")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%?")
_WHOLE = re.compile(r"[0-9]{1,15}")
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(
    "".join(rf"(?:(?P<{unit}>[0-9]{{1,9}}(?:\.[0-9]{{1,9}})?){unit})?" for unit in _UNITS)
)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LONGEST_MODEL_NAME = 512

MINUTE: Seconds = 60.0
HOUR: Seconds = 3600.0
DAY: Seconds = 86400.0


def written(seconds: Seconds) -> str:
    """Write a span as users do: `90s`, `10m`, `1h30m`, `500ms`."""
    if seconds < 1 and seconds > 0:
        return f"{seconds * 1000:g}ms"
    if seconds < MINUTE or seconds % 1:
        return f"{seconds:g}s"
    hours, rest = divmod(int(seconds), int(HOUR))
    minutes, left = divmod(rest, int(MINUTE))
    parts = ((hours, "h"), (minutes, "m"), (left, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)


def duration(text: str) -> Seconds:
    """Read `90` (seconds), `500ms`, `2.5s`, `10m`, `1h30m`. Raises Unreadable."""
    if _NUMBER.fullmatch(text):
        return float(text)
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise Unreadable("is not a duration", "write 90s, 500ms, 10m or 1h30m")
    return sum(float(match[unit]) * size for unit, size in _UNITS.items() if match[unit])


def span(lowest: Seconds, highest: Seconds, why: str = "") -> Callable[[str], Seconds]:
    """Return a reader of durations within [lowest, highest]; `why` explains the lower bound."""

    def read(text: str) -> Seconds:
        seconds = duration(text)
        if seconds < lowest:
            raise Unreadable(f"is too short{why}", f"write {written(lowest)} or more")
        if seconds > highest:
            raise Unreadable("is too long", f"write {written(highest)} or less")
        return seconds

    return read


def latency(text: str) -> Seconds:
    """Read a latency above zero, at most an hour. Raises Unreadable."""
    seconds = duration(text)
    if seconds <= 0:
        raise Unreadable("is not above zero", "write seconds or a duration, such as 2s or 500ms")
    if seconds > HOUR:
        raise Unreadable("is too long", "write seconds or a duration, such as 2s or 500ms")
    return seconds


def number(text: str) -> float:
    """Read a plain number of zero or more, at most a million. Raises Unreadable."""
    if not _NUMBER.fullmatch(text) or text == ".":
        raise Unreadable("is not a number", "write a plain number such as 5 or 0.5")
    value = float(text)
    if value > 1e6:  # noqa: PLR2004 - said in the message
        raise Unreadable("is above a million", "write requests per replica, such as 5")
    return value


def number_above_zero(text: str) -> float:
    """Read a plain number above zero. Raises Unreadable."""
    value = number(text)
    if value <= 0:
        raise Unreadable("is not above zero", "write a plain number such as 5 or 0.5")
    return value


def count(text: str) -> float:
    """Read a whole number from 1 to 100,000. Raises Unreadable."""
    if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= 100_000:  # noqa: PLR2004
        raise Unreadable("is not a count", "write a whole number such as 256, from 1 to 100000")
    return float(text)


def fraction(text: str) -> float:
    """Read a fraction above 0 and up to 1; percent is refused with a hint. Raises Unreadable."""
    value = _fraction(text)
    if value <= 0:
        raise Unreadable("is not above zero", "write a fraction of 1, such as 0.85")
    return value


def share_to_keep(text: str) -> float:
    """Read a share from 0 up to, not including, 1. Raises Unreadable."""
    value = _fraction(text)
    if value >= 1:
        raise Unreadable("leaves nothing to use", "write a fraction below 1, such as 0.5")
    return value


def _fraction(text: str) -> float:
    if _NUMBER.fullmatch(text) and float(text) <= 1:
        return float(text)
    percent = _PERCENT.fullmatch(text.replace(",", "."))
    if percent is None or float(percent[1]) > 100:  # noqa: PLR2004 - percent
        raise Unreadable("is not a fraction", "write a fraction from 0 to 1, such as 0.85")
    if "," in text and float(percent[1]) <= 1:
        raise Unreadable("has a comma", f"write {float(percent[1]):g}")
    raise Unreadable(
        "is a percentage, not a fraction from 0 to 1", f"write {float(percent[1]) / 100:.6g}"
    )


def signals(text: str) -> frozenset[Signal]:
    """Read a list of signals, `waiting,kvCache`. Raises Unreadable."""
    known = [str(signal) for signal in Signal]
    found: set[Signal] = set()
    for word in (part.strip() for part in text.split(",")):
        if word not in known:
            near = nearest(word, known)
            cure = f"did you mean {near}?" if near else f"write some of {','.join(known)}"
            raise Unreadable(f"names {word[:40]!r}, which is no signal", cure)
        if Signal(word) in found:
            raise Unreadable(f"names {word} twice", "name each signal once")
        found.add(Signal(word))
    return frozenset(found)


def mode(text: str) -> Mode:
    """Read `act` or `advise`. Raises Unreadable."""
    if text not in set(Mode):
        raise Unreadable("is no mode", "write act or advise")
    return Mode(text)


def source_name(text: str) -> str:
    """Read the name of a source; an address is refused. Raises Unreadable."""
    if "/" in text or ":" in text:
        raise Unreadable(
            "is not a name: a trigger cannot give an address",
            "name a source of the server's configuration",
        )
    return _named(text)


def profile_name(text: str) -> str:
    """Read the name of a profile. Raises Unreadable."""
    return _named(text)


def _named(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise Unreadable(
            "is not a name", "write up to 63 letters, digits, dots, dashes and underscores"
        )
    return text


def model_name(text: str) -> str:
    """Read the value of the label `model_name`, taken literally. Raises Unreadable."""
    if len(text) > _LONGEST_MODEL_NAME or not text.isprintable():
        raise Unreadable(
            "is not a model's name", "write the value of the engine's label model_name"
        )
    return text
