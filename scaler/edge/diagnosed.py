"""Every registered workload diagnosed, also those that nothing has been looked at of yet."""

from __future__ import annotations

from scaler.control.board import Snapshot
from scaler.control.registry import Registry
from scaler.core.diagnosis_text import Diagnosed, diagnosed
from scaler.core.workload import WorkloadKey
from scaler.edge.explained import chosen_keys, undecided


def diagnosed_of(
    registry: Registry,
    snapshot: Snapshot,
    namespace: str,
    name: str,
    trigger: str | None,
    *,
    cannot: tuple[str, ...] = (),
) -> list[Diagnosed]:
    """Return the diagnoses of a ScaledObject's triggers. Raises NoSuchWorkload.

    `cannot` is what of the cluster cannot be read or written, and what that costs.
    """
    keys = chosen_keys(registry, snapshot, namespace, name, trigger)
    return [_diagnosed(registry, snapshot, key, cannot) for key in keys]


def _diagnosed(
    registry: Registry, snapshot: Snapshot, key: WorkloadKey, cannot: tuple[str, ...]
) -> Diagnosed:
    posting = snapshot.postings.get(key)
    if posting is None:
        return diagnosed(key, undecided(registry.get(key)), None, cannot)
    return diagnosed(key, posting.decision, posting.diagnosis, cannot)
