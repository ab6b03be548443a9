"""Durations, numbers, fractions, names and lists are read as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.config import quantities
from scaler.config.faults import Unreadable
from scaler.core.policy import Mode, Signal


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("0", 0.0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("500ms", 0.5),
        ("2s", 2.0),
        ("2.5s", 2.5),
        ("10m", 600.0),
        ("1h", 3600.0),
        ("1h30m", 5400.0),
        ("1d", 86400.0),
        ("1m30s500ms", 90.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    """A bare number is seconds; units go from large to small."""
    assert quantities.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ten minutes",
        "-5m",
        "+5m",
        "5 m",
        "30m1h",
        "1m1m",
        "1e3",
        "nan",
        "inf",
        "5M",
        "5us",
        "\u0665s",
    ],
)
def test_what_is_no_duration(text: str) -> None:
    """Anything else is refused with examples."""
    with pytest.raises(Unreadable, match="90s, 500ms, 10m or 1h30m"):
        quantities.duration(text)


@given(seconds=st.integers(min_value=1, max_value=86400 * 3))
def test_a_written_duration_reads_back(seconds: int) -> None:
    """What messages show can be pasted."""
    assert quantities.duration(quantities.written(float(seconds))) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (15.0, "15s"),
        (60.0, "1m"),
        (90.0, "1m30s"),
        (5400.0, "1h30m"),
        (0.25, "250ms"),
        (2.5, "2.5s"),
    ],
)
def test_durations_are_written_shortly(seconds: float, text: str) -> None:
    """As users write them."""
    assert quantities.written(seconds) == text


@pytest.mark.parametrize(
    ("text", "ok"), [("15", True), ("14.999", False), ("60", True), ("61", False)]
)
def test_a_span_has_closed_bounds(text: str, ok: bool) -> None:  # noqa: FBT001
    """Exactly the bound is inside."""
    read = quantities.span(15.0, 60.0)
    if ok:
        assert read(text) == float(text)
    else:
        with pytest.raises(Unreadable):
            read(text)


@pytest.mark.parametrize(("text", "value"), [("0.85", 0.85), ("1", 1.0), ("1.0", 1.0), (".6", 0.6)])
def test_fractions(text: str, value: float) -> None:
    """A fraction is above 0, up to 1."""
    assert quantities.fraction(text) == value


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("85", "write 0.85"),
        ("85%", "write 0.85"),
        ("8.5 %", "write 0.085"),
        ("1%", "write 0.01"),
        ("0,85", "write 0.85"),
        ("100", "write 1"),
        ("101", "from 0 to 1"),
        ("0", "such as 0.85"),
        ("-0.1", "from 0 to 1"),
        ("nan", "from 0 to 1"),
        ("", "from 0 to 1"),
    ],
)
def test_what_is_no_fraction(text: str, hint: str) -> None:
    """A percentage is answered with the fraction that was meant."""
    with pytest.raises(Unreadable) as refused:
        quantities.fraction(text)
    assert hint in refused.value.cure


def test_headroom_may_be_nothing_but_not_all() -> None:
    """A fleet without headroom is a choice; one that is all headroom serves nothing."""
    assert quantities.share_to_keep("0") == 0
    with pytest.raises(Unreadable, match="leaves nothing"):
        quantities.share_to_keep("1")


@pytest.mark.parametrize(
    "text",
    ["", ".", "-1", "1e3", "nan", "inf", "1_000", "1,5", "0x10", "\u0665", "1000001"],
)
def test_what_is_no_number(text: str) -> None:
    """Only plain decimal numbers up to a million."""
    with pytest.raises(Unreadable):
        quantities.number(text)


@pytest.mark.parametrize("text", ["0", "1.5", "-1", "100001", "", "many"])
def test_what_is_no_count(text: str) -> None:
    """Whole numbers from 1 to 100,000."""
    with pytest.raises(Unreadable, match="whole number"):
        quantities.count(text)


def test_signals() -> None:
    """A list with commas; blanks play no part."""
    assert quantities.signals("waiting, kvCache") == {Signal.WAITING, Signal.KV_CACHE}


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("kvcache", "did you mean kvCache?"),
        ("waiting,,ttft", "waiting,ttft,kvCache"),
        ("ttft,ttft", "once"),
        ("cpu", "waiting,ttft,kvCache"),
    ],
)
def test_what_is_no_list_of_signals(text: str, cure: str) -> None:
    """The refusal names the nearest signal, or all."""
    with pytest.raises(Unreadable) as refused:
        quantities.signals(text)
    assert cure in refused.value.cure


def test_modes() -> None:
    """Two words only."""
    assert quantities.mode("advise") is Mode.ADVISE
    with pytest.raises(Unreadable, match="act or advise"):
        quantities.mode("dryrun")


@pytest.mark.parametrize("text", ["http://prometheus:9090", "prometheus:9090", "../etc", "a/b"])
def test_a_source_is_never_an_address(text: str) -> None:
    """Who writes a trigger may not make the scaler call an address."""
    with pytest.raises(Unreadable, match="cannot give an address"):
        quantities.source_name(text)


@pytest.mark.parametrize("text", ["", "-a", "a-", "a b", "a" * 64, "ä"])
def test_what_is_no_name(text: str) -> None:
    """Names are as Kubernetes' labels are."""
    with pytest.raises(Unreadable):
        quantities.profile_name(text)


@pytest.mark.parametrize("text", ["meta-llama/Llama-3.1-8B", "/models/x y", "模型", "a" * 512])
def test_model_names_are_literal(text: str) -> None:
    """Whatever the engine shows."""
    assert quantities.model_name(text) == text


@pytest.mark.parametrize("text", ["a\nb", "a\0", "a" * 513])
def test_what_is_no_model_name(text: str) -> None:
    """Control characters and essays are refused."""
    with pytest.raises(Unreadable):
        quantities.model_name(text)
