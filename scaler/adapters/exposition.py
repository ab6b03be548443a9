"""Reads the few families that we need out of a page of Prometheus exposition text, fast.

A page of an engine holds hundreds of lines, of which some tens matter, and those have the same
labels at every scrape. So lines are picked by how they begin, and a series' labels are read once
and remembered. What is accepted is the text format 0.0.4 and, of OpenMetrics, the samples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

_Place = TypeVar("_Place")

MOST_LINES = 500_000
MOST_SAMPLES = 20_000
LONGEST_LINE = 16 * 1024

MOST_REMEMBERED_BYTES = 64 * 2**20
"""Of series' names and labels: those of five thousand engines with room to spare."""

_LONGEST_REMEMBERED = 1024
_LONGEST_VALUE = 32
_HEAD = 14
_BLANKS = b" \t"

_NAME = re.compile(rb"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*")
_LABEL = re.compile(
    rb'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(,?)[ \t]*'
)
_ESCAPE = re.compile(r'\\([\\n"])')


class ExpositionInvalid(Exception):
    """The page is no exposition text; the message says what is wrong and in which line."""


class Scanner(Generic[_Place]):
    """Finds the samples of wanted families in pages, whatever else stands in them.

    `names` are the full names of wanted samples. `place` turns one of them with its labels into
    whatever the caller keeps values by; `None` means that nobody wants this series. What it
    returned is remembered, so it must depend on nothing else.
    """

    def __init__(
        self, names: Collection[str], place: Callable[[str, dict[str, str]], _Place | None]
    ) -> None:
        """Prepare the search."""
        self._names = frozenset(name.encode() for name in names)
        self._width = min(_HEAD, *map(len, self._names))
        # Blanks may stand before a name; a line that begins with nothing else is looked at, too.
        self._heads = frozenset(
            (b" " * blanks + name)[: self._width]
            for name in self._names
            for blanks in range(self._width + 1)
        )
        self._place = place
        self._known: dict[bytes, _Place | None] = {}
        self.remembered_bytes = 0

    def scan(self, page: bytes) -> list[tuple[_Place, float]]:
        """Return the wanted samples with their values, which may be NaN or infinite.

        Timestamps and exemplars are dropped. Raises ExpositionInvalid, also where the page's last
        line has no end: then somebody cut it.
        """
        if page[:512].lstrip()[:1] == b"<":
            raise ExpositionInvalid("the page is HTML or XML, not metrics: is the path right?")
        known = self._known
        samples: list[tuple[_Place, float]] = []
        for line in self._candidates(page):
            series, _, rest = line.rpartition(b"}")
            try:
                place = known[series]
                value = _value(rest) if b"_" in rest or len(rest) > _LONGEST_VALUE else float(rest)
            except (KeyError, ValueError, ExpositionInvalid):
                place, value = self._read(page, line)
            if place is not None:
                samples.append((place, value))
        return samples

    def _candidates(self, page: bytes) -> list[bytes]:
        """Pick the lines that begin as a wanted one does."""
        lines = page.split(b"\n", MOST_LINES)
        if b"\n" in lines[-1]:
            raise ExpositionInvalid(f"the page has over {MOST_LINES} lines")
        if lines[-1].strip(_BLANKS) not in (b"", b"# EOF"):
            raise ExpositionInvalid(f"the page is cut off in line {len(lines)}")
        if b"\t" in page:
            lines = [line.lstrip(_BLANKS) for line in lines]
        heads, width = self._heads, self._width
        found = [line for line in lines if line[:width] in heads]
        if len(found) > MOST_SAMPLES:
            raise ExpositionInvalid(f"the page has over {MOST_SAMPLES} samples of vLLM's metrics")
        return found

    def _read(self, page: bytes, line: bytes) -> tuple[_Place | None, float]:
        """Read one line in full, and remember its series."""
        try:
            if len(line) > LONGEST_LINE:
                raise ExpositionInvalid(f"it has over {LONGEST_LINE} bytes")  # noqa: TRY301
            named = _NAME.match(line)
            if named is None or named[1] not in self._names:
                self._remember(line.rpartition(b"}")[0], None)
                return None, 0.0
            labels, end = _labels(line, named.end())
            place = self._place(named[1].decode(), labels)
            value = _value(line[end:])
        except (ExpositionInvalid, UnicodeDecodeError) as error:
            fault = error if isinstance(error, ExpositionInvalid) else "it is no UTF-8"
            where = _number_of(line, page)
            raise ExpositionInvalid(f"line {where} is no sample: {fault}") from error
        if line[end - 1 : end] == b"}":
            self._remember(line[: end - 1], place)
        return place, value

    def _remember(self, series: bytes, place: _Place | None) -> None:
        if not series or len(series) > _LONGEST_REMEMBERED:
            return
        if self.remembered_bytes + len(series) > MOST_REMEMBERED_BYTES:
            self._known.clear()
            self.remembered_bytes = 0
        self._known[series] = place
        self.remembered_bytes += len(series)


def _number_of(line: bytes, page: bytes) -> int:
    wanted = line.lstrip(_BLANKS)
    lines = enumerate(page.split(b"\n"), start=1)
    return next(number for number, found in lines if found.lstrip(_BLANKS) == wanted)


def _labels(line: bytes, at: int) -> tuple[dict[str, str], int]:
    """Read the labels that begin at `at`, if any do, and say where they end."""
    labels: dict[str, str] = {}
    if line[at : at + 1] != b"{":
        if line[at - 1 : at] not in (b" ", b"\t"):
            raise ExpositionInvalid("neither labels nor a blank follow its name")
        return labels, at
    at += 1
    label = _LABEL.match(line, at)
    while label is not None:
        name = label[1].decode()
        if name in labels:
            raise ExpositionInvalid(f"label {name} stands in it twice")
        labels[name] = _ESCAPE.sub(_unescaped, label[2].decode())
        at = label.end()
        label = _LABEL.match(line, at) if label[3] else None
    at = len(line) - len(line[at:].lstrip(_BLANKS))
    if line[at : at + 1] != b"}":
        raise ExpositionInvalid("its labels do not end")
    return labels, at + 1


def _value(rest: bytes) -> float:
    """Read what follows the labels: a value, perhaps a timestamp, perhaps an exemplar."""
    words = rest.partition(b"#")[0].split()
    try:
        if len(words) not in (1, 2) or b"_" in rest.partition(b"#")[0]:
            raise ValueError  # noqa: TRY301 - told below
        value, *_ = [float(word) for word in words]
    except ValueError as error:
        said = rest[:40].decode("utf-8", "replace").strip()
        raise ExpositionInvalid(f'"{said}" is no value') from error
    return value


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]
