"""keda-inference-scaler: a ratio, sent as if it were a number of replicas.

Source: kornsour/keda-inference-scaler at 510b889. Its metric is
max(sum(waiting) / 3, max(kv) / 0.7) × 100 with a target of 100: how far above the threshold the
fleet is. Its ScaledObject sets no `metricType`, so KEDA takes AverageValue and the autoscaler
computes ceil(metric / 100) whatever the fleet's size: four replicas with a full cache (143) become
two. With `metricType: Value` the same number is a ratio times the ready pods, as it is meant. A
query without a result counts as 0; polled every 15 s, otherwise the autoscaler's defaults.

Its default query for the cache names `vllm:gpu_cache_usage_perc`, which vLLM no longer has, and so
is 0 for ever; here it asks for the present name, which is the better case.
"""

from __future__ import annotations

from scaler.core.units import Seconds
from scaler.simulation.hpa_types import MetricType
from scaler.simulation.keda_types import CallableScaler, MetricSpec, ScaledObject
from scaler.simulation.policies.port import Bounds, Note, Silence, View

QUEUE_THRESHOLD = 3.0
KV_THRESHOLD = 0.7
TARGET = 100.0
ACTIVATION = 1.0
POLLING_INTERVAL: Seconds = 15.0
COOLDOWN: Seconds = 60.0


def saturation(*, waiting: float, kv_cache: float) -> float:
    """Return the metric, in per cent of the nearer threshold."""
    return max(waiting / QUEUE_THRESHOLD, kv_cache / KV_THRESHOLD) * TARGET


class InferenceScalerPolicy:
    """The scaler with its ScaledObject as published (AverageValue), or with `metricType: Value`."""

    def __init__(self, name: str, bounds: Bounds, *, metric_type: MetricType) -> None:
        self.name = name
        self._value: float | None = None
        self.scaled_object = ScaledObject(
            min_replicas=bounds.min_replicas,
            max_replicas=bounds.max_replicas,
            polling_interval=POLLING_INTERVAL,
            cooldown_period=COOLDOWN,
        )
        self.triggers = (
            CallableScaler(
                spec=MetricSpec(name="inference-saturation", target=TARGET, type=metric_type),
                value=lambda _: self._value,
                active=lambda _: None if self._value is None else self._value > ACTIVATION,
            ),
        )

    def observe(self, view: View) -> None:
        """Evaluate both queries on the newest scrape."""
        if view.silence is Silence.UNREACHABLE:
            self._value = None
            return
        replicas = view.reading.replicas if view.reading is not None else ()
        self._value = saturation(
            waiting=sum(replica.waiting for replica in replicas),
            kv_cache=max((r.kv_cache for r in replicas if r.kv_cache is not None), default=0.0),
        )

    def note(self) -> Note:
        """Return the metric."""
        return Note(answer=self._value)
