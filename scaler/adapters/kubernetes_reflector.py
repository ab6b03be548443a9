"""Mirrors one kind in one scope: lists it, watches from there, and knows how old the mirror is."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
import structlog

from scaler.adapters.kubernetes_api import Link
from scaler.adapters.kubernetes_errors import (
    ClusterAnswerInvalid,
    ClusterBusy,
    ClusterError,
    ClusterMissing,
    ClusterUnreachable,
    RightMissing,
    ViewExpired,
)
from scaler.adapters.kubernetes_objects import Event, Head, Page, Status, decoded
from scaler.adapters.kubernetes_patience import Patience
from scaler.core.units import Seconds

T = TypeVar("T")
Key = tuple[str, str]
"""Namespace and name."""

METADATA_ONLY = "application/json;as={};v=v1;g=meta.k8s.io"
_SHORTEST_WATCH: Seconds = 1.0
_EXPIRED = 410
_LOST_AFTER = 5
"""Failures in a row after which all is listed anew: a server that was restored from a backup does
not know the version that we saw last, and says so in several ways."""
_PASSING = (ClusterUnreachable, ClusterBusy, ViewExpired)
_NOT_PASSING = 3

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T]):
    """What is mirrored: `decode` gives an object's value, or None for one that does not count.

    `resource` is the name that rights have, e.g. `pods`; `prefix` the path of group and version.
    """

    resource: str
    prefix: str
    decode: Callable[[msgspec.Raw], T | None]
    labels: str = ""
    metadata_only: bool = False

    def path(self, namespace: str | None) -> str:
        """Return the collection's path."""
        scope = "" if namespace is None else f"/namespaces/{namespace}"
        return f"{self.prefix}{scope}/{self.resource}"

    def accept(self, kind: str) -> str:
        """Return the media type to ask for."""
        return METADATA_ONLY.format(kind) if self.metadata_only else "application/json"


class Reflector(Generic[T]):
    """Holds what there is of a kind in a namespace (`None`: in all of them)."""

    def __init__(
        self,
        kind: Kind[T],
        namespace: str | None,
        link: Link,
        *,
        changed: Callable[[Key, T | None], None],
    ) -> None:
        """Hold nothing yet. `changed` is told each new value, and None of what went."""
        self.kind = kind
        self.namespace = namespace
        self.held: dict[Key, T] = {}
        self.seen_at: Seconds | None = None
        """When the mirror was last known to be true; None before the first list."""
        self.odd: set[Key] = set()
        """What is there and could not be decoded when it was last told of."""
        self.fault: Exception | None = None
        self.unwatchable = False
        """Whether it may be listed, but not watched."""
        self.refused_at: Seconds | None = None
        """When a right was last found to be missing."""
        self._link = link
        self._patience = Patience(link.clock, link.settings.denied_every, link.recall)
        self._changed = changed
        self._position: str | None = None
        self._failures = 0
        self._told = ""

    @property
    def denied(self) -> bool:
        """Say whether the right to list is missing."""
        return isinstance(self.fault, RightMissing)

    @property
    def trouble(self) -> str:
        """Say what is wrong; nothing is, while a watch was only cut once or twice."""
        if self.fault is None or (
            isinstance(self.fault, _PASSING) and self._failures < _NOT_PASSING
        ):
            return ""
        return str(self.fault) or type(self.fault).__name__

    async def run(self) -> None:
        """Mirror until cancelled; whatever fails is tried again."""
        while True:
            await self._patience.until_done(self._step, self._failed)

    async def _step(self) -> None:
        if self._position is None:
            await self._list()
            return
        try:
            await self._watch()
        except RightMissing as error:
            if not self.unwatchable:
                self._log(f"may not watch: {error}")
            self.unwatchable = True
            self.refused_at = self._link.clock.now()
            self._position = None
            await self._patience.pause_or_recall(self._link.settings.poll_every)

    def _failed(self, error: Exception) -> None:
        refused_before = isinstance(self.fault, RightMissing | ClusterMissing)
        # After a refusal the view is missed already: no failure is passing.
        self._failures = max(self._failures + 1, _NOT_PASSING if refused_before else 0)
        if isinstance(error, RightMissing):
            self.refused_at = self._link.clock.now()
        elif isinstance(error, ClusterUnreachable) and (refused_before or self._failures == 1):
            self._link.recall.call(self._link.clock.now())
        if isinstance(error, ViewExpired | ClusterAnswerInvalid) or self._failures >= _LOST_AFTER:
            self._position = None
        self.fault = error
        self._log(self.trouble, None if isinstance(error, ClusterError) else error)

    def _log(self, trouble: str, bug: Exception | None = None) -> None:
        """Log what is wrong, once for as long as it lasts."""
        if trouble and trouble != self._told:
            self._told = trouble
            _log.warning(
                "cluster-unread",
                resource=self.kind.resource,
                namespace=self.namespace,
                error=trouble,
                exc_info=bug,
            )

    def _proven(self) -> None:
        """Note that at this moment the mirror is true."""
        self.seen_at = self._link.clock.now()
        if self.denied:
            self._link.recall.call(self.seen_at)
        self.fault = None
        self._failures = 0
        self._told = ""

    async def _list(self) -> None:
        query = {"limit": str(self._link.settings.page)}
        if self.kind.labels:
            query["labelSelector"] = self.kind.labels
        found: dict[Key, T] = {}
        odd = set[Key]()
        asked_at = self._link.clock.now()
        while True:
            body = await self._link.api.get(
                self.kind.path(self.namespace),
                query,
                accept=self.kind.accept("PartialObjectMetadataList"),
            )
            page = decoded(Page, body)
            for item in page.items or ():
                key, value = self._read(item)
                if isinstance(value, ClusterAnswerInvalid):
                    odd.add(key)
                elif value is not None:
                    found[key] = value
            if not page.metadata.next:
                break
            query["continue"] = page.metadata.next
        self.odd = odd
        self._take(found)
        self._proven()
        self.seen_at = asked_at
        self._position = page.metadata.resource_version

    def _take(self, found: Mapping[Key, T]) -> None:
        """Replace all that is held, but for the last good view of what is odd now."""
        for key in [key for key in self.held if key not in found and key not in self.odd]:
            self._set(key, None)
        for key, value in found.items():
            self._set(key, value)

    def _set(self, key: Key, value: T | None) -> None:
        if self.held.get(key) == value:
            return
        if value is None:
            del self.held[key]
        else:
            self.held[key] = value
        self._changed(key, value)

    def _read(self, item: msgspec.Raw) -> tuple[Key, T | ClusterAnswerInvalid | None]:
        """Return an object's value, or why it cannot be decoded; the others are read all the same.

        It is of a version that we do not know, perhaps.
        """
        head = decoded(Head, item).metadata
        key = (head.namespace, head.name)
        try:
            return key, self.kind.decode(item)
        except ClusterAnswerInvalid as error:
            if key not in self.odd:
                _log.warning("object-unread", name="/".join(key), error=str(error))
            return key, error

    async def _watch(self) -> None:
        """Follow until the server ends the watch, as it is asked to after `watch_for` seconds."""
        lasts = self._link.settings.watch_for * random.uniform(0.8, 1.0)  # noqa: S311 - spreads load
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._position or "",
            "timeoutSeconds": str(max(1, round(lasts))),
        }
        if self.kind.labels:
            query["labelSelector"] = self.kind.labels
        began = time.monotonic()
        try:
            async with self._link.api.watching(
                self.kind.path(self.namespace),
                query,
                lasts=self._link.settings.watch_for + self._link.settings.grace,
                accept=self.kind.accept("PartialObjectMetadata"),
            ) as lines:
                if self.unwatchable:
                    self._link.recall.call(self._link.clock.now())
                self.unwatchable = False
                await self._follow(lines)
        except ClusterUnreachable:
            if time.monotonic() - began < _SHORTEST_WATCH:
                raise
            return  # it did its work before it was cut: go on from there at once
        if time.monotonic() - began < min(_SHORTEST_WATCH, lasts / 2):
            raise ClusterUnreachable("the API server ends its watches at once")

    async def _follow(self, lines: AsyncIterator[bytes]) -> None:
        """Hear all lines of a watch.

        That it was opened proves nothing: first come the events that were missed, or the word that
        they are too many. Only when those would be through is the mirror known to be true.
        """
        settled = asyncio.get_running_loop().call_later(self._link.settings.settle, self._proven)
        try:
            async for line in lines:
                self._hear(line)
                if settled.when() <= asyncio.get_running_loop().time():
                    self._proven()
        finally:
            settled.cancel()

    def _hear(self, line: bytes) -> None:
        event = decoded(Event, line)
        if event.type == "ERROR":
            status = decoded(Status, event.object)
            if status.code == _EXPIRED:
                raise ViewExpired("the watch fell too far behind")
            raise ClusterUnreachable(f"the API server ended a watch with {status.code}")
        if event.type == "BOOKMARK":
            self._move_to(decoded(Head, event.object).metadata.resource_version)
            return
        head = decoded(Head, event.object).metadata
        if event.type == "DELETED":
            key = (head.namespace, head.name)
            self.odd.discard(key)
            self._set(key, None)
        else:
            self._change(*self._read(event.object))
        self._position = head.resource_version

    def _change(self, key: Key, value: T | ClusterAnswerInvalid | None) -> None:
        """Take an object over; of what cannot be decoded the last good view stays."""
        if isinstance(value, ClusterAnswerInvalid):
            self.odd.add(key)
            return
        self.odd.discard(key)
        self._set(key, value)

    def _move_to(self, version: str) -> None:
        """Go on from a bookmark, unless it lies before what we saw.

        Then the cluster was restored from a backup, and would tell us nothing until it has caught
        up with our version.
        """
        position = self._position or ""
        if version.isdecimal() and position.isdecimal() and int(version) < int(position):
            raise ViewExpired("the cluster went back to an older version")
        self._position = version
