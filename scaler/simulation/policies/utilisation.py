"""The autoscaler on CPU, and on the GPU's SM utilisation: both stay flat, at opposite ends.

SM utilisation (`DCGM_FI_DEV_GPU_UTIL`) is the share of time in which any kernel ran. An engine that
has one request runs a step after another, as one with a hundred requests does, so the gauge stands
near 1 as soon as anything runs and says nothing about how much more would fit: the fleet grows
until its replicas are idle part of the time.

CPU: an engine's scheduling loop keeps one core busy while a step is under way, however many
requests are in it, and the API server spends a little for each token that it streams
(`CPU_PER_TOKEN`). A pod that requests `CORES` cores, as GPU pods do because CPUs are cheap beside
the card, never comes near a target of 80 %: the fleet shrinks to its minimum and stays there.

Both go through the arithmetic of metrics with a target utilisation: ratio × ready pods, tolerance
0.1, down only by the highest proposal of 300 s. Where metrics are missing the count stays. 80 % is
the target that the Kubernetes documentation and API default to.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler.core.units import Seconds
from scaler.simulation.hpa_types import MetricType
from scaler.simulation.keda_types import CallableScaler, MetricSpec, ScaledObject
from scaler.simulation.policies.port import Bounds, Note, View

TARGET = 0.8
CORES = 8.0
CPU_PER_TOKEN: Seconds = 50e-6


def sm_utilisation(view: View) -> float | None:
    """Return the mean share of time in which a step was under way."""
    return view.utilisation


def cpu_utilisation(view: View) -> float | None:
    """Return the mean share of the requested cores that are used, by the model above."""
    if view.utilisation is None or view.reading is None or not view.reading.replicas:
        return None
    tokens = sum(replica.token_rate or 0.0 for replica in view.reading.replicas)
    streaming = CPU_PER_TOKEN * tokens / len(view.reading.replicas)
    return (view.utilisation + streaming) / CORES


class UtilisationPolicy:
    """A horizontal pod autoscaler with one target utilisation."""

    def __init__(
        self,
        name: str,
        bounds: Bounds,
        *,
        metric: Callable[[View], float | None],
        target: float = TARGET,
    ) -> None:
        self.name = name
        self._metric = metric
        self._value: float | None = None
        self.scaled_object = ScaledObject(
            min_replicas=bounds.min_replicas, max_replicas=bounds.max_replicas
        )
        self.triggers = (
            CallableScaler(
                spec=MetricSpec(name="utilisation", target=target, type=MetricType.VALUE),
                value=lambda _: self._value,
                active=lambda _: True,
            ),
        )

    def observe(self, view: View) -> None:
        """Take the gauge."""
        self._value = self._metric(view)

    def note(self) -> Note:
        """Return the utilisation."""
        return Note(answer=self._value)
