"""`scaler replay`: what the scaler would have answered, on a workload's own past."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TypedDict, Unpack

import click

from scaler.config.faults import ConfigurationError, Fault, TriggerUnresolved, Unreadable
from scaler.config.quantities import duration
from scaler.config.resolve import resolve
from scaler.config.scaled_object import ScaledObject, read_scaled_object
from scaler.config.server import ServerConfig, load_config
from scaler.config.trigger import Resolved, parse_trigger
from scaler.core.history import span_needed
from scaler.core.learned import LONGEST_LEAD_TIME, Learned
from scaler.core.rendering import instant_of
from scaler.core.units import TICK, Seconds, tick_at
from scaler.core.workload import Scale, Selection, WorkloadKey
from scaler.simulation.quantity import QuantityInvalid, approximate
from scaler.tuning.ports import PastUnreadable, Target, Wanted
from scaler.tuning.record import Moment, Record
from scaler.tuning.replay import Replay, replay
from scaler.tuning.replay_text import Format, explained, write

_FILE = click.Path(path_type=Path, dir_okay=False)
_DAYS = re.compile(r"-(\d+)d")
_LOOKED_BACK: Seconds = 8 * TICK
"""A moment is explained by the last one that is known, if that is not older."""


class Choices(TypedDict):
    """The options as click hands them over."""

    file: Path
    prometheus: str | None
    config: Path | None
    source: str | None
    kept: Path | None
    begin: str | None
    end: str | None
    moment: str | None
    changed: tuple[str, ...]
    form: str
    out: Path | None
    export: Path | None


@click.command("replay")
@click.argument("file", metavar="SCALEDOBJECT.yaml", type=_FILE)
@click.option("--prometheus", metavar="URL", help="The Prometheus that remembers.")
@click.option("--config", type=_FILE, help="The server's configuration: sources and profiles.")
@click.option("--source", metavar="NAME", help="With --config: which of its sources.")
@click.option("--record", "kept", type=_FILE, help="A file that --export wrote, instead.")
@click.option("--from", "begin", show_default="-1d", help="RFC 3339, or -7d, -6h.")
@click.option("--to", "end", help="As --from; now where it is not given.")
@click.option("--explain-at", "moment", metavar="TIME", help="Explain that one moment instead.")
@click.option("--set", "changed", multiple=True, metavar="KEY=VALUE", help="Another setting.")
@click.option("--format", "form", type=click.Choice([f.value for f in Format]), default="table")
@click.option("--out", type=_FILE, help="Where the result goes instead of the terminal.")
@click.option("--export", type=_FILE, help="Keep what was read, for --record; .gz compresses.")
def command(**chosen: Unpack[Choices]) -> None:
    """Decide on a workload's past anew, and set it beside what happened.

    It is open loop: the recorded signals belong to the recorded counts.
    """
    try:
        _run(chosen)
    except (ConfigurationError, PastUnreadable) as error:
        raise click.ClickException(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"a file cannot be read or written: {error}") from error


def _run(chosen: Choices) -> None:
    from scaler.adapters.record_file import read_record, write_record  # noqa: PLC0415 - pydantic

    now = time.time()
    start, end = _range(chosen, now)
    scaled = read_scaled_object(chosen["file"].read_text("utf-8"), str(chosen["file"]))
    server = _server(chosen)
    key, resolved = _resolved(scaled, server, chosen)
    notes: tuple[str, ...] = ()
    if chosen["kept"] is not None:
        record = read_record(chosen["kept"])
    else:
        _demand_series(scaled, resolved.selection)
        record, notes = asyncio.run(_read(_wanted(scaled, resolved, start, end), server))
    if chosen["export"] is not None:
        write_record(record, chosen["export"])
    if chosen["moment"] is not None:
        start = min(start, end - record.coarsest)
    found = replay(record.between(0.0, end), resolved.policy, start, notes)
    text = _text(found, key, end, chosen)
    if chosen["out"] is not None:
        chosen["out"].write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)


def _range(chosen: Choices, now: Seconds) -> tuple[Seconds, Seconds]:
    moment, begin, end = chosen["moment"], chosen["begin"], chosen["end"]
    if moment is None:
        span = tick_at(_instant(begin or "-1d", now)), tick_at(_instant(end or "-0s", now))
        if span[0] >= span[1]:
            raise click.UsageError("--from must lie before --to")
        return span
    if begin is not None or end is not None:
        raise click.UsageError("--explain-at is one moment: leave --from and --to out")
    if chosen["form"] != Format.TABLE:
        raise click.UsageError("--explain-at writes text: leave --format out")
    at = _instant(moment, now)
    if at > now and chosen["kept"] is None:
        raise click.UsageError(f'--explain-at: "{moment[:40]}" has not come yet')
    return tick_at(at) - _LOOKED_BACK, tick_at(at)


def _text(found: Replay, key: WorkloadKey, end: Seconds, chosen: Choices) -> str:
    if chosen["moment"] is None:
        if not found.steps:
            raise PastUnreadable("nothing is recorded in the range: look at --from and --to")
        return write(found, Format(chosen["form"]))
    if not found.steps:
        raise PastUnreadable(f"nothing is recorded at {instant_of(end)}, nor shortly before")
    kept = chosen["kept"]
    return explained(found, key, "Prometheus" if kept is None else f"the record {kept.name}")


def _instant(text: str, now: Seconds) -> Seconds:
    days = _DAYS.fullmatch(text)
    try:
        if days is not None:
            return now - int(days[1]) * 86_400.0
        if text.startswith("-"):
            return now - duration(text[1:])
        found = datetime.fromisoformat(text)
    except (Unreadable, ValueError) as error:
        raise click.UsageError(
            f'"{text[:40]}" is no time: write 2026-12-01T03:10:00Z, or -7d'
        ) from error
    return found.astimezone().timestamp()


def _server(chosen: Choices) -> ServerConfig:
    if chosen["config"] is not None:
        return load_config(chosen["config"], dict(os.environ), {})
    url = chosen["prometheus"]
    if url is None and chosen["kept"] is None:
        raise click.UsageError("give --prometheus URL, --config FILE or --record FILE")
    flags = {"source": "prometheus", "prometheus_url": url or "http://127.0.0.1:9090"}
    return load_config(None, {}, flags)


def _resolved(
    scaled: ScaledObject, server: ServerConfig, chosen: Choices
) -> tuple[WorkloadKey, Resolved]:
    given = dict(scaled.metadata)
    for pair in chosen["changed"]:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f'--set "{pair[:60]}" is no KEY=VALUE, such as waitingHigh=8')
        given.pop(f"{key}FromEnv", None)
        given[key] = value
    if chosen["config"] is None:
        given.pop("source", None)
    elif chosen["source"] is not None:
        given["source"] = chosen["source"]
    trigger = parse_trigger(scaled.namespace, scaled.name, given)
    return trigger.key, resolve(trigger, server)


def _wanted(scaled: ScaledObject, resolved: Resolved, start: Seconds, end: Seconds) -> Wanted:
    return Wanted(
        namespace=scaled.namespace,
        name=scaled.name,
        selection=resolved.selection,
        target=Target(kind=scaled.kind, name=scaled.target, hpa=scaled.hpa),
        bounds=Scale(
            current=0,
            min_replicas=scaled.min_replicas,
            max_replicas=scaled.max_replicas,
            tolerance_out=_tolerance("scaleUp", scaled.tolerance_out),
            tolerance_in=_tolerance("scaleDown", scaled.tolerance_in),
        ),
        start=start,
        end=end,
        lead_in=span_needed(resolved.policy, Learned(lead_time=LONGEST_LEAD_TIME)),
    )


def _tolerance(direction: str, written: str) -> float:
    """Read it as the live scaler reads the HPA's. Kubernetes takes no percentage."""
    try:
        return max(0.0, approximate(written))
    except QuantityInvalid as error:
        fault = Fault(
            key=f"behavior.{direction}.tolerance",
            value=written,
            problem="is no quantity, and Kubernetes refuses it",
            cure="write a share such as 0.05, which is 5 %, or 50m",
        )
        raise ConfigurationError("the ScaledObject cannot be read", [fault]) from error


def _demand_series(scaled: ScaledObject, selection: Selection) -> None:
    """Refuse to read a whole namespace: only the live scaler knows a workload by its pods."""
    if selection.model_name is None and not selection.matchers:
        fault = Fault(
            key="modelName",
            problem="is not given, nor is selector: a live scaler finds the series by the pods, "
            "which a replay does not see, and it would read the whole namespace",
            cure="give --set modelName=NAME, the engine's model_name, or --set 'selector=...', "
            "label matchers that only this workload's series have",
        )
        subject = f"the past of {scaled.namespace}/{scaled.name} cannot be read"
        raise TriggerUnresolved(subject, [fault])


async def _read(wanted: Wanted, server: ServerConfig) -> tuple[Record, tuple[str, ...]]:
    from scaler.adapters.recorded_prometheus import recorded_prometheus  # noqa: PLC0415 - requests

    name = wanted.selection.source
    past = recorded_prometheus(name, server.sources[name])
    moments: list[Moment] = []
    notes: list[str] = []
    try:
        with click.progressbar(length=1000, label="reading", file=sys.stderr) as bar:
            async for page in past.pages(wanted):
                moments += page.moments
                notes += page.notes
                bar.update(round(page.share * 1000) - bar.pos)
    finally:
        past.close()
    record = Record(
        namespace=wanted.namespace,
        name=wanted.name,
        moments=tuple(moments),
        asks_gateway=wanted.selection.activation_query is not None,
    )
    return record, tuple(notes)
