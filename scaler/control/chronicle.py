"""Keeps the histories of what one source shows: takes a sample a tick, and reads the past back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import structlog

from scaler.control.breath import WORKLOADS_BETWEEN, breathe
from scaler.control.placement import Placement
from scaler.control.ports import SelectionInvalid, Source, SourceError, SourceUnreachable
from scaler.control.sight import Sight
from scaler.core.history import History
from scaler.core.minutes import MINUTE, REMEMBERED
from scaler.core.reading import Reading
from scaler.core.sample import take_sample
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Selection

_READ_WITHIN: Seconds = 10.0
_MEND_WITHIN: Seconds = 5.0
_RECALL_CHUNK: Seconds = 6 * 3600.0

Listener: TypeAlias = Callable[[Sight, Reading | SourceError, Seconds], None]


class Chronicle:
    """The histories of one source's sights, and what went wrong with each.

    `listener` is told of every reading, narrowed as it is remembered.
    """

    def __init__(self, source: Source, placement: Placement, listener: Listener) -> None:
        """Start without history."""
        self.histories: dict[Sight, History] = {}
        self.troubles: dict[Sight, str] = {}
        self.failed_reads = 0
        self._source = source
        self._placement = placement
        self._listener = listener
        self._minutes_wanted: dict[Sight, Seconds] = {}
        self._log = structlog.get_logger(__name__).bind(source=source.name)

    def history(self, sight: Sight) -> History:
        """Return a sight's history, an empty one at first."""
        return self.histories.setdefault(sight, History())

    def keep_only(self, sights: Collection[Sight]) -> None:
        """Forget everything else."""
        self.histories = {s: history for s, history in self.histories.items() if s in sights}
        self.troubles = {s: trouble for s, trouble in self.troubles.items() if s in sights}

    def forget_mixed(self) -> frozenset[Sight]:
        """Forget what was remembered before it was known whose the series are; return of whom.

        A scaler that starts may hear of the engines before it hears of the pods.
        """
        mixed = {
            sight
            for sight, history in self.histories.items()
            if not history.placed
            and self._placement.pods(sight) is not None
            and not self._placement.is_own(sight, history.replicas)
        }
        self.forget(mixed)
        return frozenset(mixed)

    def forget(self, sights: Collection[Sight]) -> None:
        """Forget what was remembered of these, who are something else now."""
        for sight in sights:
            self.histories.pop(sight, None)
            self._minutes_wanted.pop(sight, None)

    def doubt(self, late: Mapping[Sight, Seconds]) -> None:
        """Take back what samples seemed to prove that were taken of too few pods."""
        for sight, since in late.items():
            self.history(sight).doubt(since)

    def is_sampled(self, sight: Sight, at: Seconds) -> bool:
        """Say whether there is a sample of this tick already."""
        history = self.histories.get(sight)
        newest = history.newest if history is not None else None
        return newest is not None and newest.at == at

    async def sample(self, wanted: Mapping[Sight, Seconds | None], at: Seconds) -> int:
        """Take a sample of each sight; return how many had a replica that reports.

        The values are the lead times that their triggers state.
        """
        readings = await self._read({sight.selection for sight in wanted}, at)
        heard = 0
        for number, (sight, stated) in enumerate(wanted.items(), start=1):
            if number % WORKLOADS_BETWEEN == 0:
                await breathe()
            reading = self._own(sight, readings[sight.selection], stated)
            self._listener(sight, reading, at)
            heard += self._remember(sight, reading, at)
        return heard

    def _own(
        self, sight: Sight, reading: Reading | SourceError, stated: Seconds | None
    ) -> Reading | SourceError:
        if isinstance(reading, SourceError):
            return reading
        if not self._placement.is_told(sight):
            return SelectionInvalid(
                f"{'/'.join(sight.place)}: the trigger has neither modelName nor selector, and "
                "which pods the scale target has is not known"
            )
        return self._placement.present(sight, reading, stated)

    def _remember(self, sight: Sight, reading: Reading | SourceError, at: Seconds) -> bool:
        history = self.history(sight)
        newest = history.newest
        if newest is not None and history.missed_from is None and at - newest.at > TICK:
            history.missed_from = newest.at + TICK  # ticks that we slept through
        if isinstance(reading, SourceError):
            self.troubles[sight] = str(reading)
            if history.missed_from is None:
                history.missed_from = at
            return False
        self.troubles.pop(sight, None)
        blind = self._placement.is_blind(sight, reading)
        history.add(replace(take_sample(reading), partial=blind))
        history.replicas = frozenset(replica.name for replica in reading.replicas)
        history.placed = self._placement.pods(sight) is not None
        if history.known_from is None:
            history.known_from = at
        return bool(reading.replicas)

    async def _read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Read within a deadline; whatever goes wrong becomes each selection's trouble."""
        name = self._source.name
        if not selections:
            return {}
        try:
            async with asyncio.timeout(_READ_WITHIN):
                return await self._source.read(selections, at)
        except TimeoutError:
            fault = SourceUnreachable(f'source "{name}" gave no answer within {_READ_WITHIN:g} s')
        except Exception as error:  # noqa: BLE001 - a source's fault must not end the loop
            self._log.exception("source-failed")
            fault = SourceUnreachable(f'source "{name}" failed: {type(error).__name__}')
        self.failed_reads += 1
        return dict.fromkeys(selections, fault)

    async def recall_windows(self, sight: Sight, start: Seconds, at: Seconds) -> None:
        """Read back the samples from `start` on, unless they are known already."""
        history = self.history(sight)
        end = (at if history.known_from is None else history.known_from) - TICK
        if start > end:
            return
        first_time = history.known_from is None
        readings = await self._recall(sight, start, end, TICK)
        if readings is None:
            history.missed_from = start
            return
        history.known_from = start
        history.fill(take_sample(reading) for reading in readings)
        if first_time and readings:
            self._minutes_wanted[sight] = start

    async def mend(self, at: Seconds) -> None:
        """Read back what was missed, now that the source answers again.

        After an outage that is every workload: what takes too long is left for the next tick.
        """
        began = time.monotonic()
        for sight, history in list(self.histories.items()):
            if time.monotonic() - began > _MEND_WITHIN:
                return
            missed = history.missed_from
            if missed is None or sight in self.troubles:
                continue
            readings = await self._recall(sight, missed, at - TICK, TICK)
            if readings is None:
                return
            history.missed_from = None
            history.known_from = min(missed, history.known_from or missed)
            history.fill(take_sample(reading) for reading in readings)

    @property
    def wants_minutes(self) -> bool:
        """Say whether part of the day is still to be read back."""
        return bool(self._minutes_wanted)

    async def recall_a_day(self, at: Seconds) -> None:
        """Read back, coarsely and a chunk at a time, the day that quantities are learned from."""
        for sight, known_from in list(self._minutes_wanted.items()):
            history = self.histories.get(sight)
            if history is None:
                del self._minutes_wanted[sight]
                continue
            oldest = at - REMEMBERED
            start = max(oldest, known_from - _RECALL_CHUNK)
            readings = await self._recall(sight, start, known_from, MINUTE)
            if readings is None:
                return
            history.recall_minutes(take_sample(reading) for reading in readings)
            if start <= oldest or not readings:
                del self._minutes_wanted[sight]
            else:
                self._minutes_wanted[sight] = start
            await asyncio.sleep(0)

    async def _recall(
        self, sight: Sight, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading] | None:
        selection = sight.selection
        if not self._placement.is_told(sight):
            return None
        try:
            readings = await self._source.recall(selection, start, end, step)
            return [self._placement.past(sight, reading) for reading in readings]
        except SourceError as error:
            self.troubles[sight] = str(error)
            self._log.warning("recall-failed", namespace=selection.namespace, error=str(error))
        except Exception as error:  # noqa: BLE001 - a source's fault must not end the loop
            self.troubles[sight] = f"reading history failed: {type(error).__name__}"
            self._log.exception("recall-failed-oddly", namespace=selection.namespace)
        return None
