"""Reading the event stream of an answer: its bytes, its tokens, and how it ended."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.fates import RESET, Seen
from scaler.adapters.openai_stream import AnswerStream, Event, EventReader, StreamInvalid
from scaler.simulation.requests import Ending
from tests.adapters.openai.fake_server import DONE, delta, event, token, usage

AT = 100.0
ROLE = event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
BUSY = event({"error": {"message": "no room", "code": 503}})
BROKEN = event({"error": {"message": "died", "code": 500}})


def events(*pieces: bytes) -> list[Event]:
    """Read pieces to their end."""
    reader = EventReader()
    return [found for piece in pieces for found in reader.feed(piece)]


def read(*pieces: bytes) -> tuple[Seen, AnswerStream]:
    """Read an answer whose pieces come a second apart."""
    seen = Seen()
    stream = AnswerStream(seen, lambda text: text.replace("hunter2", "***"))
    for number, piece in enumerate(pieces):
        if not stream.over:
            stream.feed(piece, AT + number)
    return seen, stream


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"data: one\n\n", [("", "one")]),
        (b"data:one\n\n", [("", "one")]),
        (b"data:  one\n\n", [("", " one")]),
        (b"data: a\ndata: b\n\n", [("", "a\nb")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [("", "a"), ("", "b")]),
        (b"data: a\r\rdata: b\r\r", [("", "a"), ("", "b")]),
        (b"event: error\ndata: x\n\ndata: y\n\n", [("error", "x"), ("", "y")]),
        (b": keep-alive\n\ndata: x\n\n", [("", "x")]),
        (b"id: 7\nretry: 10\ndata: x\n\n", [("", "x")]),
        (b"data\n\n", []),
        (b"data:\n\n", []),
        (b"event: error\n\ndata: x\n\n", [("", "x")]),
        (b"\n\n\n", []),
        (b"data: cut off", []),
        (b"data: cut off\n", []),
        ("\ufeffdata: x\n\n".encode(), [("", "x")]),
        ("data: x\n\n\ufeffdata: y\n\n".encode(), [("", "x")]),
        ("data: grün 🚀\u2028\n\n".encode(), [("", "grün 🚀\u2028")]),
        (b"", []),
    ],
)
def test_events_are_those_of_the_standard(raw: bytes, found: list[tuple[str, str]]) -> None:
    """Fields, line ends, comments, byte-order marks and what is cut off."""
    assert events(raw) == found
    # And the same a byte at a time.
    assert events(*(bytes([byte]) for byte in raw)) == found


LINES = st.sampled_from(
    [
        "data: x",
        "data: grün 🚀",
        "data",
        "data:",
        ": no",
        "event: error",
        "",
        "id: 1",
        "\ufeffdata: y",
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n", "\r"])), max_size=12).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


@given(STREAMS | st.binary(max_size=60), st.lists(st.integers(0, 200), max_size=10))
def test_any_chunking_gives_the_same_events(raw: bytes, cuts: list[int]) -> None:
    """Where a stream is cut, inside of characters and line ends too, changes nothing."""
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    pieces = [raw[a:b] for a, b in pairwise(places)]
    try:
        whole: list[Event] | None = events(raw)
    except StreamInvalid:
        whole = None
    try:
        cut: list[Event] | None = events(*pieces)
    except StreamInvalid:
        cut = None
    assert cut == whole


@pytest.mark.parametrize(
    "raw",
    [b"data: \xff\n\n", b"data: " + b"x" * ((1 << 20) + 1) + b"\n\n", b"x" * ((1 << 20) + 1)],
    ids=["not-utf-8", "long-event", "long-line"],
)
def test_what_is_no_stream_is_said_to_be_none(raw: bytes) -> None:
    """Bytes that are no text, and events without an end, do not fill the memory."""
    with pytest.raises(StreamInvalid):
        events(raw, b"data: x" * 2)


def test_many_short_lines_of_one_event_are_limited_too() -> None:
    """An event is as long as all its lines."""
    with pytest.raises(StreamInvalid, match="more than"):
        events(*[b"data: " + b"x" * 1000 + b"\n"] * 2000)


@pytest.mark.parametrize(
    ("pieces", "ending", "kind"),
    [
        ([token(), token("y", "length"), DONE], Ending.SERVED, "served"),
        ([delta(), delta("", "stop"), DONE], Ending.SERVED, "served"),
        ([token(), token("", "stop")], Ending.SERVED, "served"),
        ([token(), token()], Ending.CUT_OFF, "no_end"),
        ([token(), b"data: {"], Ending.CUT_OFF, "no_end"),
        ([], Ending.CUT_OFF, "no_end"),
        ([DONE], Ending.CUT_OFF, "no_token"),
        ([ROLE, DONE], Ending.CUT_OFF, "no_token"),
        ([token("", "stop"), DONE], Ending.CUT_OFF, "no_token"),
        ([token(), token("", "abort"), DONE], Ending.CUT_OFF, "aborted"),
        ([BUSY, DONE], Ending.REJECTED, "error_event_503"),
        ([token(), BUSY], Ending.CUT_OFF, "error_event_503"),
        ([BROKEN], Ending.CUT_OFF, "error_event_500"),
        ([event({"error": "words only"})], Ending.CUT_OFF, "error_event_unknown"),
        ([event({"object": "error", "code": 429})], Ending.REJECTED, "error_event_429"),
        ([b"event: error\ndata: no JSON\n\n"], Ending.CUT_OFF, "error_event_unknown"),
        ([token(), b"data: no JSON\n\n", DONE], Ending.CUT_OFF, "malformed"),
        ([b"data: [1]\n\n", DONE], Ending.CUT_OFF, "malformed"),
        ([b"data: \xff\n\n"], Ending.CUT_OFF, "malformed"),
        ([event({"choices": None}), event({"choices": [3]}), DONE], Ending.CUT_OFF, "no_token"),
    ],
)
def test_each_stream_ends_in_one_way(pieces: list[bytes], ending: Ending, kind: str) -> None:
    """What was served, rejected and cut off, and the finer kind."""
    _, stream = read(*pieces)
    fate = stream.fate()
    assert (fate.ending, fate.kind) == (ending, kind)


def test_a_reset_cuts_off_even_a_finished_text() -> None:
    """Without `[DONE]` and with a broken connection nobody knows that it was all."""
    _, stream = read(token(), token("", "stop"))
    assert stream.fate(broken=RESET) is RESET
    _, done = read(token(), token("", "stop"), DONE)
    assert done.fate(broken=RESET).ending is Ending.SERVED


@pytest.mark.parametrize(
    ("pieces", "first", "last", "chunks"),
    [
        ([ROLE, delta("a"), delta("b"), delta("", "stop"), usage(1, 2), DONE], 1, 2, 2),
        ([token(""), token("ü"), token("", "stop"), DONE], 0, 1, 2),
        ([event({"choices": [{"delta": {"reasoning_content": "hm"}}]}), DONE], 0, 0, 1),
        ([event({"choices": [{"delta": {"tool_calls": [{}]}}]}), DONE], 0, 0, 1),
        ([ROLE, delta(""), delta("🚀"), DONE], 1, 2, 2),
        ([token("a") + token("b"), DONE], 0, 0, 2),
    ],
)
def test_tokens_are_timed(pieces: list[bytes], first: int, last: int, chunks: int) -> None:
    """Role, usage and final pieces are no tokens; half of a character is one."""
    seen, _ = read(*pieces)
    assert (seen.first_token_at, seen.last_token_at) == (AT + first, AT + last)
    assert seen.chunks == chunks


def test_tokens_without_text_are_timed_by_what_carried_them() -> None:
    """The server counted tokens but showed none: the piece with the choice is their time."""
    seen, stream = read(ROLE, delta("", "length"), usage(4, 3), DONE)
    assert stream.fate().ending is Ending.SERVED
    assert seen.first_token_at == AT + 1


@pytest.mark.parametrize(
    ("pieces", "asked", "tokens"),
    [
        ([token(), usage(7, 5), DONE], 9, 5),
        ([token(), token("y", "length"), DONE], 9, 9),
        ([token(), token("y", "stop"), DONE], 9, 2),
        ([token(), event({"usage": {"completion_tokens": True}}), DONE], 9, 1),
        ([token(), event({"usage": {"completion_tokens": -1}}), DONE], 9, 1),
        ([token(), event({"usage": None}), DONE], 9, 1),
    ],
)
def test_tokens_are_counted_by_the_best_evidence(
    pieces: list[bytes], asked: int, tokens: int
) -> None:
    """The server's count, else the whole length where that ended it, else the pieces."""
    assert read(*pieces)[0].tokens(asked) == tokens


def test_a_message_holds_no_secret_and_fits_a_line() -> None:
    """The server's words are shown once hidden, cut and printable."""
    told = "key hunter2\nwas\x1b[31m wrong " + "x" * 1000
    seen, _ = read(event({"error": {"message": told}}))
    assert seen.message.startswith("key *** was[31m wrong xxx")
    assert len(seen.message) == 300


def test_an_error_ends_the_reading() -> None:
    """Nothing after it can change what happened."""
    assert read(BUSY)[1].over
    assert not read(token())[1].over


KEYS = st.sampled_from(["choices", "usage", "error", "delta", "text", "finish_reason", "code"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(ANY_JSON)
def test_no_json_breaks_the_reading(value: object) -> None:
    """Whatever a server writes is an answer that ended in some way."""
    _, stream = read(b"data: " + json.dumps(value).encode() + b"\n\n", DONE)
    assert stream.fate().ending is not None
