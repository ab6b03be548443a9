"""Writes the figures as the tables that the documentation shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks._measure import machine
from benchmarks.engine.comparing import Comparison, GaugeError, Pair
from benchmarks.engine.pages import READ, Difference
from benchmarks.engine.scenarios import Scenario

BEGIN = "<!-- Written by `make engine ARGS=--write`: from here -->"
END = "<!-- to here -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One scenario's results; `mirror` is the model compared with itself in the same way."""

    scenario: Scenario
    comparison: Comparison
    mirror: Comparison
    page: Difference
    version: str


def written(chapters: list[Chapter]) -> str:
    """Return all figures as Markdown."""
    version = ", ".join(sorted({chapter.version for chapter in chapters}))
    parts = [
        f"vLLM {version} on {machine()}; no GPU.",
        "\n".join(f"- `{c.scenario.name}`: {c.scenario.says}" for c in chapters),
        "### Step by step",
        _by_step(chapters),
        _counts(chapters),
        "### In time",
        _in_time(chapters),
        _waits(chapters),
        _costs(chapters),
        "### The page",
        _page(chapters),
    ]
    return "\n\n".join(parts)


def put(told: str, page: Path) -> None:
    """Put the figures between the marks of a page; they must be there."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{told}\n\n{END}{after}", encoding="utf-8")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _by_step(chapters: list[Chapter]) -> str:
    return _gauges(
        chapters,
        model=lambda gauge: gauge.by_step,
        error=lambda gauge: gauge.by_step_error,
    )


def _in_time(chapters: list[Chapter]) -> str:
    return _gauges(
        chapters,
        model=lambda gauge: gauge.in_time,
        error=lambda gauge: gauge.in_time_error,
    )


def _gauges(
    chapters: list[Chapter],
    *,
    model: Callable[[GaugeError], float],
    error: Callable[[GaugeError], float],
) -> str:
    rows = []
    for chapter in chapters:
        for name, gauge in chapter.comparison.gauges.items():
            share = name == "cache usage"
            mirror = error(chapter.mirror.gauges[name])
            figures = (gauge.real, model(gauge), error(gauge), mirror, gauge.spread)
            rows.append(
                [
                    f"`{chapter.scenario.name}`",
                    name,
                    *(f"{100 * x:.2f} %" if share else f"{x:.2f}" for x in figures),
                ]
            )
    return table(
        [
            *("load", "gauge", "real, mean", "model, mean", "mean error"),
            *("the model against itself", "the best constant"),
        ],
        rows,
    )


def _counts(chapters: list[Chapter]) -> str:
    rows = []
    for chapter in chapters:
        told = chapter.comparison
        rows.append(
            [
                f"`{chapter.scenario.name}`",
                str(told.looks),
                _whole(told.tokens),
                _whole(told.first_tokens),
                _whole(told.preemptions),
                f"{told.growth_error:.3f} ({told.growth_error_at_once:.3f})",
            ]
        )
    return table(
        [
            *("load", "looks", "tokens: real, model", "first tokens", "preemptions"),
            "error of their growth a look (counted at once)",
        ],
        rows,
    )


def _waits(chapters: list[Chapter]) -> str:
    return table(
        [
            *("load", "a real step: first quarter, later", "steps: real, model"),
            *("TTFT mean, by the engine", "TTFT p50, by clients", "TTFT p95, by clients"),
        ],
        (
            [
                f"`{chapter.scenario.name}`",
                f"{1e3 * told.pace[0]:.1f} ms, {1e3 * told.pace[1]:.1f} ms",
                _whole(told.steps),
                *(_seconds(pair) for pair in (told.ttft_mean, told.ttft_p50, told.ttft_p95)),
            ]
            for chapter in chapters
            for told in [chapter.comparison]
        ),
    )


def _costs(chapters: list[Chapter]) -> str:
    return table(
        [
            *("load", "base of a step", "per token", "per sequence"),
            "a client's request outside the engine",
        ],
        (
            [
                f"`{chapter.scenario.name}`",
                f"{1e3 * told.cost.base:.2f} ms",
                f"{1e6 * told.cost.per_token:.0f} µs",
                f"{1e6 * told.cost.per_sequence:.0f} µs",
                f"{told.pause:.2f} s" if chapter.scenario.clients else "–",
            ]
            for chapter in chapters
            for told in [chapter.comparison]
        ),
    )


def _page(chapters: list[Chapter]) -> str:
    looks = sum(chapter.comparison.looks for chapter in chapters)
    differ = sum(chapter.comparison.reasons_differ for chapter in chapters)
    page = chapters[0].page
    alike = [name for name in READ if name in page.alike]
    lines = [
        (
            f"{len(alike)} of the {len(READ)} families that the scaler reads are alike in name, "
            "type, samples, labels, buckets and the values of `reason` and `sleep_state`. Of the "
            f"others on the model's page, {len(page.alike) - len(alike)} are."
        ),
        *(f"`{name}`: {fault}." for name, fault in page.different.items()),
        f"Only on the model's page: {_names(page.only_model)}.",
        f"Only on the real one, read by nobody here: {_names(page.only_real)}.",
        (
            "`num_requests_waiting_by_reason` said anything but `num_requests_waiting` for "
            f"`capacity` and 0 for `deferred` at {differ} of {looks} looks."
        ),
    ]
    return "\n".join(f"- {line}" for line in lines)


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _whole(pair: Pair) -> str:
    return f"{pair.real:,.0f}, {pair.model:,.0f}"


def _seconds(pair: Pair) -> str:
    return f"{pair.real:.2f} s, {pair.model:.2f} s"
