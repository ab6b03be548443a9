"""The core's words for what was read of a ScaledObject, its HPA, its target and its pods."""

from __future__ import annotations

from collections.abc import Iterable

from scaler.adapters.kubernetes_scaled import HpaView, ScaledObjectView
from scaler.adapters.kubernetes_targets import TargetHead
from scaler.core.pods import Pod, Situation
from scaler.core.workload import Scale

_KEDA, _AUTOSCALER = "keda", "kube-controller-manager"
"""Who writes the count when all is well: KEDA at zero, the HPA's controller else."""


def scale_of(
    current: int,
    scaled_object: ScaledObjectView | None,
    hpa: HpaView | None,
    pods: Iterable[Pod] | None,
) -> Scale:
    """Return the count with its bounds: the HPA's, which is what acts, or those KEDA asks for."""
    bounds = hpa or scaled_object
    ready = (
        None
        if pods is None
        else len({pod.replica for pod in pods if pod.ready and pod.leader and not pod.terminating})
    )
    if bounds is None:
        return Scale(current=current, ready=ready)
    return Scale(
        current=current,
        min_replicas=bounds.min_replicas,
        max_replicas=bounds.max_replicas,
        tolerance_out=bounds.tolerance_out,
        tolerance_in=bounds.tolerance_in,
        ready=ready,
    )


def situation_of(
    scaled_object: ScaledObjectView, hpa: HpaView | None, head: TargetHead | None
) -> Situation:
    """Return what KEDA and the HPA are told to do."""
    ours = scaled_object.ours(hpa)
    triggers = scaled_object.triggers
    asked = next((triggers[n][1] for n in sorted(ours) if n < len(triggers)), None)
    told = next(iter(hpa.ours.values()), None) if hpa is not None else None
    conditions = {**(hpa.conditions if hpa is not None else {}), **scaled_object.conditions}
    return Situation(
        target_kind=scaled_object.target.kind,
        target_name=scaled_object.target.name,
        min_replicas=scaled_object.min_replicas,
        idle_replicas=scaled_object.idle_replicas,
        paused=scaled_object.paused,
        paused_replicas=scaled_object.paused_replicas,
        in_paused=scaled_object.in_paused,
        out_paused=scaled_object.out_paused,
        fallback_replicas=scaled_object.fallback_replicas,
        metric_type=told or asked,
        other_triggers=tuple(kind for n, (kind, _) in enumerate(triggers) if n not in ours),
        other_owners=_other_owners(scaled_object, head),
        scale_down_window=hpa.scale_down_window if hpa is not None else None,
        hpa_name=hpa.name if hpa is not None else None,
        conditions=conditions,
        uid=scaled_object.uid or None,
    )


def _other_owners(scaled_object: ScaledObjectView, head: TargetHead | None) -> tuple[str, ...]:
    """Name who else wrote the count last, by the API server's own record of who owns which field.

    Whoever made the target wrote its first count: only what came after the ScaledObject tells.
    """
    since = scaled_object.created_at
    return tuple(
        sorted(
            {
                manager
                for manager, at in (head.writers if head is not None else ())
                if not manager.startswith(_KEDA)
                and manager != _AUTOSCALER
                and at is not None
                and since is not None
                and at > since
            }
        )
    )
