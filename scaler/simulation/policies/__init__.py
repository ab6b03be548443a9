"""The policies by name: the scaler's own, `corridor`, and its peers as they were published.

A name may end in `@TARGET`, which replaces the policy's published target where it has one:
`keda-running-waiting@24`, `hpa-sm@0.6`. `static-N` is a fleet of N that nothing moves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from scaler.simulation.errors import SimulationError
from scaler.simulation.hpa_types import MetricType
from scaler.simulation.policies import inference_scaler, keda_prometheus, knative, utilisation
from scaler.simulation.policies.corridor import CorridorPolicy
from scaler.simulation.policies.fixed import StaticPolicy
from scaler.simulation.policies.kaito import KaitoPolicy
from scaler.simulation.policies.port import AnyPolicy, Bounds
from scaler.simulation.policies.wva import WvaPolicy

CORRIDOR = "corridor"


class PolicyUnknown(SimulationError):
    """A policy name that does not exist; the message lists those that do."""


_LEAST_TARGET = 0.001
_STATIC = re.compile(r"static-([1-9]\d{0,3})")

_PLAIN: dict[str, Callable[[Bounds], AnyPolicy]] = {
    CORRIDOR: CorridorPolicy,
    "kaito": KaitoPolicy,
    "inference-scaler": lambda bounds: inference_scaler.InferenceScalerPolicy(
        "inference-scaler", bounds, metric_type=MetricType.AVERAGE_VALUE
    ),
    "inference-scaler-value": lambda bounds: inference_scaler.InferenceScalerPolicy(
        "inference-scaler-value", bounds, metric_type=MetricType.VALUE
    ),
    "wva-v2": WvaPolicy,
}


def _keda_waiting(name: str, bounds: Bounds, target: float) -> AnyPolicy:
    return keda_prometheus.KedaPrometheusPolicy(
        name, bounds, query=keda_prometheus.waiting, threshold=target
    )


def _keda_running_waiting(name: str, bounds: Bounds, target: float) -> AnyPolicy:
    return keda_prometheus.KedaPrometheusPolicy(
        name, bounds, query=keda_prometheus.running_and_waiting, threshold=target
    )


def _knative(name: str, bounds: Bounds, target: float) -> AnyPolicy:
    return knative.KnativePolicy(name, bounds, target=target)


def _hpa_cpu(name: str, bounds: Bounds, target: float) -> AnyPolicy:
    return utilisation.UtilisationPolicy(
        name, bounds, metric=utilisation.cpu_utilisation, target=target
    )


def _hpa_sm(name: str, bounds: Bounds, target: float) -> AnyPolicy:
    return utilisation.UtilisationPolicy(
        name, bounds, metric=utilisation.sm_utilisation, target=target
    )


_TARGETED: dict[str, tuple[float, Callable[[str, Bounds, float], AnyPolicy]]] = {
    "keda-waiting": (keda_prometheus.WAITING_THRESHOLD, _keda_waiting),
    "keda-running-waiting": (keda_prometheus.RUNNING_WAITING_THRESHOLD, _keda_running_waiting),
    "knative": (knative.TARGET * knative.UTILISATION, _knative),
    "hpa-cpu": (utilisation.TARGET, _hpa_cpu),
    "hpa-sm": (utilisation.TARGET, _hpa_sm),
}

PEERS: tuple[str, ...] = (
    *("keda-waiting", "keda-running-waiting", "kaito", "inference-scaler"),
    *("inference-scaler-value", "wva-v2", "knative", "hpa-cpu", "hpa-sm"),
)
"""Every peer that scales, with its published defaults."""


def policy_named(name: str, bounds: Bounds) -> AnyPolicy:
    """Make a policy by its name. Raises PolicyUnknown."""
    if static := _STATIC.fullmatch(name):
        return StaticPolicy(int(static[1]))
    base, at, target = name.partition("@")
    if base in _TARGETED:
        published, make = _TARGETED[base]
        return make(name, bounds, _number(name, target) if at else published)
    if name in _PLAIN:
        return _PLAIN[name](bounds)
    raise PolicyUnknown(
        f"no policy is called {name!r}: choose one of {', '.join((CORRIDOR, *PEERS))}, static-N, "
        f"or NAME@TARGET for {', '.join(_TARGETED)}"
    )


def static_size(name: str) -> int | None:
    """Return the size of a static fleet by its name; None where it is no static fleet."""
    found = _STATIC.fullmatch(name)
    return int(found[1]) if found else None


def _number(name: str, text: str) -> float:
    try:
        target = float(text)
    except ValueError:
        target = math.nan
    if not _LEAST_TARGET <= target < math.inf:
        raise PolicyUnknown(f"the policy {name!r} has no target above 0 behind its @")
    return target
