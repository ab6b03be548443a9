"""Writes on the pods which of them should go first, while a scale-in is near or under way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import partial

import structlog

from scaler.control.board import Board, Posting
from scaler.control.ports import Cluster, DeletionCosts, MarkedPod, WriteFailed
from scaler.control.writing import Writing
from scaler.core.deletion_cost import ORDERED_KINDS, changes, is_ours, leaving
from scaler.core.units import Seconds

LOOKS_EVERY: Seconds = 5.0
_AT_MOST = 20
_SHOWN_WITHIN: Seconds = 30.0
"""A cluster's view may show a write this late; until then it is not written again."""

_FIRST_SWEEP: Seconds = 60.0
"""By then the ScaledObjects and their pods are known, so that a stray is one."""
_SWEEP_EVERY: Seconds = 3600.0
_REMOVER_LOOKS_EVERY: Seconds = 60.0

_log = structlog.get_logger(__name__)

_Named = tuple[str, str]
"""A namespace, and the name of a ScaledObject or a pod in it."""


class _Sweep:
    """Goes through all pods a minute after the start and every hour: that costs a list of them."""

    def __init__(self, costs: DeletionCosts) -> None:
        """Have swept nothing."""
        self._costs = costs
        self._next: Seconds | None = None

    def is_due(self, now: Seconds) -> bool:
        """Say whether it is time; a clock that is set back puts it off by an hour at most."""
        if self._next is None:
            self._next = now + _FIRST_SWEEP
        self._next = min(self._next, now + _SWEEP_EVERY)
        return now >= self._next

    async def marked(self, now: Seconds) -> Collection[MarkedPod] | None:
        """Return the pods with a cost of ours; None, and the reason in the log, if unknown."""
        self._next = now + _SWEEP_EVERY
        try:
            return await self._costs.marked()
        except WriteFailed as error:
            _log.warning("deletion-costs-unread", error=str(error))
            return None


class CostWriter:
    """Compares the pods' costs with those that they should have; fulfils `Scribe`.

    The view of the cluster is what there is, so a scaler that restarts takes away what it left,
    and two scalers write the same. Of a workload that is gone nobody sees the pods any more: which
    of them carried a cost of ours is remembered until then. What nobody remembers, a sweep finds.
    """

    looks_every = LOOKS_EVERY

    def __init__(self, board: Board, cluster: Cluster, costs: DeletionCosts) -> None:
        """Have written nothing."""
        self._board = board
        self._cluster = cluster
        self._costs = costs
        self._writing = Writing(_AT_MOST)
        self._written: dict[_Named, tuple[int | None, Seconds]] = {}
        self._marked: dict[_Named, frozenset[str]] = {}
        self._left: set[_Named] = set()
        self._sweep = _Sweep(costs)

    @property
    def faults(self) -> tuple[str, ...]:
        """Say, a sentence each, what is not written, and why."""
        return self._writing.faults

    async def look(self, now: Seconds) -> None:
        """Write what has changed: costs first, then what is to be taken away."""
        self._writing.begin()
        self._written = {
            pod: (cost, at)
            for pod, (cost, at) in self._written.items()
            if 0 <= now - at < _SHOWN_WITHIN
        }
        if self._sweep.is_due(now):
            marked = await self._sweep.marked(now) or ()
            self._left |= {(pod.namespace, pod.name) for pod in marked if pod.stray}
        by_place = self._by_scaled_object()
        self._remember(by_place)
        due = [
            (place, pod, cost)
            for place, postings in by_place.items()
            for pod, cost in self._wanted(place, postings).items()
        ]
        for place, pod, cost in sorted(due, key=lambda each: each[2] is None):
            if await self._write((place[0], pod), cost, now) and cost is not None:
                self._marked[place] = self._marked.get(place, frozenset()) | {pod}
        for left in sorted(self._left):
            if await self._write(left, None, now):
                self._left.discard(left)

    async def _write(self, pod: _Named, cost: int | None, now: Seconds) -> bool:
        """Write a cost unless that may not be now, and return whether it is written."""
        written = self._written.get(pod)
        if written is not None and written[0] == cost:
            return True
        if not self._writing.may(pod[0], now):
            return False
        act = partial(self._costs.write, *pod, cost)
        if not await self._writing.write(pod[0], now, act):
            return False
        self._written[pod] = (cost, now)
        return True

    def _remember(self, places: Iterable[_Named]) -> None:
        """Note who carries a cost of ours, and whose workload is gone since that was noted."""
        now = {
            place: self._carriers(place) for place in places if not self._cluster.is_gone(*place)
        }
        for place in self._marked.keys() - now.keys():
            self._left |= {(place[0], pod) for pod in self._marked[place]}
        self._left -= {(place[0], pod) for place, pods in now.items() for pod in pods}
        self._marked = {place: pods for place, pods in now.items() if pods}

    def _carriers(self, place: _Named) -> frozenset[str]:
        """Return the pods that carry a cost of ours; while they are not known, those that did."""
        pods = self._cluster.pods(*place)
        if pods is None:
            return self._marked.get(place, frozenset())
        return frozenset(
            pod.name
            for pod in pods
            if not pod.terminating
            and (
                is_ours(pod.deletion_cost)
                or self._written.get((place[0], pod.name), (None,))[0] is not None
            )
        )

    def _by_scaled_object(self) -> dict[_Named, list[Posting]]:
        found: defaultdict[_Named, list[Posting]] = defaultdict(list)
        for key, posting in self._board.snapshot.postings.items():
            found[key.namespace, key.name].append(posting)
        return found

    def _wanted(self, place: _Named, postings: list[Posting]) -> Mapping[str, int | None]:
        """Return what is to be written; of several triggers the HPA obeys the highest count."""
        pods = self._cluster.pods(*place)
        if not pods or self._cluster.is_gone(*place):
            return {}
        situation = self._cluster.situation(*place)
        if situation is None or situation.target_kind not in ORDERED_KINDS:
            return {}
        scale = self._cluster.scale(*place)
        count = min(leaving(p.policy, p.decision, scale) for p in postings)
        replicas = {r.name: r for posting in postings for r in posting.replicas}
        return changes(pods, replicas.values(), count)


class CostRemover:
    """Takes away what was written while that was still wanted; fulfils `Scribe`.

    Nothing is asked for until a pod of a workload shows a cost that may be ours. Then whoever has
    one that is ours loses it, also the pods of workloads that are gone.
    """

    looks_every = _REMOVER_LOOKS_EVERY

    def __init__(self, board: Board, cluster: Cluster, costs: DeletionCosts) -> None:
        """Have taken away nothing."""
        self._board = board
        self._cluster = cluster
        self._costs = costs
        self._writing = Writing(_AT_MOST)
        self._left: set[_Named] = set()
        self._sweep = _Sweep(costs)

    @property
    def faults(self) -> tuple[str, ...]:
        """Say, a sentence each, what is not taken away, and why."""
        return self._writing.faults if self._left else ()

    async def look(self, now: Seconds) -> None:
        """Take away what is left, so much at a time."""
        self._writing.begin()
        if self._sweep.is_due(now) and (self._left or self._any_seen()):
            marked = await self._sweep.marked(now)
            if marked is not None:
                self._left = {(pod.namespace, pod.name) for pod in marked}
        for namespace, pod in sorted(self._left):
            if not self._writing.may(namespace, now):
                continue
            act = partial(self._costs.write, namespace, pod, None)
            if await self._writing.write(namespace, now, act):
                self._left.discard((namespace, pod))

    def _any_seen(self) -> bool:
        places = {(key.namespace, key.name) for key in self._board.snapshot.postings}
        return any(
            is_ours(pod.deletion_cost)
            for place in places
            for pod in self._cluster.pods(*place) or ()
        )
