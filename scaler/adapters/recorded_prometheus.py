"""Reads a workload's past back from a Prometheus: the signals by the live scaler's own queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from scaler.adapters import recorded_queries as ask
from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_answer import Answer
from scaler.adapters.prometheus_api import PrometheusApi
from scaler.adapters.prometheus_settings import PrometheusSettings, SeriesLabels
from scaler.adapters.recorded_notes import Notes
from scaler.config.sections import PrometheusSource as PrometheusSection
from scaler.control.ports import SourceError
from scaler.core.lead_time import observed_lead_time
from scaler.core.minutes import MINUTE, REMEMBERED
from scaler.core.pods import Pod
from scaler.core.reading import Reading
from scaler.core.sample import Sample, take_sample
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale
from scaler.tuning.ports import Page, PastUnreadable, Wanted
from scaler.tuning.record import Moment

_POINTS = 500
"""Instants a page: few enough that an answer stays small and progress is seen."""

_PATIENCE: Seconds = 60.0
"""How long one page may take: nobody waits for an answer within a tick here."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Instants from `first` to `last`, both included, `step` seconds apart."""

    first: Seconds
    last: Seconds
    step: Seconds

    @property
    def points(self) -> int:
        return max(0, round((self.last - self.first) / self.step) + 1)

    def pages(self) -> Iterator[_Span]:
        for begin in range(0, self.points, _POINTS):
            end = min(begin + _POINTS, self.points) - 1
            first, last = self.first + begin * self.step, self.first + end * self.step
            yield _Span(first, last, self.step)


@dataclass(slots=True)
class _Count:
    """The newest count, and whose it was last."""

    current: int | None = None
    whose: str | None = None
    lead_times: dict[frozenset[tuple[float, float]], Seconds | None] = field(default_factory=dict)


class RecordedPrometheus:
    """Fulfils the port `Past`; close it after use."""

    def __init__(self, settings: PrometheusSettings) -> None:
        """Open nothing yet."""
        patient = replace(settings, timeout=max(settings.timeout, _PATIENCE))
        self._settings = patient
        self._source = PrometheusSource(patient)
        self._api = PrometheusApi(patient)

    def close(self) -> None:
        """Drop the connections."""
        self._api.close()
        self._source.close()

    async def pages(self, wanted: Wanted) -> AsyncIterator[Page]:
        """Read the past back; see the port.

        The day before the range is read by the minute, as a live scaler learns from it. Raises
        PastUnreadable.
        """
        spans = _spans(wanted)
        everything, read = sum(span.points for span in spans), 0
        count, notes = _Count(), Notes(wanted, self._settings)
        for span in spans:
            for page in span.pages():
                try:
                    moments = await self._page(wanted, page, count, notes)
                except SourceError as error:
                    raise PastUnreadable(str(error)) from error
                read += page.points
                yield Page(moments=moments, share=read / (everything + 1))
        try:
            told = await notes.conclude(self._api)
        except SourceError as error:
            raise PastUnreadable(str(error)) from error
        yield Page(moments=(), share=1.0, notes=told)

    async def _page(
        self, wanted: Wanted, span: _Span, count: _Count, notes: Notes
    ) -> tuple[Moment, ...]:
        readings = await self._source.recall(wanted.selection, span.first, span.last, span.step)
        counts = _by_instant(await self._ask("counts", ask.counts(wanted), span))
        pods = await self._starts(wanted, span, readings)
        moments = []
        for reading in readings:
            sample = take_sample(reading)
            notes.hear(reading, sample)
            scale = _scale(wanted, counts.get(reading.at, {}), sample, count)
            notes.count(count.whose, reading.at)
            lead_time = _lead_time(pods.get(reading.at, ()), count)
            moments.append(
                Moment(
                    at=reading.at, sample=sample, scale=scale, lead_time=lead_time, step=span.step
                )
            )
        return tuple(moments)

    async def _ask(self, kind: str, query: str, span: _Span) -> Answer:
        asked = (span.first, span.last, span.step)
        return await self._api.query_range(kind, query, asked, self._api.deadline())

    async def _starts(
        self, wanted: Wanted, span: _Span, readings: Collection[Reading]
    ) -> Mapping[Seconds, Sequence[Pod]]:
        """Return the pods that were Ready at each instant, as kube-state-metrics told of them."""
        names = {replica.name for reading in readings for replica in reading.replicas} - {""}
        if not names:
            return {}
        created, ready = ask.starts(wanted, names)
        began: dict[tuple[str, Seconds], Seconds] = {}
        for series in (await self._ask("pods", created, span)).series:
            began.update({(series.labels.get("pod", ""), at): v for at, v in series.points})
        found: defaultdict[Seconds, list[Pod]] = defaultdict(list)
        for series in (await self._ask("pods", ready, span)).series if began else ():
            name = series.labels.get("pod", "")
            for at, value in series.points:
                if (name, at) in began and value <= at:
                    begun = began[name, at]
                    found[at].append(Pod(name=name, replica=name, created_at=begun, ready_at=value))
        return found


def _spans(wanted: Wanted) -> list[_Span]:
    """Return what is read: minutes of the day before, then every tick."""
    # The minutes end on the minute grid, and the ticks begin with the next one.
    last_minute = (wanted.start - wanted.lead_in) // MINUTE * MINUTE
    first_minute = -(-(wanted.start - REMEMBERED) // MINUTE) * MINUTE
    last = wanted.end // TICK * TICK
    fine = _Span(last_minute + TICK, last, TICK)
    coarse = _Span(first_minute, last_minute, MINUTE)
    return [span for span in (coarse, fine) if span.points]


def _by_instant(answer: Answer) -> Mapping[Seconds, Mapping[str, float]]:
    found: defaultdict[Seconds, dict[str, float]] = defaultdict(dict)
    for series in answer.series:
        whose = series.labels.get(ask.FROM, "")
        for at, value in series.points:
            if 0 <= value < float("inf"):
                found[at][whose] = value
    return found


def _scale(
    wanted: Wanted, told: Mapping[str, float], sample: Sample, count: _Count
) -> Scale | None:
    """Return the count by the best of those who told it.

    Where nobody did, the number of engines that are known stands for it, and while those are
    silent the last one, as in a scaler without a cluster.
    """
    whose = next((each for each in (ask.OWN, ask.TARGET, ask.HPA) if each in told), None)
    if whose is not None:
        count.current, count.whose = round(told[whose]), whose
        return replace(wanted.bounds, current=count.current)
    if count.whose is not None and sample.known == 0:
        return None
    if sample.known > 0:
        count.current, count.whose = sample.known, None
    return None if count.current is None else replace(wanted.bounds, current=count.current)


def _lead_time(pods: Sequence[Pod], count: _Count) -> Seconds | None:
    if not pods:
        return None
    key = frozenset((pod.created_at, pod.ready_at or 0.0) for pod in pods)
    if key not in count.lead_times:
        count.lead_times[key] = observed_lead_time(pods)
    return count.lead_times[key]


def recorded_prometheus(name: str, section: object) -> RecordedPrometheus:
    """Build the reader of a source's past. Raises PastUnreadable where it has none."""
    if not isinstance(section, PrometheusSection):
        raise PastUnreadable(
            f'source "{name}" scrapes engines and remembers nothing: give --prometheus URL, or a '
            "source of type prometheus"
        )
    labels = SeriesLabels(**section.labels.model_dump())
    values = section.model_dump(include={field.name for field in fields(PrometheusSettings)})
    return RecordedPrometheus(PrometheusSettings(**{**values, "name": name, "labels": labels}))
