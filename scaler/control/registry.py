"""Which workloads there are: each registers at its first RPC and is forgotten after its last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from scaler.config.trigger import Resolved, Trigger, TriggerUnresolved, parse_trigger
from scaler.core.units import Seconds
from scaler.core.workload import WorkloadKey

FORGOTTEN_AFTER: Seconds = 1800.0
"""A workload that nobody has asked for this long is forgotten."""

GONE_AFTER: Seconds = 60.0
"""And so is one that nobody has asked for this long, and whose ScaledObject is known to be gone."""

_PARSED_AT_MOST, _PARSED_SIZE = 25_000, 2048


class RegistryFull(Exception):
    """More workloads than the server is set to hold; the message says how many."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """One registered workload.

    `resolved` is its last valid policy and selection; `fault` says what the server's present
    configuration does not support, while the last valid policy stays in force.
    """

    key: WorkloadKey
    trigger: Trigger
    registered_at: Seconds
    asked_at: Seconds
    resolved: Resolved | None = None
    fault: str | None = None
    streams: int = 0
    watched: bool = False


class Registry:
    """Keeps the workloads, and tells of new ones so that they need not wait for a tick."""

    def __init__(
        self,
        resolve: Callable[[Trigger], Resolved],
        now: Callable[[], Seconds],
        at_most: int = 20_000,
    ) -> None:
        """Start empty; `resolve` fills a trigger from the server's configuration."""
        self._resolve = resolve
        self._now = now
        self._at_most = at_most
        self._entries: dict[WorkloadKey, Entry] = {}
        self._parsed: dict[tuple[str, str, frozenset[tuple[str, str]]], Trigger] = {}
        self._notify: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        """Count the workloads."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Go over the workloads."""
        return iter(list(self._entries.values()))

    def get(self, key: WorkloadKey) -> Entry | None:
        """Return a workload's entry."""
        return self._entries.get(key)

    def on_new(self, notify: Callable[[], None]) -> None:
        """Say whom to tell of a new workload."""
        self._notify = notify

    def ask(self, namespace: str, name: str, metadata: Mapping[str, str]) -> Entry:
        """Return the workload of a request, registering it at its first.

        Raises TriggerInvalid for faulty metadata (a pure function of the metadata) and
        RegistryFull. What only the server's configuration lacks is kept as `fault`.
        """
        trigger = self._parse(namespace, name, metadata)
        now = self._now()
        entry = self._entries.get(trigger.key)
        if entry is None:
            if len(self._entries) >= self._at_most:
                raise RegistryFull(
                    f"{namespace}/{name}: the scaler already holds {self._at_most} workloads; "
                    "raise maxWorkloads or run another scaler"
                )
            entry = Entry(key=trigger.key, trigger=trigger, registered_at=now, asked_at=now)
            self._entries[trigger.key] = entry
            self._fill(entry)
            self._notify()
        entry.asked_at = now
        return entry

    def resolved(self, namespace: str, name: str, metadata: Mapping[str, str]) -> Resolved:
        """Return what a trigger with this metadata would be; nothing is registered.

        Raises TriggerInvalid and TriggerUnresolved.
        """
        return self._resolve(parse_trigger(namespace, name, metadata))

    def watch(self, triggers: Iterable[Trigger]) -> None:
        """Keep exactly these workloads without anybody asking for them, besides those asked for."""
        wanted = {trigger.key: trigger for trigger in triggers}
        now = self._now()
        for entry in self._entries.values():
            entry.watched = entry.key in wanted
        for key, trigger in wanted.items():
            if key not in self._entries:
                entry = Entry(
                    key=key, trigger=trigger, registered_at=now, asked_at=now, watched=True
                )
                self._entries[key] = entry
                self._fill(entry)
        self._notify()

    def reload(self, resolve: Callable[[Trigger], Resolved]) -> None:
        """Resolve every trigger anew; where that fails, what was valid stays."""
        self._resolve = resolve
        for entry in self._entries.values():
            self._fill(entry)
        self._notify()

    def forget_idle(
        self, now: Seconds, is_gone: Callable[[str, str], bool] = lambda _namespace, _name: False
    ) -> frozenset[WorkloadKey]:
        """Forget the workloads that nobody asks for and return them.

        An open stream is asking, and what the server's configuration watches stays. `is_gone` says
        of a namespace and a name whether there is known to be no such ScaledObject.
        """
        idle = [
            key
            for key, entry in self._entries.items()
            if not (entry.streams or entry.watched)
            and (silent_for := now - entry.asked_at) > GONE_AFTER
            and (silent_for > FORGOTTEN_AFTER or is_gone(key.namespace, key.name))
        ]
        for key in idle:
            del self._entries[key]
        return frozenset(idle)

    def _parse(self, namespace: str, name: str, metadata: Mapping[str, str]) -> Trigger:
        known = (namespace, name, frozenset(metadata.items()))
        trigger = self._parsed.get(known)
        if trigger is None:
            trigger = parse_trigger(namespace, name, metadata)
            if len(self._parsed) >= _PARSED_AT_MOST:
                self._parsed.clear()
            if sum(len(key) + len(value) for key, value in metadata.items()) <= _PARSED_SIZE:
                self._parsed[known] = trigger
        return trigger

    def _fill(self, entry: Entry) -> None:
        try:
            entry.resolved = self._resolve(entry.trigger)
            entry.fault = None
        except TriggerUnresolved as error:
            entry.fault = str(error)
