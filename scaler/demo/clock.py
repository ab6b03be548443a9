"""A clock that runs faster than the wall's."""

from __future__ import annotations

import asyncio
import time

from scaler.core.units import TICK, Seconds, tick_at
from scaler.demo.errors import SpeedInvalid

DEFAULT_SPEED = 30.0
HIGHEST_SPEED = 60.0
"""Above this a busy machine's ordinary delays would be whole ticks."""

_MINUTE: Seconds = 60.0


class FastClock:
    """Fulfils the port `Clock`: `speed` simulated seconds pass in each real one.

    It starts at the wall clock's minute, so that every run meets the tick grid alike. Nothing else
    is sped up: windows and intervals keep their lengths, in simulated seconds.
    """

    def __init__(self, speed: float = DEFAULT_SPEED) -> None:
        """Start the clock. Raises SpeedInvalid."""
        if not 0 < speed <= HIGHEST_SPEED:
            raise SpeedInvalid(
                f"a speed of {speed:g} is not possible: give one above 0 and at most "
                f"{HIGHEST_SPEED:g} simulated seconds a second"
            )
        self.speed = speed
        self._origin = time.time() // _MINUTE * _MINUTE
        self._started = time.monotonic()

    def now(self) -> Seconds:
        """Return the simulated time, in seconds since the epoch."""
        return self._origin + (time.monotonic() - self._started) * self.speed

    async def sleep_until(self, instant: Seconds) -> None:
        """Return at or just after the instant."""
        while (left := instant - self.now()) > 0:  # noqa: ASYNC110 - timers may be a little early
            await asyncio.sleep(left / self.speed)


def after_next_tick(now: Seconds, delay: Seconds) -> Seconds:
    """Return the first instant after `now` that lies `delay` seconds after a tick."""
    return tick_at(now - delay) + TICK + delay
