"""What is written to the cluster beside our main work: bounded, and silent where it is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import structlog

from scaler.control.ports import Clock, Cluster, WriteDenied, WriteFailed, WriteMissing
from scaler.core.units import Seconds

_DENIED_EVERY: Seconds = 600.0
_FAILED_EVERY: Seconds = 60.0
_MOST_TOLD = 20

_log = structlog.get_logger(__name__)


class Writing:
    """Writes at most `at_most` things a look, and pauses where it was refused or failed.

    Rights are given by namespace, so what is refused in one is still written in the others.
    """

    def __init__(self, at_most: int) -> None:
        """Start well."""
        self._at_most = at_most
        self._left = at_most
        self._paused: dict[str, tuple[Seconds, str]] = {}

    @property
    def faults(self) -> tuple[str, ...]:
        """Say, a sentence each, what is not written, and why."""
        return tuple(dict.fromkeys(fault for _, fault in self._paused.values()))[:_MOST_TOLD]

    def begin(self) -> None:
        """Begin a look: its writes are counted anew."""
        self._left = self._at_most

    def may(self, namespace: str, now: Seconds) -> bool:
        """Say whether one more thing may be written in a namespace."""
        until = self._paused.get(namespace, (now, ""))[0]
        return self._left > 0 and now >= until

    async def write(self, namespace: str, now: Seconds, act: Callable[[], Awaitable[None]]) -> bool:
        """Write one thing and return whether that is done with; never raises WriteFailed.

        What has gone is done with; what failed or was refused is to be tried again.
        """
        self._left -= 1
        try:
            await act()
        except WriteMissing:
            return True
        except WriteFailed as error:
            fault = f"in {namespace}: {error}"
            if self._paused.get(namespace, (now, ""))[1] != fault:
                _log.warning("write-failed", namespace=namespace, error=str(error))
            pause = _DENIED_EVERY if isinstance(error, WriteDenied) else _FAILED_EVERY
            self._paused[namespace] = (now + pause, fault)
            return False
        self._paused.pop(namespace, None)
        return True


class Scribe(Protocol):
    """Looks at the board every so often and writes what follows from it to the cluster."""

    @property
    def looks_every(self) -> Seconds:
        """Return how often it looks."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Say, a sentence each, what is not written, and why."""

    async def look(self, now: Seconds) -> None:
        """Look once and write."""


async def look_again_and_again(scribe: Scribe, clock: Clock) -> None:
    """Let a scribe look until cancelled; a fault of its ends nothing."""
    while True:
        try:
            await scribe.look(clock.now())
        except Exception:  # noqa: BLE001 - logged; what it writes is beside our main work
            _log.exception("look-failed", scribe=type(scribe).__name__)
        await clock.sleep_until(clock.now() + scribe.looks_every)


def all_faults(cluster: Cluster | None, scribes: Iterable[Scribe]) -> tuple[str, ...]:
    """Say, a sentence each, what of the cluster cannot be read or written."""
    read = cluster.faults if cluster is not None else ()
    return (*read, *(fault for scribe in scribes for fault in scribe.faults))
