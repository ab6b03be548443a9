"""Follows one source: takes a sample of each selection a tick, decides, and posts on the board."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from scaler.config.trigger import Resolved
from scaler.control.activation import Activation
from scaler.control.board import Board, Posting
from scaler.control.contest import contested
from scaler.control.diagnosing import Diagnosing
from scaler.control.ports import Cluster, Gateways, Source, SourceError, SourceUnreachable
from scaler.control.registry import Entry, Registry
from scaler.core.decision import Decision, decide, with_notes
from scaler.core.history import History, Judgement, span_needed
from scaler.core.minutes import MINUTE, REMEMBERED
from scaler.core.reading import Reading
from scaler.core.reasons import Reason
from scaler.core.sample import take_sample
from scaler.core.units import TICK, Seconds, tick_at
from scaler.core.workload import Scale, Selection, WorkloadKey

_READ_WITHIN: Seconds = 10.0
_MEND_WITHIN: Seconds = 5.0
_RECALLS_AT_ONCE = 4
_ADMITTED_TOGETHER = 50
_RECALL_CHUNK: Seconds = 6 * 3600.0
_DECISIONS_BETWEEN_BREATHS = 25


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
    """Keeps the histories of the selections of one source and judges their workloads."""

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
        self._histories: dict[Selection, History] = {}
        self._judgements: dict[WorkloadKey, Judgement] = {}
        self._troubles: dict[Selection, str] = {}
        self._minutes_wanted: dict[Selection, Seconds] = {}
        self._admitted: dict[WorkloadKey, tuple[Resolved | None, str | None]] = {}
        self._log = structlog.get_logger(__name__).bind(source=source.name)

    async def tick(self, at: Seconds) -> None:
        """Sample, decide and post at the tick `at`. Troubles are noted, never raised."""
        self._drop_unused(self._entries())
        known = [(entry, s) for entry, s in self._entries() if self._is_admitted(entry)]
        await self._sample({selection for _, selection in known}, at)
        await self._mend(at)
        self._forget_old(at)
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
        posted = self._board.snapshot.postings
        await self._decide([e for e in fresh if e[0].key not in posted], at)
        limit = asyncio.Semaphore(_RECALLS_AT_ONCE)

        async def recall(entry: Entry, selection: Selection) -> None:
            async with limit:
                await self._recall_windows(entry, selection, at)

        await asyncio.gather(*(recall(entry, selection) for entry, selection in entries))
        await self._sample({s for _, s in entries if not self._is_sampled(s, at)}, at)
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
        await self._decide(moved, at)

    async def wake(self, at: Seconds) -> None:
        """Ask the gateways of the fleets at zero, and decide anew where that changes an answer."""
        waiting = self.activation.waiting(self._entries(), self._scale)
        await self.activation.ask(waiting, at)
        changed = self.activation.changed(waiting, self._histories, self._board.snapshot, at)
        await self._decide(changed, at)

    async def recall_a_day(self, at: Seconds) -> None:
        """Read back, coarsely and a chunk at a time, the day that quantities are learned from."""
        for selection, known_from in list(self._minutes_wanted.items()):
            history = self._histories.get(selection)
            if history is None:
                del self._minutes_wanted[selection]
                continue
            oldest = at - REMEMBERED
            start = max(oldest, known_from - _RECALL_CHUNK)
            readings = await self._recall(selection, start, known_from, MINUTE)
            if readings is None:
                return
            history.recall_minutes(take_sample(reading) for reading in readings)
            if start <= oldest or not readings:
                del self._minutes_wanted[selection]
            else:
                self._minutes_wanted[selection] = start
            await asyncio.sleep(0)

    @property
    def wants_minutes(self) -> bool:
        """Say whether part of the day is still to be read back."""
        return bool(self._minutes_wanted)

    def _entries(self) -> list[tuple[Entry, Selection]]:
        return [
            (entry, entry.resolved.selection)
            for entry in self._registry
            if entry.resolved is not None and entry.resolved.selection.source == self.source.name
        ]

    def _is_admitted(self, entry: Entry) -> bool:
        return self._admitted.get(entry.key) == _terms(entry)

    def _is_sampled(self, selection: Selection, at: Seconds) -> bool:
        history = self._histories.get(selection)
        newest = history.newest if history is not None else None
        return newest is not None and newest.at == at

    def _drop_unused(self, entries: Iterable[tuple[Entry, Selection]]) -> None:
        kept = list(entries)
        selections = {selection for _, selection in kept}
        keys = {entry.key for entry, _ in kept}
        self._histories = {s: h for s, h in self._histories.items() if s in selections}
        self._troubles = {s: t for s, t in self._troubles.items() if s in selections}
        self._judgements = {k: j for k, j in self._judgements.items() if k in keys}
        self._admitted = {k: t for k, t in self._admitted.items() if k in keys}
        self.activation.keep_only(selections, keys)
        self._diagnosing.keep_only(selections, keys)
        names = {(key.namespace, key.name) for key in keys}
        for told in [told for told in self.stats.decisions if told[:2] not in names]:
            del self.stats.decisions[told]

    def _forget_old(self, at: Seconds) -> None:
        """Drop the samples that no workload of a selection needs any more."""
        spans: dict[Selection, Seconds] = {}
        for entry, selection in self._entries():
            if entry.resolved is not None:
                span = span_needed(entry.resolved.policy, self._judgement(entry.key).learned)
                spans[selection] = max(span, spans.get(selection, 0.0))
        for selection, span in spans.items():
            self._history(selection).forget(at, span)

    def _history(self, selection: Selection) -> History:
        return self._histories.setdefault(selection, History())

    def _judgement(self, key: WorkloadKey) -> Judgement:
        return self._judgements.setdefault(key, Judgement())

    async def _sample(self, selections: Collection[Selection], at: Seconds) -> None:
        if not selections:
            return
        heard = 0
        for selection, reading in (await self._read(selections, at)).items():
            history = self._history(selection)
            self.activation.hear(selection, reading)
            self._diagnosing.hear(selection, reading, at)
            if isinstance(reading, SourceError):
                self._troubles[selection] = str(reading)
                if history.missed_from is None:
                    history.missed_from = at
                continue
            self._troubles.pop(selection, None)
            history.add(take_sample(reading))
            history.replicas = frozenset(replica.name for replica in reading.replicas)
            if history.known_from is None:
                history.known_from = at
            heard += bool(reading.replicas)
        self.stats.coverage = heard / len(selections)
        if heard:
            self.stats.last_heard = at

    async def _read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Read within a deadline; whatever goes wrong becomes each selection's trouble."""
        name = self.source.name
        try:
            async with asyncio.timeout(_READ_WITHIN):
                return await self.source.read(selections, at)
        except TimeoutError:
            fault = SourceUnreachable(f'source "{name}" gave no answer within {_READ_WITHIN:g} s')
        except Exception as error:  # noqa: BLE001 - a source's fault must not end the loop
            self._log.exception("source-failed")
            fault = SourceUnreachable(f'source "{name}" failed: {type(error).__name__}')
        self.stats.failed_ticks += 1
        return dict.fromkeys(selections, fault)

    async def _recall_windows(self, entry: Entry, selection: Selection, at: Seconds) -> None:
        """Read back the windows' samples, unless they are known already."""
        if entry.resolved is None:
            return
        history = self._history(selection)
        judgement = self._judgement(entry.key)
        start = tick_at(at - span_needed(entry.resolved.policy, judgement.learned))
        end = (at if history.known_from is None else history.known_from) - TICK
        if start > end:
            return
        first_time = history.known_from is None
        readings = await self._recall(selection, start, end, TICK)
        if readings is None:
            history.missed_from = start
            return
        history.known_from = start
        history.fill(take_sample(reading) for reading in readings)
        if first_time and readings:
            self._minutes_wanted[selection] = start

    async def _mend(self, at: Seconds) -> None:
        """Read back what was missed, now that the source answers again.

        After an outage that is every workload: what takes too long is left for the next tick.
        """
        began = time.monotonic()
        for selection, history in list(self._histories.items()):
            if time.monotonic() - began > _MEND_WITHIN:
                return
            missed = history.missed_from
            if missed is None or selection in self._troubles:
                continue
            readings = await self._recall(selection, missed, at - TICK, TICK)
            if readings is None:
                return
            history.missed_from = None
            history.known_from = min(missed, history.known_from or missed)
            history.fill(take_sample(reading) for reading in readings)

    async def _recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading] | None:
        try:
            return await self.source.recall(selection, start, end, step)
        except SourceError as error:
            self._troubles[selection] = str(error)
            self._log.warning("recall-failed", namespace=selection.namespace, error=str(error))
        except Exception as error:  # noqa: BLE001 - a source's fault must not end the loop
            self._troubles[selection] = f"reading history failed: {type(error).__name__}"
            self._log.exception("recall-failed-oddly", namespace=selection.namespace)
        return None

    async def _decide(self, entries: Sequence[tuple[Entry, Selection]], at: Seconds) -> None:
        contests = contested(entries, {s: h.replicas for s, h in self._histories.items()}, at)
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
            if count % _DECISIONS_BETWEEN_BREATHS == 0:
                # Posted before others run: what they post meanwhile is newer than this.
                self._board.post(at, posted, frozenset())
                posted = {}
                await asyncio.sleep(0)
        self._board.post(at, posted, frozenset())

    def _judge(
        self, entry: Entry, selection: Selection, at: Seconds, *, contest: bool
    ) -> Posting | None:
        if entry.resolved is None:
            return None
        policy = entry.resolved.policy
        history = self._history(selection)
        judgement = self._judgement(entry.key)
        judgement.update(policy, history, at)
        scale = self._scale(entry, selection)
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
        before = self._board.snapshot.postings.get(entry.key)
        decision = with_notes(decision, before.decision if before is not None else None)
        self._tell(entry.key, decision, before)
        posting = Posting(
            key=entry.key,
            policy=policy,
            selection=selection,
            decision=decision,
            trouble=self._troubles.get(selection),
            fault=entry.fault,
            query_fault=self.activation.fault(selection),
        )
        return self._diagnosing.diagnosed(posting, history, scale)

    def _scale(self, entry: Entry, selection: Selection) -> Scale | None:
        """Return the count: the cluster's, or without a cluster what the source knows of."""
        if self._cluster is not None:
            return self._cluster.scale(entry.key.namespace, entry.key.name)
        judgement = self._judgement(entry.key)
        history = self._histories.get(selection)
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
