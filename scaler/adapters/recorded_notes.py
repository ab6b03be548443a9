"""What is odd in a past that a Prometheus tells, a plain sentence for each."""

from __future__ import annotations

from collections import defaultdict

from scaler.adapters import recorded_queries as ask
from scaler.adapters.prometheus_api import PrometheusApi
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.vllm import signal_of
from scaler.core.kin import kin_of_target
from scaler.core.reading import Reading
from scaler.core.rendering import instant_of
from scaler.core.sample import Sample
from scaler.core.units import Seconds
from scaler.tuning.ports import PastUnreadable, Wanted

_STEP = 300
_MOST_POINTS = 10_000
_SHOWN = 5

_WHOSE = {
    ask.OWN: "the scaler's own metric vllm_scaler_current_replicas",
    ask.TARGET: "kube-state-metrics (spec.replicas of the scale target)",
    ask.HPA: "kube-state-metrics (what the HPA saw)",
    None: "the number of engines that reported: nobody published the replica count, so replicas "
    "that were asked for and did not report yet are not in it",
}


class Notes:
    """Listens while a past is read, and asks at the end for what readings do not tell."""

    def __init__(self, wanted: Wanted, settings: PrometheusSettings) -> None:
        """Have heard nothing yet."""
        self._wanted = wanted
        self._labels = settings.labels
        self._settle = settings.settle
        self._first_known: Seconds | None = None
        self._counted: dict[str | None, Seconds] = {}
        self._strangers: dict[str, Seconds] = {}
        self._own_seen = False
        self._own = kin_of_target(wanted.target.kind, wanted.target.name)

    def hear(self, reading: Reading, sample: Sample) -> None:
        """Hear of a moment."""
        if sample.known == 0:
            return
        if self._first_known is None:
            self._first_known = reading.at
        if not self._own.patterns:
            return
        for replica in reading.replicas:
            if self._own.replica_of(replica.name) is not None:
                self._own_seen = True
            else:
                self._strangers.setdefault(replica.name, reading.at)

    def count(self, whose: str | None, at: Seconds) -> None:
        """Hear whose count a moment has."""
        if at >= self._wanted.start:
            self._counted.setdefault(whose, at)

    async def conclude(self, api: PrometheusApi) -> tuple[str, ...]:
        """Say what is odd. Raises SourceError, and PastUnreadable where nothing was heard."""
        notes = [*self._whose_counts(), *self._two_workloads()]
        first = self._first_known
        if first is None:
            await self._refuse(api)
        elif first > self._wanted.start:
            notes += await self._late(api, first)
        notes += await self._renamed(api)
        notes += await self._resets(api)
        return tuple(notes)

    def _whose_counts(self) -> list[str]:
        if self._first_known is None:
            return []
        return [
            f"replica counts are from {_WHOSE[whose]}"
            + (f" (from {instant_of(at)} on)" if len(self._counted) > 1 else "")
            for whose, at in self._counted.items()
        ]

    def _two_workloads(self) -> list[str]:
        if not (self._own_seen and self._strangers):
            return []
        names = sorted(self._strangers)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        first = min(self._strangers.values())
        told = (
            f"two workloads stand behind one selection: beside the pods of "
            f"{self._wanted.target.kind} {self._wanted.target.name} it matches "
            f"{', '.join(names[:_SHOWN])}{more} (first at {instant_of(first)}), and the replay "
            "puts them together; give the trigger a selector that tells them apart"
        )
        return [told]

    async def _refuse(self, api: PrometheusApi) -> None:
        where = ask.engines(self._labels, self._wanted.selection)
        if await self._has(api, ask.scraped_anything(), self._wanted.start, self._wanted.end):
            raise PastUnreadable(
                f"there is no series of a vLLM engine with {where} in the range: look at "
                "modelName, the selector and the namespace, and at what the source calls its labels"
            )
        raise PastUnreadable(
            f"this Prometheus has no series of engines with {where} in the range, nor a single "
            "`up`: the range may lie beyond its retention (--storage.tsdb.retention.time)"
        )

    async def _late(self, api: PrometheusApi, first: Seconds) -> list[str]:
        start = self._wanted.start
        head = (
            f"the past begins at {instant_of(first)}, after the start of the range "
            f"({instant_of(start)})"
        )
        if await self._has(api, ask.scraped_anything(), start, first - _STEP):
            return [f"{head}: others were scraped before, but no engine of this workload"]
        told = (
            f"{head}: what lies before may be beyond the retention of this Prometheus "
            "(--storage.tsdb.retention.time); windows and what is learned start there"
        )
        return [told]

    async def _has(self, api: PrometheusApi, query: str, start: Seconds, end: Seconds) -> bool:
        return bool(await self._coarse(api, query, start, end))

    async def _renamed(self, api: PrometheusApi) -> list[str]:
        """Find signals whose series stop under one name and go on under another."""
        query = ask.names(self._labels, self._wanted.selection)
        seen: defaultdict[str, dict[str, tuple[Seconds, Seconds]]] = defaultdict(dict)
        for labels, times in await self._coarse(api, query, self._wanted.start, self._wanted.end):
            signal = signal_of(labels.get("__name__", ""))
            if signal is not None:
                seen[signal][labels["__name__"]] = (times[0], times[-1])
        notes = []
        for names in seen.values():
            ordered = sorted(names.items(), key=lambda item: item[1])
            if len(ordered) > 1 and ordered[-1][1][0] > ordered[0][1][0]:
                (old, _), (new, (since, _)) = ordered[0], ordered[-1]
                notes.append(
                    f"{old} became {new} at about {instant_of(since)} (the engine was changed): "
                    "the replay reads both as one signal"
                )
        return notes

    async def _resets(self, api: PrometheusApi) -> list[str]:
        """Find engines that began to count anew; rates leave that out, as they do live."""
        query = ask.resets(self._labels, self._wanted.selection, self._step)
        found = await self._coarse(api, query, self._wanted.start, self._wanted.end)
        pods = sorted((times[0], labels.get(self._labels.pod, "")) for labels, times in found)
        if not pods:
            return []
        told = ", ".join(
            f"{pod or 'an engine'} at about {instant_of(at)}" for at, pod in pods[:_SHOWN]
        )
        more = f", and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
        whole = (
            f"counters began anew in the middle of the range: {told}{more} (the engine was "
            "started again); rates leave the reset out"
        )
        return [whole]

    @property
    def _step(self) -> int:
        span = self._wanted.end - self._wanted.start
        return max(_STEP, int(span // _MOST_POINTS // 60 + 1) * 60)

    async def _coarse(
        self, api: PrometheusApi, query: str, start: Seconds, end: Seconds
    ) -> list[tuple[dict[str, str], list[Seconds]]]:
        """Ask at few instants; return each series' labels and when it was there."""
        span = (start, max(start, end), float(self._step))
        answer = await api.query_range("notes", query, span, api.deadline())
        return [
            (dict(series.labels), [at for at, _ in series.points])
            for series in answer.series
            if series.points
        ]
