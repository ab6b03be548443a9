"""Sends requests at their instants and never waits for answers, as the world does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from scaler.adapters.fates import OUT_OF_PATIENCE, TIMED_OUT, TOO_MANY_OPEN, Fate, Seen
from scaler.adapters.load_ledger import Ledger
from scaler.control.ports import Clock
from scaler.simulation.requests import Request


class Sender(Protocol):
    """Sends one request and says how it ended; `seen` is written on the way."""

    async def send(self, request: Request, seen: Seen) -> Fate:
        """Return when the answer has ended. Cancelled when the client goes away."""


class OpenLoop:
    """Drives a sender with a schedule.

    When `most_open` requests are open, those that come are not sent, and counted. Latencies and
    patience count from the planned instant: a test that falls behind does not flatter the server.
    """

    def __init__(self, *, sender: Sender, clock: Clock, ledger: Ledger, most_open: int) -> None:
        self._sender = sender
        self._clock = clock
        self._ledger = ledger
        self._most_open = most_open
        self._sending: asyncio.Task[None] | None = None
        self.open = 0

    async def run(self, requests: Iterable[Request]) -> None:
        """Send everything and wait for the last end; a cancellation leaves what is open as it is.

        The instants of the requests are seconds from now.
        """
        async with asyncio.TaskGroup() as exchanges:
            self._sending = exchanges.create_task(self._send(requests, exchanges))

    def stop(self) -> bool:
        """Send no more, but wait for what is open; say whether more was to come."""
        return self._sending is not None and self._sending.cancel()

    async def _send(self, requests: Iterable[Request], exchanges: asyncio.TaskGroup) -> None:
        begun = self._clock.now()
        self._ledger.begin(begun)
        for request in requests:
            request.arrived += begun
            await self._clock.sleep_until(request.arrived)
            # Lets what was sent get under way even when every instant is already past.
            await asyncio.sleep(0)
            self._ledger.arrive(request, self._clock.now())
            if self.open >= self._most_open:
                self._ledger.end(request, Seen(), TOO_MANY_OPEN, self._clock.now())
                continue
            self.open += 1
            exchanges.create_task(self._exchange(request))

    async def _exchange(self, request: Request) -> None:
        seen = Seen()
        sending = asyncio.create_task(self._sender.send(request, seen))
        leaving = asyncio.create_task(self._leave(request, seen))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            fate = sending.result() if sending.done() else leaving.result()
        finally:
            self.open -= 1
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        self._ledger.end(request, seen, fate, self._clock.now())

    async def _leave(self, request: Request, seen: Seen) -> Fate:
        """Return once this client goes away."""
        if request.patience < request.timeout:
            await self._clock.sleep_until(request.arrived + request.patience)
            if seen.first_token_at is None:
                return OUT_OF_PATIENCE
        await self._clock.sleep_until(request.arrived + request.timeout)
        return TIMED_OUT
