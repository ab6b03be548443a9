"""Reads the event stream of one answer: tokens, errors, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from scaler.adapters.fates import (
    ABORTED,
    MALFORMED,
    NO_END,
    NO_TOKEN,
    SERVED,
    Fate,
    Seen,
    failed,
)
from scaler.core.units import Seconds

_LARGEST_EVENT = 1 << 20
_LONGEST_MESSAGE = 300
_DONE = "[DONE]"
_TEXTS = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")
"""Parts of a chat's delta that hold tokens; the first delta of many servers holds a role only."""


class StreamInvalid(Exception):
    """Bytes that are no stream of events."""


class Event(NamedTuple):
    """One server-sent event."""

    name: str
    data: str


class EventReader:
    """Cuts bytes into events, whatever the sizes of the pieces that they come in.

    As the standard has it: https://html.spec.whatwg.org/multipage/server-sent-events.html. Lines
    end in LF, CRLF or CR; comments and unknown fields mean nothing.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._after_cr = False
        self._begun = False
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Give the events that end in this piece. Raises StreamInvalid."""
        if self._after_cr and piece:
            # The LF of a CRLF whose CR ended the piece before.
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if b"\n" in piece or b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            lines = (bytes(self._rest) + piece).splitlines(keepends=True)
            self._rest = bytearray(b"" if lines[-1].endswith((b"\n", b"\r")) else lines.pop())
            for line in lines:
                event = self._line(line.rstrip(b"\r\n"))
                if event is not None:
                    yield event
        else:
            self._rest += piece
        self._check(len(self._rest))

    def _line(self, raw: bytes) -> Event | None:
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise StreamInvalid("a line is not UTF-8") from error
        if not self._begun:
            line = line.removeprefix("\ufeff")
            self._begun = True
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(value)
            self._check(0)
        elif field == "event":
            self._name = value
        return None

    def _check(self, more: int) -> None:
        if self._size + more > _LARGEST_EVENT:
            raise StreamInvalid(f"an event has more than {_LARGEST_EVENT} bytes")

    def _dispatch(self) -> Event | None:
        event = Event(self._name, "\n".join(self._data))
        self._name, self._data, self._size = "", [], 0
        return event if event.data else None


class AnswerStream:
    """Follows one answer and writes what it sees; `hide` takes secrets out of messages."""

    def __init__(self, seen: Seen, hide: Callable[[str], str]) -> None:
        self._seen = seen
        self._hide = hide
        self._reader = EventReader()
        self._error: tuple[int | None] | None = None
        self._malformed = False
        self._done = False
        self._last_choice_at: Seconds | None = None

    @property
    def over(self) -> bool:
        """Say whether reading on can change nothing: `[DONE]`, an error, or no stream at all."""
        return self._done or self._malformed or self._error is not None

    def feed(self, piece: bytes, at: Seconds) -> None:
        """Read a piece that came at a time."""
        try:
            for event in self._reader.feed(piece):
                self._event(event, at)
                if self.over:
                    return
        except StreamInvalid:
            self._malformed = True

    def fate(self, broken: Fate | None = None) -> Fate:
        """Say how the answer ended, now that it has; `broken` is how its connection did."""
        seen = self._seen
        if seen.first_token_at is None and seen.output:
            # Tokens without text: half of a character, or a special one.
            seen.first_token_at = seen.last_token_at = self._last_choice_at
        begun = seen.first_token_at is not None
        if self._error is not None:
            return failed(self._error[0], begun=begun)
        if self._malformed:
            return MALFORMED
        # Some servers leave `[DONE]` out; a reason to finish and an orderly end say the same.
        if not self._done and (broken is not None or seen.finish is None):
            return broken or NO_END
        if seen.finish in {"abort", "error"}:
            return ABORTED
        return SERVED if begun else NO_TOKEN

    def _event(self, event: Event, at: Seconds) -> None:
        if event.data.strip() == _DONE:
            self._done = True
            return
        try:
            read = json.loads(event.data)
        except ValueError:
            read = None
        if event.name == "error" or _is_error(read):
            self._error = self._error or (_code(read),)
            self._seen.message = message_of(read, self._hide)
        elif isinstance(read, dict):
            self._chunk(read, at)
        else:
            self._malformed = True

    def _chunk(self, chunk: dict[str, Any], at: Seconds) -> None:
        seen, usage, choices = self._seen, chunk.get("usage"), chunk.get("choices")
        if isinstance(usage, dict):
            seen.prompt = _count(usage.get("prompt_tokens"), seen.prompt)
            seen.output = _count(usage.get("completion_tokens"), seen.output)
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        choice = choices[0]
        self._last_choice_at = at
        if isinstance(choice.get("finish_reason"), str):
            seen.finish = choice["finish_reason"]
        if _has_tokens(choice):
            seen.chunks += 1
            seen.last_token_at = at
            if seen.first_token_at is None:
                seen.first_token_at = at


def _has_tokens(choice: dict[str, Any]) -> bool:
    if "text" in choice:
        # An engine that streams token by token sends "" for a token that completes no character.
        return bool(choice["text"]) or choice.get("finish_reason") is None
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    if any(delta.get(name) for name in _TEXTS):
        return True
    return delta.get("content") == "" and "role" not in delta and not choice.get("finish_reason")


def _is_error(read: Any) -> bool:
    return isinstance(read, dict) and (bool(read.get("error")) or read.get("object") == "error")


def _stated(read: Any) -> dict[str, Any]:
    """Return the object that holds an error's code and message: the inner or the outer one."""
    if not isinstance(read, dict):
        return {}
    inner = read.get("error")
    return inner if isinstance(inner, dict) else read


def _code(read: Any) -> int | None:
    code = _stated(read).get("code")
    if isinstance(code, str) and code.isdecimal():
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def message_of(read: Any, hide: Callable[[str], str]) -> str:
    """Return an error's message on one printable line; "" where there is none."""
    stated = _stated(read)
    text = next((stated[key] for key in ("message", "error", "detail") if stated.get(key)), "")
    # Hidden before it is cut: half a secret is one too.
    line = " ".join(hide(str(text))[: 4 * _LONGEST_MESSAGE].split())
    return "".join(char for char in line if char.isprintable())[:_LONGEST_MESSAGE]


def _count(value: Any, known: int | None) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if good else known
