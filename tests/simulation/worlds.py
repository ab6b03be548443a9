"""Small worlds for tests: a slow engine, so that few requests need several replicas."""

from __future__ import annotations

from scaler.simulation.policies import policy_named, static_size
from scaler.simulation.policies.port import Bounds
from scaler.simulation.profiles import Profile, profile_named
from scaler.simulation.results import Moment, Result
from scaler.simulation.shapes import EngineShape, FleetShape, StartUp, StepCost
from scaler.simulation.trace_shapes import shipped_shape
from scaler.simulation.trial import STARTED, Outage, World, run_trial
from scaler.simulation.workloads import Workload

ENGINE = EngineShape(
    cost=StepCost(base=0.01, per_token=1e-4, per_sequence=8e-4, per_context_token=1e-7),
    max_num_seqs=16,
    max_num_batched_tokens=256,
    blocks=2000,
    max_model_len=8192,
)
TRACE = shipped_shape("azure-conv").draw(seed=1)
FALLING = Profile(name="falling", about="down", duration=1.0, points=((0.2, 1.0), (0.25, 0.1)))
RISE = Profile(name="rise", about="up for good", duration=1.0, points=((0.2, 0.3), (0.21, 1.0)))


def world(
    profile: str | Profile = "step",
    *,
    minutes: float = 40.0,
    load: float = 1.0,
    start_up: float = 60.0,
    replicas: int = 2,
    most: int = 20,
    seed: int = 1,
    outage: Outage | None = None,
) -> World:
    """Make a world in which the peak needs about three replicas at load 1."""
    found = profile_named(profile) if isinstance(profile, str) else profile
    return World(
        workload=Workload(
            trace=TRACE,
            profile=found,
            seed=seed,
            load=load,
            duration=minutes * 60.0,
            started=STARTED,
        ),
        fleet=FleetShape(engine=ENGINE, start_up=StartUp(median=start_up), drain=30.0),
        replicas=replicas,
        bounds=Bounds(max_replicas=most),
        seed=seed,
        outage=outage,
    )


def run(place: World, policy: str) -> tuple[Result, list[Moment]]:
    """Run a policy by name; return its result and every tick."""
    moments: list[Moment] = []
    result = run_trial(
        place,
        policy_named(policy, place.bounds),
        replicas=static_size(policy),
        watch=moments.append,
    )
    return result, moments
