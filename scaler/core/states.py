"""Narrows what a source saw to a workload's own pods, and says in what state each replica is.

A source tells engines apart by their labels, and two fleets may serve one model with the same. Only
the pods of the scale target count, and of those none that terminates. Several pods may be one
replica, and several engines one pod: what the scale target counts is `Pod.replica`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from scaler.core.pods import Pod
from scaler.core.reading import Reading, ReplicaReading, add_latencies, stem_of
from scaler.core.sample import sum_of_known
from scaler.core.units import Seconds

PATIENCE = 3.0
"""A replica that loads for longer than so many usual lead times no longer counts as coming."""


class State(StrEnum):
    """What a replica that does not report may be; one that does is told apart by its signals."""

    LOADING = "loading"
    UNSEEN = "unseen"
    OVERDUE = "overdue"


def narrow(reading: Reading, pods: Collection[Pod], usual: Seconds) -> Reading:
    """Return the reading of these pods alone, one `ReplicaReading` a replica.

    `usual` is the lead time that is usual for the workload. What the reading calls unseen and
    loading is told anew: Kubernetes knows which pods there are, and which of them are Ready.
    A source whose series name no pods cannot be narrowed.
    """
    if any(not replica.name for replica in reading.replicas):
        return reading
    owners = _owners(pods)
    own = {r.name: pod for r in reading.replicas if (pod := owners.get(_host(r.name))) is not None}
    silent = {pod.name for name in reading.silent if (pod := owners.get(_host(name))) is not None}
    told: defaultdict[str, list[ReplicaReading]] = defaultdict(list)
    for each in reading.replicas:
        if each.name in own:
            told[own[each.name].replica].append(each)
    reporting = {pod.name for pod in own.values()}
    replicas: list[ReplicaReading] = []
    states: Counter[State] = Counter()
    for name, members in _by_replica(pods).items():
        if _reports(members, reporting, silent):
            replicas.append(fold(name, told[name]))
        elif (leader := _leader(members)) is not None:
            heard = any(pod.name in reporting or pod.name in silent for pod in members)
            states[_state(leader, heard=heard, at=reading.at, usual=usual)] += 1
    return _restricted(reading, own, replicas, states)


def fold(name: str, parts: Sequence[ReplicaReading]) -> ReplicaReading:
    """Fold what the pods of one replica said into one; a rate that one of them lacks is unknown."""
    if len(parts) == 1:
        return replace(parts[0], name=name)
    usage = [(part.kv_cache, part.engines) for part in parts if part.kv_cache is not None]
    engines = sum(count for _, count in usage)
    return ReplicaReading(
        name=name,
        running=sum(part.running for part in parts),
        waiting=sum(part.waiting for part in parts),
        kv_cache=sum(used * count for used, count in usage) / engines if engines else None,
        engines=sum(part.engines for part in parts),
        asleep=all(part.asleep for part in parts),
        busy_for=max(part.busy_for for part in parts),
        first_token_rate=_total(part.first_token_rate for part in parts),
        token_rate=_total(part.token_rate for part in parts),
        prompt_token_rate=_total(part.prompt_token_rate for part in parts),
        preemption_rate=_total(part.preemption_rate for part in parts),
        rejection_rate=sum_of_known(part.rejection_rate for part in parts),
    )


def _restricted(
    reading: Reading,
    own: Mapping[str, Pod],
    replicas: Sequence[ReplicaReading],
    states: Mapping[State, int],
) -> Reading:
    unseen = states.get(State.UNSEEN, 0)
    stems = {stem_of(name) for name in own}
    foreign = len(own) < len(reading.replicas) or not reading.latencies.keys() <= stems
    latencies = {stem: part for stem, part in reading.latencies.items() if stem in stems}
    return replace(
        reading,
        replicas=tuple(replicas),
        unseen=max(unseen, len(replicas) + 1) if reading.partial else unseen,
        loading=states.get(State.LOADING, 0),
        overdue=states.get(State.OVERDUE, 0),
        ttft=add_latencies(latencies.values()) if foreign else reading.ttft,
        latencies=latencies,
    )


def _owners(pods: Iterable[Pod]) -> dict[str, Pod]:
    """Return the pods that count, by name and by address: some sources know no more than that."""
    found: dict[str, Pod] = {}
    for pod in pods:
        if not pod.terminating:
            found[pod.name] = pod
            if pod.ip is not None:
                found[pod.ip] = pod
    return found


def _host(name: str) -> str:
    """Return the host of an address; a pod's name as it is."""
    host, colon, port = name.rpartition(":")
    return host.strip("[]") if colon and port.isdecimal() else name


def _by_replica(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if not pod.terminating:
            found[pod.replica].append(pod)
    return found


def _leader(members: Iterable[Pod]) -> Pod | None:
    return next((pod for pod in members if pod.leader), None)


def _reports(members: Collection[Pod], reporting: set[str], silent: set[str]) -> bool:
    """Say whether a replica is seen: its leader reports, and no other pod fell silent.

    What is left of one that is half seen would look less busy than it is.
    """
    led = any(pod.leader and pod.name in reporting for pod in members)
    return led and not any(pod.name in silent for pod in members)


def _state(leader: Pod, *, heard: bool, at: Seconds, usual: Seconds) -> State:
    """Return the state of a replica that does not report, by the pod that serves its API.

    How its container ended is no part of that: an exit is neither demand nor the want of it.
    """
    if leader.ready:
        return State.UNSEEN
    since = leader.created_at if leader.unready_at is None else leader.unready_at
    if at - since > PATIENCE * usual:
        return State.OVERDUE
    return State.UNSEEN if heard else State.LOADING


def _total(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if any(value is None for value in known) else sum_of_known(known)
