"""Where the count went without having been asked: what tells a second owner from the HPA."""

from __future__ import annotations

from collections import deque

from scaler.core.decision import Decision
from scaler.core.units import TICK, Seconds

_REMEMBERED = 32
_ASKED_WITHIN: Seconds = 12 * TICK
"""The HPA may act on an answer this old: its own window and late reads lie between."""


class Moves:
    """The moves of one workload's count, decision by decision."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._asked: deque[tuple[Seconds, int]] = deque(maxlen=_REMEMBERED)
        self._current: int | None = None
        self._astray: deque[Seconds] = deque(maxlen=_REMEMBERED)

    @property
    def astray(self) -> tuple[Seconds, ...]:
        """Return when the count went where nobody here had asked it to go."""
        return tuple(self._astray)

    def note(self, decision: Decision) -> None:
        """Look at the newest decision. From and to zero it is KEDA that moves, as it should."""
        before, now = self._current, decision.current
        if before and now and before != now and self._goes_astray(before, now, decision.at):
            self._astray.append(decision.at)
        self._current = now
        if decision.desired is not None:
            self._asked.append((decision.at, decision.desired))

    def _goes_astray(self, before: int, now: int, at: Seconds) -> bool:
        """Say whether a step leads away from everything that was asked for lately.

        The HPA may take a long way in several steps, each of which comes nearer.
        """
        asked = [count for when, count in self._asked if at - when <= _ASKED_WITHIN]
        return bool(asked) and all(abs(count - now) > abs(count - before) for count in asked)
