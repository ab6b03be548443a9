"""Gateways whose queues a test fills; they fulfil the port `Gateways`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from scaler.control.ports import SourceError
from scaler.core.workload import Selection

Told = float | SourceError | None


class FakeGateways:
    """Tells what a test said of each model; 0 where it said nothing."""

    def __init__(self, **waiting: Told) -> None:
        """Take what waits, by model name."""
        self.waiting: dict[str, Told] = dict(waiting)
        self.rounds: list[tuple[float, frozenset[Selection]]] = []
        self.hangs = False
        self.breaks: Exception | None = None

    async def demands(
        self, selections: Collection[Selection], at: float
    ) -> Mapping[Selection, Told]:
        """Answer, hang or break."""
        self.rounds.append((at, frozenset(selections)))
        if self.hangs:
            await asyncio.Event().wait()
        if self.breaks is not None:
            raise self.breaks
        return {each: self.waiting.get(each.model_name or "", 0.0) for each in selections}
