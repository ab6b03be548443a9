"""Tells by their names which pods are of a workload, also those that have gone.

Pods of the past are known by what they left in a source's history, no more. A controller names
its pods after itself: with a hash and a random end, an ordinal, a group's number and a worker's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from scaler.core.pods import Pod
from scaler.core.reading import Reading, ReplicaReading, add_latencies, stem_of
from scaler.core.states import fold

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""What Kubernetes writes hashes and random ends with: no vowels, so that no word comes about."""


@dataclass(frozen=True, slots=True)
class Kin:
    """What the names of a workload's pods look like; each pattern's group is the replica's name."""

    patterns: frozenset[str]

    def replica_of(self, pod: str) -> str | None:
        """Return which of the workload's replicas a pod is or was; None where it is none's."""
        for pattern in sorted(self.patterns):
            match = _compiled(pattern).fullmatch(pod)
            if match is not None:
                return match[1]
        return None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def kin_of(pods: Iterable[Pod]) -> Kin:
    """Learn the names of a workload's pods from those that there are."""
    return Kin(frozenset(pattern for pod in pods for pattern in _patterns(pod)))


def kin_of_target(kind: str, name: str) -> Kin:
    """Say what the pods of a scale target of this kind and name are called."""
    own = re.escape(name)
    of_kind = {
        "Deployment": [rf"({own}-{_RANDOM}{{1,10}}-{_RANDOM}{{5}})"],
        "StatefulSet": [rf"({own}-[0-9]+)"],
        "LeaderWorkerSet": [rf"({own}-[0-9]+)(?:-[0-9]+)?"],
    }
    return Kin(frozenset(of_kind.get(kind, ())))


def _patterns(pod: Pod) -> Iterator[str]:
    if pod.replica != pod.name:
        yield rf"({re.escape(stem_of(pod.replica))}[0-9]+)(?:-[0-9]+)?"
        return
    stem = stem_of(pod.name)
    yield rf"({re.escape(stem)}[^-]+)" if stem != pod.name else rf"({re.escape(stem)})"
    if pod.revision and stem.endswith(f"-{pod.revision}-"):
        owner = re.escape(stem.removesuffix(f"{pod.revision}-"))
        yield rf"({owner}{_RANDOM}{{1,10}}-{_RANDOM}{{5}})"


def narrow_by_name(reading: Reading, kin: Kin) -> Reading:
    """Return the reading of the pods whose names are a workload's, one entry a replica.

    Names that are addresses say nothing of their owner, and such a reading is left as it is.
    """
    named = [replica.name for replica in reading.replicas]
    if not kin.patterns or not all(named) or any(":" in name for name in named):
        return reading
    told: defaultdict[str, list[ReplicaReading]] = defaultdict(list)
    own: set[str] = set()
    for each in reading.replicas:
        replica = kin.replica_of(each.name)
        if replica is not None:
            told[replica].append(each)
            own.add(stem_of(each.name))
    silent = _replicas(kin, reading.silent)
    replicas = tuple(fold(name, parts) for name, parts in told.items() if name not in silent)
    latencies = {stem: part for stem, part in reading.latencies.items() if stem in own}
    foreign = len(latencies) < len(reading.latencies)
    return replace(
        reading,
        replicas=replicas,
        unseen=max(len(silent), len(replicas) + 1) if reading.partial else len(silent),
        loading=len(_replicas(kin, reading.unheard) - silent - told.keys()),
        ttft=add_latencies(latencies.values()) if foreign else reading.ttft,
        latencies=latencies,
    )


def _replicas(kin: Kin, pods: Collection[str]) -> set[str]:
    return {replica for pod in pods if (replica := kin.replica_of(pod)) is not None}
