"""A trigger, a block and observations that the tests of KEDA share."""

from __future__ import annotations

from scaler.simulation.hpa_types import Behavior, PodCount, Policy, PolicyType, Rules, TargetScale
from scaler.simulation.keda_types import MetricSpec, Observation, ScaledObject

SPEC = MetricSpec(name="demand")
FREE = Behavior(
    scale_up=Rules(tolerance=0.0, policies=(Policy(type=PolicyType.PODS, value=1000, period=15),)),
    scale_down=Rules(tolerance=0.0, window=0),
)
IDLE = Observation(spec=SPEC, values=(0.0,), active=False)
BUSY = Observation(spec=SPEC, values=(4.0,), active=True)
FAILED = Observation(spec=SPEC, values=None)
MUTE = Observation(spec=None, values=None)


def seen(replicas: int, ready: int | None = None) -> tuple[TargetScale, PodCount]:
    """Return a scale whose pods all exist."""
    pods = PodCount(matching=replicas, ready=replicas if ready is None else ready)
    return TargetScale(spec=replicas, status=replicas), pods


ZERO = ScaledObject(max_replicas=10)
