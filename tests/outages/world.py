"""One scaler and the workloads of many cells: time is stepped, what is at fault is real."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import grpc

from scaler.config.resolve import resolve
from scaler.config.server import ServerConfig
from scaler.control.board import Board, Posting
from scaler.control.follower import Follower
from scaler.control.ports import Cluster, Gateways, Source
from scaler.control.registry import Entry, Registry
from scaler.core.units import TICK
from scaler.core.workload import Scale
from scaler.edge.answers import METRIC, activity_of, metrics_of
from scaler.edge.errors import Refusal
from scaler.simulation.hpa_types import PodCount, TargetScale
from scaler.simulation.keda import Keda
from scaler.simulation.keda_types import MetricSpec, Observation, ScaledObject
from scaler.simulation.policies.corridor import BEHAVIOR
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.outages.cells import WARM_UP, Cell, Phase
from tests.outages.fleet import TO_ZERO, Fleet
from tests.outages.keeping import BLIND, CLUSTER_FAULT, QUERY_TROUBLE, TROUBLE, Moment

START = 1_700_000_040.0
BEFORE, AFTER = 2.0, 5.0
_SPEC = MetricSpec(name=METRIC)
_METADATA = {"concurrencyPerReplica": "20", "leadTime": "60s"}


class Workload:
    """The workload of one cell, its fleet, and KEDA as far as it concerns it."""

    def __init__(self, cell: Cell, metadata: Mapping[str, str]) -> None:
        """Begin `WARM_UP` ticks before the fault."""
        self.cell = cell
        self.fleet = Fleet(cell, START)
        self.metadata = {**_METADATA, "modelName": cell.name, **metadata}
        self.told: list[Moment] = []
        least = 0 if cell.phase in TO_ZERO else 1
        self.scale = Scale(
            current=self.fleet.spec, min_replicas=least, max_replicas=20, ready=self.fleet.spec
        )
        wanted = ScaledObject(
            min_replicas=least,
            max_replicas=20,
            polling_interval=TICK,
            cooldown_period=60.0,
            behavior=BEHAVIOR,
        )
        self.keda = Keda(wanted, created=START - 3600.0, tolerance=0.1)
        self.keda.reconcile(wanted, [_SPEC])

    def act(self, at: float, seen: Observation) -> bool:
        """Let KEDA and the HPA act; say whether the count has changed."""
        spec, serving = self.fleet.spec, len(self.fleet.serving())
        scale, pods = (
            TargetScale(spec=spec, status=spec),
            PodCount(matching=len(self.fleet.replicas), ready=serving),
        )
        polled = self.keda.poll(at, [seen], scale, pods)
        scale = TargetScale(spec=polled, status=polled)
        wanted = self.keda.sync(at, [seen], scale, pods)
        changed = wanted != spec
        if changed:
            self.fleet.scale(wanted)
        self.scale = replace(self.scale, current=self.fleet.spec, ready=serving)
        return changed


class World:
    """A follower on one source, with every workload of its cells; `tick` counts from the fault."""

    def __init__(
        self,
        cells: Iterable[Cell],
        config: ServerConfig,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the workloads; nothing is asked yet."""
        self.clock = FakeClock(START - BEFORE)
        self.registry = Registry(lambda trigger: resolve(trigger, config), self.clock.now)
        self.board = Board()
        self.workloads = [Workload(cell, metadata or {}) for cell in cells]
        self.cluster: Cluster = FakeCluster()
        self.tick = 0 if starts_late(self.workloads[0].cell) else -WARM_UP
        self._follower: Follower | None = None

    def follow(self, source: Source, gateways: Gateways | None = None) -> None:
        """Start a scaler, or start it anew: what the former one knew is gone."""
        self._follower = Follower(source, self.registry, self.board, self.cluster, gateways)

    @property
    def at(self) -> float:
        """Return the time of the present tick."""
        return START + (self.tick + WARM_UP) * TICK

    def fleets_advance(self, at: float) -> None:
        """Let the engines work."""
        self.clock.set(at)
        for each in self.workloads:
            each.fleet.advance(at)

    async def decide(self) -> None:
        """Let the scaler take its tick."""
        assert self._follower is not None
        self.clock.set(self.at)
        for each in self.workloads:
            self._ask(each)
        await self._follower.tick(self.at)
        while await self._follower.admit(self.at):
            pass

    async def let_keda_act(self) -> list[Workload]:
        """Let KEDA poll and the HPA act for every workload; return those whose count moved."""
        assert self._follower is not None
        self.clock.set(self.at + AFTER)
        if self._follower.activation.asks:
            await self._follower.wake(self.at + AFTER)
        moved = [each for each in self.workloads if self._act(each)]
        self.tick += 1
        return moved

    async def review(self) -> None:
        """Decide anew where a count has moved."""
        assert self._follower is not None
        await self._follower.review(self.at - TICK)

    def _ask(self, each: Workload) -> Entry:
        """Ask as KEDA does; before its first start nobody does."""
        return self.registry.ask("llm", each.fleet.name, each.metadata)

    def _act(self, each: Workload) -> bool:
        entry, now = self._ask(each), self.clock.now()
        answer = active = None
        status = grpc.StatusCode.OK
        try:
            values = metrics_of(entry, self.board.snapshot, now).metricValues
            answer = round(values[0].metricValueFloat)
            active = activity_of(entry, self.board.snapshot, now).result
        except Refusal as error:
            status = error.code
        whole = status is grpc.StatusCode.OK
        seen = Observation(
            spec=_SPEC,
            values=(float(answer or 0),) if whole else None,
            active=bool(active) if whole else False,
        )
        moved = each.act(now, seen)
        posting = self.board.snapshot.postings[entry.key]
        each.told.append(self._moment(each, posting, answer, active=active))
        return moved

    def _moment(
        self, each: Workload, posting: Posting, answer: int | None, *, active: bool | None
    ) -> Moment:
        decision = posting.decision
        signs = {r.value for r in (decision.reason, *decision.notes) if r in BLIND}
        signs |= {TROUBLE} if posting.trouble else set()
        signs |= {QUERY_TROUBLE} if posting.query_fault else set()
        signs |= {CLUSTER_FAULT} if self.cluster.faults else set()
        if decision.sample is not None:
            signs |= {"unseen"} if decision.sample.unseen else set()
            signs |= {"stalled"} if decision.sample.stalled else set()
        return Moment(
            tick=self.tick,
            count=each.fleet.spec,
            answer=answer,
            active=active,
            reason=decision.reason,
            signs=frozenset(signs),
            said=posting.complaint or "; ".join(self.cluster.faults),
        )

    def told(self) -> dict[Cell, list[Moment]]:
        """Return what was written down."""
        return {each.cell: each.told for each in self.workloads}


def starts_late(cell: Cell) -> bool:
    """Say whether the scaler of a cell starts with the fault."""
    return cell.phase is Phase.FIRST_START


def grouped(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Return the cells of one scaler each: those whose scaler starts with the fault go apart."""
    known = list(cells)
    parts = [[c for c in known if starts_late(c) is late] for late in (False, True)]
    return [part for part in parts if part]
