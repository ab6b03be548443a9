"""The scaler's own loop around a simulated fleet with a gateway, driven by KEDA through zero."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from scaler.config.trigger import Resolved, Trigger
from scaler.control.board import Board
from scaler.control.loop import Loop
from scaler.control.ports import SourceError, SourceUnreachable
from scaler.control.registry import Entry, Registry
from scaler.core.gateway import ASKED_EVERY
from scaler.core.pods import Pod, Situation
from scaler.core.policy import Policy
from scaler.core.reading import Reading
from scaler.core.reasons import Reason
from scaler.core.units import Seconds, tick_at
from scaler.core.workload import Scale, Selection
from scaler.edge.answers import METRIC, activity_of, metrics_of
from scaler.edge.errors import Refusal
from scaler.simulation.fleet import Fleet
from scaler.simulation.gateway import Gateway
from scaler.simulation.hpa_types import PodCount, TargetScale
from scaler.simulation.keda import Keda, KedaLoop
from scaler.simulation.keda_types import MetricSpec, ScaledObject, ScalerError
from scaler.simulation.replica import ReplicaState
from scaler.simulation.requests import Request
from scaler.simulation.shapes import EngineShape, FleetShape, StartUp, StepCost
from tests.fakes.clock import FakeClock, settle

START: Seconds = 1_000_000_020.0
LOAD: Seconds = 600.0
"""Ten minutes from a replica's creation until it serves."""

ENGINE = EngineShape(
    cost=StepCost(base=0.02, per_token=1e-5, per_sequence=1e-4, per_context_token=1e-7),
    max_num_seqs=16,
    max_num_batched_tokens=2048,
    blocks=4000,
    max_model_len=8192,
)
MOST = 6
_POLL_PHASE, _SYNC_PHASE = 2.0, 3.0


def request(number: int, after: Seconds, *, output: int = 200, patience: float = 1e9) -> Request:
    """Make a request that comes so many seconds after the start; 50 tokens take a second."""
    return Request(
        number=number, arrived=START + after, prompt=100, output=output, patience=patience
    )


@dataclass
class ZeroWorld:
    """Everything in one object: source, gateways, cluster and KEDA's scaler over one fleet.

    `silent` says when the Prometheus that knows the gateway is down, `push` whether the trigger is
    of type external-push. `writes` are the counts that KEDA and the HPA set, and when.
    """

    arrivals: Iterable[Request] = ()
    policy: Policy = field(default_factory=lambda: Policy(scale_in_window=300.0))
    query: str | None = "queue"
    scaled_object: ScaledObject = field(default_factory=lambda: ScaledObject(max_replicas=MOST))
    replicas: int = 0
    start_up: Seconds = LOAD
    push: bool = True
    looks_at_pods: bool = True
    silent: Callable[[Seconds], bool] = lambda _: False
    name: str = "engines"
    faults: tuple[str, ...] = ()
    writes: list[tuple[Seconds, int]] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    pushes: list[Seconds] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Build the fleet and the scaler around it."""
        shape = FleetShape(
            engine=ENGINE, start_up=StartUp(median=self.start_up, spread=0.0), drain=120.0
        )
        self.gateway = Gateway(per_replica=16)
        self.fleet = Fleet(
            shape,
            arrivals=self.arrivals,
            replicas=self.replicas,
            gateway=self.gateway,
            started=START,
        )
        self.clock = FakeClock(START)
        self.keda = Keda(self.scaled_object, created=START, tolerance=0.0)
        self._asking = KedaLoop(
            self.keda, [self], start=START + _POLL_PHASE, sync_offset=_SYNC_PHASE
        )
        self._pushed: list[Seconds] = []
        self._read_at = self._asked_at = 0.0
        self._notify: Callable[[], None] = lambda: None

    # --- the ports -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Have nothing to do in the background, as source and as cluster."""
        await asyncio.Event().wait()

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Scrape the fleet."""
        reading = self.fleet.reading(at)
        if self.query is None or self.silent(at):
            reading = replace(reading, activation=None, rejection_rate=None)
        self._read_at = at
        return dict.fromkeys(selections, reading)

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Remember nothing, as pages do."""
        del selection, start, end, step
        return ()

    async def demands(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, float | SourceError | None]:
        """Count what the gateway holds."""
        self.fleet.advance(at)
        self._asked_at = at
        down = SourceUnreachable("prometheus is down")
        return dict.fromkeys(selections, down if self.silent(at) else float(len(self.gateway)))

    def scale(self, namespace: str, name: str) -> Scale | None:
        """Return the count and bounds."""
        del namespace, name
        census = self.fleet.census()
        return Scale(
            current=census.spec,
            min_replicas=self.scaled_object.min_replicas,
            max_replicas=self.scaled_object.max_replicas,
            ready=census.serving if self.looks_at_pods else None,
        )

    def pods(self, namespace: str, name: str) -> tuple[Pod, ...] | None:
        """Know none."""
        del namespace, name
        return None

    def situation(self, namespace: str, name: str) -> Situation | None:
        """Know none."""
        del namespace, name
        return None

    def is_gone(self, namespace: str, name: str) -> bool:
        """Know of none that is gone."""
        del namespace, name
        return False

    def on_change(self, notify: Callable[[], None]) -> None:
        """Remember whom to tell of a moved count."""
        self._notify = notify

    # --- what KEDA asks --------------------------------------------------------------------------

    def metric_spec(self, now: Seconds) -> MetricSpec:
        """Return the constant spec."""
        del now
        return MetricSpec(name=METRIC)

    def get_metrics(self, now: Seconds) -> tuple[float, ...]:
        """Answer as over gRPC."""
        try:
            answer = metrics_of(self.entry, self.board.snapshot, now)
        except Refusal as refusal:
            raise ScalerError(str(refusal)) from refusal
        return tuple(value.metricValueFloat for value in answer.metricValues)

    def is_active(self, now: Seconds) -> bool:
        """Answer as over gRPC."""
        try:
            return bool(activity_of(self.entry, self.board.snapshot, now).result)
        except Refusal as refusal:
            raise ScalerError(str(refusal)) from refusal

    @property
    def entry(self) -> Entry:
        """Return the workload, which each call registers."""
        return self.registry.ask("llm", "chat", {"modelName": "chat"})

    # --- time ------------------------------------------------------------------------------------

    async def passes(self, seconds: Seconds) -> None:
        """Let time go by with a scaler that has just started, and KEDA as it was."""
        async with self._running():
            end = self.clock.now() + seconds
            while self.clock.now() < end:
                grid = (self.clock.now() // ASKED_EVERY + 1) * ASKED_EVERY
                now = min(grid, self._asking.due, end)
                await self._moved_to(now)
                for _ in range(len(self._pushed)):
                    self.pushes.append(self._pushed.pop())
                    if self.push:
                        await self._write(self.keda.pushed(now, self._scale_now()))
                if self._asking.due <= now:
                    pods = PodCount(matching=len(self.fleet.replicas), ready=self._ready())
                    await self._write(self._asking.step(now, self._scale_now(), pods))
                self.reasons.append(self.board.snapshot.of("llm", "chat")[0].decision.reason)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        self.board = Board()
        self.registry = Registry(self._resolve, self.clock.now)
        scaler = Loop(
            registry=self.registry,
            board=self.board,
            sources={self.name: self},
            cluster=self,
            clock=self.clock,
            gateways={self.name: self},
        )
        tasks = [asyncio.create_task(scaler.run()), asyncio.create_task(self._stream())]
        await self._until(lambda: bool(self.board.snapshot.postings))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stream(self) -> None:
        async for _ in self.board.activations(self.entry.key):
            self._pushed.append(self.clock.now())

    async def _moved_to(self, now: Seconds) -> None:
        self.clock.set(now)
        asked = now // ASKED_EVERY * ASKED_EVERY
        rounds = self.query is not None and self.fleet.spec == 0 and asked == now
        await self._until(
            lambda: self._read_at >= tick_at(now) and (not rounds or self._asked_at >= asked)
        )
        self.fleet.advance(now)

    async def _write(self, replicas: int) -> None:
        if replicas == self.fleet.spec:
            return
        self.writes.append((self.clock.now() - START, replicas))
        self.fleet.scale(replicas, self.clock.now())
        self._notify()
        await self._until(
            lambda: self.board.snapshot.of("llm", "chat")[0].decision.current == replicas
        )

    async def _until(self, holds: Callable[[], bool]) -> None:
        await settle()
        while not holds():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.0005)
        await settle()

    def _scale_now(self) -> TargetScale:
        return TargetScale(spec=self.fleet.spec, status=self.fleet.spec)

    def _ready(self) -> int:
        return sum(replica.state is ReplicaState.SERVING for replica in self.fleet.replicas)

    def _resolve(self, trigger: Trigger) -> Resolved:
        selection = Selection(
            source=self.name,
            namespace=trigger.key.namespace,
            model_name="chat",
            activation_query=self.query,
        )
        return Resolved(policy=self.policy, selection=selection)


def counts(world: ZeroWorld) -> list[int]:
    """Return the counts that were set, in order."""
    return [count for _, count in world.writes]


def at_of(world: ZeroWorld, count: int) -> Seconds:
    """Return when a count was first set, in seconds since the start."""
    return next(at for at, written in world.writes if written == count)
