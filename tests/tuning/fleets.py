"""Small simulated fleets whose truth is known: slow engines, so that a trial takes a second."""

from __future__ import annotations

from scaler.simulation.policies.port import Bounds
from scaler.simulation.profiles import profile_named
from scaler.simulation.shapes import EngineShape, FleetShape, StartUp, StepCost
from scaler.simulation.trace_shapes import shipped_shape
from scaler.simulation.trial import STARTED, World
from scaler.simulation.workloads import Workload

SLOW = EngineShape(
    cost=StepCost(base=0.03, per_token=300e-6, per_sequence=200e-6, per_context_token=1e-6),
    max_num_seqs=12,
    blocks=3000,
    max_model_len=16_000,
)


def small_world(
    profile: str, *, load: float, start_up: float, hours: float = 2.0, seed: int = 1
) -> World:
    """Return a fleet of up to twelve slow replicas under conversations."""
    return World(
        workload=Workload(
            trace=shipped_shape("azure-conv").draw(seed),
            profile=profile_named(profile),
            seed=seed,
            load=load,
            duration=hours * 3600,
            started=STARTED,
        ),
        fleet=FleetShape(engine=SLOW, start_up=StartUp(median=start_up), drain=120.0),
        replicas=2,
        bounds=Bounds(max_replicas=12),
        seed=seed,
    )
