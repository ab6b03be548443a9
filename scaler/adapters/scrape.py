"""Reads the engines' own pages every few seconds and keeps what the windows need in memory."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from scaler.adapters.exposition import ExpositionInvalid, Scanner
from scaler.adapters.matching import Accepts, compiled_all
from scaler.adapters.page_memory import Group, Model, Place, place_of, remember
from scaler.adapters.scrape_client import PageClient, ScrapeSettings, renamed
from scaler.adapters.targets import Target, TargetsFile
from scaler.adapters.vllm import (
    Engine,
    Gauges,
    Signal,
    fold_gauges,
    fold_replica,
    merge_latencies,
    names_of,
)
from scaler.control.ports import (
    Clock,
    SourceAnswerInvalid,
    SourceError,
    SourceUnreachable,
)
from scaler.core.reading import Reading, ReplicaReading
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Selection

_BATCHES = 10

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Page:
    """One target and what it has shown: per model, for all labels but the engines'."""

    target: Target
    models: dict[Group, Model] = field(default_factory=dict)
    answered: deque[Seconds] = field(default_factory=lambda: deque(maxlen=16))
    trouble: SourceError | None = None
    fetching: bool = False

    def answered_since(self, instant: Seconds) -> bool:
        """Say whether the page was read after an instant."""
        return bool(self.answered) and self.answered[-1] > instant


@dataclass(frozen=True, slots=True)
class Shown:
    """A model on a page, with the labels that selectors see.

    `model` is None before any answer, and where the newest answer no longer shows it.
    """

    page: Page
    model: Model | None
    labels: Mapping[str, str]


@dataclass(slots=True)
class ScrapeStats:
    """What the source has done, for the scaler's own metrics."""

    scrapes: Counter[str] = field(default_factory=Counter)
    targets: int = 0
    targets_fault: str | None = None
    secrets_fault: str | None = None


class ScrapeSource:
    """Fulfils the port `Source` from the pages themselves.

    Sees an engine within one `interval`, and remembers nothing from before its own start. A target
    that has not answered within the last tick is unseen, one that never has is loading. What model
    that will be is not known: unless the target has a label `model_name`, it counts for each
    selection that its labels do not contradict.
    """

    def __init__(self, settings: ScrapeSettings, clock: Clock) -> None:
        """Read the list of targets; nothing is scraped yet. Raises TargetsInvalid."""
        self.stats = ScrapeStats()
        self._settings = settings
        self._clock = clock
        self._file = TargetsFile(settings.targets)
        self._pages: dict[str, Page] = {}
        self._started = clock.now()
        self._client = PageClient(settings)
        self._scanner: Scanner[Place] = Scanner(
            names=[name for signal in Signal for name in names_of(signal)], place=place_of
        )
        self._adopt_targets()

    @property
    def name(self) -> str:
        """Return the source's name."""
        return self._settings.name

    async def run(self) -> None:
        """Scrape every target once an interval, spread over it, until cancelled."""
        async with self._client, asyncio.TaskGroup() as fetches:
            self._look()
            await asyncio.gather(*(self._scrape(page) for page in self._pages.values()))
            start = self._clock.now()
            while True:
                await asyncio.to_thread(self._look)
                pages = list(self._pages.values())
                for batch in range(_BATCHES):
                    await self._clock.sleep_until(
                        start + batch * self._settings.interval / _BATCHES
                    )
                    for page in pages[batch::_BATCHES]:
                        if not page.fetching:
                            fetches.create_task(self._scrape(page))
                start = max(start + self._settings.interval, self._clock.now())
                await self._clock.sleep_until(start)

    async def scrape_once(self) -> None:
        """Scrape every target once, now."""
        self._look()
        async with self._client:
            await asyncio.gather(*(self._scrape(page) for page in self._pages.values()))

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Say from memory what the pages have shown; see the port."""
        index = _Index(self._pages.values())
        found: dict[Selection, Reading | SourceError] = {}
        for selection in selections:
            try:
                found[selection] = self._reading(index, selection, at)
            except SourceError as error:
                found[selection] = error
        return found

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Return nothing: pages have no past."""
        del selection, start, end, step
        return ()

    def _look(self) -> None:
        try:
            self._client.read_secrets()
            self.stats.secrets_fault = None
        except SourceError as error:  # the old ones stay: a file that rotates is gone for a moment
            if self.stats.secrets_fault is None:
                _log.warning("secrets-unreadable", error=str(error))
            self.stats.secrets_fault = str(error)
        if self._file.look():
            self._adopt_targets()
        self.stats.targets_fault = self._file.fault

    def _adopt_targets(self) -> None:
        """Keep the memory of targets that stay, by address and path."""
        known = self._pages
        self._pages = {}
        for target in self._file.targets:
            page = known.get(target.url) or Page(target)
            page.target = target
            self._pages[target.url] = page
        self.stats.targets = len(self._pages)

    async def _scrape(self, page: Page) -> None:
        page.fetching = True
        try:
            body = await self._client.fetch(page.target.url)
            remember(page.models, self._scanner.scan(body), at := self._clock.now())
            page.answered.append(at)
            page.trouble = None
            self.stats.scrapes["ok"] += 1
        except ExpositionInvalid as error:
            self._note(page, SourceAnswerInvalid(str(error)))
        except SourceError as error:
            self._note(page, error)
        except Exception as error:  # noqa: BLE001 - one page's fault must not end the others' task
            _log.exception("scrape-failed-oddly", target=page.target.address)
            self._note(page, SourceAnswerInvalid(f"reading it failed: {type(error).__name__}"))
        finally:
            page.fetching = False

    def _note(self, page: Page, error: SourceError) -> None:
        if page.trouble is None:
            _log.debug("scrape-failed", target=page.target.address, error=str(error))
        page.trouble = error
        self.stats.scrapes[error.kind] += 1

    def _reading(self, index: _Index, selection: Selection, at: Seconds) -> Reading:
        accepts = compiled_all(selection.matchers)
        shown = [s for s in index.candidates(selection) if _matches(s.labels, accepts)]
        pods: defaultdict[str, list[Shown]] = defaultdict(list)
        for each in shown:
            pods[each.page.target.pod].append(each)
        fresh = {
            pod: seen
            for pod, parts in pods.items()
            if (seen := [p for p in parts if p.page.answered_since(at - TICK)])
        }
        if pods and not fresh:
            raise self._silence(shown)
        loading = sum(1 for parts in pods.values() if not any(p.page.answered for p in parts))
        replicas = [
            replica
            for pod, parts in fresh.items()
            if _whole(pods[pod], at - TICK) and (replica := _replica(pod, parts)) is not None
        ]
        pages = [part.page for parts in fresh.values() for part in parts]
        return Reading(
            at=at,
            scraped_at=max((page.answered[-1] for page in pages), default=at),
            scrapes=max((_rounds(page, at) for page in pages), default=1),
            replicas=tuple(replicas),
            unseen=len(pods) - len(replicas) - loading,
            loading=loading,
            ttft=merge_latencies(_latencies(part for parts in fresh.values() for part in parts)),
        )

    def _silence(self, shown: Sequence[Shown]) -> SourceError:
        pages = {each.page.target.url: each.page for each in shown}
        place = f'source "{self.name}": none of {len(pages)} targets answered'
        for page in pages.values():
            if page.trouble is not None:
                return renamed(page.trouble, f"{place}; {page.target.address}")
        return SourceUnreachable(f"{place} yet")


class _Index:
    """What the pages show, by namespace and model, so that a selection looks only at its own."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._by_model: defaultdict[tuple[str, str], list[Shown]] = defaultdict(list)
        self._by_namespace: defaultdict[str, list[Shown]] = defaultdict(list)
        self._unknown: defaultdict[str, list[Shown]] = defaultdict(list)
        for page in pages:
            namespace = page.target.namespace
            engines = [(g, m) for g, m in page.models.items() if m.is_engine]
            for group, model in engines:
                newest = model.seen_at == page.answered[-1]
                labels = {**dict(group), **page.target.labels}
                shown = Shown(page, model if newest else None, labels)
                self._by_namespace[namespace].append(shown)
                self._by_model[namespace, dict(group).get("model_name", "")].append(shown)
            if not engines and not (page.models and page.trouble is None):
                self._unknown[namespace].append(Shown(page, None, page.target.labels))

    def candidates(self, selection: Selection) -> list[Shown]:
        """Return what may be meant, before the matchers are asked."""
        if selection.model_name is None:
            known = self._by_namespace[selection.namespace]
        else:
            known = self._by_model[selection.namespace, selection.model_name]
        return known + [
            shown
            for shown in self._unknown[selection.namespace]
            if selection.model_name in (None, shown.labels.get("model_name", selection.model_name))
        ]


def _matches(labels: Mapping[str, str], accepts: Iterable[tuple[str, Accepts]]) -> bool:
    return all(accept(labels.get(label, "")) for label, accept in accepts)


def _whole(parts: Iterable[Shown], since: Seconds) -> bool:
    """Say whether no engine page of a pod fell silent: the rest would look less busy."""
    return all(
        part.page.answered_since(since) for part in parts if part.page.answered and part.page.models
    )


def _replica(pod: str, parts: Sequence[Shown]) -> ReplicaReading | None:
    """Fold the pages of one pod; None where none of them shows an engine."""
    models = [(part.page.target.url, part.model) for part in parts if part.model is not None]
    engines: dict[Engine, Gauges] = {}
    idle: list[Engine] = []
    rates: dict[Signal, float | None] = {}
    busy_for = 0.0
    for url, model in models:
        engines.update({(url, *e): gauges for e, gauges in model.engines.items()})
        idle += [(url, *engine) for engine in model.idle_engines()]
        for signal, rate in model.rates().items():
            before = rates.get(signal)
            rates[signal] = rate if rate is None or before is None else before + rate
        if model.busy_since is not None:
            busy_for = max(busy_for, model.seen_at - model.busy_since)
    load = fold_gauges(engines, idle)
    return None if load is None else fold_replica(pod, load, rates, busy_for)


def _latencies(parts: Iterable[Shown]) -> Iterable[dict[float, float]]:
    for part in parts:
        if part.model is not None:
            yield from part.model.latencies()


def _rounds(page: Page, at: Seconds) -> int:
    return max(1, sum(1 for answered in page.answered if answered > at - TICK))
