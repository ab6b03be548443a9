"""Tells findings on their ScaledObject when they come, not while they last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from scaler.control.board import Board
from scaler.control.ports import Cluster, Notices
from scaler.control.writing import Writing
from scaler.core.diagnosis_finding import Diagnosis, Finding, Kind
from scaler.core.diagnosis_notice import Notice, message_of, reason_of, worth_telling
from scaler.core.units import TICK, Seconds

LOOKS_EVERY: Seconds = TICK
_QUIET: Seconds = 300.0
_SEEN_LEAST = 2
_AT_MOST = 20

Place = tuple[str, str]


@dataclass(slots=True)
class _Standing:
    """A finding of one ScaledObject: for how many looks it has stood, and what was told of it."""

    seen: int = 0
    told_at: Seconds | None = None
    told: str | None = None


class Notifier:
    """Compares the board with what was told; fulfils `Scribe`.

    Told is a finding that was not there before, or happened once more; seen in two looks, so that
    no flicker is told; and of one kind on one ScaledObject no more than one in five minutes.
    """

    looks_every = LOOKS_EVERY

    def __init__(self, board: Board, cluster: Cluster, notices: Notices) -> None:
        """Know of nothing that was told."""
        self._board = board
        self._cluster = cluster
        self._notices = notices
        self._writing = Writing(_AT_MOST)
        self._standing: dict[tuple[Place, Kind], _Standing] = {}

    @property
    def faults(self) -> tuple[str, ...]:
        """Say, a sentence each, what is not written, and why."""
        return self._writing.faults

    async def look(self, now: Seconds) -> None:
        """Tell what is new on the board."""
        diagnoses = self._diagnoses()
        found = {
            (place, finding.kind): finding
            for place, each in diagnoses.items()
            for finding in worth_telling(each)
        }
        unknown = {
            (place, kind)
            for place, each in diagnoses.items()
            for diagnosis in each
            for kind, _ in diagnosis.not_known
        }
        self._writing.begin()
        self._forget(found.keys() | unknown, now)
        for (place, kind), finding in found.items():
            standing = self._standing.setdefault((place, kind), _Standing())
            standing.seen += 1
            if self._is_due(standing, finding, now) and self._writing.may(place[0], now):
                await self._tell(place, finding, standing, now)

    def _diagnoses(self) -> dict[Place, list[Diagnosis]]:
        diagnoses: defaultdict[Place, list[Diagnosis]] = defaultdict(list)
        for key, posting in self._board.snapshot.postings.items():
            if posting.diagnosis is not None:
                diagnoses[key.namespace, key.name].append(posting.diagnosis)
        return diagnoses

    def _forget(self, kept: Collection[tuple[Place, Kind]], now: Seconds) -> None:
        """Let go of what does not stand any more; of what was told lately the time is kept.

        What cannot be looked at now may stand all the same, and is not news when it can be again.
        """
        for key in [key for key in self._standing if key not in kept]:
            standing = self._standing[key]
            standing.seen, standing.told = 0, None
            if standing.told_at is None or now - standing.told_at >= _QUIET:
                del self._standing[key]

    def _is_due(self, standing: _Standing, finding: Finding, now: Seconds) -> bool:
        if standing.seen < _SEEN_LEAST or standing.told == finding.occurrence:
            return False
        return standing.told_at is None or not 0 <= now - standing.told_at < _QUIET

    async def _tell(
        self, place: Place, finding: Finding, standing: _Standing, now: Seconds
    ) -> None:
        situation = self._cluster.situation(*place)
        if situation is None:
            return
        namespace, name = place
        notice = Notice(
            namespace=namespace,
            name=name,
            uid=situation.uid,
            reason=reason_of(finding),
            message=message_of(finding),
            at=now,
        )
        if await self._writing.write(namespace, now, partial(self._notices.tell, notice)):
            standing.told, standing.told_at = finding.occurrence, now
