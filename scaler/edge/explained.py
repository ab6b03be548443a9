"""Every registered workload explained, also those that nothing has been decided of yet."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.control.board import Snapshot
from scaler.control.registry import Entry, Registry
from scaler.core.decision import Decision
from scaler.core.explain import Explained, explain
from scaler.core.policy import Policy
from scaler.core.reasons import Reason
from scaler.core.workload import WorkloadKey
from scaler.edge.errors import EdgeError


class NoSuchWorkload(EdgeError):
    """Nobody has asked for this workload; the message says what to look at."""


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
    policy, fault = policy_of(registry, snapshot, key), entry.fault if entry is not None else None
    return explain(key, policy, undecided(entry), fault=fault)


def policy_of(registry: Registry, snapshot: Snapshot, key: WorkloadKey) -> Policy:
    """Return the policy that a workload is, or would be, decided by."""
    posting, entry = snapshot.postings.get(key), registry.get(key)
    if posting is not None:
        return posting.policy
    resolved = entry.resolved if entry is not None else None
    return resolved.policy if resolved is not None else Policy()


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
