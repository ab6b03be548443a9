"""Fleets for the stage: simulated engines under traffic, or pages that a test paints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from scaler.simulation.exposition import exposition
from scaler.simulation.fleet import Fleet
from scaler.simulation.gateway import Gateway
from scaler.simulation.replica import Replica, ReplicaState
from scaler.simulation.requests import Request
from scaler.simulation.shapes import FleetShape, StartUp
from tests.simulation.worlds import ENGINE

MODEL = "m"
PROMPT, OUTPUT, PATIENCE = 300, 300, 60.0
"""Every request alike: a replica of the slow engine serves about two of them a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """One replica as Kubernetes sees it: times in epoch seconds; without a page it refuses."""

    number: int
    name: str
    created_at: float
    ready_at: float | None
    deleted_at: float | None = None
    page: Callable[[], str] | None = None


class Engines(Protocol):
    """What runs in the pods."""

    def advance(self, at: float) -> None:
        """Let time pass."""

    def scale(self, replicas: int, at: float) -> None:
        """Have so many replicas, apart from those that terminate."""

    def bodies(self) -> list[Body]:
        """Return every replica that there is."""


def traffic(rate: Callable[[float], float], start: float, length: float) -> Iterator[Request]:
    """Send like requests at a rate that depends on the seconds since `start`."""
    at, number = 0.0, 0
    while at < length:
        now = rate(at)
        if now <= 0:
            at += 1.0
            continue
        yield Request(
            number=number, arrived=start + at, prompt=PROMPT, output=OUTPUT, patience=PATIENCE
        )
        number += 1
        at += 1.0 / now


class SimulatedFleet:
    """The simulator's engines, router and, where wanted, gateway."""

    def __init__(
        self,
        rate: Callable[[float], float],
        *,
        replicas: int,
        start: float,
        length: float = 7200.0,
        start_up: float = 60.0,
        took: float | None = None,
        gateway: Gateway | None = None,
    ) -> None:
        """Begin at `start`; the first pods took `took` seconds (as the others, if not given)."""
        self._took = start_up if took is None else took
        self._start = start
        self.fleet = Fleet(
            FleetShape(engine=ENGINE, start_up=StartUp(median=start_up, spread=0.0), drain=30.0),
            arrivals=traffic(rate, start, length),
            replicas=replicas,
            started=start,
            gateway=gateway,
        )

    def advance(self, at: float) -> None:
        """Let the engines work."""
        self.fleet.advance(at)

    def scale(self, replicas: int, at: float) -> None:
        """Create or take away replicas."""
        self.fleet.scale(replicas, at)

    def evict(self, name: str, at: float) -> None:
        """Take one away, as a drained node does; its controller creates another."""
        count = self.fleet.spec
        self.fleet.deletion_costs[name] = -1
        self.fleet.scale(count - 1, at)
        self.fleet.scale(count, at)

    def retire(self, name: str, at: float) -> None:
        """Take one away that nothing replaces."""
        self.fleet.deletion_costs[name] = -1
        self.fleet.scale(self.fleet.spec - 1, at)

    def bodies(self) -> list[Body]:
        """Return the simulator's replicas; those of the start are old."""
        return [self._body(replica) for replica in self.fleet.replicas]

    def _body(self, replica: Replica) -> Body:
        first = replica.created == self._start and replica.ready_at == self._start
        created = replica.created - 3600.0 if first else replica.created
        loading = replica.state is ReplicaState.LOADING
        ready_at = created + self._took if first else replica.ready_at
        return Body(
            number=replica.number,
            name=replica.name,
            created_at=created,
            ready_at=None if loading else ready_at,
            deleted_at=replica.stopped_at,
            page=None if loading else lambda: exposition([replica.engine], model_name=MODEL),
        )


@dataclass
class PaintedFleet:
    """Replicas that each show what `paint` says: requests running and waiting, and cache usage.

    What `lost` names has a pod that is Ready and a port that refuses.
    """

    paint: Callable[[], tuple[float, float, float]]
    start: float
    start_up: float = 60.0
    lost: set[str] = field(default_factory=set)
    _created: list[float] = field(default_factory=list)
    _at: float = 0.0

    def advance(self, at: float) -> None:
        """Let time pass."""
        self._at = at

    def scale(self, replicas: int, at: float) -> None:
        """Take the newest away, or create more; those of the start are old."""
        del self._created[replicas:]
        born = at if self._created or at > self.start else self.start - 3600.0
        self._created += [born] * (replicas - len(self._created))

    def bodies(self) -> list[Body]:
        """Return the replicas."""
        found = []
        for number, created in enumerate(self._created):
            name, ready_at = f"painted-{number:04d}", created + self.start_up
            ready = ready_at <= self._at
            shown = ready and name not in self.lost
            found.append(
                Body(
                    number=number,
                    name=name,
                    created_at=created,
                    ready_at=ready_at if ready else None,
                    page=partial(self._page, number) if shown else None,
                )
            )
        return found

    def painted(self, number: int) -> tuple[float, float, float]:
        """Return what a replica shows."""
        del number
        return self.paint()

    def _page(self, number: int) -> str:
        running, waiting, cache = self.painted(number)
        of = f'{{engine="0",model_name="{MODEL}"}}'
        return (
            f"vllm:num_requests_running{of} {running}\n"
            f"vllm:num_requests_waiting{of} {waiting}\n"
            f"vllm:kv_cache_usage_perc{of} {cache}\n"
            f"vllm:generation_tokens_total{of} {50.0 * self._at}\n"
        )
