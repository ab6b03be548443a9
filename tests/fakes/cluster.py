"""A cluster whose counts a test sets; it fulfils the port `Cluster`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from scaler.core.workload import Scale


class FakeCluster:
    """Knows the counts that the test told it."""

    def __init__(self, **scales: Scale) -> None:
        """Take scales by ScaledObject name, in the namespace `llm`."""
        self.scales = {("llm", name): scale for name, scale in scales.items()}
        self._notify: Callable[[], None] = lambda: None

    def scale(self, namespace: str, name: str) -> Scale | None:
        """Return what the test said."""
        return self.scales.get((namespace, name))

    def move(self, name: str, current: int) -> None:
        """Change a count, as the HPA or a person would."""
        self.scales["llm", name] = replace(self.scales["llm", name], current=current)
        self._notify()

    def on_change(self, notify: Callable[[], None]) -> None:
        """Remember whom to tell."""
        self._notify = notify

    async def run(self) -> None:
        """Have nothing to do until cancelled."""
        await asyncio.Event().wait()
