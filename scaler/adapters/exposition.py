"""Reads the few families that we need out of a page of Prometheus exposition text, fast.

A fleet's pages hold hundreds of lines each, of which some tens matter, and those have the same
labels at every scrape. So the page is searched instead of parsed, and a series' labels are read
once and remembered. What it accepts is the text format 0.0.4 and, of OpenMetrics, the samples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

_Place = TypeVar("_Place")

MOST_LINES = 20_000
LONGEST_LINE = 16 * 1024
LONGEST_LEAD = 256
"""Bytes before the name at which a line is taken to begin with something else."""

_REMEMBERED_SERIES = 500_000
_LONGEST_REMEMBERED = 1024
_LONGEST_VALUE = 32
_BLANKS = b" \t"

_NAME = re.compile(rb"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*")
_LABEL = re.compile(
    rb'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(,?)[ \t]*',
    re.DOTALL,
)
_ESCAPE = re.compile(r'\\([\\n"])')


class ExpositionInvalid(Exception):
    """The page is no exposition text; the message says what is wrong and on which line."""


class Scanner(Generic[_Place]):
    """Finds the samples of wanted families in pages, whatever else stands in them.

    A wanted name is one of `prefixes` and one of `stems`. `needles` are what the page is searched
    for, the fewer the faster: each stem holds one. `place` turns a full name with its labels into
    whatever the caller keeps values by; `None` means that nobody wants the series. What it
    returned is remembered, so it must depend on nothing else.
    """

    def __init__(
        self,
        *,
        prefixes: Collection[str],
        stems: Collection[str],
        needles: Collection[str],
        place: Callable[[str, dict[str, str]], _Place | None],
    ) -> None:
        """Prepare the search. Raises ValueError where a stem holds no needle."""
        if lost := [stem for stem in stems if not any(needle in stem for needle in needles)]:
            raise ValueError(f"no needle finds {', '.join(lost)}")
        self._searches = [
            (needle.encode(), _leads(needle, prefixes, stems)) for needle in sorted(needles)
        ]
        self._place = place
        self._known: dict[bytes, _Place | None] = {}

    def scan(self, page: bytes) -> list[tuple[_Place, float]]:
        """Return the wanted samples with their values, which may be NaN or infinite.

        Timestamps and exemplars are dropped. Raises ExpositionInvalid, also where the page's last
        line has no end: then somebody cut it.
        """
        if not _is_whole(page):
            raise ExpositionInvalid(f"the page is cut off in line {_line_number(page, len(page))}")
        samples: list[tuple[_Place, float]] = []
        lines = MOST_LINES
        for needle, leads in self._searches:
            lines -= self._collect(page, needle, leads, samples, lines)
        return samples

    def _collect(
        self,
        page: bytes,
        needle: bytes,
        leads: frozenset[bytes],
        samples: list[tuple[_Place, float]],
        most: int,
    ) -> int:
        """Add the samples that one needle finds; return how many lines hold it."""
        known, find, rfind = self._known, page.find, page.rfind
        lines, at = 0, find(needle)
        while at >= 0:
            lines += 1
            if lines > most:
                raise ExpositionInvalid(f"over {MOST_LINES} lines name vLLM's metrics")
            start = rfind(b"\n", max(0, at - LONGEST_LEAD), at) + 1
            end = find(b"\n", at)
            if (start or at <= LONGEST_LEAD) and page[start:at].lstrip(_BLANKS) in leads:
                series = page[start : rfind(b"}", at, end) + 1]
                rest = page[start + len(series) : end]
                try:
                    place = known[series]
                    if b"_" in rest or len(rest) > _LONGEST_VALUE:
                        raise ValueError  # noqa: TRY301 - for the careful way
                    value = float(rest)
                except (KeyError, ValueError):
                    place, value = self._read(page, start, end)
                if place is not None:
                    samples.append((place, value))
            at = find(needle, end)
        return lines

    def _read(self, page: bytes, start: int, end: int) -> tuple[_Place | None, float]:
        """Read one line in full, and remember its series."""
        line = page[start:end]
        try:
            name, labels, length = _series(line)
            place = self._place(name, labels)
            value = _value(line[length:]) if place is not None else 0.0
        except (ExpositionInvalid, UnicodeDecodeError) as error:
            fault = error if isinstance(error, ExpositionInvalid) else "no UTF-8"
            where = _line_number(page, start)
            raise ExpositionInvalid(f"line {where} is no sample: {fault}") from error
        if line[:length].endswith(b"}") and length <= _LONGEST_REMEMBERED:
            if len(self._known) >= _REMEMBERED_SERIES:
                self._known.clear()
            self._known[line[:length]] = place
        return place, value


def _leads(needle: str, prefixes: Collection[str], stems: Collection[str]) -> frozenset[bytes]:
    """Return what may stand before the needle where it lies in a wanted name."""
    return frozenset(
        (prefix + stem.partition(needle)[0]).encode()
        for prefix in prefixes
        for stem in stems
        if needle in stem
    )


def _series(line: bytes) -> tuple[str, dict[str, str], int]:
    """Read a line's name and labels, and where they end."""
    if len(line) > LONGEST_LINE:
        raise ExpositionInvalid(f"it has over {LONGEST_LINE} bytes")
    named = _NAME.match(line)
    if named is None:
        raise ExpositionInvalid("it begins with no metric name")
    name, at = named[1].decode(), named.end()
    labels: dict[str, str] = {}
    if line[at : at + 1] != b"{":
        return name, labels, named.end(1)
    at += 1
    separated = True
    while (label := _LABEL.match(line, at)) is not None and separated:
        key = label[1].decode()
        if key in labels:
            raise ExpositionInvalid(f"label {key} stands in it twice")
        labels[key] = _ESCAPE.sub(_unescaped, label[2].decode())
        separated, at = bool(label[3]), label.end()
    at += len(line) - at - len(line[at:].lstrip(_BLANKS))
    if line[at : at + 1] != b"}":
        raise ExpositionInvalid("its labels do not end")
    return name, labels, at + 1


def _is_whole(page: bytes) -> bool:
    """Say whether nobody cut the page's last line; OpenMetrics' own end needs no line feed."""
    return not page or page.endswith(b"\n") or page[-8:].strip(_BLANKS).endswith(b"\n# EOF")


def _value(rest: bytes) -> float:
    """Read what follows the labels: a value, perhaps a timestamp, perhaps an exemplar."""
    words = rest.partition(b"#")[0].split()
    try:
        if not words or len(words) > 2 or b"_" in rest:  # noqa: PLR2004 - value and timestamp
            raise ValueError  # noqa: TRY301 - told below
        value, *_ = map(float, words)
    except ValueError as error:
        said = rest[:40].decode("utf-8", "replace").strip()
        raise ExpositionInvalid(f'"{said}" is no value') from error
    return value


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]


def _line_number(page: bytes, at: int) -> int:
    return page.count(b"\n", 0, at) + 1
