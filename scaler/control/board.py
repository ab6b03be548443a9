"""The board: one immutable snapshot of every workload's latest decision, for whoever shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from scaler.control.archive import Archive
from scaler.core.decision import Decision
from scaler.core.diagnosis_finding import Diagnosis
from scaler.core.policy import Policy
from scaler.core.reading import ReplicaReading
from scaler.core.units import Seconds
from scaler.core.workload import Selection, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """What the board says of one workload.

    `trouble` is what the source last said went wrong (`None` while it is well), `fault` what the
    server's configuration no longer supports of the trigger: the last valid policy stays.
    `query_fault` is what the trigger's own queries last failed with.
    `diagnosis` is None only where making it failed; `replicas` are those that reported last.
    """

    key: WorkloadKey
    policy: Policy
    selection: Selection
    decision: Decision
    trouble: str | None = None
    fault: str | None = None
    query_fault: str | None = None
    diagnosis: Diagnosis | None = None
    replicas: tuple[ReplicaReading, ...] = ()

    @property
    def complaint(self) -> str | None:
        """Return what source and own queries last failed with; None while both are well."""
        return "; ".join(each for each in (self.trouble, self.query_fault) if each) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything on the board at one moment; `at` is the newest tick that any of it rests on."""

    at: Seconds = 0.0
    postings: Mapping[WorkloadKey, Posting] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, namespace: str, name: str) -> list[Posting]:
        """Return the postings of one ScaledObject, the newest decision first."""
        found = [p for k, p in self.postings.items() if (k.namespace, k.name) == (namespace, name)]
        return sorted(found, key=lambda p: (-p.decision.at, p.key.trigger))


class Board:
    """Holds the newest snapshot and tells watchers when a workload's activity changes.

    `archive` is what it has shown in the last day.

    All methods belong to the event loop's thread; `snapshot` may be read from anywhere.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.archive = Archive()
        self._snapshot = Snapshot()
        self._postings: dict[WorkloadKey, Posting] = {}
        self._watchers: dict[WorkloadKey, set[asyncio.Event]] = {}
        self._closed = False

    @property
    def snapshot(self) -> Snapshot:
        """Return the newest snapshot; it never changes, the next one replaces it."""
        return self._snapshot

    @property
    def watchers(self) -> int:
        """Count those who wait for a change."""
        return sum(len(waiting) for waiting in self._watchers.values())

    def post(
        self, at: Seconds, postings: Mapping[WorkloadKey, Posting], gone: frozenset[WorkloadKey]
    ) -> None:
        """Replace the given postings, drop those that are gone and keep all others."""
        before = self._snapshot.postings
        # Copied as a whole: a tick posts many times, and going over all keys adds up to seconds.
        merged = self._postings.copy()
        for key in gone:
            merged.pop(key, None)
        merged.update(postings)
        self._postings = merged
        self._snapshot = Snapshot(at=max(at, self._snapshot.at), postings=MappingProxyType(merged))
        for key, posting in postings.items():
            old = before.get(key)
            if old is None or _activity(old) != _activity(posting):
                self._wake(key)

    async def activations(self, key: WorkloadKey) -> AsyncIterator[None]:
        """Yield when the workload is found active, then at each change from inactive to active.

        An active workload that has come to zero is told of, too: it has to be woken.
        Ends when the board closes. What is neither active nor inactive changes nothing.
        """
        changed = asyncio.Event()
        self._watchers.setdefault(key, set()).add(changed)
        active = at_zero = False
        try:
            while not self._closed:
                posting = self._snapshot.postings.get(key)
                known, zero = _activity(posting) if posting is not None else (None, False)
                if known and (not active or (zero and not at_zero)):
                    yield
                if known is not None:
                    active, at_zero = known, zero
                await changed.wait()
                changed.clear()
        finally:
            self._forget(key, changed)

    async def until_closed(self) -> None:
        """Return when the board closes: what a stream without news waits for."""
        changed = asyncio.Event()
        nobody = WorkloadKey(namespace="", name="", trigger="")
        self._watchers.setdefault(nobody, set()).add(changed)
        try:
            while not self._closed:
                await changed.wait()
                changed.clear()
        finally:
            self._forget(nobody, changed)

    def close(self) -> None:
        """Let every watcher end in peace; the snapshot stays readable."""
        self._closed = True
        for key in list(self._watchers):
            self._wake(key)

    def _wake(self, key: WorkloadKey) -> None:
        for changed in self._watchers.get(key, ()):
            changed.set()

    def _forget(self, key: WorkloadKey, changed: asyncio.Event) -> None:
        with suppress(KeyError):
            self._watchers[key].discard(changed)
            if not self._watchers[key]:
                del self._watchers[key]


def _activity(posting: Posting) -> tuple[bool | None, bool]:
    """Say whether a workload is active, and whether it is at zero."""
    return posting.decision.active, posting.decision.current == 0
