"""The counts and selectors of the scale targets, through /scale, whatever kind they are of.

A target's metadata is watched, which is small and the same for every kind; when its generation
rises, somebody changed its spec, and /scale is read again. So a count is known within moments of
its change, and its age is that of the watch. HPA status, the other place that tells a count, is
late by up to two syncs of the autoscaler.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

import msgspec
import structlog

from scaler.adapters.kubernetes_api import Link
from scaler.adapters.kubernetes_errors import (
    ClusterError,
    ClusterMissing,
    RightMissing,
)
from scaler.adapters.kubernetes_objects import (
    ApiResources,
    ScaleObject,
    TargetObject,
    decoded,
)
from scaler.adapters.kubernetes_patience import Patience
from scaler.adapters.kubernetes_pods import GROUP_NAME, epoch
from scaler.adapters.kubernetes_reflector import Key, Kind, Reflector
from scaler.adapters.kubernetes_running import Running, Start
from scaler.adapters.kubernetes_selectors import Selector, Target, Term, parse_selector
from scaler.core.units import Seconds

_AT_ONCE = 16
_ATTEMPTS = 3
_SWEPT_EVERY: Seconds = 1.0
_API_VERSION = re.compile(r"(?:[a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?v[a-z0-9]+")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""What can be such in a cluster. A ScaledObject may hold any text, and a name may be no path."""
_GROUPED = "leaderworkerset.x-k8s.io/"

_log = structlog.get_logger(__name__)

KindName = tuple[str, str]
"""API version and kind."""


@dataclass(frozen=True, slots=True)
class TargetHead:
    """A target's metadata. `writers` are who last wrote the count, and when (epoch seconds)."""

    version: str
    generation: int
    writers: tuple[tuple[str, Seconds | None], ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """What /scale said. `selector` is None where it has none that can be used."""

    replicas: int
    selector: Selector | None


@dataclass(slots=True)
class _Followed:
    """A target: what was read, when, and since when that is known to be out of date."""

    counted: Counted | None = None
    generation: int | None = None
    read_at: Seconds | None = None
    due_since: Seconds | None = None
    tried_at: Seconds = 0.0


def target_head(item: msgspec.Raw) -> TargetHead:
    """Decode a target's PartialObjectMetadata. Raises ClusterAnswerInvalid."""
    meta = decoded(TargetObject, item).metadata
    writers = tuple(
        (entry.manager, epoch(entry.time))
        for entry in meta.managed_fields or ()
        if entry.subresource != "status" and b'"f:replicas"' in bytes(entry.fields_v1)
    )
    return TargetHead(meta.resource_version, meta.generation, writers)


@dataclass(slots=True)
class TargetKind:
    """A kind of scale targets: its plural once discovery told it, and a mirror of its metadata."""

    name: KindName
    plural: str | None = None
    fault: Exception | None = None
    scale_faults: dict[str, tuple[ClusterError, Seconds]] = field(default_factory=dict)
    """By namespace: why /scale cannot be read, and when that was last tried."""
    mirrors: dict[str | None, Reflector[TargetHead]] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """Return the path of its group and version."""
        version, _ = self.name
        return f"/apis/{version}" if "/" in version else f"/api/{version}"

    def mirror(self, namespace: str) -> Reflector[TargetHead] | None:
        """Return what mirrors a namespace."""
        return self.mirrors.get(namespace) or self.mirrors.get(None)

    def denied_at(self, namespace: str) -> Seconds | None:
        """Return when /scale was last found not to be ours to read; None where it is."""
        error, at = self.scale_faults.get(namespace, (None, None))
        return at if isinstance(error, RightMissing) else None


class ScaleTargets:
    """Follows the targets that it is told to."""

    def __init__(
        self,
        link: Link,
        *,
        changed: Callable[[], None],
    ) -> None:
        """Follow nothing yet. `changed` is called when a count, a selector or a writer changed."""
        self.kinds: dict[KindName, TargetKind] = {}
        self._link = link
        self._changed = changed
        self._patience = Patience(link.clock, link.settings.denied_every, link.recall)
        self._followed: dict[Target, _Followed] = {}
        self._due: set[Target] = set()
        self._queue: asyncio.Queue[Target] = asyncio.Queue()
        self._queued: set[Target] = set()
        self._running = Running[KindName]()

    def want(self, targets: Collection[Target]) -> None:
        """Follow these from now on, and no others."""
        for target in [target for target in self._followed if target not in targets]:
            del self._followed[target]
            self._due.discard(target)
        possible = [target for target in targets if _can_be(target)]
        new = [target for target in possible if target not in self._followed]
        names = {(target.api_version, target.kind) for target in possible}
        self.kinds = {name: self.kinds.get(name) or TargetKind(name) for name in names}
        for target in new:
            self._followed[target] = _Followed()
            self._mind(target)
        self._running.keep({name: self._follower(kind) for name, kind in self.kinds.items()})

    def counted(self, target: Target) -> tuple[Counted, Seconds] | None:
        """Return the count and as of when it is true; None where it was never read or is gone."""
        followed = self._followed.get(target)
        if followed is None or followed.counted is None or followed.read_at is None:
            return None
        mirror = self._mirror(target)
        if mirror is None or mirror.denied or mirror.seen_at is None:
            return followed.counted, followed.read_at
        as_of = max(mirror.seen_at, followed.read_at)
        return followed.counted, min(as_of, followed.due_since or as_of)

    def head(self, target: Target) -> TargetHead | None:
        """Return a target's metadata."""
        mirror = self._mirror(target)
        return mirror.held.get((target.namespace, target.name)) if mirror is not None else None

    def selectors(self) -> dict[Target, Selector]:
        """Return the selectors that are known."""
        return {
            target: followed.counted.selector
            for target, followed in self._followed.items()
            if followed.counted is not None and followed.counted.selector is not None
        }

    def scale_denied(self, target: Target) -> bool:
        """Say whether /scale of its kind may not be read."""
        kind = self._kind(target)
        return kind is not None and kind.denied_at(target.namespace) is not None

    def hint(self, target: Target) -> None:
        """Take note that a target's count probably changed: where it is only polled, read it."""
        if target in self._followed and self._is_polled(target):
            self._enqueue(target)

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._running.start_in(group)
            for _ in range(_AT_ONCE):
                group.create_task(self._work())
            try:
                while True:
                    await self._patience.pause(_SWEPT_EVERY)
                    self._sweep()
            finally:
                self._running.stop()

    def _follower(self, kind: TargetKind) -> Start:
        return lambda: self._follow(kind)

    async def _follow(self, kind: TargetKind) -> None:
        """Find out what a kind is called in paths, then mirror its objects."""

        def failed(error: Exception) -> None:
            kind.fault = error

        kind.plural = await self._patience.until_done(lambda: self._discover(kind), failed)
        kind.fault = None
        mirrored = Kind(
            resource=kind.plural, prefix=kind.prefix, decode=target_head, metadata_only=True
        )
        async with asyncio.TaskGroup() as group:
            for scope in self._link.settings.scopes:
                kind.mirrors[scope] = Reflector(
                    mirrored,
                    scope,
                    self._link,
                    changed=lambda key, head: self._heard(kind.name, key, head),
                )
                group.create_task(kind.mirrors[scope].run())

    async def _discover(self, kind: TargetKind) -> str:
        version, name = kind.name
        try:
            found = decoded(ApiResources, await self._link.api.get(kind.prefix))
        except RightMissing:
            return f"{name.lower()}s"  # which it nearly always is
        for resource in found.resources or ():
            if resource.kind == name and "/" not in resource.name:
                return resource.name
        raise ClusterMissing(f"{version} has no kind {name}")

    def _heard(self, name: KindName, key: Key, head: TargetHead | None) -> None:
        target = Target(key[0], *name, key[1])
        if target not in self._followed:
            return
        if head is None:
            self._followed[target] = _Followed()
            self._due.discard(target)
            self._changed()
        else:
            self._mind(target)

    def _mind(self, target: Target) -> None:
        """Read /scale if the spec has changed since, or had no selector yet."""
        followed, head = self._followed[target], self.head(target)
        if head is None:
            return
        counted = followed.counted
        if followed.generation == head.generation and counted is not None and counted.selector:
            return
        followed.due_since = followed.due_since or self._link.clock.now()
        self._due.add(target)
        self._enqueue(target)

    def _enqueue(self, target: Target) -> None:
        if target not in self._queued:
            self._queued.add(target)
            self._queue.put_nowait(target)

    def _sweep(self) -> None:
        """See to what is still due, and to what can only be polled."""
        now = self._link.clock.now()
        waiting = set(self._due)
        if any(mirror.denied for mirror in self.mirrors()):
            waiting.update(target for target in self._followed if self._is_polled(target))
        for target in waiting:
            tried_at = self._followed[target].tried_at
            recalled = self.scale_denied(target) and self._link.recall.since(tried_at, now)
            if recalled or not 0 <= now - tried_at < self._link.settings.poll_every:
                self._enqueue(target)

    def _is_polled(self, target: Target) -> bool:
        mirror = self._mirror(target)
        return mirror is not None and mirror.denied

    async def _work(self) -> None:
        while True:
            target = await self._queue.get()
            self._queued.discard(target)
            followed, kind = self._followed.get(target), self._kind(target)
            if followed is None or kind is None or kind.plural is None:
                continue
            denied_at = kind.denied_at(target.namespace)
            if denied_at is not None:
                # One tries for all; the others follow once it is let in.
                now = self._link.clock.now()
                waits = 0 <= now - denied_at < self._link.settings.denied_every
                if waits and not self._link.recall.since(denied_at, now):
                    continue
                kind.scale_faults[target.namespace] = (
                    kind.scale_faults[target.namespace][0],
                    self._link.clock.now(),
                )
            try:
                await self._read(target, followed, kind)
            except Exception:  # noqa: BLE001 - a fault of ours in one count must not end the others
                _log.exception("scale-unread", target=str(target))

    async def _read(self, target: Target, followed: _Followed, kind: TargetKind) -> None:
        asked_at = followed.tried_at = self._link.clock.now()
        head, before = self.head(target), followed.counted
        path = (
            f"{kind.prefix}/namespaces/{quote(target.namespace, safe='')}/{kind.plural}"
            f"/{quote(target.name, safe='')}/scale"
        )
        try:
            body = await self._patience.a_few_times(lambda: self._link.api.get(path), _ATTEMPTS)
            found = decoded(ScaleObject, body)
        except ClusterError as error:
            if isinstance(error, ClusterMissing):
                followed.counted = None
            if not isinstance(error, ClusterMissing) or head is not None:
                kind.scale_faults[target.namespace] = (error, asked_at)
        else:
            if kind.denied_at(target.namespace) is not None:
                self._link.recall.call(self._link.clock.now())
            kind.scale_faults.pop(target.namespace, None)
            followed.counted = Counted(found.spec.replicas, _selector(target, found))
            followed.read_at = asked_at
            followed.generation = head.generation if head is not None else None
            newer = self.head(target)
            if newer is None or newer.generation == followed.generation:
                followed.due_since = None
                self._due.discard(target)
        if followed.counted != before:
            self._changed()

    def _kind(self, target: Target) -> TargetKind | None:
        return self.kinds.get((target.api_version, target.kind))

    def _mirror(self, target: Target) -> Reflector[TargetHead] | None:
        kind = self._kind(target)
        return kind.mirror(target.namespace) if kind is not None else None

    def mirrors(self) -> Iterator[Reflector[TargetHead]]:
        """Go through the mirrors of all kinds."""
        for kind in self.kinds.values():
            yield from kind.mirrors.values()


def _can_be(target: Target) -> bool:
    return all(
        pattern.fullmatch(text) is not None
        for pattern, text in (
            (_API_VERSION, target.api_version),
            (_KIND, target.kind),
            (_NAME, target.name),
        )
    )


def _selector(target: Target, found: ScaleObject) -> Selector | None:
    if target.api_version.startswith(_GROUPED):
        # Its /scale selects the leaders alone; the groups' other pods matter as well.
        return (Term(GROUP_NAME, frozenset({target.name})),)
    return parse_selector(found.status.selector)
