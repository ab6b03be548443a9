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
        """Return at or just after the instant, also when the clock is set in the meantime."""
        while (left := instant - time.time()) > 0:  # noqa: ASYNC110 - the clock may be set
            await asyncio.sleep(min(left, _LONGEST_NAP))
