"""Builds the scaler out of its rooms, runs it, and drains it on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog

from scaler.adapters.clock import WallClock
from scaler.adapters.cluster_file import ClusterFileInvalid
from scaler.adapters.clusters import cluster_of, deletion_costs_of, notices_of
from scaler.adapters.decision_file import DecisionFile
from scaler.adapters.kubernetes_errors import AccessInvalid
from scaler.adapters.sources import BuiltSource, source_of
from scaler.adapters.targets import TargetsInvalid
from scaler.adapters.watched_file import WatchedFile
from scaler.config.faults import ConfigInvalid
from scaler.config.resolve import resolve
from scaler.config.sections import KubernetesSection, LogSection
from scaler.config.server import ServerConfig, adopt, compare, load_config
from scaler.control.board import Board
from scaler.control.deletion_costs import CostRemover, CostWriter
from scaler.control.heap import Heap
from scaler.control.loop import Loop
from scaler.control.notices import Notifier
from scaler.control.placement import pods_of_source
from scaler.control.ports import Clock, Cluster, Gateways
from scaler.control.registry import Registry
from scaler.control.writing import Scribe, all_faults, look_again_and_again
from scaler.core.units import Seconds
from scaler.demo.clock import FastClock
from scaler.demo.fleet_server import FleetServer
from scaler.demo.run import Scaler as DemoScaler
from scaler.demo.run import fleet_for, run_demo
from scaler.edge.access import Readers
from scaler.edge.callers import AllowedName
from scaler.edge.errors import EdgeError
from scaler.edge.grpc_server import GrpcServer
from scaler.edge.http_server import HttpServer
from scaler.edge.measured import MeasuredGateways, MeasuredSource
from scaler.edge.measures import Measures
from scaler.edge.tls import TlsFiles

DRAINED_WITHIN: Seconds = 3.5
CONFIG_LOOKED_AT_EVERY: Seconds = 1.0

REFUSALS = (AccessInvalid, ConfigInvalid, ClusterFileInvalid, TargetsInvalid, EdgeError, ValueError)
"""What a start can fail with for a reason that the user can cure; each message says how."""

Load = Callable[[], ServerConfig]

_log = structlog.get_logger(__name__)


class Application:
    """One scaler process: sources, loop, board and edges, wired once.

    `load` reads the configuration anew, for reloads; `config_file` is watched where it is given.
    Raises what the parts raise when they cannot be built (ConfigInvalid, ClusterFileInvalid,
    CertificateInvalid), before anything runs.
    """

    def __init__(
        self, load: Load, *, config_file: Path | None = None, clock: Clock | None = None
    ) -> None:
        """Build all parts; nothing runs or listens yet."""
        self.config = load()
        set_up_logs(self.config.log)
        self._load = load
        self._config_file = WatchedFile(config_file) if config_file is not None else None
        if self._config_file is not None:
            self._config_file.changed()
        self._clock = clock = clock or WallClock()
        measures = Measures()
        self.board = Board()
        self._decisions = _decision_file(self.config, self.board)
        self.registry = Registry(
            partial(resolve, server=self.config), clock.now, at_most=self.config.max_workloads
        )
        cluster = cluster_of(self.config.cluster, self.config.kubernetes, clock)
        self._sources = {
            name: source_of(
                name, section, clock, partial(pods_of_source, self.registry, cluster, name)
            )
            for name, section in self.config.sources.items()
        }
        self._scribes = scribes_of(self.board, cluster, self.config.kubernetes)
        measured = {
            name: MeasuredSource(built.source, measures) for name, built in self._sources.items()
        }
        measures.works.update({name: built.work for name, built in self._sources.items()})
        self.loop = Loop(
            registry=self.registry,
            board=self.board,
            sources=measured,
            cluster=cluster,
            clock=clock,
            gateways=_gateways(self._sources, measures),
        )
        self.grpc = GrpcServer(
            registry=self.registry,
            board=self.board,
            now=clock.now,
            measures=measures,
            tls=_tls_files(self.config),
        )
        self.http = self._http_server(measures, partial(all_faults, cluster, self._scribes))
        self.grpc_port = self.http_port = 0
        self.started = asyncio.Event()

    def _http_server(self, measures: Measures, faults: Callable[[], tuple[str, ...]]) -> HttpServer:
        server = HttpServer(
            registry=self.registry,
            board=self.board,
            followers=self.loop.followers,
            now=self._clock.now,
            measures=measures,
            answering=lambda: self.grpc.answering,
            faults=faults,
        )
        http = self.config.http
        server.past.kept = self._decisions
        server.readers = Readers(token_file=http.token_file, behind_proxy=http.behind_proxy)
        return server

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then drain. Raises ListenFailed."""
        try:
            self.grpc_port = await self.grpc.serve(self.config.grpc.listen)
            self.http_port = await self.http.serve(self.config.http.listen)
            self.registry.watch(self.config.watch)
            self.started.set()
            await self._until(stop)
        finally:
            _log.info("draining")
            await self.grpc.drain(DRAINED_WITHIN)
            await self.http.drain()
            if self._decisions is not None:
                await self._decisions.flush()

    async def _until(self, stop: asyncio.Event) -> None:
        """Run the loop until `stop`; a loop that ends by itself is a fault and is raised."""
        stopped = asyncio.create_task(stop.wait())
        working = [
            asyncio.create_task(self.loop.run()),
            asyncio.create_task(self._watch_config()),
            *([asyncio.create_task(self._decisions.run())] if self._decisions else ()),
            *(asyncio.create_task(look_again_and_again(s, self._clock)) for s in self._scribes),
        ]
        try:
            done, _ = await asyncio.wait([stopped, *working], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in [stopped, *working]:
                task.cancel()
            await asyncio.gather(stopped, *working, return_exceptions=True)

    async def _watch_config(self) -> None:
        while True:
            await asyncio.sleep(CONFIG_LOOKED_AT_EVERY)
            if self._config_file is not None and self._config_file.changed():
                self.reload()

    def reload(self) -> None:
        """Take a changed configuration over as far as that is possible at once.

        A faulty one changes nothing; no workload that was accepted is lost either way.
        """
        try:
            loaded = self._load()
        except ConfigInvalid as error:
            _log.error("config-invalid", error=str(error), kept="the configuration in force")
            return
        change = compare(self.config, loaded)
        self.config = adopt(self.config, loaded)
        for name, built in self._sources.items():
            built.adopt(self.config.sources[name])
        set_up_logs(self.config.log)
        self.registry.reload(partial(resolve, server=self.config))
        self.registry.watch(self.config.watch)
        _log.info("config-reloaded", change=str(change))


async def demo(*, once: bool, speed: float, http_listen: str) -> int:
    """Run the demo's fleet, this scaler on it, and the stand-in for KEDA; return an exit status."""
    clock = FastClock(speed)
    with tempfile.TemporaryDirectory(prefix="scaler-demo-") as directory:
        async with fleet_for(clock, Path(directory)) as fleet:
            flags = {
                "source": "scrape",
                "targets": str(fleet.targets_file),
                "cluster": str(fleet.cluster_file),
                "grpc_listen": "127.0.0.1:0",
                "http_listen": http_listen,
                "log_level": "error",
                "log_format": "text",
            }
            application = Application(partial(load_config, None, {}, flags), clock=clock)
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(application.run(stop))
                await application.started.wait()
                status = await _show(fleet, application, clock=clock, speed=speed, once=once)
                stop.set()
            return status


async def _show(
    fleet: FleetServer, application: Application, *, clock: FastClock, speed: float, once: bool
) -> int:
    scene = fleet.scene
    seen = DemoScaler(
        grpc=f"127.0.0.1:{application.grpc_port}",
        http=f"http://127.0.0.1:{application.http_port}",
        newest=lambda: next(iter(application.board.snapshot.of(scene.namespace, scene.name)), None),
    )
    say = partial(print, flush=True)
    return await run_demo(fleet, seen, clock=clock, speed=speed, say=say, once=once)


async def serve(application: Application) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reads the configuration again."""
    stop = asyncio.Event()
    application.loop.on_ticked(Heap(time.monotonic).settle)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with suppress(AttributeError):  # no SIGHUP on Windows
        loop.add_signal_handler(signal.SIGHUP, application.reload)
    await application.run(stop)


def set_up_logs(section: LogSection) -> None:
    """Log to stderr, one event a line, as JSON or as text."""
    renderer = (
        structlog.processors.JSONRenderer()
        if section.format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    level = logging.getLevelNamesMapping()[section.level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def _gateways(sources: Mapping[str, BuiltSource], measures: Measures) -> dict[str, Gateways]:
    """Return who is asked between the ticks what waits for the fleets at zero, by source."""
    asked = {name: built.gateways for name, built in sources.items()}
    return {name: MeasuredGateways(name, g, measures) for name, g in asked.items() if g is not None}


def scribes_of(board: Board, cluster: Cluster | None, section: KubernetesSection) -> list[Scribe]:
    """Build what writes to the cluster, as far as that is wanted."""
    scribes: list[Scribe] = []
    if cluster is not None and (notices := notices_of(cluster, section)) is not None:
        scribes.append(Notifier(board, cluster, notices))
    if cluster is not None and (costs := deletion_costs_of(cluster)) is not None:
        kind = CostWriter if section.deletion_cost else CostRemover
        scribes.append(kind(board, cluster, costs))
    return scribes


def _decision_file(config: ServerConfig, board: Board) -> DecisionFile | None:
    """Have changes of answers kept, where a file for them is named."""
    if config.history.file is None:
        return None
    file = DecisionFile(config.history.file)
    board.archive.on_change(file.note)
    return file


def _tls_files(config: ServerConfig) -> TlsFiles | None:
    tls = config.grpc.tls
    if tls is None:
        return None
    return TlsFiles(
        certificate=tls.certificate_file,
        key=tls.key_file,
        client_ca=tls.client_ca_file,
        allowed=tuple(
            AllowedName(name=each.name, namespaces=frozenset(each.namespaces))
            for each in tls.allowed_names
        ),
    )
