"""A clock that a test moves by hand; it stands in for `scaler.adapters.clock`."""

from __future__ import annotations

import asyncio


class FakeClock:
    """Fulfils the port `Clock`: time passes only in `advance`."""

    def __init__(self, now: float = 1_000_000_005.0) -> None:
        """Start at a time that lies on no tick."""
        self._now = now
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        """Return the time."""
        return self._now

    async def sleep_until(self, instant: float) -> None:
        """Return once the test has moved the time there."""
        if instant <= self._now:
            return
        woken = asyncio.Event()
        self._sleepers.append((instant, woken))
        await woken.wait()

    def set(self, now: float) -> None:
        """Set the time and wake whoever was waiting for it; set back, it wakes everybody."""
        back = now < self._now
        self._now = now
        due = [woken for instant, woken in self._sleepers if back or instant <= now]
        self._sleepers = [s for s in self._sleepers if not back and s[0] > now]
        for woken in due:
            woken.set()

    async def advance(self, seconds: float) -> None:
        """Let time pass, and let everything that waited for it run."""
        self.set(self._now + seconds)
        await settle()


async def settle() -> None:
    """Let all tasks run until they wait for something."""
    for _ in range(50):
        await asyncio.sleep(0)
