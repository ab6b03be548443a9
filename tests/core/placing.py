"""Pods and readings of them, for the tests of what pods tell."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from scaler.core.pods import Pod
from scaler.core.reading import LatencyBuckets, Reading, ReplicaReading, stem_of
from tests.core.histories import NOW

EDGES = (0.5, 2.5, math.inf)


def pod(name: str, *, took: float = 120.0, age: float = 3600.0, **changes: object) -> Pod:
    """Return a Ready pod that was created `age` seconds ago and became Ready `took` later."""
    made = Pod(
        name=name,
        replica=name,
        created_at=NOW - age,
        ready=True,
        ready_at=NOW - age + took,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def loading(name: str, age: float, **changes: object) -> Pod:
    """Return a pod that was created `age` seconds ago and is not Ready."""
    made = Pod(name=name, replica=name, created_at=NOW - age)
    return replace(made, **changes)  # type: ignore[arg-type]


def reports(name: str, running: float = 8.0, **changes: object) -> ReplicaReading:
    """Return what a pod says that runs some requests."""
    plain = ReplicaReading(
        name=name, running=running, waiting=1.0, kv_cache=0.5, first_token_rate=1.0, token_rate=50.0
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def reading(*replicas: ReplicaReading, **changes: object) -> Reading:
    """Return a reading at `NOW`, with ten observations of the TTFT from each stem."""
    latencies = buckets_of(replica.name for replica in replicas)
    counts = tuple(sum(part.counts[i] for part in latencies.values()) for i in range(len(EDGES)))
    plain = Reading(
        at=NOW,
        scraped_at=NOW,
        replicas=replicas,
        ttft=LatencyBuckets(edges=EDGES, counts=counts) if latencies else None,
        latencies=latencies,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def buckets_of(names: Iterable[str]) -> dict[str, LatencyBuckets]:
    """Return ten observations for each stem: fast ones, but for the stems of slow fleets."""
    return {
        stem: LatencyBuckets(
            edges=EDGES, counts=(0.0, 0.0, 10.0) if "slow" in stem else (10.0, 10.0, 10.0)
        )
        for stem in {stem_of(name) for name in names}
    }
