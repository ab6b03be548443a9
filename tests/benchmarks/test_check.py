"""The guard against regressions: what it compares, what it lets pass, and how it is kept."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks._check import compared
from benchmarks._page import BEGIN, END, write
from benchmarks._results import Growth, Line, Section, exponent, keep, read

LINE = Line(
    key="rpc.cpu",
    what="CPU per call",
    ours="110 µs",
    yardstick="100 µs",
    ratio=1.1,
    spread=(1.0, 1.2),
    aim=1.1,
    tolerance=1.5,
)
GROWTH = Growth(key="tick.growth", what="CPU of a tick", unit="s", points=[(10, 0.01), (1000, 1.0)])
KEPT = {"rpc": Section(title="Calls", lines=[LINE], growth=[GROWTH], ran="a machine", load=0.5)}


def found(line: Line | None = LINE, growth: Growth | None = GROWTH) -> dict[str, Section]:
    """Return what a new run found."""
    lines = [line] if line is not None else []
    grown = [growth] if growth is not None else []
    return {"rpc": Section(title="Calls", lines=lines, growth=grown, ran="another", load=3.0)}


@pytest.mark.parametrize(
    ("ratio", "passes"),
    [(1.1, True), (0.2, True), (1.65, True), (1.66, False), (math.nan, False), (math.inf, False)],
)
def test_a_ratio_may_be_as_much_higher_as_its_tolerance_says(ratio: float, *, passes: bool) -> None:
    """1.1 with a tolerance of 1.5 is good up to 1.65; what is no number is never good."""
    verdict = compared(KEPT, found(replace(LINE, ratio=ratio)))[0]
    assert verdict.passes is passes
    assert str(verdict).startswith("ok" if passes else "WORSE")


def test_absolute_times_are_not_compared() -> None:
    """A machine ten times as slow for both passes."""
    slow = replace(LINE, ours="1100 µs", yardstick="1000 µs")
    assert all(verdict.passes for verdict in compared(KEPT, found(slow)))


@pytest.mark.parametrize(("cost", "passes"), [(1.0, True), (1.5, True), (2.0, False)])
def test_an_exponent_may_be_a_tenth_higher(cost: float, *, passes: bool) -> None:
    """Twice the cost at a hundred times the size is an exponent of 1.15."""
    steeper = replace(GROWTH, points=[(10, 0.01), (1000, cost)])
    assert compared(KEPT, found(growth=steeper))[1].passes is passes


def test_a_line_that_nobody_measures_any_more_fails() -> None:
    """A regression cannot hide by leaving the benchmark."""
    assert [str(v).split()[0] for v in compared(KEPT, found(None, None))] == ["GONE", "GONE"]


def test_a_shorter_run_need_not_have_what_whole_runs_measure() -> None:
    """It is judged where it was measured all the same."""
    kept = {"rpc": Section(title="Calls", lines=[replace(LINE, whole_runs=True)], ran="here")}
    assert compared(kept, found(None)) == []
    assert not compared(kept, found(replace(LINE, ratio=9.0)))[0].passes


def test_only_the_benchmarks_that_ran_are_judged() -> None:
    """Nor has a benchmark that was never kept anything to meet."""
    assert compared(KEPT, {}) == []
    assert compared({}, found()) == []


def test_growth_in_proportion_has_an_exponent_of_one() -> None:
    """And twice the size at four times the cost one of two."""
    assert exponent([(10, 3), (100, 30), (10_000, 3000)]) == pytest.approx(1.0)
    assert exponent([(1, 1), (2, 4), (4, 16)]) == pytest.approx(2.0)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    """Results survive the file, and a new run replaces its own section alone."""
    path = tmp_path / "benchmarks.json"
    other = {"tick": replace(KEPT["rpc"], title="The tick", growth=[])}
    keep(KEPT, path)
    assert keep(other, path) == {**KEPT, **other}
    assert read(path) == {**KEPT, **other}


def test_the_page_shows_every_line_between_its_markers(tmp_path: Path) -> None:
    """What is written by hand stays, old figures go, and the chart is drawn."""
    page, chart = tmp_path / "page.md", tmp_path / "chart" / "growth.svg"
    page.write_text(f"above\n{BEGIN}\nold figures\n{END}\nbelow\n", encoding="utf-8")
    write(KEPT, page, chart)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert "old figures" not in text
    assert "| CPU per call | 110 µs | 100 µs | 1.1 (1–1.2) | ≤ 1.1 |" in text
    assert "exponent **1.00**" in text
    assert "</svg>" in chart.read_text(encoding="utf-8")


def test_the_committed_page_is_that_of_the_committed_results(tmp_path: Path) -> None:
    """Nobody edits a figure by hand."""
    committed = Path("docs/reference/benchmarks.md")
    page = tmp_path / "page.md"
    page.write_text(committed.read_text(encoding="utf-8"), encoding="utf-8")
    write(read(), page, tmp_path / "growth.svg")
    assert page.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")
