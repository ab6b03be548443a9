"""Follows one source: has a sample of each workload taken a tick, decides, and posts the answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from scaler.config.trigger import Resolved
from scaler.control.activation import Activation
from scaler.control.board import Board, Posting
from scaler.control.breath import WORKLOADS_BETWEEN, breathe
from scaler.control.chronicle import Chronicle
from scaler.control.contest import contested
from scaler.control.diagnosing import Diagnosing
from scaler.control.placement import Placement
from scaler.control.ports import Cluster, Gateways, Source, SourceError
from scaler.control.registry import Entry, Registry
from scaler.control.sight import Sight, sight_of
from scaler.core.decision import Decision, decide
from scaler.core.history import Judgement, span_needed
from scaler.core.lateness import count_to_decide_on, told
from scaler.core.reading import Reading
from scaler.core.reasons import Reason
from scaler.core.units import Seconds, tick_at
from scaler.core.workload import Scale, Selection, WorkloadKey

_RECALLS_AT_ONCE = 4
_ADMITTED_TOGETHER = 50


@dataclass(slots=True)
class FollowerStats:
    """What a follower has done, for the scaler's own metrics."""

    ticks: int = 0
    failed_ticks: int = 0
    last_tick: Seconds = 0.0
    last_heard: Seconds = 0.0
    decisions: Counter[tuple[str, str, Reason]] = field(default_factory=Counter)
    coverage: float = 0.0


class Follower:
    """Judges the workloads of one source by their histories."""

    def __init__(
        self,
        source: Source,
        registry: Registry,
        board: Board,
        cluster: Cluster | None,
        gateways: Gateways | None = None,
    ) -> None:
        """Start without history."""
        self.source = source
        self.stats = FollowerStats()
        self._registry = registry
        self._board = board
        self._cluster = cluster
        self.activation = Activation(gateways)
        self._diagnosing = Diagnosing(cluster)
        self._placement = Placement(cluster)
        self._chronicle = Chronicle(source, self._placement, self._hear)
        self._judgements: dict[WorkloadKey, Judgement] = {}
        self._admitted: dict[WorkloadKey, tuple[Resolved | None, str | None]] = {}
        self._log = structlog.get_logger(__name__).bind(source=source.name)

    async def tick(self, at: Seconds) -> None:
        """Sample, decide and post at the tick `at`. Troubles are noted, never raised."""
        self._drop_unused(self._entries())
        await breathe()
        self._look_at_pods(self._entries())
        known = [(entry, s) for entry, s in self._entries() if self._is_admitted(entry)]
        await self._sample(known, at)
        await self._chronicle.mend(at)
        self._forget_old(at)
        await breathe()
        self._board.archive.forget_old(at)
        await self._decide(known, at)
        self.stats.ticks += 1
        self.stats.last_tick = at

    async def admit(self, at: Seconds) -> bool:
        """Take in what is new or edited since it was last posted: history first, then an answer.

        Reading history back takes a while, so KEDA is first given what is known without, and it is
        done a batch at a time; returns whether any is left.
        """
        fresh = [(entry, s) for entry, s in self._entries() if not self._is_admitted(entry)]
        entries = fresh[:_ADMITTED_TOGETHER]
        if not entries:
            return False
        posted = self._board.snapshot.postings
        unanswered = [e for e in fresh if e[0].key not in posted]
        self._look([*unanswered, *entries])
        await self._decide(unanswered, at)
        limit = asyncio.Semaphore(_RECALLS_AT_ONCE)

        async def recall(entry: Entry, selection: Selection) -> None:
            async with limit:
                await self._recall_windows(entry, selection, at)

        await asyncio.gather(*(recall(entry, selection) for entry, selection in entries))
        fresh_here = [e for e in entries if not self._is_sampled(*e, at)]
        await self._sample(fresh_here, at)
        await self._decide(entries, at)
        self._admitted.update({entry.key: _terms(entry) for entry, _ in entries})
        return len(fresh) > len(entries)

    async def review(self, at: Seconds) -> None:
        """Decide anew for the workloads whose count has changed since they were last posted."""
        postings = self._board.snapshot.postings
        moved = []
        for entry, selection in self._entries():
            posting = postings.get(entry.key)
            scale = self._scale(entry, selection)
            current = scale.current if scale is not None else None
            if posting is not None and posting.decision.current != current:
                moved.append((entry, selection))
        self._look(moved)
        await self._decide(moved, at)

    async def wake(self, at: Seconds) -> None:
        """Ask the gateways of the fleets at zero, and decide anew where that changes an answer."""
        waiting = self.activation.waiting(self._entries(), self._scale)
        await self.activation.ask(waiting, at)
        histories = self._chronicle.histories
        changed = self.activation.changed(waiting, histories, self._board.snapshot, at)
        await self._decide(changed, at)

    async def recall_a_day(self, at: Seconds) -> None:
        """Read back the day that quantities are learned from."""
        await self._chronicle.recall_a_day(at)

    @property
    def wants_minutes(self) -> bool:
        """Say whether part of the day is still to be read back."""
        return self._chronicle.wants_minutes

    def _entries(self) -> list[tuple[Entry, Selection]]:
        return [
            (entry, entry.resolved.selection)
            for entry in self._registry
            if entry.resolved is not None and entry.resolved.selection.source == self.source.name
        ]

    def _is_admitted(self, entry: Entry) -> bool:
        return self._admitted.get(entry.key) == _terms(entry)

    def _drop_unused(self, entries: Iterable[tuple[Entry, Selection]]) -> None:
        kept = list(entries)
        keys = {entry.key for entry, _ in kept}
        sights = {sight_of(entry.key, selection) for entry, selection in kept}
        self._chronicle.keep_only(sights)
        self._placement.keep_only(sights)
        self._judgements = {k: j for k, j in self._judgements.items() if k in keys}
        self._admitted = {k: t for k, t in self._admitted.items() if k in keys}
        self.activation.keep_only({selection for _, selection in kept}, keys)
        self._diagnosing.keep_only(sights, keys)
        names = {(key.namespace, key.name) for key in keys}
        for counted in [c for c in self.stats.decisions if c[:2] not in names]:
            del self.stats.decisions[counted]

    def _look_at_pods(self, entries: Sequence[tuple[Entry, Selection]]) -> None:
        """Look at the pods; who is now seen for what it is, is taken in anew."""
        self._look(entries)
        self._take_in_anew(entries, self._chronicle.forget_mixed())

    def _look(self, entries: Collection[tuple[Entry, Selection]]) -> None:
        sights = {sight_of(entry.key, selection) for entry, selection in entries}
        late = self._placement.look(sights)
        others = self._placement.retargeted(sights)
        self._chronicle.forget(others)
        self._take_in_anew(entries, others)
        self._chronicle.doubt(late)

    def _take_in_anew(
        self, entries: Iterable[tuple[Entry, Selection]], sights: Collection[Sight]
    ) -> None:
        for entry, selection in entries:
            if sight_of(entry.key, selection) in sights:
                self._admitted.pop(entry.key, None)
                self._judgements.pop(entry.key, None)

    def _forget_old(self, at: Seconds) -> None:
        """Drop the samples that no workload of a sight needs any more."""
        spans: dict[Sight, Seconds] = {}
        for entry, selection in self._entries():
            if entry.resolved is not None:
                sight = sight_of(entry.key, selection)
                span = span_needed(entry.resolved.policy, self._judgement(entry.key).learned)
                spans[sight] = max(span, spans.get(sight, 0.0))
        for sight, span in spans.items():
            self._chronicle.history(sight).forget(at, span)

    def _is_sampled(self, entry: Entry, selection: Selection, at: Seconds) -> bool:
        return self._chronicle.is_sampled(sight_of(entry.key, selection), at)

    def _judgement(self, key: WorkloadKey) -> Judgement:
        return self._judgements.setdefault(key, Judgement())

    async def _sample(self, entries: Collection[tuple[Entry, Selection]], at: Seconds) -> None:
        """Take a sample of what each of these sees."""
        stated: dict[Sight, Seconds | None] = {}
        for entry, selection in entries:
            sight = sight_of(entry.key, selection)
            lead_time = entry.resolved.policy.lead_time if entry.resolved is not None else None
            stated[sight] = max(lead_time or 0.0, stated.get(sight) or 0.0) or None
        if not stated:
            return
        heard = await self._chronicle.sample(stated, at)
        self.stats.failed_ticks = self._chronicle.failed_reads
        self.stats.coverage = heard / len(stated)
        if heard:
            self.stats.last_heard = at

    def _hear(self, sight: Sight, reading: Reading | SourceError, at: Seconds) -> None:
        self.activation.hear(sight.selection, reading)
        self._diagnosing.hear(sight, reading, at)

    async def _recall_windows(self, entry: Entry, selection: Selection, at: Seconds) -> None:
        if entry.resolved is not None:
            learned = self._judgement(entry.key).learned
            start = tick_at(at - span_needed(entry.resolved.policy, learned))
            await self._chronicle.recall_windows(sight_of(entry.key, selection), start, at)

    async def _decide(self, entries: Sequence[tuple[Entry, Selection]], at: Seconds) -> None:
        contests = contested(entries, self._chronicle.histories, at)
        posted: dict[WorkloadKey, Posting] = {}
        for count, (entry, selection) in enumerate(entries, start=1):
            try:
                posting = self._judge(entry, selection, at, contest=entry.key in contests)
            except Exception:  # noqa: BLE001 - logged, and every other workload is decided
                # Its last answer stays, and grows too old to be given in the end.
                self._log.exception("decision-failed", workload=str(entry.key))
                continue
            if posting is not None:
                posted[entry.key] = posting
            if count % WORKLOADS_BETWEEN == 0:
                # Posted before others run: what they post meanwhile is newer than this.
                self._board.post(at, posted, frozenset())
                posted = {}
                await breathe()
        self._board.post(at, posted, frozenset())

    def _judge(
        self, entry: Entry, selection: Selection, at: Seconds, *, contest: bool
    ) -> Posting | None:
        if entry.resolved is None:
            return None
        policy = entry.resolved.policy
        sight = sight_of(entry.key, selection)
        history = self._chronicle.history(sight)
        judgement = self._judgement(entry.key)
        judgement.update(policy, history, at, self._placement.lead_time(sight))
        before = self._board.snapshot.postings.get(entry.key)
        previous = before.decision if before is not None else None
        read = self._scale(entry, selection)
        count = count_to_decide_on(read, previous, history.newest, at)
        scale = count.scale
        decision = decide(
            policy,
            history.samples,
            judgement.needs,
            scale=scale,
            learned=judgement.learned,
            now=at,
            known_since=tick_at(entry.registered_at),
            gateway=self.activation.gateway(entry.key, selection, scale, at),
        )
        decision = self._contest(decision, judgement, policy.hold_for, contest=contest)
        decision = told(decision, previous, count)
        self._tell(entry.key, decision, before)
        self._board.archive.keep(entry.key, decision, sample=history.newest, scale=read)
        posting = Posting(
            key=entry.key,
            policy=policy,
            selection=selection,
            decision=decision,
            trouble=self._chronicle.troubles.get(sight),
            fault=entry.fault,
            query_fault=self.activation.fault(selection),
        )
        return self._diagnosing.diagnosed(posting, history, scale)

    def _scale(self, entry: Entry, selection: Selection) -> Scale | None:
        """Return the count: the cluster's, or without a cluster what the source knows of."""
        if self._cluster is not None:
            return self._cluster.scale(entry.key.namespace, entry.key.name)
        judgement = self._judgement(entry.key)
        history = self._chronicle.histories.get(sight_of(entry.key, selection))
        newest = history.newest if history is not None else None
        if newest is not None and newest.known > 0:
            judgement.current = newest.known
        return None if judgement.current is None else Scale(current=judgement.current)

    def _contest(
        self, decision: Decision, judgement: Judgement, hold_for: Seconds, *, contest: bool
    ) -> Decision:
        """Silence a workload whose replicas another one claims too: hold, then answer nothing."""
        if not contest:
            judgement.contested_since = None
            return decision
        since = judgement.contested_since = judgement.contested_since or decision.at
        held = decision.current if decision.at - since <= hold_for else None
        return replace(
            decision,
            desired=held,
            advised=held,
            reason=Reason.SHARED_SERIES,
            active=True if held is not None else None,
        )

    def _tell(self, key: WorkloadKey, decision: Decision, before: Posting | None) -> None:
        old = before.decision if before is not None else None
        if old is not None and (old.desired, old.reason) == (decision.desired, decision.reason):
            return
        self.stats.decisions[(key.namespace, key.name, decision.reason)] += 1
        self._log.info(
            "decision",
            namespace=key.namespace,
            scaled_object=key.name,
            trigger=key.trigger,
            current=decision.current,
            desired=decision.desired,
            reason=decision.reason.value,
            floor=decision.floor,
            ceiling=decision.ceiling,
        )


def _terms(entry: Entry) -> tuple[Resolved | None, str | None]:
    """Return what an entry was admitted on: where it changes, it is looked at anew at once."""
    return entry.resolved, entry.fault
