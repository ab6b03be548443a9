"""keda-kaito-scaler: every metric must agree, and one pod at a time.

Source: kaito-project/keda-kaito-scaler at 3ce909d, composite mode with the thresholds of its
README. The scaler polls engines every 15 s; a value older than 45 s is an error, on which the
autoscaler holds. KEDA's formula asks for twice the replicas where the readiness gate is 1 and every
metric is above its upper threshold, for half where every metric is below its lower one, and for as
many otherwise. The autoscaler takes that times the ready pods (type Value, target 1) and its rules
allow one pod in 300 s either way, with windows of 60 s up and 300 s down and a tolerance of 0.1.

The engine model keeps no histogram of queue time, so TTFT's p95 stands for it: it is the longer of
the two by the prefill, which lets this policy scale out a little sooner than the real one.
"""

from __future__ import annotations

from scaler.core.quantile import percentile
from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.simulation.hpa_types import Behavior, MetricType, PolicyType, Rules, SelectPolicy
from scaler.simulation.hpa_types import Policy as Rate
from scaler.simulation.keda_types import CallableScaler, MetricSpec, ScaledObject
from scaler.simulation.policies.port import Bounds, Note, View

WAITING_UP, WAITING_DOWN = 5.0, 1.0
QUEUE_TIME_UP, QUEUE_TIME_DOWN = 2.0, 0.5
STALE_AFTER: Seconds = 45.0
POLLING_INTERVAL: Seconds = 15.0
UP, HOLD, DOWN = 2.0, 1.0, 0.5

_ONE_POD = (Rate(type=PolicyType.PODS, value=1, period=300),)
BEHAVIOR = Behavior(
    scale_up=Rules(window=60, select=SelectPolicy.MAX, policies=_ONE_POD, tolerance=0.1),
    scale_down=Rules(window=300, select=SelectPolicy.MAX, policies=_ONE_POD, tolerance=0.1),
)


def ratio(*, waiting_per_replica: float, queue_time: Seconds, all_ready: bool) -> float:
    """Evaluate the formula that KEDA is given."""
    if all_ready and waiting_per_replica > WAITING_UP and queue_time > QUEUE_TIME_UP:
        return UP
    if waiting_per_replica < WAITING_DOWN and queue_time < QUEUE_TIME_DOWN:
        return DOWN
    return HOLD


class KaitoPolicy:
    """The composite mode behind KEDA."""

    name = "kaito"

    def __init__(self, bounds: Bounds) -> None:
        self._ratio: float | None = None
        self._heard: Seconds | None = None
        self.scaled_object = ScaledObject(
            min_replicas=bounds.min_replicas,
            max_replicas=bounds.max_replicas,
            polling_interval=POLLING_INTERVAL,
            behavior=BEHAVIOR,
        )
        self.triggers = (
            CallableScaler(
                spec=MetricSpec(name="composite", type=MetricType.VALUE),
                value=self._fresh,
                active=lambda _: True,
            ),
        )

    def observe(self, view: View) -> None:
        """Evaluate the formula on the newest scrape."""
        if view.reading is None or not view.reading.replicas:
            return
        self._heard = view.at
        self._ratio = ratio(
            waiting_per_replica=_waiting_per_replica(view.reading),
            queue_time=_queue_time(view.reading),
            all_ready=view.ready == view.spec,
        )

    def note(self) -> Note:
        """Return the ratio."""
        return Note(answer=self._ratio)

    def _fresh(self, now: Seconds) -> float | None:
        if self._heard is None or now - self._heard > STALE_AFTER:
            return None
        return self._ratio


def _waiting_per_replica(reading: Reading) -> float:
    return sum(replica.waiting for replica in reading.replicas) / len(reading.replicas)


def _queue_time(reading: Reading) -> Seconds:
    """Return the p95; where nothing was observed 0, which permits scaling in."""
    found = percentile(reading.ttft) if reading.ttft is not None else None
    return 0.0 if found is None else found.value
