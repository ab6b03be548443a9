"""Where the count went without having been asked: what tells a second owner from the HPA."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from scaler.core.decision import Decision
from scaler.core.reasons import Reason
from scaler.core.units import TICK, Seconds

_REMEMBERED = 32
_NAMED_FOR: Seconds = 300.0
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


def with_notes(decision: Decision, previous: Decision | None) -> Decision:
    """Name a change of the count that this scaler did not ask for; the answer stays as it is.

    On the way to what was asked for the HPA may stop anywhere: its rates and windows cut steps.
    A move is named for five minutes, as long as the count stays there and demand lets it.
    """
    moved_at = _moved_at(decision, previous) if previous is not None else None
    if moved_at is None:
        return decision
    decision = replace(decision, moved_at=moved_at)
    if decision.desired != decision.current:
        return decision
    reasons = tuple(dict.fromkeys([*decision.notes, decision.reason]))
    return replace(decision, reason=Reason.MOVED_BY_OTHERS, notes=reasons)


def _moved_at(decision: Decision, previous: Decision) -> Seconds | None:
    """Return when the count was moved by others; None where it was not, or long ago."""
    # From and to zero it is KEDA that moves, as it should.
    if not decision.current or not previous.current:
        return None
    asked = previous.current if previous.desired is None else previous.desired
    least, most = sorted((previous.current, asked))
    if not least <= decision.current <= most:
        return decision.at
    stays = decision.current == previous.current and previous.moved_at is not None
    if stays and decision.at - (previous.moved_at or 0.0) < _NAMED_FOR:
        return previous.moved_at
    return None
