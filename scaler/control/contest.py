"""Whether two ScaledObjects claim the same replicas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from scaler.control.registry import Entry
from scaler.control.sight import Sight, sight_of
from scaler.core.history import History
from scaler.core.policy import Mode
from scaler.core.units import Seconds
from scaler.core.workload import Selection, WorkloadKey

_ASKED_LATELY: Seconds = 180.0


def contested(
    entries: Sequence[tuple[Entry, Selection]],
    histories: Mapping[Sight, History],
    now: Seconds,
) -> frozenset[WorkloadKey]:
    """Return the acting workloads that share a replica with another ScaledObject's.

    Two triggers of one ScaledObject may look at the same replicas; one that only advises moves
    nothing; and one that KEDA has not asked for lately was renamed or deleted. Whoever knows its
    pods is sure of its replicas, and is not disturbed by one that does not.
    """
    owners: defaultdict[tuple[str, str], dict[WorkloadKey, bool]] = defaultdict(dict)
    for entry, selection in entries:
        acting = entry.resolved is not None and entry.resolved.policy.mode is Mode.ACT
        history = histories.get(sight_of(entry.key, selection))
        if not acting or history is None or now - entry.asked_at > _ASKED_LATELY:
            continue
        for replica in history.replicas:
            owners[(selection.namespace, replica)][entry.key] = history.placed
    found: set[WorkloadKey] = set()
    for claims in owners.values():
        everybody = {(key.namespace, key.name) for key in claims}
        certain = {(key.namespace, key.name) for key, placed in claims.items() if placed}
        if len(everybody) > 1:
            found |= {key for key, placed in claims.items() if not placed or len(certain) > 1}
    return frozenset(found)
