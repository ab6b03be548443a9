"""A cluster whose counts a test sets; it fulfils the port `Cluster`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from scaler.core.pods import Pod, Situation
from scaler.core.workload import Scale


class FakeCluster:
    """Knows the counts that the test told it."""

    def __init__(self, **scales: Scale) -> None:
        """Take scales by ScaledObject name, in the namespace `llm`."""
        self.scales = {("llm", name): scale for name, scale in scales.items()}
        self.placed: dict[tuple[str, str], tuple[Pod, ...]] = {}
        self.situations: dict[tuple[str, str], Situation] = {}
        self.gone: set[tuple[str, str]] = set()
        self.faults: tuple[str, ...] = ()
        self._notify: Callable[[], None] = lambda: None

    def pods(self, namespace: str, name: str) -> tuple[Pod, ...] | None:
        """Return the pods that the test placed."""
        return self.placed.get((namespace, name))

    def situation(self, namespace: str, name: str) -> Situation | None:
        """Return what the test said of KEDA and the HPA."""
        return self.situations.get((namespace, name))

    def is_gone(self, namespace: str, name: str) -> bool:
        """Return what the test said; a ScaledObject of which it said nothing is not known."""
        return (namespace, name) in self.gone

    def delete(self, name: str) -> None:
        """Delete a ScaledObject, as the cluster would show it."""
        self.scales.pop(("llm", name), None)
        self.placed.pop(("llm", name), None)
        self.situations.pop(("llm", name), None)
        self.gone.add(("llm", name))
        self._notify()

    def place(self, name: str, *pods: Pod) -> None:
        """Replace the pods of a scale target, as the cluster would show them."""
        self.placed["llm", name] = pods
        self._notify()

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
