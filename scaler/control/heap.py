"""Keeps Python's garbage collector from going through all that is remembered while KEDA waits."""

from __future__ import annotations

import gc
from collections.abc import Callable

from scaler.core.units import Seconds

SEARCHED_EVERY: Seconds = 3600.0


class Heap:
    """Takes what is alive after a tick for what stays: collections then look at what is new.

    Histories are a hundred thousand objects and more, none of them in a cycle; a collection that
    looks at all of them holds every answer up for as long. Once an hour it is done all the same,
    in case something else has left a cycle among them.
    """

    def __init__(self, now: Callable[[], Seconds]) -> None:
        """Search at the first tick, when the start has left most; `now` is any clock."""
        self._now = now
        self._searched: Seconds | None = None

    def settle(self) -> None:
        """Be told that a tick is over."""
        now = self._now()
        if self._searched is None or not 0 <= now - self._searched < SEARCHED_EVERY:
            self._searched = now
            gc.unfreeze()
            gc.collect()
        gc.freeze()
