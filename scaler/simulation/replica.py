"""One replica: an engine between its pod's creation and its end."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from random import Random

from scaler.core.units import Seconds
from scaler.simulation.engine import Engine
from scaler.simulation.requests import Request
from scaler.simulation.shapes import FleetShape


class ReplicaState(StrEnum):
    """Where a replica is in its life."""

    LOADING = "loading"
    """Paid for, but its port refuses connections."""
    SERVING = "serving"
    DRAINING = "draining"
    """Told to stop: gets nothing new and finishes what it has."""


class Replica:
    """A pod with one engine. `ready_at` is when it starts to serve."""

    __slots__ = ("created", "engine", "name", "number", "ready_at", "state", "stopped_at")

    def __init__(
        self,
        shape: FleetShape,
        *,
        number: int,
        created: Seconds,
        start_up: Seconds,
        on_end: Callable[[Request], None],
    ) -> None:
        self.number = number
        self.name = f"vllm-{number:04d}"
        self.created = created
        self.ready_at = created + start_up
        self.stopped_at: Seconds | None = None
        self.state = ReplicaState.LOADING
        self.engine = Engine(shape.engine, started=self.ready_at, on_end=on_end)

    def __repr__(self) -> str:
        return f"Replica({self.name}, {self.state})"

    def stop(self, at: Seconds, grace: Seconds) -> None:
        """Begin to end: drain for at most `grace` seconds."""
        self.state = ReplicaState.DRAINING
        self.stopped_at = at
        self.engine.stop(at, grace=grace)

    def gone_at(self) -> Seconds | None:
        """Return when the pod was gone, or None while it is there."""
        if self.stopped_at is None or not self.engine.stopped:
            return None
        return max(self.stopped_at, self.engine.now)


def start_up_of(shape: FleetShape, *, seed: int, number: int) -> Seconds:
    """Draw how long a fleet's n-th replica takes to start.

    The draw belongs to the number, so that two policies on one seed meet the same start-ups.
    """
    return shape.start_up.sample(Random(f"start-up:{seed}:{number}"))  # noqa: S311 - not a secret
