"""What `scaler simulate` does: results go to one stream, progress to another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from scaler.core.units import Seconds
from scaler.simulation import charts, report
from scaler.simulation.comparison import Comparison, chosen_policies, run_matrix
from scaler.simulation.errors import SimulationError
from scaler.simulation.policies import CORRIDOR
from scaler.simulation.policies.port import Bounds
from scaler.simulation.report import Format, Row
from scaler.simulation.results import Moment
from scaler.simulation.scenarios import MAX_REPLICAS, Scenario, matrix_named
from scaler.simulation.schedules import NAME as BEST_SCHEDULE
from scaler.simulation.summary import write_summary

DONE, FAULTY = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked for.

    `matrix` (subset or full) runs that instead of the one scenario. `output` is a folder for the
    CSV, the charts and, with a matrix, the rows that are taken up again.
    """

    scenario: Scenario
    policy: str = "all"
    form: Format = Format.TABLE
    output: Path | None = None
    matrix: str | None = None
    jobs: int = 1


def simulate(options: Options, *, results: TextIO, progress: TextIO) -> int:
    """Run what was asked for; return the exit code: 0, or 2 where an input is at fault."""
    try:
        policies = chosen_policies(options.policy, Bounds(max_replicas=MAX_REPLICAS))
        if options.output is not None:
            options.output.mkdir(parents=True, exist_ok=True)
        if options.matrix is not None:
            rows = _matrix(options, options.matrix, policies, progress)
        else:
            rows = _one(options, policies, progress)
    except SimulationError as error:
        progress.write(f"error: {error}\n")
        return FAULTY
    except OSError as error:
        progress.write(f"error: {error.filename or options.output}: {error.strerror}\n")
        return FAULTY
    results.write(report.write(rows, options.form))
    if options.matrix is not None and options.form is Format.TABLE:
        results.write("\n" + write_summary(rows, CORRIDOR))
    return DONE


def _matrix(
    options: Options, matrix: str, policies: tuple[str, ...], progress: TextIO
) -> list[Row]:
    if BEST_SCHEDULE in policies:
        raise SimulationError(f"{BEST_SCHEDULE} takes ten trials each: leave it out of a matrix")
    output = options.output
    rows = run_matrix(
        matrix_named(matrix),
        policies,
        kept=None if output is None else output / f"{matrix}.jsonl",
        jobs=options.jobs,
        progress=lambda text: _tell(progress, text),
    )
    if output is not None:
        _write(output / f"{matrix}.csv", report.write(rows, Format.CSV))
    return rows


def _one(options: Options, policies: tuple[str, ...], progress: TextIO) -> list[Row]:
    comparison = Comparison(options.scenario)
    _tell(
        progress, f"{options.scenario.name}: {_span(comparison.world.workload.length)} of traffic"
    )
    rows: list[Row] = []
    for number, name in enumerate(policies, start=1):
        _tell(progress, f"{number} of {len(policies)}: {name}")
        if name == BEST_SCHEDULE:
            rows += _best(comparison, rows, progress)
            continue
        moments: list[Moment] = []
        rows.append(comparison.run(name, moments.append if options.output else None))
        if options.output is not None:
            chart = charts.over_time(f"{name} on {options.scenario.name}", moments)
            _write(options.output / f"{name}.svg", chart)
    if options.output is not None:
        _write(options.output / "results.csv", report.write(rows, Format.CSV))
        title = f"cost against SLO: {options.scenario.name}"
        _write(options.output / "plane.svg", charts.plane(title, rows, comparison.bound_curve()))
    return rows


def _best(comparison: Comparison, rows: list[Row], progress: TextIO) -> list[Row]:
    """Search a schedule as good as the first policy of the list."""
    if not rows:
        raise SimulationError(f"{BEST_SCHEDULE} needs another policy before it, to be as good as")
    found = comparison.best_schedule(rows[0].result.slo_attainment)
    if found is None:
        _tell(progress, f"no schedule was found that is as good as {rows[0].result.policy}")
        return []
    return [found]


def _tell(progress: TextIO, text: str) -> None:
    progress.write(text + "\n")
    progress.flush()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _span(seconds: Seconds) -> str:
    return f"{seconds / 3600:g} h"
