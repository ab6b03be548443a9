"""Policies side by side on one world, or on a matrix of worlds that can be taken up again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path

from scaler.simulation.bound import LowerBound
from scaler.simulation.errors import SimulationError
from scaler.simulation.policies import CORRIDOR, PEERS, policy_named, static_size
from scaler.simulation.policies.port import Bounds
from scaler.simulation.report import Row
from scaler.simulation.results import Moment, Result
from scaler.simulation.scenarios import Scenario, world_of
from scaler.simulation.schedules import NAME as BEST_SCHEDULE
from scaler.simulation.schedules import best_schedule
from scaler.simulation.trial import World, run_trial

ALL: tuple[str, ...] = (CORRIDOR, *PEERS, "static-10")
"""What `all` stands for: the corridor, its peers as published, and a fleet sized for the peak."""

BOUND_AT = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 1.0)
"""The attainments at which the bound is drawn."""


class MatrixUnreadable(SimulationError):
    """A file of earlier results that is not one."""


class WorkerLost(SimulationError):
    """A process that worked on a matrix is gone."""


class Comparison:
    """One scenario, its world and its lower bound."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world: World = world_of(scenario)
        self._bound: LowerBound | None = None

    @property
    def bound(self) -> LowerBound:
        """Return the lower bound; computed when it is first asked for."""
        if self._bound is None:
            self._bound = LowerBound(self.world)
        return self._bound

    def run(self, name: str, watch: Callable[[Moment], None] | None = None) -> Row:
        """Run one policy by name. Raises PolicyUnknown."""
        policy = policy_named(name, self.world.bounds)
        result = run_trial(self.world, policy, replicas=static_size(name), watch=watch)
        return self._row(result)

    def best_schedule(self, attainment: float) -> Row | None:
        """Search the cheapest schedule of this attainment; takes some ten trials."""
        found = best_schedule(self.world, attainment)
        return None if found is None else self._row(found.result)

    def bound_curve(self) -> list[tuple[float, float]]:
        """Return (replica-hours, attainment) of the lower bound."""
        return [(self.bound.hours(attained), attained) for attained in BOUND_AT]

    def _row(self, result: Result) -> Row:
        bounded = replace(result, bound_hours=self.bound.hours(result.slo_attainment))
        return Row(scenario=self.scenario.name, result=bounded)


def chosen_policies(text: str, bounds: Bounds) -> tuple[str, ...]:
    """Return the policies that a comma-separated list names; `all` stands for every one.

    Raises PolicyUnknown.
    """
    names: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        names += ALL if name == "all" else [name]
    for name in names:
        if name != BEST_SCHEDULE:
            policy_named(name, bounds)
    return tuple(dict.fromkeys(names))


# --- matrices ------------------------------------------------------------------------------------


def run_matrix(
    scenarios: Sequence[Scenario],
    policies: Sequence[str],
    *,
    kept: Path | None,
    jobs: int,
    progress: Callable[[str], None],
) -> list[Row]:
    """Run every policy on every scenario and return the rows in that order.

    `kept` is a file to which each finished scenario's rows are added; what it has already is not
    run again. Scenarios are spread over `jobs` processes. Raises SimulationError.
    """
    rows = {(row.scenario, row.result.policy): row for row in read_rows(kept)}
    tasks = [
        (scenario, missing)
        for scenario in scenarios
        if (missing := tuple(p for p in policies if (scenario.name, p) not in rows))
    ]
    progress(f"{len(scenarios)} scenarios, {len(scenarios) - len(tasks)} of them done before")
    for number, found in enumerate(_done(tasks, jobs), start=1):
        rows.update({(row.scenario, row.result.policy): row for row in found})
        if kept is not None:
            _keep(kept, found)
        progress(f"{number} of {len(tasks)}: {found[0].scenario}")
    return [rows[scenario.name, policy] for scenario in scenarios for policy in policies]


def _done(tasks: Sequence[tuple[Scenario, tuple[str, ...]]], jobs: int) -> Iterator[list[Row]]:
    """Yield each task's rows as it is finished."""
    if jobs == 1 or len(tasks) < 2:  # noqa: PLR2004 - one task needs no pool
        yield from (_all_of(*task) for task in tasks)
        return
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(_all_of, *task) for task in tasks]):
                yield future.result()
        except BrokenProcessPool as error:
            raise WorkerLost(
                "a worker process was ended from outside, perhaps for want of memory: run again "
                "with the same folder, which goes on from here, and with fewer jobs"
            ) from error


def _all_of(scenario: Scenario, policies: tuple[str, ...]) -> list[Row]:
    comparison = Comparison(scenario)
    return [comparison.run(policy) for policy in policies]


def read_rows(kept: Path | None) -> list[Row]:
    """Return the rows of an earlier run; a last line that was cut off is dropped.

    Raises MatrixUnreadable.
    """
    if kept is None or not kept.exists():
        return []
    lines = kept.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    try:
        return [_row(json.loads(line)) for line in whole]
    except (ValueError, TypeError, KeyError) as error:
        raise MatrixUnreadable(
            f"{kept} holds something else than an earlier run's results: move it away"
        ) from error


def _row(raw: dict[str, object]) -> Row:
    scenario = str(raw.pop("scenario"))
    return Row(scenario=scenario, result=Result(**raw))  # type: ignore[arg-type]


def _keep(kept: Path, rows: Iterable[Row]) -> None:
    whole = kept.read_bytes() if kept.exists() else b""
    # What a killed run left of a line would spoil the next one.
    whole = whole[: whole.rfind(b"\n") + 1]
    text = "".join(
        json.dumps({"scenario": row.scenario, **asdict(row.result)}) + "\n" for row in rows
    )
    kept.write_bytes(whole + text.encode("utf-8"))
