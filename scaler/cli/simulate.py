"""`scaler simulate`: the scaler's own decision and its peers on simulated traffic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypedDict, Unpack

import click

from scaler.cli.durations import Duration
from scaler.core.units import Seconds
from scaler.simulation.command import Options, simulate
from scaler.simulation.profiles import PROFILES
from scaler.simulation.report import Format
from scaler.simulation.scenarios import Scenario
from scaler.simulation.shapes import ENGINES
from scaler.simulation.workloads import GENERATIONS


class Choices(TypedDict):
    """The options as click hands them over."""

    trace: str
    profile: str
    policy: str
    start_up: Seconds
    engine: str
    generations: str
    router: str
    outage: bool
    load: float | None
    replicas: int | None
    seed: int
    matrix: str | None
    jobs: int
    form: str
    output: Path | None


@click.command("simulate")
@click.option(
    "--trace",
    default="azure-conv",
    show_default=True,
    metavar="FILE|azure-conv|azure-code",
    help="Requests: a shipped trace's shape, or a file (Azure's CSV or JSON lines).",
)
@click.option("--profile", type=click.Choice(list(PROFILES)), default="day", show_default=True)
@click.option(
    "--policy",
    default="all",
    show_default=True,
    metavar="NAME[,NAME...]|all",
    help="corridor, a peer, NAME@TARGET, static-N, best-schedule-found; several with commas.",
)
@click.option("--start-up", type=Duration(zero=True), default="180s", show_default=True)
@click.option("--engine", type=click.Choice(list(ENGINES)), default="compute-bound")
@click.option("--generations", type=click.Choice(list(GENERATIONS)), default="as-traced")
@click.option("--router", default="least-loaded", show_default=True)
@click.option("--outage", is_flag=True, help="Metrics are missing for a while in the middle.")
@click.option("--load", type=click.FloatRange(min=0, min_open=True), help="Times the trace's rate.")
@click.option("--replicas", type=click.IntRange(min=1), help="The fleet at the start.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--matrix",
    is_flag=False,
    flag_value="subset",
    metavar="[full]",
    help="Many scenarios instead of one: a stated subset that takes up to an hour, or all.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--format", "form", type=click.Choice([f.value for f in Format]), default="table")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.pass_context
def command(ctx: click.Context, **chosen: Unpack[Choices]) -> None:
    """Run policies on simulated traffic and compare their cost and SLO attainment.

    Results go to stdout, progress to stderr; --output DIR gets a CSV and charts. With --matrix a
    set of scenarios is run, --jobs at a time; a run with the same DIR goes on where one ended.
    """
    scenario = Scenario(
        trace=chosen["trace"],
        profile=chosen["profile"],
        engine=chosen["engine"],
        start_up=chosen["start_up"],
        generations=chosen["generations"],
        outage=chosen["outage"],
        router=chosen["router"],
        seed=chosen["seed"],
        load=chosen["load"],
        replicas=chosen["replicas"],
    )
    options = Options(
        scenario=scenario,
        policy=chosen["policy"],
        form=Format(chosen["form"]),
        output=chosen["output"],
        matrix=chosen["matrix"],
        jobs=chosen["jobs"],
    )
    ctx.exit(simulate(options, results=sys.stdout, progress=sys.stderr))
