"""The server's own configuration, from a file, the environment and flags, in rising strength."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import ValidationError

from scaler.config import hardware
from scaler.config.documents import YamlInvalid, read_documents
from scaler.config.entries import Entry, pair_faults, read_settings
from scaler.config.faults import ConfigInvalid, Fault, TriggerInvalid, Unreadable
from scaler.config.layers import Tree, from_environment, from_flags, lay_over
from scaler.config.promql import QueryInvalid, parse_query, selectors
from scaler.config.quantities import profile_name, source_name
from scaler.config.schema_faults import schema_faults
from scaler.config.sections import (
    FileSection,
    GrpcSection,
    HistorySection,
    HttpSection,
    KubernetesSection,
    LogSection,
    PrometheusSource,
    ScrapeSource,
    WatchSection,
)
from scaler.config.settings import TriggerSettings
from scaler.config.trigger import Trigger, parse_trigger

AnySource: TypeAlias = ScrapeSource | PrometheusSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """A valid configuration.

    `cluster` is the file with the counts, or the word for a real one, which `kubernetes` then
    describes; `None` for no cluster. `watch` are workloads without a trigger, in the mode `advise`.
    """

    grpc: GrpcSection = field(default_factory=GrpcSection)
    http: HttpSection = field(default_factory=HttpSection)
    log: LogSection = field(default_factory=LogSection)
    max_workloads: int = 20_000
    cluster: Path | Literal["kubernetes"] | None = None
    kubernetes: KubernetesSection = field(default_factory=KubernetesSection)
    history: HistorySection = field(default_factory=HistorySection)
    sources: Mapping[str, AnySource] = field(default_factory=dict)
    profiles: Mapping[str, TriggerSettings] = field(default_factory=dict)
    watch: tuple[Trigger, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """What a new configuration changes: at once (`live`), or only after a restart."""

    live: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say it in a sentence."""
        parts = []
        if self.live:
            parts.append(f"in force: {', '.join(self.live)}")
        if self.restart:
            parts.append(f"in force only after a restart: {', '.join(self.restart)}")
        return "; ".join(parts) or "nothing changed"


def load_config(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> ServerConfig:
    """Read the configuration. Raises ConfigInvalid with every fault of every layer.

    Flags are named as on the command line, with dashes or underscores; `None` is not given.
    """
    tree, faults = _read_file(file)
    by_environment, unknown_variables = from_environment(environment)
    by_flags, unknown_flags = from_flags(flags)
    faults += [*unknown_variables, *unknown_flags]
    faults += [*lay_over(tree, by_environment), *lay_over(tree, by_flags)]
    config = _checked(tree, faults)
    if faults or config is None:
        where = "" if file is None else f" ({file})"
        raise ConfigInvalid(f"the server's configuration{where} is not valid", faults)
    return config


def _read_file(file: Path | None) -> tuple[Tree, list[Fault]]:
    if file is None:
        return {}, []
    try:
        documents = list(read_documents(file.read_text(encoding="utf-8")))
    except OSError as error:
        return {}, [_file_fault(f"cannot be read: {error.strerror}", "see --config")]
    except UnicodeDecodeError:
        return {}, [_file_fault("is not UTF-8", "write it as plain text")]
    except YamlInvalid as error:
        return {}, [_file_fault(str(error), "write YAML")]
    if len(documents) > 1:
        return {}, [_file_fault("holds several documents", "write one")]
    value = documents[0].value if documents else {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return {}, [_file_fault("is no mapping", "write key: value lines")]
    return dict(value), []


def _file_fault(problem: str, cure: str) -> Fault:
    return Fault(key="file", problem=problem, cure=cure)


def _checked(tree: Tree, faults: list[Fault]) -> ServerConfig | None:
    """Return the configuration that the tree describes; add what is wrong with it to `faults`."""
    try:
        section = FileSection.model_validate(tree)
    except ValidationError as error:
        faults += schema_faults(error)
        return None
    faults += _source_faults(section.sources)
    faults += _pods_faults(section)
    profiles = {name: _profile(name, given, faults) for name, given in section.profiles.items()}
    watch = [_watched(item, faults) for item in section.watch]
    return ServerConfig(
        grpc=section.grpc,
        http=section.http,
        log=section.log,
        max_workloads=section.max_workloads,
        cluster=section.cluster,
        kubernetes=section.kubernetes,
        history=section.history,
        sources=section.sources,
        profiles=profiles,
        watch=tuple(trigger for trigger in watch if trigger is not None),
    )


def _source_faults(sources: Mapping[str, AnySource]) -> list[Fault]:
    faults: list[Fault] = []
    if not sources:
        cure = "give --source scrape --targets FILE, or --source prometheus --prometheus-url URL"
        faults.append(Fault(key="sources", problem="has none", cure=cure))
    for name, source in sources.items():
        try:
            source_name(name)
        except Unreadable as error:
            faults.append(Fault(key="sources", value=name, problem=error.problem, cure=error.cure))
        for query, text in source.queries.items():
            inside = "prometheus." if isinstance(source, ScrapeSource) else ""
            faults += _query_faults(f"sources.{name}.{inside}queries.{query}", query, text)
    return faults


def _pods_faults(section: FileSection) -> list[Fault]:
    if section.cluster == "kubernetes":
        return []
    return [
        Fault(
            key=f"sources.{name}.pods",
            problem="needs a cluster that shows pods",
            cure="set cluster: kubernetes, or name a file of targets",
        )
        for name, source in section.sources.items()
        if isinstance(source, ScrapeSource) and source.pods is not None
    ]


def _query_faults(key: str, name: str, text: str) -> list[Fault]:
    try:
        profile_name(name)
    except Unreadable as error:
        return [Fault(key=key, problem=error.problem, cure=error.cure)]
    try:
        refused = hardware.first_hardware_metric(selectors(parse_query(text)))
    except QueryInvalid:
        # The operator's Prometheus may know more PromQL than our parser: it will say.
        return []
    if refused is None:
        return []
    return [Fault(key=key, problem=f"reads {refused}, which {hardware.REASON}", cure=hardware.CURE)]


def _profile(name: str, given: Mapping[str, object], faults: list[Fault]) -> TriggerSettings:
    place = f"profiles.{name}"
    entries: list[Entry] = []
    for key, value in given.items():
        text = _as_metadata(value)
        if key == "profile" or text is None:
            problem = "is no plain value" if text is None else "may not stand in a profile"
            faults.append(Fault(key=f"{place}.{key}", problem=problem, cure="leave it out"))
        else:
            entries.append(Entry(key=key, written_as=key, value=text.strip()))
    settings, unreadable = read_settings(entries)
    found = [*unreadable, *pair_faults(settings, defaults=False)]
    faults += [replace(fault, key=f"{place}.{fault.key}") for fault in found]
    return settings


def _watched(item: WatchSection, faults: list[Fault]) -> Trigger | None:
    place = f"watch.{item.namespace}/{item.name}"
    metadata = {key: _as_metadata(value) for key, value in item.metadata.items()}
    given = {key: value for key, value in metadata.items() if value is not None}
    if len(given) < len(metadata):
        faults.append(Fault(key=place, problem="has a value that is not plain", cure="write text"))
        return None
    try:
        return parse_trigger(item.namespace, item.name, {**given, "mode": "advise"})
    except TriggerInvalid as error:
        faults += [replace(fault, key=f"{place}.{fault.key}") for fault in error.faults]
        return None


def _as_metadata(value: object) -> str | None:
    """Return a YAML value as the text that metadata holds; `None` if it is not plain."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return value if isinstance(value, str) else None


_LIVE: Mapping[str, Callable[[ServerConfig], object]] = {
    "log.level": lambda config: config.log.level,
    "profiles": lambda config: config.profiles,
    "watch": lambda config: config.watch,
}
_AT_START: Mapping[str, Callable[[ServerConfig], object]] = {
    "log.format": lambda config: config.log.format,
    "grpc": lambda config: config.grpc,
    "http": lambda config: config.http,
    "maxWorkloads": lambda config: config.max_workloads,
    "cluster": lambda config: config.cluster,
    "kubernetes": lambda config: config.kubernetes,
    "history": lambda config: config.history,
}


def _changed(
    running: ServerConfig,
    loaded: ServerConfig,
    parts: Mapping[str, Callable[[ServerConfig], object]],
) -> list[str]:
    return [name for name, part in parts.items() if part(running) != part(loaded)]


def compare(running: ServerConfig, loaded: ServerConfig) -> ConfigChange:
    """Say what of a newly loaded configuration takes effect at once and what needs a restart.

    At once: profiles, watched workloads, the log level, and the named queries of sources that
    stay otherwise as they are. All else is built once, at the start.
    """
    live = _changed(running, loaded, _LIVE)
    restart = _changed(running, loaded, _AT_START)
    for name in sorted({*running.sources, *loaded.sources}):
        before, after = running.sources.get(name), loaded.sources.get(name)
        if before == after:
            continue
        same = before is not None and after is not None and _adopted(before, after) == after
        (live if same else restart).append(f"sources.{name}" + (".queries" if same else ""))
    return ConfigChange(live=tuple(live), restart=tuple(restart))


def adopt(running: ServerConfig, loaded: ServerConfig) -> ServerConfig:
    """Return the running configuration with all that a newly loaded one may change at once."""
    return replace(
        running,
        log=running.log.model_copy(update={"level": loaded.log.level}),
        profiles=loaded.profiles,
        watch=loaded.watch,
        sources={
            name: _adopted(source, loaded.sources.get(name, source))
            for name, source in running.sources.items()
        },
    )


def _adopted(running: AnySource, loaded: AnySource) -> AnySource:
    """Return the running source with the other's named queries, where both have such."""
    same = type(running) is type(loaded) and running.answers_queries and loaded.answers_queries
    return running.with_queries(loaded.queries) if same else running
