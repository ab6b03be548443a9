"""KEDA's own Prometheus scaler, on queries that users write for vLLM.

Source: kedacore/keda at 8b4f083 (`prometheus_scaler.go`) and the ScaledObject's defaults. The
metric is of type AverageValue, so that the autoscaler computes ceil(value / threshold); it goes by
its own defaults where the ScaledObject has no `behavior`: tolerance 0.1, the highest proposal of
300 s before anything is taken away. `ignoreNullValues` is true by default: a query without a
result, NaN or an infinity counts as 0. Only a server that gives no answer is an error.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.simulation.keda_types import CallableScaler, MetricSpec, ScaledObject
from scaler.simulation.policies.port import Bounds, Note, Silence, View

WAITING_THRESHOLD = 5.0
"""Waiting requests per replica, as in most published examples for vLLM."""

RUNNING_WAITING_THRESHOLD = 16.0
"""Requests per replica; llm-d's guide asks for 16 running ones."""

POLLING_INTERVAL: Seconds = 30.0
"""KEDA's default."""


def waiting(reading: Reading) -> float:
    """Evaluate `sum(vllm:num_requests_waiting)`."""
    return sum(replica.waiting for replica in reading.replicas)


def running_and_waiting(reading: Reading) -> float:
    """Evaluate `sum(vllm:num_requests_running) + sum(vllm:num_requests_waiting)`."""
    return sum(replica.running + replica.waiting for replica in reading.replicas)


class KedaPrometheusPolicy:
    """One query with one threshold."""

    def __init__(
        self,
        name: str,
        bounds: Bounds,
        *,
        query: Callable[[Reading], float],
        threshold: float,
        polling_interval: Seconds = POLLING_INTERVAL,
    ) -> None:
        self.name = name
        self._query = query
        self._value: float | None = None
        self.scaled_object = ScaledObject(
            min_replicas=bounds.min_replicas,
            max_replicas=bounds.max_replicas,
            polling_interval=polling_interval,
        )
        self.triggers = (
            CallableScaler(
                spec=MetricSpec(name="prometheus", target=threshold),
                value=lambda _: self._value,
                active=lambda _: None if self._value is None else self._value > 0,
            ),
        )

    def observe(self, view: View) -> None:
        """Evaluate the query on the newest scrape."""
        if view.silence is Silence.UNREACHABLE:
            self._value = None
        elif view.reading is None or not view.reading.replicas:
            self._value = 0.0
        else:
            self._value = self._query(view.reading)

    def note(self) -> Note:
        """Return the query's value."""
        return Note(answer=self._value)
