"""A clock that nobody sets: for measuring how long things took."""

from __future__ import annotations

import asyncio
import time

from scaler.core.units import Seconds

_LONGEST_NAP: Seconds = 3600.0


class Stopwatch:
    """Has the form of the port `Clock`, but counts from an arbitrary moment."""

    def now(self) -> Seconds:
        """Return the seconds since that moment."""
        return time.monotonic()

    async def sleep_until(self, instant: Seconds) -> None:
        """Return at or just after the instant; for an infinite one, never."""
        while (left := instant - time.monotonic()) > 0:  # noqa: ASYNC110 - naps have an upper limit
            await asyncio.sleep(min(left, _LONGEST_NAP))
