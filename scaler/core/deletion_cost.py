"""Which replica should go first when the fleet shrinks: the one with the fewest requests.

A Deployment's controller removes pods that are not Ready first, then those with the lowest
`controller.kubernetes.io/pod-deletion-cost`. Only the pods that are about to go get one, and only
while a scale-in is near or under way: every write to a pod is told to whoever watches pods.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from scaler.core.corridor import round_up
from scaler.core.decision import Decision, scale_in_span
from scaler.core.learned import Learned
from scaler.core.pods import Pod
from scaler.core.policy import Mode, Policy
from scaler.core.reading import ReplicaReading
from scaler.core.sample import is_stalled
from scaler.core.units import Seconds
from scaler.core.workload import Scale

ORDERED_KINDS = frozenset({"Deployment", "ReplicaSet"})
"""The scale targets whose controller looks at the cost; others remove the highest ordinal."""

NEAR: Seconds = 60.0
"""A scale-in is near when calm needs to last no longer than this."""

LOWEST = -1000
_HIGHEST = LOWEST + 64


def leaving(policy: Policy, decision: Decision, scale: Scale | None) -> int:
    """Return how many replicas are about to go; 0 while no scale-in is near or under way."""
    current, desired = decision.current, decision.desired
    if policy.mode is not Mode.ACT or current is None or desired is None or scale is None:
        return 0
    if desired < current:
        return current - desired
    if desired > current or decision.need is None or not decision.calm_for:
        return 0
    left = scale_in_span(policy, decision.learned or Learned()) - decision.calm_for
    if left > NEAR or math.isinf(decision.need.high):
        return 0
    return max(0, current - scale.within_bounds(round_up(decision.need.high)))


def cost_of(requests: float) -> int:
    """Return the cost of a replica with so many requests: one more for each doubling.

    So the cost changes when the load really does, and not at every look.
    """
    return min(_HIGHEST, LOWEST + math.ceil(max(0.0, requests)).bit_length())


def is_ours(cost: int | None) -> bool:
    """Say whether a cost is one that we write; what somebody else wrote is left alone."""
    return cost is not None and LOWEST <= cost <= _HIGHEST


def changes(
    pods: Collection[Pod], replicas: Iterable[ReplicaReading], count: int
) -> Mapping[str, int | None]:
    """Return the costs to write, by pod, so that the `count` least busy replicas go first.

    None takes a cost of ours away. A replica that does not report is not called idle and gets
    none; requests at one that is stalled are lost anyway, so it goes first.
    """
    requests = {r.name: _requests(r) for r in replicas}
    staying = [pod for pod in pods if not pod.terminating]
    known = [
        pod
        for pod in staying
        if pod.ready
        and pod.name in requests
        and (pod.deletion_cost is None or is_ours(pod.deletion_cost))
    ]
    first = count - sum(not pod.ready for pod in staying)
    chosen = sorted(known, key=lambda pod: _order(pod, requests[pod.name]))[: max(0, first)]
    wanted: dict[str, int | None] = {p.name: None for p in staying if is_ours(p.deletion_cost)}
    wanted |= {pod.name: cost_of(requests[pod.name]) for pod in chosen}
    now = {pod.name: pod.deletion_cost for pod in staying}
    return {name: cost for name, cost in wanted.items() if now[name] != cost}


def _order(pod: Pod, requests: float) -> tuple[int, bool, float, str]:
    """Put the least busy first; among those about alike whoever was chosen before stays chosen."""
    return (cost_of(requests), pod.deletion_cost is None, requests, pod.name)


def _requests(replica: ReplicaReading) -> float:
    if replica.asleep or is_stalled(replica):
        return 0.0
    return replica.running + replica.waiting
