"""Which pods the workloads have: as the cluster shows them, or as it last did."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scaler.control.ports import Cluster
from scaler.control.registry import Registry
from scaler.control.sight import Sight
from scaler.core.kin import Kin, kin_of, kin_of_target, narrow_by_name
from scaler.core.lead_time import observed_lead_time
from scaler.core.learned import DEFAULT_LEAD_TIME
from scaler.core.pods import Pod
from scaler.core.reading import Reading
from scaler.core.states import narrow
from scaler.core.units import Seconds

_NOBODY = Kin(frozenset())
_WHOLE_SECOND: Seconds = 1.0
"""Kubernetes tells instants in whole seconds, rounded down."""


def pods_of_source(
    registry: Registry, cluster: Cluster | None, source: str
) -> Mapping[tuple[str, str], tuple[Pod, ...] | None]:
    """Return the pods of every workload of a source, by namespace and name of its ScaledObject.

    One that is known to be gone has none to be asked, whoever remembers it; None is not known.
    """
    places = {
        (entry.key.namespace, entry.key.name)
        for entry in registry
        if entry.resolved is not None and entry.resolved.selection.source == source
    }
    if cluster is None:
        return dict.fromkeys(places)
    return {place: cluster.pods(*place) for place in places if not cluster.is_gone(*place)}


@dataclass(slots=True)
class _Known:
    """What is known of one ScaledObject's pods: now (None: not at present), and last.

    `listed` are the names that were told last; None before the first list. `target` is the kind and
    the name of the scale target whose pods they are.
    """

    present: tuple[Pod, ...] | None = None
    listed: frozenset[str] | None = None
    target: tuple[str, str] | None = None
    lead_time: Seconds | None = None
    kin: Kin = _NOBODY
    kin_basis: frozenset[tuple[str, str]] = frozenset()


class Placement:
    """Narrows readings to the pods of each ScaledObject, and learns from them how long one takes.

    While the cluster cannot be read the names that the pods had tell whose a series is, and what
    was learned stays.
    """

    def __init__(self, cluster: Cluster | None) -> None:
        """Know nothing yet."""
        self._cluster = cluster
        self._known: dict[tuple[str, str], _Known] = {}
        self._retargeted: set[tuple[str, str]] = set()

    def keep_only(self, sights: Collection[Sight]) -> None:
        """Forget all others."""
        places = {sight.place for sight in sights}
        self._known = {place: known for place, known in self._known.items() if place in places}

    def look(self, sights: Collection[Sight]) -> Mapping[Sight, Seconds]:
        """Look at the pods of these, once for a tick.

        Returns whose samples were taken of too few pods, and since when.
        """
        if self._cluster is None:
            return {}
        late: dict[tuple[str, str], Seconds] = {}
        for namespace, name in {sight.place for sight in sights}:
            known = self._known.setdefault((namespace, name), _Known())
            known.present = pods = self._cluster.pods(namespace, name)
            if pods is not None:
                self._look_at_target((namespace, name), known, pods)
                since = _late_since(pods, known.listed)
                known.listed = frozenset(pod.name for pod in pods)
                if since is not None:
                    late[namespace, name] = since
            if pods:
                known.lead_time = observed_lead_time(pods) or known.lead_time
                self._learn_names(known, pods)
            if not known.kin.patterns and pods is not None:
                situation = self._cluster.situation(namespace, name)
                if situation is not None:
                    known.kin = kin_of_target(situation.target_kind, situation.target_name)
        return {sight: late[sight.place] for sight in sights if sight.place in late}

    def retargeted(self, sights: Collection[Sight]) -> frozenset[Sight]:
        """Return, once, those of these whose ScaledObject has come to scale something else."""
        found = frozenset(sight for sight in sights if sight.place in self._retargeted)
        self._retargeted -= {sight.place for sight in found}
        return found

    def _look_at_target(self, place: tuple[str, str], known: _Known, pods: Collection[Pod]) -> None:
        """Forget what was learned of another target; whenever that changes its pods do, too."""
        if known.listed == frozenset(pod.name for pod in pods) or self._cluster is None:
            return
        situation = self._cluster.situation(*place)
        if situation is None:
            return
        target = situation.target_kind, situation.target_name
        if known.target is not None and known.target != target:
            known.lead_time, known.kin, known.kin_basis = None, _NOBODY, frozenset()
            known.listed = None
            self._retargeted.add(place)
        known.target = target

    def pods(self, sight: Sight) -> tuple[Pod, ...] | None:
        """Return the pods as they were last looked at; None where they are not known."""
        known = self._known.get(sight.place)
        return known.present if known is not None else None

    def lead_time(self, sight: Sight) -> Seconds | None:
        """Return how long a replica was seen to take; None where none was."""
        known = self._known.get(sight.place)
        return known.lead_time if known is not None else None

    def is_told(self, sight: Sight) -> bool:
        """Say whether anybody knows which series are meant: the selection, or the pods."""
        known = self._known.get(sight.place) or _Known()
        return sight.names_series or known.present is not None or bool(known.kin.patterns)

    def present(self, sight: Sight, reading: Reading, stated: Seconds | None) -> Reading:
        """Return what is a ScaledObject's own of a reading of this moment.

        `stated` is the lead time that its triggers state.
        """
        known = self._known.get(sight.place) or _Known()
        if known.present is None:
            return self.past(sight, reading)
        usual = stated or known.lead_time or DEFAULT_LEAD_TIME
        return narrow(reading, known.present, usual)

    def is_blind(self, sight: Sight, reading: Reading) -> bool:
        """Say whether replicas may serve at present of which the source cannot know."""
        return reading.by_pods and self.pods(sight) is None

    def past(self, sight: Sight, reading: Reading) -> Reading:
        """Return what is a ScaledObject's own of a reading whose pods may have gone."""
        known = self._known.get(sight.place) or _Known()
        return narrow_by_name(reading, known.kin)

    def is_own(self, sight: Sight, names: Collection[str]) -> bool:
        """Say whether replicas of these names can all be a ScaledObject's, as far as is known."""
        known = self._known.get(sight.place) or _Known()
        kin = known.kin
        return not kin.patterns or all(kin.replica_of(name) is not None for name in names)

    @staticmethod
    def _learn_names(known: _Known, pods: tuple[Pod, ...]) -> None:
        basis = frozenset((pod.name, pod.replica) for pod in pods)
        if basis != known.kin_basis:
            known.kin, known.kin_basis = kin_of(pods), basis


def _late_since(pods: Collection[Pod], listed: frozenset[str] | None) -> Seconds | None:
    """Return since when pods were there that a former list lacks; None where all were told in time.

    One that is not Ready when it is first told of has served nobody yet.
    """
    if listed is None:
        return None
    new = (pod for pod in pods if pod.name not in listed and not pod.terminating)
    return min((pod.created_at + _WHOLE_SECOND for pod in new if pod.ready), default=None)
