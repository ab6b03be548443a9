"""Tasks that come and go with what is wanted, inside a task group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

Start = Callable[[], Coroutine[Any, Any, None]]


class Running(Generic[K]):
    """Keeps one task for each key that is wanted."""

    def __init__(self) -> None:
        """Run nothing yet."""
        self._group: asyncio.TaskGroup | None = None
        self._wanted: Mapping[K, Start] = {}
        self._tasks: dict[K, asyncio.Task[None]] = {}

    def start_in(self, group: asyncio.TaskGroup) -> None:
        """Start what is wanted in this group, now and later."""
        self._group = group
        self._tasks = {}
        self.keep(self._wanted)

    def stop(self) -> None:
        """Start nothing any more; the group sees to what runs."""
        self._group = None

    def keep(self, wanted: Mapping[K, Start]) -> None:
        """Start what is new, cancel what is no longer wanted, leave the rest alone."""
        self._wanted = wanted
        if self._group is None:
            return
        for key in [key for key in self._tasks if key not in wanted]:
            self._tasks.pop(key).cancel()
        for key, start in wanted.items():
            if key not in self._tasks:
                self._tasks[key] = self._group.create_task(start())
