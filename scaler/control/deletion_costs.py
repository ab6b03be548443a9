"""Writes on the pods which of them should go first, while a scale-in is near or under way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from scaler.control.board import Board, Posting
from scaler.control.ports import Cluster, DeletionCosts
from scaler.control.writing import Writing
from scaler.core.deletion_cost import ORDERED_KINDS, changes, leaving
from scaler.core.units import Seconds

LOOKS_EVERY: Seconds = 5.0
_AT_MOST = 20
_SHOWN_WITHIN: Seconds = 30.0
"""A cluster's view may show a write this late; until then it is not written again."""


class CostWriter:
    """Compares the pods' costs with those that they should have; fulfils `Scribe`.

    The view of the cluster is what there is, so a scaler that restarts takes away what it left,
    and two scalers write the same.
    """

    looks_every = LOOKS_EVERY

    def __init__(self, board: Board, cluster: Cluster, costs: DeletionCosts) -> None:
        """Have written nothing."""
        self._board = board
        self._cluster = cluster
        self._costs = costs
        self._writing = Writing(_AT_MOST)
        self._written: dict[tuple[str, str], tuple[int | None, Seconds]] = {}

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
        due = [
            (place[0], pod, cost)
            for place, postings in self._by_scaled_object().items()
            for pod, cost in self._wanted(place, postings).items()
        ]
        for namespace, pod, cost in sorted(due, key=lambda each: each[2] is None):
            written = self._written.get((namespace, pod))
            if written is not None and written[0] == cost:
                continue
            if not self._writing.may(namespace, now):
                continue
            act = partial(self._costs.write, namespace, pod, cost)
            if await self._writing.write(namespace, now, act):
                self._written[namespace, pod] = (cost, now)

    def _by_scaled_object(self) -> dict[tuple[str, str], list[Posting]]:
        found: defaultdict[tuple[str, str], list[Posting]] = defaultdict(list)
        for key, posting in self._board.snapshot.postings.items():
            found[key.namespace, key.name].append(posting)
        return found

    def _wanted(self, place: tuple[str, str], postings: list[Posting]) -> Mapping[str, int | None]:
        """Return what is to be written; of several triggers the HPA obeys the highest count."""
        pods = self._cluster.pods(*place)
        if not pods:
            return {}
        situation = self._cluster.situation(*place)
        if situation is None or situation.target_kind not in ORDERED_KINDS:
            return {}
        scale = self._cluster.scale(*place)
        count = min(leaving(p.policy, p.decision, scale) for p in postings)
        replicas = {r.name: r for posting in postings for r in posting.replicas}
        return changes(pods, replicas.values(), count)
