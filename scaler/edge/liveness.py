"""Whether the loop still ticks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scaler.control.follower import Follower
from scaler.core.units import TICK, Seconds

LATE_TICKS = 4


class Liveness:
    """Compares each follower's newest tick with the clock.

    A source that does not answer still ticks; a follower that does not is a fault of the scaler,
    which a restart may cure.
    """

    def __init__(self, followers: Sequence[Follower], now: Callable[[], Seconds]) -> None:
        """Count from now on for followers that have not ticked yet."""
        self._followers = followers
        self._now = now
        self._started = now()

    def late(self) -> dict[str, Seconds]:
        """Return the sources whose follower is late, and for how long it has not ticked."""
        now = self._now()
        silent = {
            f.source.name: now - max(f.stats.last_tick, self._started) for f in self._followers
        }
        return {name: span for name, span in silent.items() if span > LATE_TICKS * TICK}
