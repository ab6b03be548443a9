"""Requests that wait for an engine, and clients that do not wait for ever."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from scaler.core.units import Seconds
from scaler.simulation.requests import Request


class WaitingLine:
    """An engine's queue in order, and the inbox of what was sent since the last step began.

    A request whose client leaves stays in its place, ended, until it comes to the head: so leaving
    costs nothing.
    """

    __slots__ = ("_inbox", "_left", "_queue")

    def __init__(self) -> None:
        self._inbox: deque[Request] = deque()
        self._queue: deque[Request] = deque()
        self._left = 0

    def __len__(self) -> int:
        """Count everybody who waits, the inbox included."""
        return self.queued + len(self._inbox)

    def __iter__(self) -> Iterator[Request]:
        """Go through everybody who waits, in order."""
        for line in (self._queue, self._inbox):
            yield from (request for request in line if request.ending is None)

    @property
    def queued(self) -> int:
        """Count those whom the engine has already taken from its inbox."""
        return len(self._queue) - self._left

    def send(self, request: Request) -> None:
        """Put a request into the inbox."""
        self._inbox.append(request)

    def collect(self, upto: Seconds) -> None:
        """Move what was sent at or before `upto` into the queue."""
        inbox = self._inbox
        while inbox and inbox[0].submitted <= upto:
            self._queue.append(inbox.popleft())

    def next_arrival(self) -> Seconds:
        """Return when the first request of the inbox was sent; infinite when there is none."""
        return self._inbox[0].submitted if self._inbox else math.inf

    def head(self) -> Request | None:
        """Return the request whose turn it is."""
        queue = self._queue
        while queue and queue[0].ending is not None:
            queue.popleft()
            self._left -= 1
        return queue[0] if queue else None

    def take_head(self) -> Request:
        """Remove and return the head; there must be one."""
        return self._queue.popleft()

    def push_front(self, request: Request) -> None:
        """Put a preempted request back before all others."""
        self._queue.appendleft(request)

    def leave(self) -> None:
        """Count one request of the queue that has just ended in its place."""
        self._left += 1

    def clear(self) -> None:
        """Send everybody away."""
        self._inbox.clear()
        self._queue.clear()
        self._left = 0


class Deadlines:
    """When clients go away: without a first token, or at the latest.

    Who watches a request last has it: another's deadlines for it lapse.
    """

    __slots__ = ("_heap", "_ties")

    def __init__(self) -> None:
        self._heap: list[tuple[Seconds, int, bool, Request]] = []
        self._ties = count()

    def watch(self, request: Request) -> None:
        """Note both deadlines of a request, as far as it has them."""
        request.watcher = self
        for span, final in ((request.patience, False), (request.timeout, True)):
            if span < math.inf:
                self.add(request, max(request.arrived + span, request.submitted), final=final)

    def add(self, request: Request, at: Seconds, *, final: bool) -> None:
        """Note one deadline; one that is not final lapses with the first token."""
        heappush(self._heap, (at, next(self._ties), final, request))

    def next(self) -> Seconds:
        """Return the first deadline that still matters; infinite when there is none."""
        heap = self._heap
        while heap:
            at, _, final, request = heap[0]
            lapsed = request.first_token_at is not None and not final
            if request.ending is None and request.watcher is self and not lapsed:
                return at
            heappop(heap)
        return math.inf

    def take(self, upto: Seconds) -> tuple[Seconds, Request] | None:
        """Remove and return the next client that leaves at or before `upto`."""
        if self.next() > upto:
            return None
        at, _, _, request = heappop(self._heap)
        return at, request
