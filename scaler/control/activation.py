"""Watches the gateways of fleets at zero between the ticks, and keeps what they have said."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

import structlog

from scaler.control.board import Snapshot
from scaler.control.ports import Gateways, SourceError, SourceUnreachable
from scaler.control.registry import Entry
from scaler.control.sight import Sight, sight_of
from scaler.core.gateway import LATCHED_FOR, Gateway, demand_at_zero
from scaler.core.history import History
from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.core.workload import Scale, Selection, WorkloadKey

_ASKED_WITHIN: Seconds = 4.0
"""A round ends before the next one is due, whatever has not answered by then."""

NO_NUMBER = "the activationQuery gives no number; where nothing waits it must give 0"

_REMEMBERED: Seconds = 2 * LATCHED_FOR

Waiting: TypeAlias = list[tuple[Entry, Selection]]

_log = structlog.get_logger(__name__)


class Activation:
    """Beside a follower: asks in rounds, is told of readings and counts, and gives `Gateway`s."""

    def __init__(self, gateways: Gateways | None) -> None:
        """Start without memory; without `gateways` nothing is asked between the ticks."""
        self._gateways = gateways
        self._answers: dict[Selection, list[tuple[Seconds, float]]] = {}
        self._faults: dict[Selection, str] = {}
        self._zero_at: dict[WorkloadKey, Seconds] = {}

    @property
    def asks(self) -> bool:
        """Say whether there is anybody to ask between the ticks."""
        return self._gateways is not None

    def waiting(
        self,
        entries: Iterable[tuple[Entry, Selection]],
        scale: Callable[[Entry, Selection], Scale | None],
    ) -> Waiting:
        """Return the workloads that only their gateway can wake: at zero, or of unknown count."""
        found = []
        for entry, selection in entries:
            if selection.activation_query is not None:
                count = scale(entry, selection)
                if count is None or count.current == 0:
                    found.append((entry, selection))
        return found

    async def ask(self, waiting: Waiting, at: Seconds) -> None:
        """Ask the gateways of these workloads, all in one round. Troubles are noted, not raised."""
        selections = {selection for _, selection in waiting}
        if self._gateways is None or not selections:
            return
        for selection, answer in (await self._demands(self._gateways, selections, at)).items():
            if isinstance(answer, SourceError):
                self._note_fault(selection, str(answer))
                continue
            self._note_fault(selection, None if answer is not None else NO_NUMBER)
            if answer is not None:
                self._keep(selection, at, answer)

    def changed(
        self,
        waiting: Waiting,
        histories: Mapping[Sight, History],
        snapshot: Snapshot,
        at: Seconds,
    ) -> Waiting:
        """Return those of whom the board does not say what is known of their gateway at `at`."""
        found = []
        for entry, selection in waiting:
            posting = snapshot.postings.get(entry.key)
            if posting is None:
                continue
            history = histories.get(sight_of(entry.key, selection))
            samples = history.samples if history is not None else ()
            known = Gateway(asked=True, answers=tuple(self._answers.get(selection, ())))
            told = posting.decision.demand, posting.query_fault
            if (demand_at_zero(known, samples, at), self.fault(selection)) != told:
                found.append((entry, selection))
        return found

    def hear(self, selection: Selection, reading: Reading | SourceError) -> None:
        """Take in what a tick's reading says of the workload's own queries."""
        if isinstance(reading, SourceError):
            return
        if reading.activation is not None or reading.query_fault is not None:
            self._note_fault(selection, reading.query_fault)

    def gateway(
        self, key: WorkloadKey, selection: Selection, scale: Scale | None, at: Seconds
    ) -> Gateway:
        """Return what is known of a workload's gateway when it is decided on."""
        if scale is not None and scale.current == 0:
            self._zero_at[key] = at
        return Gateway(
            asked=selection.activation_query is not None,
            answers=tuple(self._answers.get(selection, ())),
            zero_at=self._zero_at.get(key),
        )

    def fault(self, selection: Selection) -> str | None:
        """Return what the workload's own queries last failed with; None while they are well."""
        return self._faults.get(selection)

    def keep_only(self, selections: Collection[Selection], keys: Collection[WorkloadKey]) -> None:
        """Forget everything else."""
        self._answers = {s: a for s, a in self._answers.items() if s in selections}
        self._faults = {s: f for s, f in self._faults.items() if s in selections}
        self._zero_at = {k: at for k, at in self._zero_at.items() if k in keys}

    async def _demands(
        self, gateways: Gateways, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, float | SourceError | None]:
        try:
            async with asyncio.timeout(_ASKED_WITHIN):
                return await gateways.demands(selections, at)
        except TimeoutError:
            fault = SourceUnreachable(f"the activationQuery had no answer in {_ASKED_WITHIN:g} s")
        except Exception as error:  # noqa: BLE001 - a fault of one round must not end the watch
            _log.exception("gateways-failed")
            fault = SourceUnreachable(f"asking the gateways failed: {type(error).__name__}")
        return dict.fromkeys(selections, fault)

    def _keep(self, selection: Selection, at: Seconds, demand: float) -> None:
        # What was heard while the clock was ahead of the time is known to nobody yet.
        known = [a for a in self._answers.get(selection, ()) if at - _REMEMBERED < a[0] < at]
        insort(known, (at, demand))
        self._answers[selection] = known

    def _note_fault(self, selection: Selection, fault: str | None) -> None:
        if fault is None:
            self._faults.pop(selection, None)
            return
        if selection not in self._faults:
            _log.warning("gateway-silent", namespace=selection.namespace, error=fault)
        self._faults[selection] = fault
