"""Tries again for as long as it takes: with growing, jittered pauses on the clock of the port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.stop import stop_after_attempt
from tenacity.wait import wait_random_exponential

from scaler.adapters.kubernetes_errors import (
    ClusterBusy,
    ClusterMissing,
    ClusterUnreachable,
    RightMissing,
)
from scaler.control.ports import Clock
from scaler.core.units import Seconds

T = TypeVar("T")

_REFUSED = (RightMissing, ClusterMissing)

_grows = wait_random_exponential(multiplier=0.5, min=0.1, max=6.0)
"""Full jitter, at its longest too: all views fail at the same moment, and must not return so."""

_SOONEST: Seconds = 1.0
"""How long a refusal is taken for granted, however much happens elsewhere."""


class Recall:
    """Has those who were refused ask again before their time.

    It is called when what they were told may be true no more: another right was granted, as one
    role grants them all, or nobody is there to refuse anything.
    """

    def __init__(self) -> None:
        """Nobody was called yet."""
        self._called_at: Seconds = float("-inf")
        self._called = asyncio.Event()

    def call(self, now: Seconds) -> None:
        """Call all who wait."""
        self._called_at = now
        self._called.set()
        self._called = asyncio.Event()

    def since(self, instant: Seconds, now: Seconds) -> bool:
        """Say whether all were called since; one from the future, by a clock set back, is none."""
        return instant < self._called_at <= now

    async def wait(self, clock: Clock, seconds: Seconds) -> None:
        """Let so many seconds pass, or until the next call."""
        called, until = self._called, clock.now() + seconds
        await clock.sleep_until(min(until, clock.now() + _SOONEST))
        waits = [asyncio.ensure_future(called.wait()), asyncio.ensure_future(_slept(clock, until))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class Patience:
    """Asks until it is answered.

    What was refused is tried every `denied_every` seconds, and at a recall.
    """

    def __init__(self, clock: Clock, denied_every: Seconds, recall: Recall) -> None:
        """Wait on this clock."""
        self._clock = clock
        self._denied_every = denied_every
        self._recall = recall

    async def until_done(
        self, ask: Callable[[], Awaitable[T]], failed: Callable[[Exception], None]
    ) -> T:
        """Return what `ask` returns in the end, having told `failed` of each failure.

        Whatever is raised is tried again, since a fault of ours in one view must not end the
        others; being cancelled is none.
        """
        refused = False

        def tell(state: RetryCallState) -> None:
            nonlocal refused
            error = _error(state)
            refused = isinstance(error, _REFUSED)
            if isinstance(error, Exception):
                failed(error)

        async def pause(seconds: Seconds) -> None:
            await (self.pause_or_recall(seconds) if refused else self.pause(seconds))

        return await AsyncRetrying(
            retry=retry_if_exception_type(Exception),
            wait=self._pause,
            before_sleep=tell,
            sleep=pause,
        )(_as_coroutine(ask))

    async def a_few_times(self, ask: Callable[[], Awaitable[T]], times: int) -> T:
        """Return what `ask` returns; what the server rules on, or the last failure, is raised."""
        return await AsyncRetrying(
            retry=retry_if_exception_type((ClusterUnreachable, ClusterBusy)),
            wait=self._pause,
            stop=stop_after_attempt(times),
            sleep=self.pause,
            reraise=True,
        )(_as_coroutine(ask))

    async def pause(self, seconds: Seconds) -> None:
        """Let so many seconds pass."""
        await self._clock.sleep_until(self._clock.now() + seconds)

    async def pause_or_recall(self, seconds: Seconds) -> None:
        """Let so many seconds pass after a refusal, or fewer when there is a recall."""
        await self._recall.wait(self._clock, seconds)

    def _pause(self, state: RetryCallState) -> Seconds:
        error = _error(state)
        grown = _grows(state)
        if isinstance(error, _REFUSED):
            return self._denied_every
        if isinstance(error, ClusterBusy):
            return max(grown, error.patience)
        return grown


def _as_coroutine(ask: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """Return what tenacity awaits: it takes a lambda for a plain function."""

    async def asking() -> T:
        return await ask()

    return asking


async def _slept(clock: Clock, until: Seconds) -> None:
    await clock.sleep_until(until)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
