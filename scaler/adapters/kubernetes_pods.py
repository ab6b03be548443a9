"""A pod as the API shows it, made into a pod of a scale target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from scaler.adapters.kubernetes_objects import (
    Condition,
    ContainerStatus,
    PodAnnotations,
    PodObject,
    PodStatus,
    decoded,
)
from scaler.adapters.kubernetes_reflector import Kind
from scaler.core.pods import Exit, Pod
from scaler.core.units import Seconds

GROUP_NAME = "leaderworkerset.sigs.k8s.io/name"
_GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
TEMPLATE_HASH = "pod-template-hash"
_REVISIONS = (
    "leaderworkerset.sigs.k8s.io/template-revision-hash",
    TEMPLATE_HASH,
    "rollouts-pod-template-hash",
    "controller-revision-hash",
)
_LONGEST_MESSAGE = 2048
"""Characters of a container's last words; how it ended stands at their end."""
_COST = re.compile(r"[+-]?[0-9]{1,10}")
_ENDED = frozenset({"Succeeded", "Failed"})
_COMES = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons to wait that every pod has for a while."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod, with what says to whom it belongs: its controller's kind and name, if it has one."""

    pod: Pod
    owner: tuple[str, str] | None


def placed_pod(item: msgspec.Raw) -> PlacedPod | None:
    """Decode a pod; None for one that has ended. Raises ClusterAnswerInvalid."""
    found = decoded(PodObject, item)
    if found.status.phase in _ENDED:
        return None
    owner = next((o for o in found.metadata.owner_references or () if o.controller), None)
    return PlacedPod(_pod(found), (owner.kind, owner.name) if owner is not None else None)


PODS: Kind[PlacedPod] = Kind(resource="pods", prefix="/api/v1", decode=placed_pod)


def _pod(found: PodObject) -> Pod:
    meta, status = found.metadata, found.status
    labels = meta.labels or {}
    ready = _condition(status, "Ready")
    is_ready = ready is not None and ready.status == "True"
    turned_at = epoch(ready.last_transition_time) if ready is not None else None
    group = labels.get(GROUP_NAME)
    containers = list(_containers(status))
    return Pod(
        name=meta.name,
        replica=meta.name if group is None else f"{group}-{labels.get(_GROUP_INDEX, '')}",
        leader=group is None or labels.get(_WORKER_INDEX, "0") == "0",
        created_at=epoch(meta.creation_timestamp) or 0.0,
        ready=is_ready,
        ready_at=turned_at if is_ready else None,
        unready_at=None if is_ready else turned_at,
        terminating=meta.deletion_timestamp is not None,
        revision=next((labels[key] for key in _REVISIONS if key in labels), None),
        restarts=sum(container.restart_count for container in containers),
        last_exit=_last_exit(containers),
        blocked=_blocked(status, containers),
        ip=status.pod_ip or None,
        deletion_cost=deletion_cost(meta.annotations),
        ports=_ports(found),
        labels=labels,
    )


def deletion_cost(annotations: PodAnnotations | None) -> int | None:
    """Return the cost among a pod's annotations; None where there is none that is a number."""
    cost = annotations.deletion_cost if annotations is not None else None
    return int(cost) if cost is not None and _COST.fullmatch(cost) else None


def _condition(status: PodStatus, kind: str) -> Condition | None:
    return next((c for c in status.conditions or () if c.type == kind), None)


def _containers(status: PodStatus) -> Iterator[ContainerStatus]:
    yield from status.init_container_statuses or ()
    yield from status.container_statuses or ()


def _last_exit(containers: list[ContainerStatus]) -> Exit | None:
    """Return how the container ended that ended last; an init container that is done is none."""
    found: Exit | None = None
    for container in containers:
        for state in (container.last_state, container.state):
            ended = state.terminated if state is not None else None
            if ended is None or (state is container.state and ended.exit_code == 0):
                continue
            made = Exit(
                container=container.name,
                reason=ended.reason or "",
                code=ended.exit_code,
                message=(ended.message or "")[-_LONGEST_MESSAGE:],
                at=epoch(ended.finished_at),
            )
            if found is None or (made.at or 0.0) >= (found.at or 0.0):
                found = made
    return found


def _blocked(status: PodStatus, containers: list[ContainerStatus]) -> str | None:
    placed = _condition(status, "PodScheduled")
    if placed is not None and placed.status == "False":
        return placed.reason or "Unschedulable"
    for container in containers:
        waiting = container.state.waiting if container.state is not None else None
        if waiting is not None and waiting.reason and waiting.reason not in _COMES:
            return waiting.reason
    return None


def _ports(found: PodObject) -> Mapping[str, int]:
    """Return the named ports; of a name that several containers have, the first one's."""
    ports: dict[str, int] = {}
    for container in found.spec.containers or ():
        for port in container.ports or ():
            if port.name:
                ports.setdefault(port.name, port.container_port)
    return ports


def epoch(instant: datetime | None) -> Seconds | None:
    """Return a time as seconds since the epoch."""
    return None if instant is None else instant.timestamp()
