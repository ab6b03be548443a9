"""What the demo shows: one ScaledObject, its fleet, and the behaviour block that goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scaler.core.units import Seconds
from scaler.simulation.hpa_types import Behavior, Rules
from scaler.simulation.keda_types import ScaledObject
from scaler.simulation.shapes import MEMORY_BOUND, EngineShape, FleetShape, StartUp

BEHAVIOR = Behavior(
    scale_up=Rules(window=0, tolerance=0.0),
    scale_down=Rules(window=60, tolerance=0.0),
)
"""The block that belongs to the scaler: its windows are enough, so the HPA adds only a guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Names and sizes. `replicas` serve at first; a new one takes `start_up` seconds to come.

    A replica that is taken away has `drain` seconds to finish its requests.
    """

    namespace: str = "demo"
    name: str = "chat"
    model_name: str = "emulated-8b"
    replicas: int = 2
    min_replicas: int = 1
    max_replicas: int = 12
    engine: EngineShape = MEMORY_BOUND
    start_up: Seconds = 180.0
    drain: Seconds = 300.0

    @property
    def metadata(self) -> Mapping[str, str]:
        """Return the trigger's metadata: whatever is not named keeps its default."""
        return {"modelName": self.model_name}

    def fleet_shape(self) -> FleetShape:
        """Return the shape of the simulated fleet."""
        start_up = StartUp(median=self.start_up, spread=0.0)
        return FleetShape(engine=self.engine, start_up=start_up, drain=self.drain)

    def scaled_object(self) -> ScaledObject:
        """Return the ScaledObject, as far as it decides."""
        return ScaledObject(
            min_replicas=self.min_replicas, max_replicas=self.max_replicas, behavior=BEHAVIOR
        )
