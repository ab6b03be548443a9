"""Whether two ScaledObjects claim the same replicas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from scaler.control.registry import Entry
from scaler.core.policy import Mode
from scaler.core.units import Seconds
from scaler.core.workload import Selection, WorkloadKey

_ASKED_LATELY: Seconds = 180.0


def contested(
    entries: Sequence[tuple[Entry, Selection]],
    replicas: Mapping[Selection, frozenset[str]],
    now: Seconds,
) -> frozenset[WorkloadKey]:
    """Return the acting workloads that share a replica with another ScaledObject's.

    Two triggers of one ScaledObject may look at the same replicas; one that only advises moves
    nothing; and one that KEDA has not asked for lately was renamed or deleted.
    """
    owners: defaultdict[tuple[str, str], set[WorkloadKey]] = defaultdict(set)
    for entry, selection in entries:
        acting = entry.resolved is not None and entry.resolved.policy.mode is Mode.ACT
        if not acting or now - entry.asked_at > _ASKED_LATELY:
            continue
        for replica in replicas.get(selection, ()):
            owners[(selection.namespace, replica)].add(entry.key)
    found: set[WorkloadKey] = set()
    for keys in owners.values():
        if len({(key.namespace, key.name) for key in keys}) > 1:
            found |= keys
    return frozenset(found)
