"""Counts that no signal moves: static fleets, and schedules written with hindsight."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from scaler.core.units import TICK, Seconds
from scaler.simulation.policies.port import Note, View


class StaticPolicy:
    """Always the same number of replicas, there from the start."""

    interval: Seconds = TICK

    def __init__(self, replicas: int) -> None:
        self.name = f"static-{replicas}"
        self._replicas = replicas

    def observe(self, view: View) -> None:
        """Look at nothing."""

    def note(self) -> Note:
        """Return the count."""
        return Note(answer=self._replicas)

    def replicas(self, now: Seconds, *, spec: int, ready: int, in_flight: int) -> int:  # noqa: ARG002
        """Return the count."""
        return self._replicas


class SchedulePolicy:
    """Counts from given times on (epoch seconds, ascending)."""

    interval: Seconds = TICK

    def __init__(self, name: str, steps: Sequence[tuple[Seconds, int]]) -> None:
        self.name = name
        self._times = [at for at, _ in steps]
        self._counts = [count for _, count in steps]
        self._newest: int | None = None

    def observe(self, view: View) -> None:
        """Look at nothing."""

    def note(self) -> Note:
        """Return the count."""
        return Note(answer=self._newest)

    def replicas(self, now: Seconds, *, spec: int, ready: int, in_flight: int) -> int:  # noqa: ARG002
        """Return the count of the schedule; before its first time what there is."""
        index = bisect_right(self._times, now) - 1
        self._newest = self._counts[index] if index >= 0 else spec
        return self._newest
