"""A fleet that costs nothing to look at: the source remembers, every ScaledObject has its pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from scaler.config.resolve import resolve
from scaler.config.sections import ScrapeSource as Section
from scaler.config.server import ServerConfig
from scaler.control.ports import Clock, SourceError
from scaler.control.registry import Registry
from scaler.core.minutes import MINUTE
from scaler.core.pods import Pod
from scaler.core.reading import LatencyBuckets, Reading, ReplicaReading
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale, Selection
from scaler.wire.externalscaler_pb2 import ScaledObjectRef

NAMESPACE, SOURCE = "llm", "stored"
_REMEMBERED = 48
"""Ticks: more than the longest window, so that thousands are soon taken in."""
EDGES = (0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, float("inf"))


def pod_name(workload: int, number: int) -> str:
    """Name a pod as a ReplicaSet does: those of a workload share all but the end."""
    return f"chat-{workload}-6b4d9c7f5d-{number}"


class Fleet:
    """Every ScaledObject `chat-N` has `pods` replicas, all ready."""

    def __init__(self, pods: int) -> None:
        """Name pods only when they are asked for."""
        self._pods = pods
        self._placed: dict[str, tuple[Pod, ...]] = {}
        self.faults: tuple[str, ...] = ()

    def scale(self, namespace: str, name: str) -> Scale:
        """Return the count."""
        del namespace, name
        return Scale(current=self._pods, max_replicas=40)

    def pods(self, namespace: str, name: str) -> tuple[Pod, ...]:
        """Return the pods."""
        del namespace
        if name not in self._placed:
            workload = int(name.removeprefix("chat-"))
            names = [pod_name(workload, number) for number in range(self._pods)]
            self._placed[name] = tuple(
                Pod(name=n, replica=n, created_at=0.0, ready=True, ready_at=60.0) for n in names
            )
        return self._placed[name]

    def situation(self, namespace: str, name: str) -> None:
        """Know nothing of KEDA."""
        del namespace, name

    def is_gone(self, namespace: str, name: str) -> bool:
        """Know of none that is gone."""
        del namespace, name
        return False

    def on_change(self, notify: Callable[[], None]) -> None:
        """Never change."""

    async def run(self) -> None:
        """Have nothing to do until cancelled."""
        await asyncio.Event().wait()


class StoredSource:
    """Knows every selection at every instant, so that windows are full from the start."""

    name = SOURCE

    def __init__(self, pods: int) -> None:
        """Draw what a selection's reading looks like; only the time differs."""
        self._pods = pods
        self._readings: dict[Selection, Reading] = {}

    async def run(self) -> None:
        """Have nothing to do until cancelled."""
        await asyncio.Event().wait()

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Tell a reading of each."""
        return {each: replace(self._drawn(each), at=at, scraped_at=at) for each in selections}

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Tell the windows' past; the day before is not known."""
        if step >= MINUTE:
            return ()
        drawn = self._drawn(selection)
        last = int(end // TICK)
        ticks = range(max(int(-(-start // TICK)), last - _REMEMBERED), last + 1)
        return [replace(drawn, at=tick * TICK, scraped_at=tick * TICK) for tick in ticks]

    def _drawn(self, selection: Selection) -> Reading:
        if selection not in self._readings:
            workload = int((selection.model_name or "m0").removeprefix("m"))
            self._readings[selection] = reading_of(workload, self._pods)
        return self._readings[selection]


def reading_of(workload: int, pods: int) -> Reading:
    """Draw a fleet that is well used, with a few requests more at some workloads."""
    replicas = tuple(
        ReplicaReading(
            name=pod_name(workload, number),
            running=float(8 + (workload + number) % 9),
            waiting=0.0,
            kv_cache=0.4,
            first_token_rate=2.0,
            token_rate=500.0,
            busy_for=120.0,
        )
        for number in range(pods)
    )
    grown = tuple(min(1.0, edge / 2.5) * 240.0 * pods for edge in EDGES)
    ttft = LatencyBuckets(edges=EDGES, counts=grown)
    stem = pod_name(workload, 0)[:-1]
    return Reading(at=0.0, scraped_at=0.0, replicas=replicas, ttft=ttft, latencies={stem: ttft})


def ref(number: int) -> ScaledObjectRef:
    """Name one of the ScaledObjects as KEDA does."""
    metadata = {"scalerAddress": "scaler:50051", "modelName": f"m{number}"}
    return ScaledObjectRef(namespace=NAMESPACE, name=f"chat-{number}", scalerMetadata=metadata)


def registry_of(workloads: int, clock: Clock, source: str = SOURCE) -> Registry:
    """Return a registry that has heard of `chat-0`, `chat-1` and so on."""
    section = Section.model_validate({"type": "scrape", "targets": "none"})
    config = ServerConfig(sources={source: section})
    registry = Registry(lambda trigger: resolve(trigger, config), clock.now)
    for number in range(workloads):
        asked = ref(number)
        registry.ask(asked.namespace, asked.name, dict(asked.scalerMetadata))
    return registry
