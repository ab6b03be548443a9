"""A stage for scenarios: time is stepped, and everything else is real or follows recorded answers.

On it stand an API server, the adapter that watches it, engines' pages at an address for each pod,
the scrape source that finds them by their pods, the loop, the gRPC server and KEDA's client, over
sockets; KEDA and the autoscaler decide as the simulator has them. A tick of 15 s goes:

    -2 s  the engines have worked, pods are as they are, pages are scraped
     0 s  the loop decides
    +5 s  KEDA polls and the autoscaler acts; what they write the controllers do at once
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import grpc

from scaler.adapters.kubernetes_cluster import KubernetesCluster
from scaler.adapters.kubernetes_settings import KubernetesSettings
from scaler.adapters.pod_targets import PodPage, PodTargets
from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.config.resolve import resolve
from scaler.config.sections import ScrapeSource as ScrapeSection
from scaler.config.server import ServerConfig
from scaler.control.board import Board, Posting
from scaler.control.loop import Loop
from scaler.control.placement import pods_of_source
from scaler.control.ports import Gateways, Source
from scaler.control.registry import Registry
from scaler.core.decision import Decision
from scaler.core.reasons import Reason
from scaler.core.units import TICK, tick_at
from scaler.edge.grpc_server import GrpcServer
from scaler.edge.measures import Measures
from scaler.simulation.hpa_types import Behavior, PodCount, TargetScale
from scaler.simulation.keda import Keda
from scaler.simulation.keda_types import MetricSpec, Observation, ScaledObject
from scaler.simulation.policies.corridor import BEHAVIOR
from tests.adapters.kubernetes.following import kubeconfig, until
from tests.fakes.clock import FakeClock, settle
from tests.keda_client import Keda as KedaClient
from tests.keda_client import scaled_object as ref
from tests.kubernetes_server import objects
from tests.kubernetes_server.resources import PODS, Json, section
from tests.kubernetes_server.server import ApiServer, api_server
from tests.scenarios.fleets import Body, Engines
from tests.scenarios.pages import Pages, Stepped, address

START = 1_700_000_040.0
"""On the grid of ticks and of minutes."""

PATIENT = KubernetesSettings(watch_for=600.0, settle=0.0, answer_within=20.0, connect_within=5.0)
"""Watches outlast a scenario: what proves the view is what the server says at each step."""

_BEFORE, _AFTER = 2.0, 5.0
_NAMESPACE, _NAME = "llm", "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a scenario starts with; `metadata` is the trigger's."""

    replicas: int
    places_taken: int = 0
    min_replicas: int = 1
    max_replicas: int = 20
    behavior: Behavior | None = BEHAVIOR
    tolerance: float | None = 0.0
    cooldown: float = 300.0
    metadata: Mapping[str, str] = field(default_factory=dict)

    def scaled_object(self) -> ScaledObject:
        """Return what KEDA is told."""
        return ScaledObject(
            min_replicas=self.min_replicas,
            max_replicas=self.max_replicas,
            polling_interval=TICK,
            cooldown_period=self.cooldown,
            behavior=self.behavior,
        )

    def hpa_behavior(self) -> Json | None:
        """Return the block in the HPA that says the tolerance."""
        if self.tolerance is None:
            return None
        rules: Json = {"tolerance": str(self.tolerance)}
        return {"scaleUp": rules, "scaleDown": rules}


class Stage:
    """One ScaledObject with everything around it; `counts` is spec.replicas after each tick."""

    def __init__(self, engines: Engines, setting: Setting, server: ApiServer, config: Path) -> None:
        """Set the cluster up; nothing runs yet."""
        self._config = config
        self.engines = engines
        self.setting = setting
        self.server = server
        self.clock = FakeClock(START - _BEFORE)
        self.pages = Pages()
        self.counts: list[int] = []
        self.decisions: list[Decision] = []
        self.spec = setting.replicas
        self.surge = 0
        """Replicas beside those that are asked for, as in a rollout."""
        self.places_taken = setting.places_taken
        """Replicas that are asked for and whose pods `extra` shows: they run no engine."""
        self.extra: list[Json] = []
        self.changed: Callable[[Body, Json], Json] = lambda _, pod: pod
        """What a test makes of a pod before it is written."""
        self.statuses: list[grpc.StatusCode] = []
        """How KEDA was answered at each tick."""
        self.down = False
        """Whether a test has stopped the API server."""
        self.late = False
        """Whether the watches tell a change of the count only after the next decision."""
        self.keda = Keda(setting.scaled_object(), created=START - 3600.0, tolerance=0.1)
        self.keda.reconcile(setting.scaled_object(), [MetricSpec(name="vllm-desired-replicas")])
        self.at = START - TICK
        self._ref = ref(_NAMESPACE, _NAME, setting.metadata)
        server.store.time = START - 7200.0
        server.store.put(
            objects.scaled_object(
                _NAME, minReplicaCount=setting.min_replicas, maxReplicaCount=setting.max_replicas
            )
        )
        server.store.put(
            objects.hpa(
                _NAME,
                least=max(1, setting.min_replicas),
                most=setting.max_replicas,
                behavior=setting.hpa_behavior(),
            )
        )
        server.store.put(objects.deployment(_NAME, replicas=setting.replicas))
        engines.scale(setting.replicas - setting.places_taken, START)

    # --- the scaler --------------------------------------------------------------------------

    def _wire(self, gateways: Gateways | None) -> None:
        """Build a scaler process; wiring again is a restart."""
        settings = replace(PATIENT, kubeconfig=self._config)
        self.cluster = KubernetesCluster(settings, self.clock)
        section = ScrapeSection.model_validate(
            {
                "type": "scrape",
                "pods": {"port": self.pages.port},
                "prometheus": {"url": "http://prometheus:9090", "queries": {"queue": "queue"}},
            }
        )
        served = ServerConfig(cluster="kubernetes", sources={"engines": section})
        self.board = Board()
        self.registry = Registry(lambda trigger: resolve(trigger, served), self.clock.now)
        registry, cluster = self.registry, self.cluster
        targets = PodTargets(
            PodPage(port=self.pages.port), lambda: pods_of_source(registry, cluster, "engines")
        )
        self.pages_source = ScrapeSource(ScrapeSettings(name="engines"), self.clock, targets)
        sources: dict[str, Source] = {"engines": Stepped(self.pages_source, gateways)}
        self.loop = Loop(
            registry=registry,
            board=self.board,
            sources=sources,
            cluster=cluster,
            clock=self.clock,
            gateways={"engines": gateways} if gateways is not None else None,
        )
        self.grpc = GrpcServer(
            registry=registry, board=self.board, now=self.clock.now, measures=Measures()
        )

    @asynccontextmanager
    async def scaler(self, gateways: Gateways | None = None) -> AsyncIterator[None]:
        """Run a scaler process that KEDA asks; left, it ends."""
        self._wire(gateways)
        running = asyncio.create_task(self.loop.run())
        port = await self.grpc.serve("127.0.0.1:0")
        try:
            async with KedaClient(port) as self._client:
                await self._client.specs(self._ref)
                yield
                assert not running.done(), "the loop ended by itself"
        finally:
            await self.grpc.drain(within=1.0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    @property
    def posting(self) -> Posting:
        """Return what the board says."""
        return self.board.snapshot.of(_NAMESPACE, _NAME)[0]

    @property
    def reasons(self) -> set[Reason]:
        """Return all that was said since the start, reasons and notes."""
        return {said for each in self.decisions for said in (each.reason, *each.notes)}

    @property
    def turns(self) -> int:
        """Count how often the count went the other way than before."""
        steps = [after - before for before, after in pairwise(self.counts) if after != before]
        return sum((one > 0) != (other > 0) for one, other in pairwise(steps))

    def story(self) -> str:
        """Tell what happened, a line a tick, for whoever reads a failed test."""
        lines = []
        for each, count in zip(self.decisions, self.counts, strict=False):
            s = each.sample
            seen = (
                "nothing"
                if s is None
                else (
                    f"{s.serving} serve, {s.loading} load, {s.unseen} unseen, {s.overdue} overdue, "
                    f"{s.running:.0f} run, {s.waiting:.0f} wait"
                )
            )
            notes = " ".join(each.notes)
            lines.append(
                f"{each.at - START:6.0f} {each.current} -> {each.desired} ({count}) "
                f"[{each.floor}, {each.ceiling}] {each.reason} | {notes} | {seen}"
            )
        return "\n".join(lines)

    # --- time --------------------------------------------------------------------------------

    async def ticks(self, count: int, each: Callable[[], None] | None = None) -> None:
        """Let ticks go by; `each` is called before each one."""
        for _ in range(count):
            if each is not None:
                each()
            await self._tick()

    async def _tick(self) -> None:
        self.at += TICK
        await self._step_to(self.at - _BEFORE)
        await self.pages_source.scrape_once()
        self.clock.set(self.at)
        follower = self.loop.followers[0]
        await until(lambda: follower.stats.last_tick >= self.at)
        await until(lambda: self.board.snapshot.at >= self.at)
        self.decisions.append(self.posting.decision)
        if self.late:
            self.server.faults.silent = False
        await self._step_to(self.at + _AFTER)
        await self._let_keda_act()
        self.counts.append(self.spec)

    async def _step_to(self, at: float) -> None:
        """Let time pass for everything but the loop's next tick, and be seen."""
        self.clock.set(at)
        await settle()
        self.engines.advance(at)
        await self.publish()

    async def publish(self) -> None:
        """Show pods and pages as they are, and have the adapter see them."""
        bodies = self.engines.bodies()
        await self.pages.show(bodies)
        wanted = {_name(pod): pod for pod in [*map(self._pod, bodies), *self.extra]}
        store = self.server.store
        for name in [n for n in map(_name, store.all_of(PODS)) if n not in wanted]:
            store.delete(PODS, name)
        for name, pod in wanted.items():
            if not store.has(PODS, name) or _differs(store.get(PODS, name), pod):
                store.put(pod)
        await self.seen()

    def _pod(self, body: Body) -> Json:
        made = objects.pod(
            body.name,
            of=_NAME,
            created_at=body.created_at,
            ready_at=body.ready_at,
            deleted_at=body.deleted_at,
            ip=address(body),
        )
        return self.changed(body, made)

    async def seen(self) -> None:
        """Wait until the adapter sees the cluster as it is, unless nobody can."""
        if self.blind:
            await settle()
            return
        self.server.bookmark()
        await until(self.is_seen)

    async def recover(self) -> None:
        """Let time pass until the adapter, which waits between its attempts, sees again."""

        async def meanwhile() -> None:
            await self.clock.advance(0.5)
            self.engines.advance(self.clock.now())
            self.server.bookmark()

        await until(self.is_seen, meanwhile)
        self.at = tick_at(self.clock.now())

    @property
    def blind(self) -> bool:
        """Say whether the adapter cannot see what changes."""
        faults = self.server.faults
        return self.down or faults.silent or faults.failing is not None

    def is_seen(self) -> bool:
        """Say whether the adapter sees the cluster as it is."""
        scale = self.cluster.scale(_NAMESPACE, _NAME)
        pods = self.cluster.pods(_NAMESPACE, _NAME)
        if scale is None or pods is None or scale.current != self.spec:
            return False
        shown = {(pod.name, pod.ready, pod.terminating, pod.restarts) for pod in pods}
        return shown == {_told(pod) for pod in self.server.store.all_of(PODS)}

    def is_counted(self) -> bool:
        """Say whether the adapter knows the count, and what was decided rests on it."""
        return self.posting.decision.current == self.spec

    # --- KEDA --------------------------------------------------------------------------------

    async def _let_keda_act(self) -> None:
        seen = await self._observed()
        if self.down:  # KEDA goes on polling, and nobody can write
            return
        scale = TargetScale(spec=self.spec, status=self.spec)
        shown = self.server.store.all_of(PODS)
        pods = PodCount(matching=len(shown), ready=sum(_is_ready(pod) for pod in shown))
        polled = self.keda.poll(self.clock.now(), [seen], scale, pods)
        scale = TargetScale(spec=polled, status=polled)
        await self.write(self.keda.sync(self.clock.now(), [seen], scale, pods))

    async def _observed(self) -> Observation:
        spec = MetricSpec(name="vllm-desired-replicas")
        try:
            poll = await self._client.poll(self._ref)
        except grpc.aio.AioRpcError as error:
            self.statuses.append(error.code())
            return Observation(spec=spec, values=None)
        self.statuses.append(grpc.StatusCode.OK)
        return Observation(spec=spec, values=tuple(poll.metrics.values()), active=poll.active)

    async def write(self, replicas: int) -> None:
        """Write spec.replicas, whoever it is that does; the controllers act at once."""
        if replicas != self.spec:
            self.server.faults.silent = self.late
            self.spec = replicas
            self.server.store.put(objects.deployment(_NAME, replicas=replicas))
        await self.control()

    async def control(self) -> None:
        """Have as many replicas as are asked for."""
        self.engines.scale(self.spec + self.surge - self.places_taken, self.clock.now())
        await self.publish()


def _name(pod: Json) -> str:
    return str(section(pod, "metadata")["name"])


def _is_ready(pod: Json) -> bool:
    conditions = section(pod, "status")["conditions"]
    assert isinstance(conditions, list)
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _differs(held: Json, wanted: Json) -> bool:
    """Compare what a controller or a kubelet writes, without what the server fills in."""
    meta = section(held, "metadata")
    changed = any(meta.get(key) != value for key, value in section(wanted, "metadata").items())
    return changed or held["status"] != wanted["status"]


def _told(pod: Json) -> tuple[str, bool, bool, int]:
    containers = section(pod, "status")["containerStatuses"]
    assert isinstance(containers, list)
    restarts = sum(container["restartCount"] for container in containers)
    return _name(pod), _is_ready(pod), "deletionTimestamp" in section(pod, "metadata"), restarts


@asynccontextmanager
async def cluster_of(directory: Path, engines: Engines, setting: Setting) -> AsyncIterator[Stage]:
    """Set a stage without a scaler."""
    async with api_server() as server:
        made = Stage(engines, setting, server, kubeconfig(directory, server))
        async with made.pages.serving():
            yield made


@asynccontextmanager
async def stage(
    directory: Path, engines: Engines, setting: Setting, gateways: Gateways | None = None
) -> AsyncIterator[Stage]:
    """Set a stage with one scaler on it."""
    async with cluster_of(directory, engines, setting) as made, made.scaler(gateways):
        yield made
