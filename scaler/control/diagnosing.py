"""Makes each workload's diagnosis, and remembers what that needs beyond the samples."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import structlog

from scaler.control.board import Posting
from scaler.control.ports import Cluster, SourceError
from scaler.control.sight import Sight, sight_of
from scaler.core.diagnosis import diagnose
from scaler.core.diagnosis_facts import Facts
from scaler.core.history import History
from scaler.core.moves import Moves
from scaler.core.reading import Reading, ReplicaReading
from scaler.core.units import Seconds
from scaler.core.workload import Scale, WorkloadKey

_REMEMBERED: Seconds = 86_400.0
_NAMES_TO_SPARE = 100

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Heard:
    """What a source has told of one sight: its newest replicas, and who ever reported."""

    looked_since: Seconds
    replicas: tuple[ReplicaReading, ...] = ()
    names: dict[str, Seconds] = field(default_factory=dict)
    targets_silent: bool = False


class Diagnosing:
    """Beside the follower: told what it hears and decides, asked for the diagnosis."""

    def __init__(self, cluster: Cluster | None) -> None:
        """Start without memory."""
        self._cluster = cluster
        self._heard: dict[Sight, Heard] = {}
        self._moves: dict[WorkloadKey, Moves] = {}

    def hear(self, sight: Sight, reading: Reading | SourceError, at: Seconds) -> None:
        """Take in what a source said of a sight at a tick."""
        heard = self._heard.setdefault(sight, Heard(looked_since=at))
        if isinstance(reading, SourceError):
            heard.replicas = ()
            heard.targets_silent = reading.targets_silent
            return
        heard.targets_silent = False
        heard.replicas = reading.replicas
        heard.names.update((replica.name, at) for replica in reading.replicas)
        if len(heard.names) > 2 * len(reading.replicas) + _NAMES_TO_SPARE:
            lately = at - _REMEMBERED
            heard.names = {name: last for name, last in heard.names.items() if last > lately}

    def keep_only(self, sights: Collection[Sight], keys: Collection[WorkloadKey]) -> None:
        """Forget everything else."""
        self._heard = {s: heard for s, heard in self._heard.items() if s in sights}
        self._moves = {key: moves for key, moves in self._moves.items() if key in keys}

    def diagnosed(self, posting: Posting, history: History, scale: Scale | None) -> Posting:
        """Return the posting with its diagnosis; a fault in that is logged and costs no more."""
        moves = self._moves.setdefault(posting.key, Moves())
        moves.note(posting.decision)
        try:
            diagnosis = diagnose(self._facts(posting, history, scale, moves))
        except Exception:  # noqa: BLE001 - whatever it is, the decision must be posted
            _log.exception("diagnosis-failed", workload=str(posting.key))
            return posting
        heard = self._heard.get(sight_of(posting.key, posting.selection))
        replicas = heard.replicas if heard is not None else ()
        return replace(posting, diagnosis=diagnosis, replicas=replicas)

    def _facts(
        self, posting: Posting, history: History, scale: Scale | None, moves: Moves
    ) -> Facts:
        decision, selection = posting.decision, posting.selection
        heard = self._heard.get(sight_of(posting.key, selection)) or Heard(looked_since=decision.at)
        cluster, place = self._cluster, (posting.key.namespace, posting.key.name)
        return Facts(
            now=decision.at,
            policy=posting.policy,
            decision=decision,
            samples=history.samples,
            scale=scale,
            replicas=heard.replicas,
            heard=heard.names.keys(),
            looked_since=heard.looked_since,
            trouble=posting.trouble,
            targets_silent=heard.targets_silent,
            pods=cluster.pods(*place) if cluster is not None else None,
            situation=cluster.situation(*place) if cluster is not None else None,
            moves=moves.astray,
            wakes=selection.activation_query is not None,
        )
