"""A fleet of simulated engines behind a router, scaled by whoever calls `scale`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.simulation.gateway import Gateway
from scaler.simulation.outcomes import Outcomes
from scaler.simulation.replica import Replica, ReplicaState, start_up_of
from scaler.simulation.requests import Ending, Request
from scaler.simulation.router import LeastLoaded, Router
from scaler.simulation.scrape import Scraper
from scaler.simulation.shapes import FleetShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """How many replicas there are, by state. `spec` is what was asked for: loading and serving."""

    spec: int
    loading: int
    serving: int
    draining: int


class Fleet:
    """Replicas, a router, perhaps a gateway, and the requests that come to them.

    `arrivals` gives requests in order of time and is read lazily. The first `replicas` serve from
    the start. Without a gateway a request that finds nobody serving is rejected. `on_end` is
    called with every request that ends, after it was counted.
    """

    def __init__(
        self,
        shape: FleetShape,
        *,
        arrivals: Iterable[Request] = (),
        replicas: int = 1,
        router: Router | None = None,
        gateway: Gateway | None = None,
        seed: int = 0,
        started: Seconds = 0.0,
        on_end: Callable[[Request], None] | None = None,
    ) -> None:
        self.shape = shape
        self.gateway = gateway
        self.outcomes = Outcomes(shape.slo)
        self.scraper = Scraper()
        self.now = started
        self.deletion_costs: dict[str, int] = {}
        """Replicas with a lower cost are taken away first, as a ReplicaSet does; 0 where absent."""
        self._seed = seed
        self._router = router or LeastLoaded()
        self._arrivals: Iterator[Request] = iter(arrivals)
        self._next_request = next(self._arrivals, None)
        self._on_end = on_end
        self._created = 0
        self._loading: list[Replica] = []
        self._serving: list[Replica] = []
        self._draining: list[Replica] = []
        self._next_ready: Seconds = math.inf
        self._past_replica_seconds = 0.0
        for _ in range(replicas):
            self._serve(self._create(started, start_up=0.0))

    # --- what others see ---------------------------------------------------------------------

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """Return every replica that exists, the loading and draining ones included."""
        return (*self._loading, *self._serving, *self._draining)

    @property
    def spec(self) -> int:
        """Return the count that was asked for."""
        return len(self._loading) + len(self._serving)

    @property
    def exhausted(self) -> bool:
        """Say whether every request has arrived and ended."""
        return self._next_request is None and self.outcomes.open == 0

    def census(self) -> Census:
        """Count the replicas by state."""
        return Census(
            spec=self.spec,
            loading=len(self._loading),
            serving=len(self._serving),
            draining=len(self._draining),
        )

    def replica_seconds(self) -> Seconds:
        """Return the replica time paid so far: from each pod's creation until it is gone."""
        there = sum(self.now - replica.created for replica in self.replicas)
        return self._past_replica_seconds + there

    def reading(
        self, at: Seconds, *, draining: bool = False, loading_unseen: bool = False
    ) -> Reading:
        """Advance to `at` and scrape what serves.

        `draining` adds the terminating replicas, which report until they are gone (a source that
        does not look at pods sees them). `loading_unseen` counts the loading replicas as unseen (a
        source whose targets are pods, ready or not).
        """
        self.advance(at)
        shown = [*self._serving, *self._draining] if draining else self._serving
        return self.scraper.scrape(
            shown,
            at,
            unseen=len(self._loading) if loading_unseen else 0,
            held=None if self.gateway is None else len(self.gateway),
            refused=None if self.gateway is None else self.gateway.rejected,
        )

    # --- what others do ----------------------------------------------------------------------

    def scale(self, replicas: int, at: Seconds) -> None:
        """Set the count that is wanted, as a write to `spec.replicas` does.

        New replicas load first. Taken away are, in this order: loading ones, newest first; then
        serving ones by deletion cost, and among equals the one that became ready last.
        """
        self.advance(at)
        while self.spec < replicas:
            start_up = start_up_of(self.shape, seed=self._seed, number=self._created)
            self._loading.append(self._create(at, start_up=start_up))
        surplus = self.spec - replicas
        while surplus > 0 and self._loading:
            self._remove_loading(max(self._loading, key=lambda r: r.number), at)
            surplus -= 1
        if surplus > 0:
            for victim in sorted(self._serving, key=self._removal_rank)[:surplus]:
                self._serving.remove(victim)
                self._draining.append(victim)
                victim.stop(at, self.shape.drain)
        self._next_ready = min((r.ready_at for r in self._loading), default=math.inf)
        self._reap()

    def send(self, request: Request, at: Seconds) -> None:
        """Let one more request arrive, besides `arrivals`; in order of time with them."""
        self.advance(at)
        self._arrive(request, at)

    def advance(self, until: Seconds) -> None:
        """Let everything happen that happens up to `until`."""
        while True:
            request = self._next_request
            arrival = math.inf if request is None else request.arrived
            other = self._next_other()
            if min(arrival, other) > until:
                break
            if request is not None and arrival < other:
                self._next_request = next(self._arrivals, None)
                self._arrive(request, arrival)
            else:
                self._attend(other)
        for replica in self._serving:
            replica.engine.advance(until)
        for replica in self._draining:
            replica.engine.advance(until)
        self._reap()
        self.now = max(self.now, until)

    # --- events ------------------------------------------------------------------------------

    def _next_other(self) -> Seconds:
        """Return the next instant at which the fleet itself has something to do."""
        gateway = self.gateway
        if gateway is None or len(gateway) == 0:
            return self._next_ready
        soonest = min(self._next_ready, gateway.next_deadline())
        for replica in self._serving:
            soonest = min(soonest, replica.engine.quiet_until())
        return soonest

    def _attend(self, at: Seconds) -> None:
        """Do what is due at `at`: a replica gets ready, a client leaves, a place becomes free."""
        if self._next_ready <= at:
            for replica in [r for r in self._loading if r.ready_at <= at]:
                self._loading.remove(replica)
                self._serve(replica)
            self._next_ready = min((r.ready_at for r in self._loading), default=math.inf)
        if self.gateway is None:
            return
        for request in self.gateway.forsake(at):
            self._ended(request)
        for replica in self._serving:
            replica.engine.catch_up(at)
        self._release(self.gateway, at)

    def _release(self, gateway: Gateway, at: Seconds) -> None:
        while len(gateway) > 0 and (open_ones := self._open_at(gateway, at)):
            request = gateway.take()
            if request is None:
                break
            self._router.choose(request, open_ones, at).engine.submit(request, at)

    def _open_at(self, gateway: Gateway, at: Seconds) -> list[Replica]:
        if gateway.per_replica is None:
            return self._serving
        for replica in self._serving:
            replica.engine.catch_up(at)
        return [r for r in self._serving if gateway.has_room_at(r.engine.in_flight)]

    def _arrive(self, request: Request, at: Seconds) -> None:
        self.outcomes.arrive()
        gateway = self.gateway
        candidates = self._serving
        if gateway is not None:
            candidates = [] if len(gateway) else self._open_at(gateway, at)
        if candidates:
            self._router.choose(request, candidates, at).engine.submit(request, at)
        elif gateway is None or not gateway.hold(
            request, at, anybody_serves=len(self._serving) > 0
        ):
            request.end(Ending.REJECTED, at)
            self._ended(request)

    def _ended(self, request: Request) -> None:
        self.outcomes.record(request)
        if self._on_end is not None:
            self._on_end(request)

    # --- replicas ----------------------------------------------------------------------------

    def _create(self, at: Seconds, *, start_up: Seconds) -> Replica:
        replica = Replica(
            self.shape, number=self._created, created=at, start_up=start_up, on_end=self._ended
        )
        self._created += 1
        return replica

    def _serve(self, replica: Replica) -> None:
        replica.state = ReplicaState.SERVING
        self._serving.append(replica)

    def _remove_loading(self, replica: Replica, at: Seconds) -> None:
        self._loading.remove(replica)
        self._past_replica_seconds += at - replica.created

    def _removal_rank(self, replica: Replica) -> tuple[int, Seconds, int]:
        cost = self.deletion_costs.get(replica.name, 0)
        return cost, -replica.ready_at, -replica.number

    def _reap(self) -> None:
        for replica in self._draining[:]:
            gone_at = replica.gone_at()
            if gone_at is not None:
                self._draining.remove(replica)
                self.deletion_costs.pop(replica.name, None)
                self._past_replica_seconds += gone_at - replica.created
