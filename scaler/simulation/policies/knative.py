"""Knative's pod autoscaler on concurrency.

Source: knative/serving at 98e5ef9, defaults of `config-autoscaler`: a target of 100 concurrent
requests a pod of which 70 % are used, a stable window of 60 s and a panic window of 6 s, decided
every 2 s. Panic begins where the panic window asks for at least twice the ready pods and ends when
that has not been so for a stable window; in panic the count never falls. A step goes up at most
1000-fold and down at most to half. The queue proxies count in every pod, so the fleet's requests in
flight are known at once; scale to zero is off, as it is for the others.

Its metrics come from its own proxies: an outage of the engines' metrics does not touch it.
"""

from __future__ import annotations

import math
from collections import deque

from scaler.core.units import Seconds
from scaler.simulation.policies.port import Bounds, Note, View

TARGET = 100.0
UTILISATION = 0.7
STABLE_WINDOW: Seconds = 60.0
PANIC_WINDOW: Seconds = 6.0
PANIC_THRESHOLD = 2.0
MAX_UP, MAX_DOWN = 1000.0, 2.0
TICK: Seconds = 2.0


class KnativePolicy:
    """The autoscaler, with its own controller. `target` is what a pod may have in flight."""

    interval: Seconds = TICK

    def __init__(self, name: str, bounds: Bounds, *, target: float = TARGET * UTILISATION) -> None:
        self.name = name
        self._bounds = bounds
        self._target = target
        self._seen: deque[tuple[Seconds, int]] = deque()
        self._panic_until: Seconds | None = None
        self._panic_peak = 0
        self._answer: int | None = None

    def observe(self, view: View) -> None:
        """Look at nothing that was scraped."""

    def note(self) -> Note:
        """Return the count."""
        reason = "" if self._panic_until is None else "panic"
        return Note(answer=self._answer, reason=reason)

    def replicas(self, now: Seconds, *, spec: int, ready: int, in_flight: int) -> int:  # noqa: ARG002
        """Return the count that both windows ask for."""
        self._seen.append((now, in_flight))
        while self._seen[0][0] <= now - STABLE_WINDOW:
            self._seen.popleft()
        pods = max(1, ready)
        stable = self._wanted(now, STABLE_WINDOW, pods)
        panic = self._wanted(now, PANIC_WINDOW, pods)
        if math.ceil(self._mean(now, PANIC_WINDOW) / self._target) / pods >= PANIC_THRESHOLD:
            if self._panic_until is None:
                self._panic_peak = 0
            self._panic_until = now + STABLE_WINDOW
        elif self._panic_until is not None and self._panic_until < now:
            self._panic_until = None
        wanted = stable
        if self._panic_until is not None:
            self._panic_peak = wanted = max(panic, stable, pods, self._panic_peak)
        self._answer = max(self._bounds.min_replicas, min(wanted, self._bounds.max_replicas))
        return self._answer

    def _wanted(self, now: Seconds, window: Seconds, pods: int) -> int:
        wanted = math.ceil(self._mean(now, window) / self._target)
        return max(min(wanted, math.ceil(MAX_UP * pods)), math.floor(pods / MAX_DOWN))

    def _mean(self, now: Seconds, window: Seconds) -> float:
        inside = [count for at, count in self._seen if at > now - window]
        return sum(inside) / len(inside)
