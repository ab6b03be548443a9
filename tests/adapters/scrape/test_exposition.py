"""The scanner against prometheus_client's parser, and against pages that nobody should send."""

from __future__ import annotations

import math
from collections import Counter as Multiset
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from scaler.adapters.exposition import (
    LONGEST_LINE,
    MOST_LINES,
    MOST_REMEMBERED_BYTES,
    MOST_SAMPLES,
    ExpositionInvalid,
    Scanner,
)
from scaler.adapters.vllm import Signal, names_of

CAPTURES = sorted((Path(__file__).parents[2] / "data" / "captures").glob("*.txt"))
NAMES = [name for signal in Signal for name in names_of(signal)]
RUNNING = "vllm:num_requests_running"
NAN = "a value that is no number"

Sample = tuple[str, frozenset[tuple[str, str]]]
Found = Multiset[tuple[Sample, float | str]]


def scanner() -> Scanner[Sample]:
    """Make a scanner that keeps names and labels as they are."""
    return Scanner(NAMES, lambda name, labels: (name, frozenset(labels.items())))


# One for all examples, so that what it remembers of one page meets the next.
SHARED = scanner()


def found_in(page: bytes) -> Found:
    """Scan a page, with and without memory of others."""
    samples = SHARED.scan(page)
    assert Multiset(map(comparable, samples)) == Multiset(map(comparable, scanner().scan(page)))
    return Multiset(map(comparable, samples))


def comparable(sample: tuple[Sample, float]) -> tuple[Sample, float | str]:
    """Let NaN equal NaN."""
    series, value = sample
    return series, NAN if math.isnan(value) else value


def expected_of(page: bytes) -> Found:
    """Parse a page with the library and keep the wanted samples."""
    parse = openmetrics if page.rstrip().endswith(b"# EOF") else text_format
    return Multiset(
        comparable(((sample.name, frozenset(sample.labels.items())), float(sample.value)))
        for family in parse(page.decode())
        for sample in family.samples
        if sample.name in NAMES
    )


flag = st.booleans()
blanks = st.text(" \t", max_size=3)
label_names = st.sampled_from(["engine", "model_name", "le", "pid", "reason", "a_b", "_x", "Z9"])
label_values = st.text(
    st.characters(codec="utf-8", exclude_characters="\r"), max_size=8
) | st.sampled_from(
    [
        "",
        "\\",
        '"',
        "\n",
        "\\n",
        '\\"',
        "}",
        "{",
        ",",
        "=",
        " # ",
        "} 5",
        f'"}} 7\n{RUNNING} 9',
        "#",
    ]
)
values = (
    st.floats().map(repr)
    | st.integers().map(str)
    | st.sampled_from(
        ["NaN", "-NaN", "+Inf", "-Inf", "Inf", "1e3", "+1", "-0", ".5", "1E-2", "007"]
    )
)
label_sets = st.dictionaries(label_names, label_values, max_size=4)
line_end = st.sampled_from(["", "\r"])
blank = st.text(" \t", min_size=1, max_size=3)
names = (
    st.sampled_from(NAMES)
    | st.sampled_from(NAMES).map(lambda name: name + "_created")
    | st.sampled_from(NAMES).map(lambda name: "other_" + name)
    | st.sampled_from(["vllm:num_requests_swapped", "up", "vllm:num_requests_", "a:b"])
)


def escaped(value: str) -> str:
    """Write a label's value as the format asks."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def sample_lines(draw: st.DrawFn) -> str:
    """Write a sample with blanks wherever they may be."""

    def gap() -> str:
        return draw(blanks)

    line = gap() + draw(names)
    labels, braces, comma, stamped = draw(label_sets), draw(flag), draw(flag), draw(flag)
    if labels or braces:
        written = [
            f'{gap()}{name}{gap()}={gap()}"{escaped(value)}"{gap()}'
            for name, value in labels.items()
        ]
        end = "," if written and comma else ""
        line += gap() + "{" + ",".join(written) + end + gap() + "}" + gap()
    else:
        line += draw(blank)
    line += draw(values)
    if stamped:
        line += " " + str(draw(st.integers(0, 2**42)))
    return line + gap() + draw(line_end)


other_lines = st.sampled_from(
    [
        "",
        "   ",
        "# just a comment",
        f"# HELP {RUNNING} Number of requests.",
        f"# TYPE {RUNNING} gauge",
        f"# {RUNNING} 5",
        "#",
    ]
)


@given(st.lists(sample_lines() | other_lines, max_size=12))
@example([f'{RUNNING}{{engine="0"}} 1', f'{RUNNING}{{engine="0"}} 2'])
def test_any_page_reads_as_the_library_reads_it(lines: list[str]) -> None:
    """Escapes, blanks, timestamps, NaN, and families in any order or torn apart."""
    page = "".join(line + "\n" for line in lines).encode()
    assert found_in(page) == expected_of(page)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_recorded_page_reads_as_the_library_reads_it(capture: Path) -> None:
    """No sample of a real engine's page is lost, none is invented."""
    page = capture.read_bytes()
    found = found_in(page)
    assert found == expected_of(page)
    assert len(found) >= 30


def test_an_openmetrics_page_reads_as_the_library_reads_it() -> None:
    """Exemplars, creation times and the end mark are no samples."""
    registry = CollectorRegistry()
    labels = {"engine": "0", "model_name": 'a "model" }'}
    Gauge("vllm_num_requests_running", "x", labels, registry=registry).labels(**labels).set(3)
    tokens = Counter("vllm_generation_tokens", "x", labels, registry=registry).labels(**labels)
    tokens.inc(5, exemplar={"trace_id": "a}b"})
    ttft = Histogram("vllm_time_to_first_token_seconds", "x", labels, registry=registry)
    ttft.labels(**labels).observe(0.3, exemplar={"trace_id": "abc"})
    page: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    assert b" # {" in page
    assert b"_created" in page
    found = found_in(page)
    assert found == expected_of(page)
    assert found_in(page.rstrip()) == found
    assert found[(("vllm_num_requests_running", frozenset(labels.items())), 3.0)] == 1


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(b"")
@example(f"{RUNNING} 1 # EOF".encode())
def test_any_bytes_are_read_or_refused(page: bytes) -> None:
    """Whatever comes, nothing but the one error does."""
    try:
        found = SHARED.scan(page)
    except ExpositionInvalid:
        return
    assert len(found) <= page.count(b"\n")


@given(st.data())
def test_a_cut_page_is_refused_or_shows_only_whole_lines(data: st.DataObject) -> None:
    """A value that lost its last digits never passes for a value."""
    page = data.draw(st.sampled_from(CAPTURES), label="page").read_bytes()
    cut = page[: data.draw(st.integers(1, len(page) - 1), label="length")]
    if cut.endswith(b"\n"):
        assert not found_in(cut) - found_in(page)
    else:
        with pytest.raises(ExpositionInvalid, match="cut off in line"):
            SHARED.scan(cut)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (f"{RUNNING}", "neither labels nor a blank"),
        (f"{RUNNING} ", "is no value"),
        (f"{RUNNING}-5", "neither labels nor a blank"),
        (f"{RUNNING} five", '"five" is no value'),
        (f"{RUNNING} 1_000", "is no value"),
        (f"{RUNNING} 1 2 3", "is no value"),
        (f"{RUNNING} 1 noon", "is no value"),
        (f'{RUNNING}{{engine="0"', "labels do not end"),
        (f'{RUNNING}{{engine="0"}}', "is no value"),
        (f'{RUNNING}{{engine="0}} 5', "labels do not end"),
        (f"{RUNNING}{{engine=0}} 5", "labels do not end"),
        (f'{RUNNING}{{engine="0" pid="1"}} 5', "labels do not end"),
        (f'{RUNNING}{{engine="0",engine="1"}} 5', "engine stands in it twice"),
        (f'{RUNNING}{{engine="{"0" * LONGEST_LINE}"}} 5', f"over {LONGEST_LINE} bytes"),
    ],
)
def test_a_broken_sample_is_told_with_its_line(line: str, fault: str) -> None:
    """The message names the line and what is wrong with it."""
    with pytest.raises(ExpositionInvalid, match=f"^line 3 is no sample: .*{fault}"):
        SHARED.scan(f'# HELP\n{RUNNING}{{engine="0"}} 1\n{line}\nup 1\n'.encode())


def test_a_value_that_is_remembered_for_its_series_is_still_read_with_care() -> None:
    """A series known from an earlier page does not make a broken value whole."""
    series = f'{RUNNING}{{engine="care"}}'
    assert found_in(f"{series} 1\n".encode())
    for broken in ("", " 1_0", " x", " " + "1" * 40 + "x", " 1 2 3"):
        with pytest.raises(ExpositionInvalid, match="is no value"):
            SHARED.scan(f"{series}{broken}\n".encode())
    assert found_in(f"{series} 1 1700000000000\n".encode()) == found_in(f"{series} 1\n".encode())


def test_labels_that_are_no_utf_8_are_refused() -> None:
    """A name that cannot be read is not guessed."""
    with pytest.raises(ExpositionInvalid, match="line 1 is no sample: it is no UTF-8"):
        SHARED.scan(b'vllm:num_requests_running{engine="\xff"} 1\n')


@pytest.mark.parametrize("page", [b"<!doctype html>\n<html></html>\n", b"\n <html>", b"<?xml?>\n"])
def test_a_web_page_is_called_one(page: bytes) -> None:
    """A login page is told as such, not as a metric's fault."""
    with pytest.raises(ExpositionInvalid, match="HTML or XML"):
        SHARED.scan(page)


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        pytest.param(b"x" * 2**24, "cut off in line 1", id="no-line-feed"),
        pytest.param(b"\n" * (MOST_LINES + 1), f"over {MOST_LINES} lines", id="line-feeds"),
        pytest.param(
            b"".join(b'%s{pid="%d"} 1\n' % (RUNNING.encode(), n) for n in range(MOST_SAMPLES + 1)),
            f"over {MOST_SAMPLES} samples",
            id="samples",
        ),
    ],
)
def test_a_flood_is_refused(page: bytes, fault: str) -> None:
    """What no engine publishes costs little and remembers nothing."""
    with pytest.raises(ExpositionInvalid, match=fault):
        SHARED.scan(page)


def test_one_long_line_costs_no_more_than_its_length() -> None:
    """Our names over and over in one line of megabytes are looked at once."""
    page = f'# HELP up {RUNNING}{{engine="0"}} 1 '.encode() * 2**18 + b"\nup 1\n"
    assert not SHARED.scan(page)


def test_what_is_remembered_of_series_is_bounded_in_bytes() -> None:
    """Long labels that change at each scrape do not fill the memory of the scaler."""
    read = scanner()
    for scrape in range(40):
        lines = [f'{RUNNING}{{a="{scrape}-{n}-{"x" * 900}"}} 1' for n in range(5000)]
        read.scan(("\n".join(lines) + "\n").encode())
    assert read.remembered_bytes <= MOST_REMEMBERED_BYTES
