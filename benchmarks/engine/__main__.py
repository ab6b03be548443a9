"""The simulator's engine against a real vLLM under the same load: `make engine`.

Starts `vllm serve` once a scenario with a model that is nearly nothing, on the CPU, loads it, looks
at its page four times a second, fits the cost of a step to the first quarter, lets the model
predict the rest, and prints how far it is off.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from benchmarks.engine import scenarios, tiny_model
from benchmarks.engine.comparing import Comparison, compared, first_quarter
from benchmarks.engine.fitting import TooLittle, fitted, outside
from benchmarks.engine.installing import InstallFailed, install
from benchmarks.engine.keeping import keep, kept
from benchmarks.engine.modelled import Modelled, ModelRun, mirrored
from benchmarks.engine.pages import difference
from benchmarks.engine.real import Run, watched
from benchmarks.engine.receiving import received, steps_at
from benchmarks.engine.report import Chapter, put, written
from benchmarks.engine.scenarios import MAX_MODEL_LEN, Arrival, Scenario
from benchmarks.engine.server import BLOCK_SIZE, EngineFailed, serving
from scaler.simulation.exposition import exposition
from scaler.simulation.shapes import EngineShape, StepCost

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "engine-model.md"

NEEDED = """The engine model is compared with a real vLLM: say where one is.

    make engine ENGINE=/path/to/venv                  a virtual environment with bin/vllm in it
                                                      (0.32, built for the CPU)
    make engine ENGINE=/path/to/venv ARGS=--install   makes that first: 3 GB, some minutes

MODEL=/path names a model to serve instead of one that is made up on the spot. It takes about ten
minutes and two cores, best on a quiet machine. ARGS="--runs FOLDER" keeps what the real engine
showed, and compares what is kept already; ARGS=--write puts the figures into the documentation."""

STEP = 0.01
"""Seconds that every step takes where steps are compared: any number would do."""


def predicted(scenario: Scenario, run: Run) -> tuple[ModelRun, Comparison]:
    """Let the model predict a real run, by step and in time, and compare."""
    known = first_quarter(run.sights)
    cost, pause = fitted(known), outside(known, scenario.clients)
    even = StepCost(base=STEP, per_token=0.0, per_sequence=0.0, per_context_token=0.0)
    last = run.sights[-1]
    step_load, time_load = loads(scenario, run)
    by_step = Modelled(shape_of(scenario, run, even), step_load, pause=0.0)
    in_time = Modelled(shape_of(scenario, run, cost), time_load, pause=pause)
    model = in_time.run(last.at)
    comparison = compared(
        run, by_step.run(last.steps * STEP), model, cost=cost, pause=pause, step=STEP
    )
    return model, comparison


def shape_of(scenario: Scenario, run: Run, cost: StepCost) -> EngineShape:
    """Describe the real engine to the model: its flags, and the blocks that its page tells."""
    return EngineShape(
        cost=cost,
        max_num_seqs=scenario.seqs,
        max_num_batched_tokens=scenario.batched,
        block_size=BLOCK_SIZE,
        blocks=int(run.page.partition('num_gpu_blocks="')[2].partition('"')[0]) - 1,
        max_model_len=MAX_MODEL_LEN,
    )


def loads(scenario: Scenario, run: Run) -> tuple[Scenario, Scenario]:
    """Return the load as the engine got it: every request by step, and open arrivals in time."""
    came = [
        (r.client, at, Arrival(at=at, prompt=r.prompt, output=r.output))
        for at, r in received(run.served, run.sights)
    ]
    by_step = tuple(replace(arrival, at=steps_at(run.sights, at) * STEP) for _, at, arrival in came)
    in_time = tuple(arrival for client, _, arrival in came if client is None)
    return replace(scenario, clients=0, arrivals=by_step), replace(scenario, arrivals=in_time)


def planned(runs: dict[str, Run]) -> Iterator[Scenario]:
    """Name the scenarios; the second depends on what the first showed."""
    yield scenarios.SLOTS
    run = runs[scenarios.SLOTS.name]
    since = run.sights[-1].at / 4
    ended = [r for r in run.served if r.ended is not None and r.ended > since]
    yield scenarios.open_loop(0.7 * len(ended) / (run.sights[-1].at - since))
    yield scenarios.CACHE
    yield scenarios.BURST


def run_all(engine: Path, model: Path | None, folder: Path, *, reuse: bool) -> list[Chapter]:
    """Run every scenario, or take what is kept of it, and compare."""
    runs: dict[str, Run] = {}
    chapters = []
    if model is None:
        model = tiny_model.write(folder / "model", longest=MAX_MODEL_LEN)
    for scenario in planned(runs):
        run = kept(folder, scenario.name) if reuse else None
        if run is None:
            click.echo(f"{scenario.name}: starting the engine, {scenario.seconds:.0f} s", err=True)
            with serving(engine, model, scenario, folder / f"{scenario.name}.log") as address:
                run = asyncio.run(watched(address, scenario))
            keep(folder, scenario.name, run)
        runs[scenario.name] = run
        modelled, comparison = predicted(scenario, run)
        _, mirror = predicted(scenario, mirrored(modelled, run))
        page = exposition([modelled.engine], model_name="tiny")
        chapters.append(
            Chapter(
                scenario=scenario,
                comparison=comparison,
                mirror=mirror,
                page=difference(run.page, page),
                version=run.version,
            )
        )
    return chapters


@click.command(help=__doc__)
@click.option("--engine", type=click.Path(path_type=Path), envvar="ENGINE")
@click.option("--model", type=click.Path(path_type=Path), envvar="MODEL")
@click.option("--install", "wanted", is_flag=True, help="Install vLLM there first.")
@click.option("--runs", type=click.Path(path_type=Path), help="Keep runs here, or use them.")
@click.option("--write", is_flag=True, help="Put the figures into the documentation.")
def main(
    engine: Path | None, model: Path | None, runs: Path | None, *, wanted: bool, write: bool
) -> None:
    """Compare, and print or write the figures."""
    if engine is None:
        click.echo(NEEDED, err=True)
        sys.exit(2)
    try:
        if wanted:
            install(engine)
        if not (engine / "bin" / "vllm").exists():
            raise click.ClickException(f"there is no {engine / 'bin' / 'vllm'}\n\n{NEEDED}")
        with tempfile.TemporaryDirectory(prefix="engine-") as scratch:
            chapters = run_all(engine, model, runs or Path(scratch), reuse=runs is not None)
    except (EngineFailed, InstallFailed, TooLittle) as error:
        raise click.ClickException(str(error)) from error
    told = written(chapters)
    click.echo(told)
    if write:
        put(told, PAGE)


if __name__ == "__main__":
    main()
