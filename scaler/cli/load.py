"""`scaler load`: the traffic that the simulator knows, sent to a real server."""

from __future__ import annotations

import asyncio
import math
import os
import re
from pathlib import Path
from typing import TypedDict, Unpack
from urllib.parse import urlsplit

import click

from scaler.adapters.openai_client import Endpoint
from scaler.adapters.openai_dialect import Api
from scaler.adapters.openai_errors import EndpointError
from scaler.adapters.stopwatch import Stopwatch
from scaler.cli.durations import Duration
from scaler.cli.load_files import write_files
from scaler.cli.load_plan import CannotRun, Plan, Run
from scaler.cli.load_report import render
from scaler.cli.load_run import drive, make_room
from scaler.core.units import Seconds
from scaler.simulation.errors import SimulationError
from scaler.simulation.outcomes import Slo
from scaler.simulation.profiles import PROFILES, profile_named
from scaler.simulation.report import Format
from scaler.simulation.trace_shapes import SHIPPED, shipped_shape
from scaler.simulation.traces import Trace, read_trace
from scaler.simulation.workloads import GENERATIONS, Clients, Workload

DONE, MISSED, BEHIND, INTERRUPTED = 0, 1, 3, 130

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_KEY = re.compile(r"[\x21-\x7e]+")
_ABOVE_ZERO = click.FloatRange(min=0.0, min_open=True)
_SHARE = click.FloatRange(min=0.0, max=1.0)


class Options(TypedDict):
    """The options as click hands them over."""

    url: str
    model: str | None
    api: str
    api_key_file: Path | None
    api_key_env: str | None
    ca_file: Path | None
    trace: str
    profile: str
    generations: str
    multiple: float | None
    rate: float | None
    duration: Seconds | None
    warm_up: Seconds
    seed: int
    shared_prefix: float
    clip: bool
    patience: Seconds
    timeout: Seconds
    max_in_flight: int
    max_late: Seconds
    slo: float | None
    slo_ttft: Seconds
    slo_tpot: Seconds
    form: str
    output: Path | None


@click.command("load")
@click.option("--url", required=True, metavar="URL", help="The server: http://host:8000.")
@click.option("--model", metavar="NAME", help="By default the first that the server lists.")
@click.option(
    "--api", type=click.Choice([str(api) for api in Api]), default="completions", show_default=True
)
@click.option("--api-key-file", type=_FILE, help="The server's API key, on one line.")
@click.option("--api-key-env", metavar="VARIABLE", help="The variable that holds the API key.")
@click.option("--ca-file", type=_FILE, help="The CA of the server's certificate.")
@click.option(
    "--trace",
    metavar=f"FILE|{'|'.join(SHIPPED)}",
    default=SHIPPED[0],
    show_default=True,
    help="When requests come and how long they are: Azure's CSV, or JSON lines.",
)
@click.option("--profile", type=click.Choice(list(PROFILES)), default="steady", show_default=True)
@click.option("--generations", type=click.Choice(list(GENERATIONS)), default="as-traced")
@click.option(
    "--load",
    "multiple",
    type=_ABOVE_ZERO,
    help="Requests at the profile's peak, as times the trace's mean rate.  [default: 1]",
)
@click.option("--rate", type=_ABOVE_ZERO, help="The same in requests a second, instead of --load.")
@click.option(
    "--duration", type=Duration(), help="By default the profile's own; it is stretched to this."
)
@click.option(
    "--warm-up",
    type=Duration(zero=True),
    default="0s",
    show_default=True,
    help="The first part of the duration is sent, and left out of the results.",
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--shared-prefix",
    type=_SHARE,
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Share of each prompt with which all begin, for prefix caches.",
)
@click.option("--clip", is_flag=True, help="Shorten requests that the model's context cannot hold.")
@click.option(
    "--patience",
    type=Duration(),
    default="60s",
    show_default=True,
    help="A client without a first token goes away after this.",
)
@click.option(
    "--timeout",
    type=Duration(),
    default="10m",
    show_default=True,
    help="A client goes away after this in any case.",
)
@click.option(
    "--max-in-flight",
    type=click.IntRange(min=1),
    default=4000,
    show_default=True,
    help="Requests beyond these are not sent; they count as misses.",
)
@click.option(
    "--max-late",
    type=Duration(),
    default="100ms",
    show_default=True,
    help="When 1 % of the requests go out later than this, the result is none (status 3).",
)
@click.option("--slo", type=_SHARE, metavar="SHARE", help="End with status 1 below this, as 0.95.")
@click.option("--slo-ttft", type=Duration(), default="2s", show_default=True)
@click.option(
    "--slo-tpot", type=Duration(), default="100ms", show_default=True, help="Mean after the first."
)
@click.option("--format", "form", type=click.Choice([f.value for f in Format]), default="table")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.pass_context
def command(ctx: click.Context, **options: Unpack[Options]) -> None:
    """Drive an OpenAI-compatible server with a trace under a profile, and judge its answers.

    Requests come at their instants whether or not earlier ones were answered. Prompts are random
    and share no beginnings, so that no prefix cache answers them. The SLO attainment is the
    simulator's: the share of all requests with a first token within 2 s and then 100 ms a token;
    those rejected, cut off, given up or not sent are misses. Ctrl-C sends no more, Ctrl-C again
    leaves what is open; what was measured is reported.

    Results go to stdout, progress to stderr; --output DIR gets CSV files and a chart.

    Exit status: 0, or 1 when --slo was missed, 2 when the test could not begin, 3 when this machine
    did not keep up, 130 after Ctrl-C.
    """
    plan = _plan(options)
    output = options["output"]
    try:
        make_room(plan.most_open)
        if output is not None:
            output.mkdir(parents=True, exist_ok=True)
        run = asyncio.run(
            drive(plan, say=lambda line: click.echo(line, err=True), clock=Stopwatch())
        )
        click.echo(render(run, Format(options["form"])), nl=False)
        if output is not None:
            write_files(run, output)
    except EndpointError as error:
        raise CannotRun(str(error)) from error
    except OSError as error:
        raise CannotRun(f"{error.filename or output}: {error.strerror or error}") from error
    except KeyboardInterrupt:
        ctx.exit(INTERRUPTED)
    ctx.exit(_status(run, options["slo"]))


def _status(run: Run, slo: float | None) -> int:
    attainment = run.ledger.outcomes.slo_attainment
    if run.interrupted:
        return INTERRUPTED
    if run.behind:
        return BEHIND
    if slo is not None and (attainment is None or attainment < slo):
        return MISSED
    return DONE


def _plan(options: Options) -> Plan:
    workload = _workload(options)
    if any(math.isnan(share) for share in (options["slo"] or 0.0, options["shared_prefix"])):
        raise click.UsageError("nan is no share: write a number from 0 to 1")
    if options["warm_up"] >= workload.length:
        raise click.UsageError("--warm-up leaves nothing of the --duration to measure")
    if not any(request.arrived >= options["warm_up"] for request in workload.requests()):
        raise CannotRun(
            f"no request of {workload.trace.name} comes in so short a time at so low a rate: "
            "raise --duration, --rate or --load"
        )
    return Plan(
        endpoint=Endpoint(url=_base(options["url"]), key=_key(options), ca_file=options["ca_file"]),
        api=Api(options["api"]),
        model=options["model"],
        workload=workload,
        slo=Slo(ttft=options["slo_ttft"], tpot=options["slo_tpot"]),
        warm_up=options["warm_up"],
        shared=options["shared_prefix"],
        clip=options["clip"],
        most_open=options["max_in_flight"],
        most_late=options["max_late"],
    )


def _workload(options: Options) -> Workload:
    multiple, rate = options["multiple"], options["rate"]
    if multiple is not None and rate is not None:
        raise click.UsageError("give --load or --rate, not both")
    try:
        trace = _trace(options["trace"], options["seed"])
        profile = profile_named(options["profile"])
        if rate is not None:
            peak = max(level for _, level in profile.points)
            multiple = rate / (_rate(trace, options["duration"] or profile.duration) * peak)
        return Workload(
            trace=trace,
            profile=profile,
            seed=options["seed"],
            load=1.0 if multiple is None else multiple,
            duration=options["duration"],
            output_scale=GENERATIONS[options["generations"]],
            clients=Clients(patience=options["patience"], timeout=options["timeout"]),
        )
    except SimulationError as error:
        raise CannotRun(str(error)) from error


def _trace(name: str, seed: int) -> Trace:
    return shipped_shape(name).draw(seed) if name in SHIPPED else read_trace(Path(name))


def _rate(trace: Trace, length: Seconds) -> float:
    """Return the requests a second of the part of a trace that a test sees: bursts are no mean."""
    seen = max(1, sum(row.at < length for row in trace.rows))
    return seen / length if length < trace.duration else trace.rate


def _base(url: str) -> str:
    try:
        parts = urlsplit(url)
        well = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        well = False
        parts = urlsplit("")
    if not well or parts.query or parts.fragment:
        raise click.UsageError("--url is no URL such as http://host:8000")
    if "@" in parts.netloc:
        raise click.UsageError("--url holds credentials, which end up in logs: use --api-key-file")
    return url


def _key(options: Options) -> str | None:
    """Return the API key; no message ever holds it."""
    file, variable = options["api_key_file"], options["api_key_env"]
    if file is not None and variable is not None:
        raise click.UsageError("give --api-key-file or --api-key-env, not both")
    if file is not None:
        try:
            return _checked(file.read_text(encoding="utf-8"), f"the API key in {file}")
        except (OSError, UnicodeDecodeError) as error:
            raise CannotRun(f"the API key in {file} cannot be read") from error
    if variable is not None:
        return _checked(os.environ.get(variable, ""), f"the API key in ${variable}")
    return None


def _checked(text: str, what: str) -> str:
    key = text.strip()
    if not _KEY.fullmatch(key):
        raise CannotRun(f"{what} is empty, or more than one word of plain ASCII")
    return key
