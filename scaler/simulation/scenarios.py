"""Named worlds: a trace under a profile, an engine, a start-up time, and what goes wrong.

Loads are set so that scenarios are alike in size: at the profile's peak the requests need
`PEAK_NEED` replicas of an engine that never wastes anything (see `work`), so a fleet of ten or so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TypeVar

from scaler.core.units import Seconds
from scaler.simulation.errors import ShapeInvalid, SimulationError
from scaler.simulation.policies.port import Bounds
from scaler.simulation.profiles import PROFILES, profile_named
from scaler.simulation.shapes import ENGINES, EngineShape, FleetShape, StartUp
from scaler.simulation.trace_shapes import SHIPPED, shipped_shape
from scaler.simulation.traces import Trace, read_trace
from scaler.simulation.trial import STARTED, Outage, World
from scaler.simulation.work import Sharing, least_work
from scaler.simulation.workloads import GENERATIONS, Workload

PEAK_NEED = 8.0
MAX_REPLICAS = 40
DRAIN: Seconds = 120.0
"""How long a replica that is taken away may finish what it has, for every policy alike."""

START_UPS: tuple[Seconds, ...] = (30.0, 180.0, 600.0)
OUTAGE_SHARE = (0.45, 0.6)
"""Between which shares of the traffic's span metrics are missing, where they are."""

_SPARE_AT_START = 1.5
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A world by name. `trace` is a shipped trace's name or a file's path.

    `load` is how many times the trace's mean rate comes at the peak, `replicas` the fleet at the
    start; where they are None they follow from the work that the requests need.
    """

    trace: str = "azure-conv"
    profile: str = "day"
    engine: str = "compute-bound"
    start_up: Seconds = 180.0
    generations: str = "as-traced"
    outage: bool = False
    router: str = "least-loaded"
    seed: int = 1
    load: float | None = None
    replicas: int | None = None

    @property
    def name(self) -> str:
        """Return the name under which results are listed."""
        parts = [Path(self.trace).stem, self.profile, self.engine, f"{self.start_up:g}s"]
        parts += [self.generations] if self.generations != "as-traced" else []
        parts += ["outage"] if self.outage else []
        parts += [self.router] if self.router != "least-loaded" else []
        parts += [f"load-{self.load:g}"] if self.load is not None else []
        parts += [f"from-{self.replicas}"] if self.replicas is not None else []
        return "/".join([*parts, f"seed-{self.seed}"])


def world_of(scenario: Scenario) -> World:
    """Build a scenario's world. Raises SimulationError where a name or number is none."""
    profile = profile_named(scenario.profile)
    engine = _chosen("engine", ENGINES, scenario.engine)
    scale = _chosen("generation length", GENERATIONS, scenario.generations)
    if not (math.isfinite(scenario.start_up) and scenario.start_up >= 0):
        raise ShapeInvalid(f"a start-up of {scenario.start_up} s is none: give 0 or more")
    trace = _trace(scenario.trace, scenario.seed)
    work = _mean_work(trace, engine, scale)
    load = PEAK_NEED / (trace.rate * work) if scenario.load is None else scenario.load
    workload = Workload(
        trace=trace,
        profile=profile,
        seed=scenario.seed,
        load=load,
        started=STARTED,
        output_scale=scale,
    )
    begin, end = (share * workload.length for share in OUTAGE_SHARE)
    fit = max(1, math.ceil(_SPARE_AT_START * workload.rate_at(0.0) * work - 1e-9))
    return World(
        workload=workload,
        fleet=FleetShape(engine=engine, start_up=StartUp(median=scenario.start_up), drain=DRAIN),
        replicas=scenario.replicas or profile.replicas_before or fit,
        bounds=Bounds(max_replicas=MAX_REPLICAS),
        seed=scenario.seed,
        router=scenario.router,
        outage=Outage(begin=begin, end=end) if scenario.outage else None,
    )


def _chosen(what: str, known: dict[str, _Kind], name: str) -> _Kind:
    if name not in known:
        raise ShapeInvalid(f"no {what} is called {name!r}: choose one of {', '.join(known)}")
    return known[name]


@lru_cache(maxsize=4)
def _trace(name: str, seed: int) -> Trace:
    return shipped_shape(name).draw(seed) if name in SHIPPED else read_trace(Path(name))


@lru_cache(maxsize=16)
def _mean_work(trace: Trace, engine: EngineShape, output_scale: float) -> Seconds:
    """Return the mean least work of a trace's requests in seconds of one replica."""
    totals = dict.fromkeys(Sharing, 0.0)
    for row in trace.rows:
        output = max(1, round(row.output * output_scale))
        for sharing in Sharing:
            work = least_work(engine, row.prompt, output, sharing)
            if work is not None:
                totals[sharing] += work.prefill + work.decode
    most = max(totals.values())
    if most <= 0:
        raise ShapeInvalid(f"no request of {trace.name} fits the engine: its prompts are too long")
    return most / len(trace.rows)


# --- matrices ------------------------------------------------------------------------------------


def subset() -> tuple[Scenario, ...]:
    """Return the stated subset: every profile, start-up, engine, trace and mishap at least once.

    It takes at most an hour on two cores with every policy. The longest come first.
    """
    conv, code = Scenario(), Scenario(trace="azure-code")
    compute, memory = ENGINES
    chosen = [replace(conv, profile=p, engine=e) for p in ("day", "monday") for e in ENGINES]
    for profile, engine, start_up in (
        *(("step", compute, 180.0), ("step", memory, 180.0), ("step", compute, 600.0)),
        *(("step", memory, 30.0), ("ramp", compute, 180.0), ("ramp", memory, 600.0)),
        *(("spike", compute, 180.0), ("spike", memory, 180.0)),
        *(("flash-crowd", compute, 180.0), ("flash-crowd", memory, 600.0)),
        *(("on-off", compute, 180.0), ("on-off", memory, 30.0)),
        *(("long-context", compute, 180.0), ("long-context", memory, 180.0)),
        ("long-context", memory, 600.0),
    ):
        chosen.append(replace(conv, profile=profile, engine=engine, start_up=start_up))
    chosen += [replace(code, profile=profile) for profile in ("steady", "step", "on-off")]
    chosen += [
        replace(conv, profile="step", engine=memory, generations="long"),
        replace(conv, profile="ramp", engine=compute, generations="short"),
        replace(conv, profile="ramp", engine=compute, outage=True),
        replace(conv, profile="step", engine=memory, outage=True),
    ]
    return tuple(chosen)


def full() -> Iterator[Scenario]:
    """Generate every combination; days of computing."""
    for trace, profile, engine, start_up, generations, outage in product(
        SHIPPED, PROFILES, ENGINES, START_UPS, GENERATIONS, (False, True)
    ):
        yield Scenario(
            trace=trace,
            profile=profile,
            engine=engine,
            start_up=start_up,
            generations=generations,
            outage=outage,
        )


def matrix_named(name: str) -> tuple[Scenario, ...]:
    """Return a matrix by its name. Raises SimulationError."""
    if name == "subset":
        return subset()
    if name == "full":
        return tuple(full())
    raise SimulationError(f"no matrix is called {name!r}: choose subset or full")
