"""A queue before the fleet: holds requests while nobody can take them, and says 429."""

from __future__ import annotations

from scaler.core.units import Seconds
from scaler.simulation.requests import Ending, Request
from scaler.simulation.waiting import Deadlines, WaitingLine


class Gateway:
    """A gateway's bounded queue.

    It lets a replica have at most `per_replica` requests in flight (None: no limit, so that it only
    holds requests while no replica serves) and holds at most `max_queued`; `hold_at_zero` says
    whether it holds or refuses while no replica serves.
    """

    def __init__(
        self,
        *,
        per_replica: int | None = None,
        max_queued: int = 1000,
        hold_at_zero: bool = True,
    ) -> None:
        self.per_replica = per_replica
        self.max_queued = max_queued
        self.hold_at_zero = hold_at_zero
        self.rejected = 0
        """429s so far."""
        self._line = WaitingLine()
        self._deadlines = Deadlines()

    def __len__(self) -> int:
        """Count the requests that it holds."""
        return len(self._line)

    def has_room_at(self, in_flight: int) -> bool:
        """Say whether a replica with this much in flight may get one more."""
        return self.per_replica is None or in_flight < self.per_replica

    def hold(self, request: Request, at: Seconds, *, anybody_serves: bool) -> bool:
        """Queue a request; False when it has to be refused."""
        if len(self._line) >= self.max_queued or not (anybody_serves or self.hold_at_zero):
            self.rejected += 1
            return False
        request.submitted = at
        self._line.send(request)
        self._line.collect(at)
        self._deadlines.watch(request)
        return True

    def next_deadline(self) -> Seconds:
        """Return when the next client gives up waiting here."""
        return self._deadlines.next()

    def forsake(self, at: Seconds) -> list[Request]:
        """End and return the requests whose clients have left by now."""
        gone = []
        while (leaver := self._deadlines.take(at)) is not None:
            left_at, request = leaver
            request.end(Ending.GIVEN_UP, left_at)
            self._line.leave()
            gone.append(request)
        return gone

    def take(self) -> Request | None:
        """Remove and return the request that has waited longest."""
        return None if self._line.head() is None else self._line.take_head()
