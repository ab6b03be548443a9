"""The demo's table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.reasons import Reason
from scaler.demo.load import Load
from scaler.demo.scene import Scene
from scaler.demo.table import HEADER, legend, text_of
from tests.demo.postings import AT, line, posting


def cells(text: str) -> list[str]:
    """Split a line where two blanks or more stand."""
    return [cell.strip() for cell in text.split("  ") if cell.strip()]


def test_a_line_shows_the_signals_the_corridor_the_count_and_the_reason() -> None:
    """Everything that a person needs in order to follow a decision stands in one line."""
    shown = posting(2, 3, Reason.SCALE_OUT_KV_CACHE, ttft=17.26, notes=(Reason.SKEWED,))
    assert cells(text_of(line("burst", 2, shown))) == [
        "15:00",
        "burst",
        "4.0",
        "46",
        "17.3 s",
        "87%",
        "2-?",
        "2 -> 3",
        "-",
        "scale-out-kv-cache (skewed)",
    ]


def test_what_is_proven_and_held_is_shown_so() -> None:
    """A known ceiling is a number, and a count that stays stands alone."""
    shown = posting(3, 3, Reason.STEADY, ceiling=4.2)
    found = cells(text_of(replace(line("calm", 3, shown), loading=2)))
    assert found[6:] == ["2-5", "3", "2", "steady"]


def test_what_nobody_knows_is_a_question_mark() -> None:
    """Before the first decision no signal is shown as zero."""
    found = cells(text_of(replace(line("calm", 2), rate=None, since=-59.0)))
    assert found == ["-0:59", "calm", "?", "?", "?", "?", "?", "2", "-", "no decision yet"]


def test_an_answer_that_is_refused_keeps_the_count_in_view() -> None:
    """Without a desired count the present one is shown alone."""
    shown = posting(4, None, Reason.SILENT_TOO_LONG)
    assert cells(text_of(line("calm", 4, shown)))[7] == "4"


def test_troubles_are_told() -> None:
    """What the source said and what KEDA got stand behind the reason."""
    shown = posting(2, 2, Reason.SOURCE_SILENT, trouble="refused")
    text = text_of(line("calm", 2, shown, trouble="UNAVAILABLE: nobody knows"))
    assert text.endswith(
        "source-silent; source: refused; KEDA got no number: UNAVAILABLE: nobody knows"
    )


@pytest.mark.parametrize("current", [2, 12])
def test_columns_stand_below_their_heads(current: int) -> None:
    """The reason, the last column, begins where its head does, however wide the numbers are."""
    shown = posting(current, current + 1, Reason.AT_MAX, ttft=76.4, ceiling=11.0)
    text = text_of(line("ramp down", current, shown))
    assert text.index("at-max") == HEADER.index("reason")


def test_the_legend_says_where_to_look() -> None:
    """It names the addresses, a command that explains the count, the speed and the length."""
    load = Load(started=AT)
    text = legend(
        Scene(),
        load,
        speed=30.0,
        http="http://127.0.0.1:8080",
        grpc="127.0.0.1:9090",
        targets="targets.json",
    )
    assert "in a browser     http://127.0.0.1:8080/\n" in text
    assert "scaler explain demo/chat --server http://127.0.0.1:8080" in text
    assert "http://127.0.0.1:8080/api/v1/workloads/demo/chat" in text
    assert "127.0.0.1:9090" in text
    assert "30 times" in text
    assert f"{load.cycle / 60:g} minutes, here {load.cycle / 30:.0f} s" in text
