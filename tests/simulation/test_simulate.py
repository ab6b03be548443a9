"""The command: options in, tables, files and exit codes out; matrices are taken up again."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scaler.cli.simulate import command
from scaler.simulation.command import Options, simulate
from scaler.simulation.comparison import ALL, MatrixUnreadable, read_rows, run_matrix
from scaler.simulation.report import COLUMNS, Format, Row, write
from scaler.simulation.results import Result
from scaler.simulation.scenarios import Scenario, full, subset, world_of
from scaler.simulation.svg import Line, Mark, Panel, page, ticks

RESULT = Result(
    policy="static-2",
    slo_attainment=0.5,
    replica_hours=4.0,
    ttft_p50=0.1,
    ttft_p95=None,
    ttft_p99=3.0,
    tpot_p95=0.01,
    bound_hours=2.0,
    scale_events=1,
    direction_changes=0,
    preemptions=2,
    rejected=3,
    cut_off=4,
    given_up=5,
    unfinished=0,
    arrived=20,
    most_replicas=2,
)
SMALL = Scenario(profile="step", load=0.2, replicas=1)


def run(options: Options) -> tuple[int, str, str]:
    """Run the command; return its exit code, results and progress."""
    results, progress = io.StringIO(), io.StringIO()
    code = simulate(options, results=results, progress=progress)
    return code, results.getvalue(), progress.getvalue()


def test_csv_columns_begin_as_promised() -> None:
    """Other tools read the columns by their order."""
    head = "policy,slo_attainment,replica_hours,ttft_p50,ttft_p95,ttft_p99,tpot_p95,ratio_to_bound"
    more = "scale_events,direction_changes,preemptions,rejected,cut_off"
    assert ",".join(COLUMNS).startswith(f"{head},{more}")
    written = write([Row(scenario="x", result=RESULT)], Format.CSV)
    (row,) = csv.DictReader(io.StringIO(written))
    assert (row["policy"], row["ttft_p95"], row["ratio_to_bound"]) == ("static-2", "", "2.0")


def test_json_knows_no_nan() -> None:
    """An attainment without a request is null."""
    row = Row(scenario="x", result=replace(RESULT, slo_attainment=float("nan")))
    assert json.loads(write([row], Format.JSON))[0]["slo_attainment"] is None


def test_table_has_a_block_for_each_scenario() -> None:
    """Scenarios stand apart, under their names."""
    rows = [Row(scenario=name, result=RESULT) for name in ("one", "two")]
    blocks = write(rows, Format.TABLE).split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == ["one", "two"]
    assert "static-2  0.5000   4.00" in blocks[0]


def test_results_and_files(tmp_path: Path) -> None:
    """Results go to the one stream, progress to the other, charts and CSV into the folder."""
    options = Options(scenario=SMALL, policy="corridor,static-1", output=tmp_path / "out")
    code, results, progress = run(replace(options, form=Format.CSV))
    assert code == 0
    assert [line.split(",")[0] for line in results.splitlines()] == [
        "policy",
        "corridor",
        "static-1",
    ]
    assert "1 of 2: corridor" in progress
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "corridor.svg",
        "plane.svg",
        "results.csv",
        "static-1.svg",
    ]
    assert (tmp_path / "out" / "results.csv").read_text(encoding="utf-8") == results


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(scenario=SMALL, policy="nobody"), "no policy is called 'nobody'"),
        (Options(scenario=replace(SMALL, profile="noon")), "no profile is called 'noon'"),
        (Options(scenario=replace(SMALL, engine="steam")), "no engine is called 'steam'"),
        (Options(scenario=replace(SMALL, trace="/nowhere.csv")), "/nowhere.csv cannot be read"),
        (Options(scenario=replace(SMALL, router="x")), "no router is called 'x'"),
        (Options(scenario=replace(SMALL, start_up=-1.0)), "start-up of -1.0 s is none"),
        (Options(scenario=SMALL, matrix="huge"), "no matrix is called 'huge'"),
        (Options(scenario=SMALL, policy="best-schedule-found"), "needs another policy before it"),
    ],
)
def test_faults_are_named(options: Options, said: str) -> None:
    """A fault of the input is one line and exit code 2, and nothing reaches the results."""
    code, results, progress = run(options)
    assert code == 2
    assert results == ""
    assert said in progress


def test_a_matrix_is_taken_up_again(tmp_path: Path) -> None:
    """What was finished is not run again, and a line that was cut off is."""
    kept = tmp_path / "rows.jsonl"
    scenarios = [SMALL, replace(SMALL, seed=2)]
    said: list[str] = []

    def again() -> list[Row]:
        said.clear()
        return run_matrix(
            scenarios, ["static-1", "hpa-cpu"], kept=kept, jobs=1, progress=said.append
        )

    first = again()
    assert said[0] == "2 scenarios, 0 of them done before"
    lines = kept.read_text(encoding="utf-8").splitlines(keepends=True)
    kept.write_text("".join(lines[:3]) + lines[3][:40], encoding="utf-8")
    assert again() == first
    assert said == ["2 scenarios, 1 of them done before", f"1 of 1: {scenarios[1].name}"]
    assert len(kept.read_text(encoding="utf-8").splitlines()) == 4
    assert [row.result.policy for row in first] == ["static-1", "hpa-cpu"] * 2


def test_processes_do_not_change_the_rows() -> None:
    """Two at a time, in whatever order they end, give the rows of one at a time."""
    scenarios = [replace(SMALL, seed=seed) for seed in (1, 2)]
    one, two = (
        run_matrix(scenarios, ["hpa-cpu"], kept=None, jobs=jobs, progress=lambda _: None)
        for jobs in (1, 2)
    )
    assert one == two


def test_the_command_line() -> None:
    """Options reach the simulation, results stdout, progress stderr."""
    options = ["--profile", "step", "--load", "0.1", "--start-up", "1m", "--format", "csv"]
    done = CliRunner().invoke(command, [*options, "--policy", "static-1"])
    assert done.exit_code == 0
    assert done.stdout.startswith("policy,slo_attainment,replica_hours")
    assert "azure-conv/step/compute-bound/60s/load-0.1/seed-1" in done.stdout
    assert "1 of 1: static-1" in done.stderr
    refused = CliRunner().invoke(command, ["--policy", "nobody"])
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_rows_that_are_none_are_not_overwritten(tmp_path: Path) -> None:
    """A file of something else is left alone."""
    kept = tmp_path / "rows.jsonl"
    kept.write_text('{"other": 1}\n', encoding="utf-8")
    with pytest.raises(MatrixUnreadable, match="move it away"):
        read_rows(kept)


def test_the_subset_has_everything_at_least_once() -> None:
    """Every profile, engine, start-up, trace and length of generations, and an outage."""
    chosen = subset()
    every = list(full())
    for name in ("profile", "engine", "start_up", "trace", "generations", "outage"):
        assert {getattr(s, name) for s in chosen} == {getattr(s, name) for s in every}
    assert len({s.name for s in chosen}) == len(chosen)
    assert len({s.name for s in every}) == len(every)


def test_loads_make_scenarios_alike_in_size() -> None:
    """Longer generations come less often, so that the peak needs as many replicas."""
    short, long = (world_of(Scenario(generations=g)).workload.load for g in ("short", "long"))
    assert short > 2 * long
    assert world_of(Scenario(profile="monday")).replicas == 1
    assert world_of(Scenario(profile="steady")).replicas == 12


def test_all_begins_with_ours() -> None:
    """The corridor comes first, then its peers, then a static fleet."""
    assert ALL[0] == "corridor"
    assert len(set(ALL)) == len(ALL) == 11


@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6))
def test_ticks_are_few_and_inside(low: float, width: float) -> None:
    """Two to seven round values, ascending, none outside but by rounding."""
    high = low + width
    found = ticks(low, high)
    assert 1 <= len(found) <= 7
    assert found == sorted(found)
    assert all(low - width * 1e-6 <= value <= high + width * 1e-6 for value in found)


def test_charts_escape_and_break_lines() -> None:
    """A gap interrupts a line, and a name cannot become markup."""
    line = Line(label="<b>", points=[(0, 1), None, (1, 2), (2, 2)], colour="#000")
    mark = Mark(label="a&b", at=(1, 1), colour="#000")
    drawn = page("t", [Panel(title="p", lines=[line], marks=[mark])])
    assert "&lt;b&gt;" in drawn
    assert "a&amp;b" in drawn
    (path,) = [part for part in drawn.splitlines() if 'stroke="#000"' in part]
    assert path.count("M") == 2


def test_empty_panels_are_drawn() -> None:
    """A trial in which nothing was seen has charts all the same."""
    assert page("t", [Panel(title="p"), Panel(title="q", lowest=None)]).endswith("</svg>\n")
