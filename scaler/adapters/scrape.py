"""Reads the engines' own pages every few seconds and keeps what the windows need in memory."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from scaler.adapters.exposition import ExpositionInvalid, Scanner
from scaler.adapters.matching import conditions_of
from scaler.adapters.page_index import Index, Page, Shown, Strangers
from scaler.adapters.page_memory import Place, place_of, remember
from scaler.adapters.pod_targets import PodTargets
from scaler.adapters.scrape_client import PageClient, ScrapeSettings, renamed
from scaler.adapters.targets import TargetsFile
from scaler.adapters.vllm import (
    Engine,
    Gauges,
    Signal,
    fold_gauges,
    fold_replica,
    merge_latencies,
    names_of,
)
from scaler.control.breath import WORKLOADS_BETWEEN, breathe
from scaler.control.ports import (
    Clock,
    SourceAnswerInvalid,
    SourceError,
    SourceUnreachable,
)
from scaler.control.source_work import Requests, SourceWork, Targets, outcomes
from scaler.core.reading import (
    LatencyBuckets,
    Reading,
    ReplicaReading,
    add_latencies,
    stem_of,
)
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Selection

_BATCHES = 10

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ScrapeStats:
    """What the source has done, for the scaler's own metrics.

    `scrapes` counts by outcome ("ok" or a SourceError's kind), `seconds` is how long they took in
    all, `last_ok` when a page was last read (epoch seconds; 0 before the first).
    """

    scrapes: Counter[str] = field(default_factory=Counter)
    seconds: Seconds = 0.0
    last_ok: Seconds = 0.0
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

    def __init__(
        self, settings: ScrapeSettings, clock: Clock, pods: PodTargets | None = None
    ) -> None:
        """Read the list of targets; nothing is scraped yet. Raises TargetsInvalid.

        `pods` give the targets where the settings name no file.
        """
        self.stats = ScrapeStats()
        self._settings = settings
        self._clock = clock
        self._targets = _targets(settings, pods)
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

    def work(self) -> SourceWork:
        """Return what was scraped, for the scaler's own metrics."""
        stats, pages = self.stats, self._pages.values()
        failing = sum(page.trouble is not None for page in pages)
        return SourceWork(
            requests={"scrape": Requests(ended=outcomes(stats.scrapes), seconds=stats.seconds)},
            received=self._client.received,
            targets=Targets(known=stats.targets, failing=failing),
            faults={
                "targets": stats.targets_fault is not None,
                "secrets": stats.secrets_fault is not None,
            },
        )

    async def run(self) -> None:
        """Scrape every target once an interval, spread over it, until cancelled."""
        async with self._client, asyncio.TaskGroup() as fetches:
            await self._look()
            await asyncio.gather(*(self._scrape(page) for page in self._pages.values()))
            start = self._clock.now()
            while True:
                await self._look()
                pages = list(self._pages.values())
                interval = self._settings.interval
                for batch in range(_BATCHES):
                    # A clock that was set back left `start` far ahead.
                    start = min(start, self._clock.now() + interval)
                    await self._clock.sleep_until(start + batch * interval / _BATCHES)
                    for page in pages[batch::_BATCHES]:
                        if not page.fetching:
                            fetches.create_task(self._scrape(page))
                now = self._clock.now()
                start = min(max(start + interval, now), now + interval)
                await self._clock.sleep_until(start)

    async def scrape_once(self) -> None:
        """Scrape every target once, now."""
        await self._look()
        async with self._client:
            await asyncio.gather(*(self._scrape(page) for page in self._pages.values()))

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Say from memory what the pages have shown; see the port."""
        now = self._clock.now()
        for page in self._pages.values():
            page.forget_future(now)
        index = Index(self._pages.values())
        found: dict[Selection, Reading | SourceError] = {}
        for number, selection in enumerate(selections):
            if number % WORKLOADS_BETWEEN == 0:
                await breathe()
            try:
                found[selection] = self._reading(index, selection, at)
            except SourceError as error:
                found[selection] = error
            except Exception as error:  # noqa: BLE001 - what is odd in one concerns no other
                _log.exception("reading-failed-oddly", namespace=selection.namespace)
                found[selection] = SourceAnswerInvalid(
                    f'source "{self.name}": reading the pages failed: {type(error).__name__}'
                )
        return found

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Return nothing: pages have no past."""
        del selection, start, end, step
        return ()

    async def _look(self) -> None:
        await asyncio.to_thread(self._read_secrets)
        if isinstance(self._targets, TargetsFile):
            changed = await asyncio.to_thread(self._targets.look)
        else:
            changed = self._targets.look()
        if changed:
            self._adopt_targets()
        self.stats.targets_fault = self._targets.fault

    def _read_secrets(self) -> None:
        try:
            self._client.read_secrets()
            self.stats.secrets_fault = None
        except SourceError as error:  # the old ones stay: a file that rotates is gone for a moment
            if self.stats.secrets_fault is None:
                _log.warning("secrets-unreadable", error=str(error))
            self.stats.secrets_fault = str(error)

    def _adopt_targets(self) -> None:
        """Keep the memory of targets that stay, by address and path."""
        pages: dict[str, Page] = {}
        for target in self._targets.targets:
            page = self._pages.get(target.url)
            # An address that another pod has got is another engine.
            if page is None or (page.target.namespace, page.target.pod) != (
                target.namespace,
                target.pod,
            ):
                page = Page(target)
            page.target = target
            pages[target.url] = page
        self._pages = pages
        self.stats.targets = len(pages)

    async def _scrape(self, page: Page) -> None:
        page.fetching = True
        began = time.monotonic()
        try:
            body = await self._client.fetch(page.target.url)
            page.forget_future(at := self._clock.now())
            remember(page.models, self._scanner.scan(body), at)
            page.answered.append(at)
            page.trouble = None
            self.stats.scrapes["ok"] += 1
            self.stats.last_ok = at
        except ExpositionInvalid as error:
            self._note(page, SourceAnswerInvalid(str(error)))
        except SourceError as error:
            self._note(page, error)
        except Exception as error:  # noqa: BLE001 - one page's fault must not end the others' task
            _log.exception("scrape-failed-oddly", target=page.target.address)
            self._note(page, SourceAnswerInvalid(f"reading it failed: {type(error).__name__}"))
        finally:
            page.fetching = False
            self.stats.seconds += time.monotonic() - began

    def _note(self, page: Page, error: SourceError) -> None:
        if page.trouble is None:
            _log.debug("scrape-failed", target=page.target.address, error=str(error))
        page.trouble = error
        self.stats.scrapes[error.kind] += 1

    def _reading(self, index: Index, selection: Selection, at: Seconds) -> Reading:
        conditions, since = conditions_of(selection.matchers), at - TICK
        pods: defaultdict[str, list[Shown]] = defaultdict(list)
        for each in index.known(selection, conditions):
            pods[each.page.target.pod].append(each)
        fresh = {
            pod: seen
            for pod, parts in pods.items()
            if (seen := [part for part in parts if part.page.answered_since(since)])
        }
        strangers = index.strangers(selection, conditions)
        newest = max((some.newest for some in strangers), default=0.0)
        if (pods or strangers) and not fresh and newest <= since:
            raise self._silence(pods.values(), strangers)
        answered = frozenset[str]().union(*(some.answered for some in strangers)) - pods.keys()
        unheard = frozenset[str]().union(*(some.silent for some in strangers)) - pods.keys()
        replicas = [
            replica
            for pod, parts in fresh.items()
            if _whole(pods[pod], since) and (replica := _replica(pod, parts)) is not None
        ]
        seen = [part for parts in fresh.values() for part in parts]
        silent = answered | (pods.keys() - {replica.name for replica in replicas})
        latencies = _latencies(fresh)
        return Reading(
            at=at,
            scraped_at=max((p.page.answered[-1] for p in seen), default=newest or at),
            scrapes=max((_rounds(part.page, at) for part in seen), default=1),
            replicas=tuple(replicas),
            unseen=len(silent),
            loading=len(unheard - answered),
            silent=silent,
            unheard=unheard - answered,
            by_pods=isinstance(self._targets, PodTargets),
            ttft=add_latencies(latencies.values()),
            latencies=latencies,
        )

    def _silence(
        self, pods: Iterable[Collection[Shown]], strangers: Collection[Strangers]
    ) -> SourceError:
        known = {part.page.target.url: part.page for parts in pods for part in parts}
        count = len(known) + sum(len(some.pages) for some in strangers)
        place = f'source "{self.name}": none of {count} targets answered'
        silence: SourceError = SourceUnreachable(f"{place} yet")
        for page in (*known.values(), *(some.trouble for some in strangers)):
            if page is not None and page.trouble is not None:
                silence = renamed(page.trouble, f"{place}; {page.target.address}")
                break
        silence.targets_silent = True
        return silence


def _targets(settings: ScrapeSettings, pods: PodTargets | None) -> TargetsFile | PodTargets:
    if settings.targets is not None:
        return TargetsFile(settings.targets)
    if pods is None:
        raise ValueError("the scrape source has neither a file of targets nor pods")
    return pods


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


def _latencies(pods: Mapping[str, Iterable[Shown]]) -> dict[str, LatencyBuckets]:
    """Add up the histograms of the pods that share a stem, as far as there are any."""
    found: defaultdict[str, list[dict[float, float]]] = defaultdict(list)
    for pod, parts in pods.items():
        for part in parts:
            if part.model is not None:
                found[stem_of(pod)] += part.model.latencies()
    merged = ((stem, merge_latencies(growths)) for stem, growths in found.items())
    return {stem: buckets for stem, buckets in merged if buckets is not None}


def _rounds(page: Page, at: Seconds) -> int:
    return max(1, sum(1 for answered in page.answered if answered > at - TICK))
