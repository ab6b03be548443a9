"""What a scaler exports over an hour of a fleet's life, as a Prometheus would have stored it."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import replace

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from scaler.config.trigger import Resolved, Trigger
from scaler.control.board import Board
from scaler.control.follower import Follower
from scaler.control.ports import SourceBusy
from scaler.control.registry import Registry
from scaler.core.pods import Exit, Pod, Situation
from scaler.core.policy import Policy
from scaler.core.reading import Reading
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale, Selection
from scaler.edge.grpc_server import GrpcServer
from scaler.edge.measured import MeasuredSource
from scaler.edge.measures import Measures
from scaler.edge.metrics import exposition, register
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import FakeSource, fleet_reading
from tests.keda_client import Keda, scaled_object
from tests.prometheus_server import Past

BEGIN: Seconds = 1_700_000_100.0
MINUTE = 60.0
END: Seconds = BEGIN + 60 * MINUTE
AT_MOST = 6
CHAT = scaled_object("llm", "chat", {"modelName": "chat"})
_TARGET = {"job": "vllm-keda-scaler", "instance": "10.0.0.7:8080"}
_HPA = "kube_horizontalpodautoscaler_"


class Fleet:
    """Calm, twelve minutes of overload with a silent source in the middle, and calm again."""

    def __init__(self) -> None:
        """Start with two replicas, one of which the host has killed before."""
        self.cluster = FakeCluster(chat=Scale(current=2, min_replicas=1, max_replicas=AT_MOST))
        self.cluster.situations["llm", "chat"] = Situation(
            target_kind="Deployment", target_name="chat-vllm", min_replicas=1
        )
        self.resize(2, BEGIN)

    @property
    def count(self) -> int:
        """Return the scale target's count."""
        scale = self.cluster.scale("llm", "chat")
        assert scale is not None
        return scale.current

    def resize(self, count: int, at: Seconds) -> None:
        """Set the count; new pods serve at once."""
        killed = Exit(container="vllm", reason="OOMKilled", code=137, at=BEGIN + 20 * MINUTE)
        pods = [
            Pod(
                name=f"pod-{index}",
                replica=f"pod-{index}",
                created_at=at - 600,
                ready=True,
                ready_at=at - 300,
                ip=f"10.1.0.{index}",
                last_exit=killed if at > BEGIN + 20 * MINUTE and index == 0 else None,
            )
            for index in range(count)
        ]
        self.cluster.move("chat", count)
        self.cluster.place("chat", *pods)

    def reading(self, _: Selection, at: Seconds) -> Reading | SourceBusy:
        """Show the engines at a tick."""
        minute = (at - BEGIN) / MINUTE
        if 30 <= minute < 32:
            return SourceBusy('source "engines" asked for patience')
        busy = 20 <= minute < 35
        reading = fleet_reading(
            at,
            self.count,
            running=32.0 if busy else 4.0,
            waiting=15.0 if busy else 0.0,
            kv_cache=0.9 if busy else 0.2,
            ttft=4.0 if busy else 0.3,
        )
        return replace(reading, activation=0.0)


class Scaler:
    """One scaler in stepped time, behind a real gRPC server."""

    def __init__(self, fleet: Fleet) -> None:
        """Wire the real parts over a source that is made up."""
        self.clock = FakeClock(BEGIN)
        self._measures = Measures()
        self._registry = Registry(_resolve, self.clock.now)
        board = Board()
        engines = FakeSource(fleet.reading, "engines")
        self._measures.works["engines"] = engines.work
        source = MeasuredSource(engines, self._measures)
        self.follower = Follower(source, self._registry, board, fleet.cluster)
        self.server = GrpcServer(
            registry=self._registry, board=board, now=self.clock.now, measures=self._measures
        )
        self.metrics: CollectorRegistry = register(
            self._measures,
            registry=self._registry,
            board=board,
            followers=[self.follower],
            now=self.clock.now,
        )


def _resolve(trigger: Trigger) -> Resolved:
    name = trigger.key.name
    selection = Selection(source="engines", namespace=trigger.key.namespace, model_name=name)
    return Resolved(policy=Policy(), selection=selection)


def scraped(past: Past, page: bytes, at: Seconds) -> None:
    """Store a page as Prometheus does where honorLabels is set, as the ServiceMonitor says."""
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                past.add(sample.name, {**_TARGET, **sample.labels}, {at: sample.value})


def kube_state_metrics(past: Past, at: Seconds, counts: Mapping[str, float]) -> None:
    """Store what kube-state-metrics says of the HPA that KEDA made."""
    labels = {"namespace": "llm", "horizontalpodautoscaler": "keda-hpa-chat"}
    for name, value in counts.items():
        past.add(f"{_HPA}{name}", labels, {at: value})
    for condition in ("AbleToScale", "ScalingActive", "ScalingLimited"):
        for status in ("true", "false", "unknown"):
            holds = (status == "true") == (condition != "ScalingLimited")
            value = float(holds and status != "unknown")
            told = {**labels, "condition": condition, "status": status}
            past.add(f"{_HPA}status_condition", told, {at: value})


async def _live(past: Past) -> None:
    fleet = Fleet()
    scaler = Scaler(fleet)
    port = await scaler.server.serve("127.0.0.1:0")
    try:
        await _begin(scaler, port)
        async with Keda(port) as keda:
            for tick in range(1, int((END - BEGIN) / TICK) + 1):
                await _step(past, fleet, scaler, keda, BEGIN + tick * TICK)
    finally:
        await scaler.server.drain(within=1.0)


async def _begin(scaler: Scaler, port: int) -> None:
    """Register as KEDA does, and end a stream, so that ended ones are counted."""
    async with Keda(port, pause=_forever) as keda:
        await keda.specs(CHAT)
        await scaler.follower.admit(BEGIN)
        _, specs = keda.push(CHAT)
        await specs.until(lambda: bool(specs.specs))


async def _step(past: Past, fleet: Fleet, scaler: Scaler, keda: Keda, at: Seconds) -> None:
    """Tick, poll, scrape, and let the HPA do what it was told."""
    scaler.clock.set(at)
    await scaler.follower.tick(at)
    wanted = int((await keda.poll(CHAT)).replicas)
    scraped(past, exposition(scaler.metrics), at + 1)
    counts = {
        "spec_min_replicas": 1,
        "spec_max_replicas": AT_MOST,
        "status_current_replicas": fleet.count,
        "status_desired_replicas": wanted,
    }
    kube_state_metrics(past, at + 2, counts)
    fleet.resize(wanted, at)


async def _forever(_: float) -> None:
    await asyncio.Event().wait()


def exported() -> Past:
    """Return an hour of a scaler's metrics and of kube-state-metrics, from BEGIN to END."""
    past = Past()
    asyncio.run(_live(past))
    return past


def ask(address: str, path: str, **parameters: str | float) -> object:
    """Ask Prometheus' API."""
    query = urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(f"{address}/api/v1/{path}?{query}", timeout=30) as answer:  # noqa: S310 - our own
        return json.load(answer)["data"]
