"""Tries again for as long as it takes: with growing, jittered pauses on the clock of the port."""

from __future__ import annotations

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

_grows = wait_random_exponential(multiplier=0.5, min=0.1, max=6.0)
"""Full jitter, at its longest too: all views fail at the same moment, and must not return so."""


class Patience:
    """Asks until it is answered. What was refused is tried every `denied_every` seconds."""

    def __init__(self, clock: Clock, denied_every: Seconds) -> None:
        """Wait on this clock."""
        self._clock = clock
        self._denied_every = denied_every

    async def until_done(
        self, ask: Callable[[], Awaitable[T]], failed: Callable[[Exception], None]
    ) -> T:
        """Return what `ask` returns in the end, having told `failed` of each failure.

        Whatever is raised is tried again, since a fault of ours in one view must not end the
        others; being cancelled is none.
        """

        def tell(state: RetryCallState) -> None:
            if isinstance(error := _error(state), Exception):
                failed(error)

        return await AsyncRetrying(
            retry=retry_if_exception_type(Exception),
            wait=self._pause,
            before_sleep=tell,
            sleep=self.pause,
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

    def _pause(self, state: RetryCallState) -> Seconds:
        error = _error(state)
        grown = _grows(state)
        if isinstance(error, RightMissing | ClusterMissing):
            return self._denied_every
        if isinstance(error, ClusterBusy):
            return max(grown, error.patience)
        return grown


def _as_coroutine(ask: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """Return what tenacity awaits: it takes a lambda for a plain function."""

    async def asking() -> T:
        return await ask()

    return asking


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
