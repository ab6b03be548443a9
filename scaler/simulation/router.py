"""Which replica gets a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scaler.core.units import Seconds
from scaler.simulation.errors import ShapeInvalid
from scaler.simulation.replica import Replica
from scaler.simulation.requests import Request


class Router(Protocol):
    """Chooses among replicas that can take a request; there is always at least one."""

    def choose(self, request: Request, replicas: Sequence[Replica], at: Seconds) -> Replica:
        """Return the replica that gets this request at this time."""


class RoundRobin:
    """Each in turn, as a plain Service behind keep-alive clients does at best."""

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, request: Request, replicas: Sequence[Replica], at: Seconds) -> Replica:  # noqa: ARG002
        """Return the next in turn."""
        self._turn += 1
        return replicas[self._turn % len(replicas)]


class LeastLoaded:
    """The replica with the fewest requests in flight; among equals the one whose turn it is."""

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, request: Request, replicas: Sequence[Replica], at: Seconds) -> Replica:  # noqa: ARG002
        """Return the one with the least to do right now."""
        self._turn += 1
        count = len(replicas)
        first = self._turn % count
        best, least = replicas[first], -1
        for offset in range(count):
            replica = replicas[(first + offset) % count]
            engine = replica.engine
            engine.catch_up(at)
            load = engine.in_flight
            if least < 0 or load < least:
                best, least = replica, load
                if load == 0:
                    break
        return best


class SessionSticky:
    """A conversation stays with its replica (highest random weight); others go in turn.

    Sessions differ in weight, so the replicas' loads do: this is what makes fleets skewed.
    """

    def __init__(self) -> None:
        self._others = RoundRobin()

    def choose(self, request: Request, replicas: Sequence[Replica], at: Seconds) -> Replica:
        """Return the session's replica."""
        session = request.session
        if session is None:
            return self._others.choose(request, replicas, at)
        return max(replicas, key=lambda replica: _weight(session, replica.number))


def _weight(session: int, number: int) -> int:
    # Knuth's multipliers, folded twice: cheap, and the same on every machine.
    mixed = (session * 2654435761 ^ number * 2246822519) & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 15) * 2246822519 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 3266489917 & 0xFFFFFFFF
    return mixed ^ mixed >> 16


_ROUTERS: dict[str, type[RoundRobin | LeastLoaded | SessionSticky]] = {
    "round-robin": RoundRobin,
    "least-loaded": LeastLoaded,
    "session-sticky": SessionSticky,
}


def router_named(name: str) -> Router:
    """Make a router by its name. Raises ShapeInvalid."""
    if name not in _ROUTERS:
        raise ShapeInvalid(f"no router is called {name!r}: choose one of {', '.join(_ROUTERS)}")
    return _ROUTERS[name]()
