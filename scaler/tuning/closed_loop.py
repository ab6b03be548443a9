"""A model of a recorded fleet: how well it tells the record, and what another policy makes of it.

Here the signals answer to the replicas, which an open-loop rehearsal cannot show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from scaler.core.policy import Policy
from scaler.core.quantile import ENOUGH_OBSERVATIONS
from scaler.core.sample import Sample, take_sample
from scaler.core.units import Seconds
from scaler.core.workload import Scale
from scaler.simulation.policies.corridor import CorridorPolicy
from scaler.simulation.policies.fixed import SchedulePolicy, StaticPolicy
from scaler.simulation.policies.port import AnyPolicy, Bounds, View
from scaler.simulation.profiles import profile_named
from scaler.simulation.requests import Request
from scaler.simulation.shapes import FleetShape, StartUp
from scaler.simulation.trial import World, run_trial
from scaler.simulation.workloads import Workload
from scaler.tuning.errors import NotEnoughKnown
from scaler.tuning.estimate import Estimate, corrected
from scaler.tuning.prepared import Prepared
from scaler.tuning.record import Moment, Record
from scaler.tuning.slo import Promise, missed

DRAIN: Seconds = 120.0
MOST_REPLICAS = 200
_COMPARED = 20
_QUEUE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembering(Workload):
    """Traffic whose requests are kept, so that each promise can be counted for itself."""

    sent: list[Request] = field(default_factory=list)

    def requests(self) -> Iterator[Request]:
        """Generate the requests and keep them."""
        for request in Workload.requests(self):
            self.sent.append(request)
            yield request


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A recorded fleet that can be run again, over [start, end), from `replicas` on."""

    estimate: Estimate
    start: Seconds
    end: Seconds
    replicas: int
    bounds: Bounds
    counts: tuple[tuple[Seconds, int], ...]

    def world(self, seed: int) -> tuple[World, list[Request]]:
        """Return a world with requests drawn from the seed, and where they will be found."""
        workload = Remembering(
            trace=self.estimate.trace(self.start, self.end, seed),
            profile=profile_named("steady"),
            duration=self.end - self.start,
            started=self.start,
            seed=seed,
        )
        world = World(
            workload=workload,
            fleet=FleetShape(
                engine=self.estimate.engine,
                start_up=StartUp(median=self.estimate.lead_time),
                drain=DRAIN,
            ),
            replicas=self.replicas,
            bounds=self.bounds,
            seed=seed,
        )
        return world, workload.sent


def model_of(record: Record, found: Estimate, span: Seconds | None = None) -> Model:
    """Build the model of a record, or of its `span` seconds in which the traffic varied most.

    Raises NotEnoughKnown where no count of replicas is recorded.
    """
    start, end = _busiest(found, span)
    counts = [(m.at, m.scale.current, m.scale) for m in record.moments if m.scale is not None]
    if not counts:
        raise NotEnoughKnown(
            "the history has no count of replicas: it needs kube-state-metrics' series of the "
            "Deployment, or an export that has them"
        )
    before = [count for at, count, _ in counts if at <= start]
    newest = counts[-1][2]
    highest = max(count for _, count, _ in counts)
    return Model(
        estimate=found,
        start=start,
        end=end,
        replicas=max(1, before[-1] if before else counts[0][1]),
        bounds=Bounds(
            min_replicas=max(1, newest.min_replicas),
            max_replicas=newest.max_replicas or max(MOST_REPLICAS, highest),
        ),
        counts=tuple((at, max(1, count)) for at, count, _ in counts),
    )


def _busiest(found: Estimate, span: Seconds | None) -> tuple[Seconds, Seconds]:
    """Return the part of the traffic in which load rises most, the busiest of equals."""
    if span is None or span >= found.end - found.start:
        return found.start, found.end
    traffic = found.traffic
    width = max(1, int(span // (traffic[1].at - traffic[0].at)))
    loads = [each.rate * found.work(each) for each in traffic]
    best = max(
        range(len(traffic) - width + 1),
        key=lambda i: (max(loads[i : i + width]) - min(loads[i : i + width]), sum(loads[i:])),
    )
    start = traffic[best].at
    return start, start + width * (traffic[1].at - traffic[0].at)


class _Kept:
    """What was to be seen while a policy ran, as a record."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.moments: list[Moment] = []

    def look(self, view: View) -> None:
        scale = Scale(
            current=view.spec,
            min_replicas=self._bounds.min_replicas,
            max_replicas=self._bounds.max_replicas,
            ready=view.ready,
        )
        sample = None if view.reading is None else take_sample(view.reading)
        moment = Moment(at=view.at, sample=sample, scale=scale, lead_time=view.lead_time)
        self.moments.append(moment)


class _RecordedCorridor(CorridorPolicy):
    def __init__(self, bounds: Bounds, policy: Policy) -> None:
        super().__init__(bounds, policy)
        self.kept = _Kept(bounds)

    def observe(self, view: View) -> None:
        self.kept.look(view)
        super().observe(view)


class _RecordedSchedule(SchedulePolicy):
    def __init__(self, bounds: Bounds, counts: Sequence[tuple[Seconds, int]]) -> None:
        super().__init__("as-recorded", counts)
        self.kept = _Kept(bounds)

    def observe(self, view: View) -> None:
        self.kept.look(view)
        super().observe(view)


def record_of_world(world: World, policy: Policy, name: str = "simulated") -> Record:
    """Run the scaler in a world and return the record that a Prometheus would have of it."""
    observed = _RecordedCorridor(world.bounds, policy)
    run_trial(world, observed)
    return Record(namespace="simulation", name=name, moments=tuple(observed.kept.moments))


# --- trials --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One policy in the model, under one seed: `missed` for each promise, then for any of them."""

    seed: int
    replica_hours: float
    missed: tuple[float, ...]
    changes: int
    requests: int


def judge(model: Model, policy: Policy, promises: Sequence[Promise], seed: int) -> Judged:
    """Run a policy in the model."""
    return _judge(model, CorridorPolicy(model.bounds, policy), promises, seed)


def judge_largest(model: Model, promises: Sequence[Promise], seed: int) -> Judged:
    """Run as many replicas as there may be, all of the time: nothing misses fewer."""
    return _judge(model, StaticPolicy(model.bounds.max_replicas), promises, seed)


def _judge(model: Model, policy: AnyPolicy, promises: Sequence[Promise], seed: int) -> Judged:
    world, sent = model.world(seed)
    static = model.bounds.max_replicas if isinstance(policy, StaticPolicy) else None
    result = run_trial(world, policy, replicas=static)
    return Judged(
        seed=seed,
        replica_hours=result.replica_hours,
        missed=missed(promises, sent),
        changes=result.scale_events,
        requests=len(sent),
    )


# --- calibration ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """How far the model is from the record in one signal, and how far it may be."""

    signal: str
    value: float
    limit: float
    unit: str

    @property
    def bad(self) -> bool:
        """Say whether the model does not tell this signal."""
        return not self.value <= self.limit


LIMITS = {"running": 0.25, "waiting": 0.15, "kvCache": 0.1, "ttft": 2.0}
"""Above any of these a model is bad, and nothing is to be recommended by it.

On simulated fleets whose truth is known, good models were off by 0.10 to 0.15 in what ran and by
a factor of up to 2.0 in TTFT; with steps 0.7 or 1.4 times as long, by 0.30 to 1.46 in what ran.
"""

_UNITS = {
    "running": "of the requests that ran",
    "waiting": "of the time, a queue in one of them only",
    "kvCache": "of the cache",
    "ttft": "times too high or too low",
}


def as_recorded(model: Model, seed: int = 0) -> Record:
    """Run the model under the recorded counts and return what was to be seen of it."""
    world, _ = model.world(seed)
    observed = _RecordedSchedule(model.bounds, model.counts)
    run_trial(world, observed)
    return Record(namespace="simulation", name="model", moments=tuple(observed.kept.moments))


def corrected_model(prepared: Prepared, found: Estimate, span: Seconds | None = None) -> Model:
    """Build the model of a record, its engine's speed set right by a first run."""
    first = model_of(prepared.record, found, span)
    shown = Prepared(as_recorded(first)).minutes
    recorded = Prepared(prepared.record.between(first.start, first.end)).minutes
    try:
        found = corrected(found, recorded, shown)
    except NotEnoughKnown:
        return first
    return model_of(prepared.record, found, span)


def calibrate(record: Record, model: Model, seed: int = 0) -> tuple[Error, ...]:
    """Run the model under the recorded counts and compare its signals with the recorded ones.

    Over means of five minutes: `running` is the sum of the differences by the sum of what ran,
    `waiting` is the share of time in which more than a request a replica waits in one of them
    and not in the other, `kvCache` the mean difference, `ttft` the median factor of the p95.
    """
    told = {moment.at: moment.sample for moment in as_recorded(model, seed).moments}
    pairs = [
        (moment.sample, other)
        for moment in record.moments
        if moment.sample is not None and moment.sample.serving
        if (other := told.get(moment.at)) is not None and other.serving
    ]
    if not pairs:
        raise NotEnoughKnown("no moment of the history can be compared with the model")
    groups = [pairs[i : i + _COMPARED] for i in range(0, len(pairs), _COMPARED)]
    found = {
        "running": _relative(groups, lambda sample: sample.running),
        "waiting": _queues_apart(groups),
        "kvCache": _mean_gap(groups, lambda sample: sample.kv_cache),
        "ttft": _factor(groups),
    }
    return tuple(
        Error(signal=name, value=value, limit=LIMITS[name], unit=_UNITS[name])
        for name, value in found.items()
        if value is not None
    )


_Groups = Sequence[Sequence[tuple[Sample, Sample]]]


def _means(groups: _Groups, look: Callable[[Sample], float | None]) -> list[tuple[float, float]]:
    """Return both sides' means of each group in which both are known."""
    found = []
    for group in groups:
        known = [
            (one, other)
            for one, other in ((look(a), look(b)) for a, b in group)
            if one is not None and other is not None
        ]
        if known:
            found.append(
                (
                    math.fsum(one for one, _ in known) / len(known),
                    math.fsum(other for _, other in known) / len(known),
                )
            )
    return found


def _relative(groups: _Groups, look: Callable[[Sample], float | None]) -> float | None:
    means = _means(groups, look)
    total = math.fsum(one for one, _ in means)
    return math.fsum(abs(one - other) for one, other in means) / total if total > 0 else None


def _queues_apart(groups: _Groups) -> float | None:
    means = _means(groups, lambda sample: sample.waiting_per_replica)
    apart = sum((one > _QUEUE) != (other > _QUEUE) for one, other in means)
    return apart / len(means) if means else None


def _mean_gap(groups: _Groups, look: Callable[[Sample], float | None]) -> float | None:
    means = _means(groups, look)
    return math.fsum(abs(one - other) for one, other in means) / len(means) if means else None


def _factor(groups: _Groups) -> float | None:
    means = _means(groups, _ttft)
    logs = sorted(abs(math.log(one / other)) for one, other in means if one > 0 and other > 0)
    return math.exp(logs[len(logs) // 2]) if logs else None


def _ttft(sample: Sample) -> float | None:
    known = sample.ttft is not None and sample.ttft.observations >= ENOUGH_OBSERVATIONS
    return sample.ttft.value if known and sample.ttft is not None else None
