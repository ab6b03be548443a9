"""The wall clock."""

from __future__ import annotations

import asyncio
import time

from scaler.core.units import Seconds

_LONGEST_NAP: Seconds = 1.0


class WallClock:
    """Fulfils the port `Clock` with the machine's time."""

    def now(self) -> Seconds:
        """Return the seconds since the epoch."""
        return time.time()

    async def sleep_until(self, instant: Seconds) -> None:
        """Return at or just after the instant, or at once when the clock is set back."""
        before = time.time()
        while (left := instant - (now := time.time())) > 0:
            if now < before - _LONGEST_NAP:
                return
            before = now
            await asyncio.sleep(min(left, _LONGEST_NAP))
