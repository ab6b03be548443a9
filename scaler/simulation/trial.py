"""The closed loop in simulated time: traffic, fleet, metrics, a policy, KEDA and the autoscaler.

The world is the same for every policy: the requests, how long the n-th replica takes to start, the
instants of scrapes, polls and syncs. KEDA's polls and the autoscaler's syncs fall between scrapes,
so an answer is as old as it is in a cluster. Nothing is drawn but from the seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from scaler.core.reading import Reading
from scaler.core.sample import take_sample
from scaler.core.units import TICK, Seconds
from scaler.simulation.fleet import Fleet
from scaler.simulation.hpa_types import PodCount, TargetScale
from scaler.simulation.keda import Keda, KedaLoop
from scaler.simulation.policies.port import AnyPolicy, Bounds, DirectPolicy, Silence, View
from scaler.simulation.replica import ReplicaState
from scaler.simulation.requests import Ending
from scaler.simulation.results import Moment, Result
from scaler.simulation.router import router_named
from scaler.simulation.shapes import FleetShape
from scaler.simulation.workloads import Workload

STARTED: Seconds = 1_700_000_040.0
"""When traffic begins: on the grid of ticks and of minutes."""

PHASE: Seconds = 5.0
"""How long after a scrape KEDA polls and the autoscaler reconciles."""

_RUN_OUT: Seconds = 3600.0
_LEAD_TIMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Metrics are missing from `begin` to `end`, in seconds since the traffic began."""

    begin: Seconds
    end: Seconds
    silence: Silence = Silence.EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything but the policy. `replicas` serve from the start; a static fleet has its own.

    `terminating_seen` says that metrics of replicas which drain are scraped like the others', as
    by a Prometheus that finds targets by pod.
    """

    workload: Workload
    fleet: FleetShape
    replicas: int
    bounds: Bounds
    seed: int = 0
    router: str = "least-loaded"
    outage: Outage | None = None
    terminating_seen: bool = True


@dataclass(slots=True)
class _Ledger:
    """What the count did."""

    changes: int = 0
    turns: int = 0
    most: int = 0
    _direction: int = 0

    def note(self, before: int, after: int) -> None:
        """Count a write of the scale."""
        self.most = max(self.most, after)
        if after == before:
            return
        direction = 1 if after > before else -1
        self.changes += 1
        self.turns += self._direction == -direction
        self._direction = direction


@dataclass(slots=True)
class _LeadTimes:
    """Observed start-ups: creation to serving, of the replicas that were not there at the start."""

    _seen: set[int] = field(default_factory=set)
    _newest: list[Seconds] = field(default_factory=list)

    def look(self, fleet: Fleet) -> None:
        """Note who has begun to serve."""
        for replica in fleet.replicas:
            if replica.state is ReplicaState.SERVING and replica.number not in self._seen:
                self._seen.add(replica.number)
                took = replica.ready_at - replica.created
                if took > 0:
                    self._newest = [*self._newest[1 - _LEAD_TIMES :], took]

    def median(self) -> Seconds | None:
        """Return the median of the last five; None before the first."""
        return median(self._newest) if self._newest else None


def run_trial(
    world: World,
    policy: AnyPolicy,
    *,
    replicas: int | None = None,
    watch: Callable[[Moment], None] | None = None,
) -> Result:
    """Run a policy through a world and say what it came to.

    `replicas` is the fleet at the start where it is not the world's own. `watch` is called at
    every tick.
    """
    trial = _Trial(world, policy, world.replicas if replicas is None else replicas, watch)
    return trial.run()


class _Trial:
    def __init__(
        self,
        world: World,
        policy: AnyPolicy,
        replicas: int,
        watch: Callable[[Moment], None] | None,
    ) -> None:
        self._world = world
        self._policy = policy
        self._watch = watch
        workload = world.workload
        self._start = workload.started
        self._end = self._start + workload.length
        self._ledger = _Ledger(most=replicas)
        self._lead_times = _LeadTimes()
        self._fleet = Fleet(
            world.fleet,
            arrivals=workload.requests(),
            replicas=replicas,
            router=router_named(world.router),
            seed=world.seed,
            started=self._start,
        )

    def run(self) -> Result:
        act = self._actor()
        tick, due = self._start + TICK, self._start + PHASE
        while min(tick, due) <= self._end:
            if tick <= due:
                self._tick(tick)
                tick += TICK
            else:
                due = act(due)
        fleet = self._fleet
        fleet.advance(self._end)
        paid = fleet.replica_seconds()
        limit = self._end + _RUN_OUT
        while not fleet.exhausted and fleet.now < limit:
            fleet.advance(fleet.now + TICK)
        return self._result(paid)

    # --- a tick ------------------------------------------------------------------------------

    def _tick(self, at: Seconds) -> None:
        fleet, world = self._fleet, self._world
        reading = fleet.reading(at, draining=world.terminating_seen)
        self._lead_times.look(fleet)
        silence = self._silence(at)
        seen = () if silence else tuple(r for r in fleet.replicas if self._is_scraped(r.state))
        census = fleet.census()
        self._policy.observe(
            View(
                at=at,
                reading=None if silence else reading,
                silence=silence,
                replicas=seen,
                spec=census.spec,
                ready=census.serving,
                lead_time=self._lead_times.median(),
                utilisation=None if silence else fleet.scraper.utilisation(),
            )
        )
        if self._watch is not None:
            self._watch(self._moment(at, reading))

    def _is_scraped(self, state: ReplicaState) -> bool:
        if state is ReplicaState.DRAINING:
            return self._world.terminating_seen
        return state is ReplicaState.SERVING

    def _silence(self, at: Seconds) -> Silence | None:
        outage = self._world.outage
        if outage is None or not outage.begin <= at - self._start < outage.end:
            return None
        return outage.silence

    def _moment(self, at: Seconds, reading: Reading) -> Moment:
        census, note = self._fleet.census(), self._policy.note()
        sample = take_sample(reading)
        return Moment(
            at=at - self._start,
            spec=census.spec,
            serving=census.serving,
            loading=census.loading,
            draining=census.draining,
            waiting=sample.waiting,
            running=sample.running,
            kv_cache=sample.kv_cache,
            ttft=sample.ttft.value if sample.ttft is not None else None,
            floor=note.floor,
            ceiling=note.ceiling,
            answer=note.answer,
            reason=note.reason,
        )

    # --- who writes the scale ----------------------------------------------------------------

    def _actor(self) -> Callable[[Seconds], Seconds]:
        """Return what is to be called when it is due, and which then says when it next is."""
        policy = self._policy
        if isinstance(policy, DirectPolicy):
            return lambda at: self._act_directly(policy, at)
        loop = KedaLoop(
            Keda(policy.scaled_object, created=self._start + PHASE),
            policy.triggers,
            start=self._start + PHASE,
        )
        return lambda at: self._act_through_keda(loop, at)

    def _act_directly(self, policy: DirectPolicy, at: Seconds) -> Seconds:
        fleet = self._fleet
        if policy.interval < TICK:
            fleet.advance(at)
        in_flight = sum(replica.engine.in_flight for replica in fleet.replicas)
        wanted = policy.replicas(at, spec=fleet.spec, ready=self._ready(at), in_flight=in_flight)
        self._write(max(self._world.bounds.min_replicas, wanted), at)
        return at + policy.interval

    def _act_through_keda(self, loop: KedaLoop, at: Seconds) -> Seconds:
        spec = self._fleet.spec
        # Pods exist from the moment they are asked for, and those that terminate do not count.
        scale = TargetScale(spec=spec, status=spec)
        pods = PodCount(matching=len(self._fleet.replicas), ready=self._ready(at))
        self._write(loop.step(at, scale, pods), at)
        return loop.due

    def _ready(self, at: Seconds) -> int:
        return sum(
            replica.state is not ReplicaState.DRAINING and replica.ready_at <= at
            for replica in self._fleet.replicas
        )

    def _write(self, wanted: int, at: Seconds) -> None:
        before = self._fleet.spec
        after = min(wanted, self._world.bounds.max_replicas)
        self._ledger.note(before, after)
        if after != before:
            self._fleet.scale(after, at)

    # --- the end -----------------------------------------------------------------------------

    def _result(self, paid: Seconds) -> Result:
        outcomes = self._fleet.outcomes
        attained = outcomes.slo_attainment
        return Result(
            policy=self._policy.name,
            slo_attainment=math.nan if attained is None else attained,
            replica_hours=paid / 3600.0,
            ttft_p50=outcomes.ttft.quantile(0.5),
            ttft_p95=outcomes.ttft.quantile(0.95),
            ttft_p99=outcomes.ttft.quantile(0.99),
            tpot_p95=outcomes.tpot.quantile(0.95),
            scale_events=self._ledger.changes,
            direction_changes=self._ledger.turns,
            preemptions=outcomes.preempted,
            rejected=outcomes.ended[Ending.REJECTED],
            cut_off=outcomes.ended[Ending.CUT_OFF],
            given_up=outcomes.ended[Ending.GIVEN_UP],
            unfinished=outcomes.open,
            arrived=outcomes.arrived,
            most_replicas=self._ledger.most,
        )
