"""`scaler simulate`: the scaler's own decision and its peers on simulated traffic."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import click

from scaler.simulation.command import Options, simulate
from scaler.simulation.profiles import PROFILES
from scaler.simulation.report import Format
from scaler.simulation.scenarios import Scenario
from scaler.simulation.shapes import ENGINES
from scaler.simulation.workloads import GENERATIONS

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_UNITS = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class _Span(click.ParamType[float]):
    """A duration such as `180s`, `3m` or plain seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        if isinstance(value, float):
            return value
        found = _SPAN.fullmatch(str(value).strip())
        seconds = float(found[1]) * _UNITS[found[2]] if found else math.nan
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is no duration such as 180s, 3m or 0.5h", param, ctx)
        return seconds


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
@click.option("--start-up", type=_Span(), default="180s", show_default=True)
@click.option("--engine", type=click.Choice(list(ENGINES)), default="compute-bound")
@click.option("--generations", type=click.Choice(list(GENERATIONS)), default="as-traced")
@click.option("--router", default="least-loaded", show_default=True)
@click.option("--outage", is_flag=True, help="Metrics are missing for a while in the middle.")
@click.option("--load", type=click.FloatRange(min=0, min_open=True), help="Times the trace's rate.")
@click.option("--replicas", type=click.IntRange(min=1), help="The fleet at the start.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--matrix", is_flag=False, flag_value="subset", help="Scenarios: subset or full.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--format", "form", type=click.Choice([f.value for f in Format]), default="table")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.pass_context
def command(  # noqa: PLR0913 - click gives each option by name
    ctx: click.Context,
    *,
    trace: str,
    profile: str,
    policy: str,
    start_up: float,
    engine: str,
    generations: str,
    router: str,
    outage: bool,
    load: float | None,
    replicas: int | None,
    seed: int,
    matrix: str | None,
    jobs: int,
    form: str,
    output: Path | None,
) -> None:
    """Run policies on simulated traffic and compare their cost and SLO attainment.

    Results go to stdout, progress to stderr; --output DIR gets a CSV and charts. With --matrix a
    set of scenarios is run, --jobs at a time; a run with the same DIR goes on where one ended.
    """
    scenario = Scenario(
        trace=trace,
        profile=profile,
        engine=engine,
        start_up=start_up,
        generations=generations,
        outage=outage,
        router=router,
        seed=seed,
        load=load,
        replicas=replicas,
    )
    options = Options(
        scenario=scenario,
        policy=policy,
        form=Format(form),
        output=output,
        matrix=matrix,
        jobs=jobs,
    )
    ctx.exit(simulate(options, results=sys.stdout, progress=sys.stderr))
