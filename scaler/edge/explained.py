"""Every registered workload explained, also those that nothing has been decided of yet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from scaler.control.board import Snapshot
from scaler.control.registry import Entry, Registry
from scaler.core.decision import Decision
from scaler.core.explain import Explained, explain
from scaler.core.policy import Policy
from scaler.core.reasons import Reason
from scaler.core.units import Seconds
from scaler.core.workload import WorkloadKey
from scaler.edge.errors import EdgeError


class NoSuchWorkload(EdgeError):
    """Nobody has asked for this workload; the message says what to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One workload in a list."""

    namespace: str
    name: str
    trigger: str
    at: Seconds
    current: int | None
    desired: int | None
    floor: int | None
    ceiling: int | None
    active: bool | None
    reason: Reason
    trouble: str | None
    fault: str | None


def summaries(
    registry: Registry, snapshot: Snapshot, *, namespace: str | None, after: str, limit: int
) -> tuple[list[Summary], str | None]:
    """Return up to `limit` workloads from behind `after`, and from where there are more."""
    keys = {*snapshot.postings, *(entry.key for entry in registry)}
    places = sorted(
        (_place(key), key) for key in keys if namespace is None or key.namespace == namespace
    )
    rest = [(place, key) for place, key in places if place > after]
    page = rest[:limit]
    found = [_summary(registry, snapshot, key) for _, key in page]
    return found, page[-1][0] if len(rest) > limit else None


def explained_of(
    registry: Registry, snapshot: Snapshot, namespace: str, name: str, trigger: str | None
) -> list[Explained]:
    """Return the explanations of a ScaledObject's triggers. Raises NoSuchWorkload."""
    keys = chosen_keys(registry, snapshot, namespace, name, trigger)
    return [_explained(registry, snapshot, key) for key in keys]


def chosen_keys(
    registry: Registry, snapshot: Snapshot, namespace: str, name: str, trigger: str | None
) -> list[WorkloadKey]:
    """Return a ScaledObject's triggers, or the one that is meant. Raises NoSuchWorkload."""
    keys = sorted(_keys_of(registry, snapshot, namespace, name))
    if not keys:
        raise NoSuchWorkload(
            f"no workload {namespace}/{name}: KEDA has not asked for it in the last half hour; "
            "is its trigger of type external, with this scaler's address, and KEDA running?"
        )
    chosen = [key for key in keys if trigger is None or key.trigger == trigger]
    if not chosen:
        known = ", ".join(key.trigger for key in keys)
        raise NoSuchWorkload(
            f"{namespace}/{name} has no trigger {str(trigger)[:40]}; there is: {known}"
        )
    return chosen


def _keys_of(
    registry: Registry, snapshot: Snapshot, namespace: str, name: str
) -> Iterator[WorkloadKey]:
    for key in {*snapshot.postings, *(entry.key for entry in registry)}:
        if (key.namespace, key.name) == (namespace, name):
            yield key


def _place(key: WorkloadKey) -> str:
    return f"{key.namespace}/{key.name}/{key.trigger}"


def _explained(registry: Registry, snapshot: Snapshot, key: WorkloadKey) -> Explained:
    posting = snapshot.postings.get(key)
    if posting is not None:
        return explain(
            posting.key,
            posting.policy,
            posting.decision,
            trouble=posting.complaint,
            fault=posting.fault,
        )
    entry = registry.get(key)
    resolved = entry.resolved if entry is not None else None
    policy = resolved.policy if resolved is not None else Policy()
    return explain(key, policy, undecided(entry), fault=entry.fault if entry is not None else None)


def undecided(entry: Entry | None) -> Decision:
    """Return what is known of a workload before anything was decided."""
    return Decision(
        at=entry.registered_at if entry is not None else 0.0,
        current=None,
        desired=None,
        advised=None,
        reason=undecided_because(entry),
        active=None,
    )


def undecided_because(entry: Entry | None) -> Reason:
    """Return why nothing has been decided of a registered workload."""
    resolved = entry is not None and entry.resolved is not None
    return Reason.NOT_YET_SAMPLED if resolved else Reason.UNRESOLVED


def _summary(registry: Registry, snapshot: Snapshot, key: WorkloadKey) -> Summary:
    posting, entry = snapshot.postings.get(key), registry.get(key)
    decision = posting.decision if posting is not None else undecided(entry)
    lines = decision.corridor
    proven = lines is not None and math.isfinite(lines.ceiling)
    registered = posting if posting is not None else entry
    return Summary(
        namespace=key.namespace,
        name=key.name,
        trigger=key.trigger,
        at=decision.at,
        current=decision.current,
        desired=decision.desired,
        floor=decision.floor,
        ceiling=decision.ceiling if proven else None,
        active=decision.active,
        reason=decision.reason,
        trouble=posting.complaint if posting is not None else None,
        fault=registered.fault if registered is not None else None,
    )
