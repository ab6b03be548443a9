"""What the test API server keeps: objects, their versions, and what happened since when."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.kubernetes_server.resources import KNOWN, Json, Resource, section

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch: `body` is the object as it then was, encoded."""

    version: int
    resource: Resource
    type: str
    namespace: str
    body: bytes


class Conflict(Exception):
    """Somebody wrote in the meantime, or the name is taken."""


class Store:
    """Objects by kind, namespace and name, with one growing resourceVersion over all of them."""

    def __init__(self) -> None:
        """Start empty, with the kinds that `resources.KNOWN` names."""
        self.version = 1000
        self.compacted = 0
        self.resources = {(r.prefix, r.plural): r for r in KNOWN}
        self.changes: list[Change] = []
        self.time = 1_000_000_000.0
        """What new objects are stamped with: epoch seconds. A test may move it."""
        self._objects: dict[Resource, dict[Key, Json]] = {}
        self._encoded: dict[Resource, dict[Key, bytes]] = {}
        self._told: set[asyncio.Event] = set()

    def define(self, resource: Resource) -> None:
        """Add a kind, as a CustomResourceDefinition would."""
        self.resources[resource.prefix, resource.plural] = resource

    def put(self, wanted: Json) -> Json:
        """Create the object or replace it: version, uid, times and generation are filled in.

        The generation rises when anything but metadata and status differs. Returns a copy.
        """
        resource = self.resource_of(wanted)
        found = copy.deepcopy(wanted)
        meta = section(found, "metadata")
        key = (str(meta.get("namespace", "")), str(meta["name"]))
        old = self._objects.setdefault(resource, {}).get(key)
        before = section(old, "metadata") if old is not None else {}
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        meta["uid"] = meta.get("uid") or before.get("uid") or f"uid-{self.version}"
        meta["creationTimestamp"] = (
            meta.get("creationTimestamp") or before.get("creationTimestamp") or stamp(self.time)
        )
        generation = before.get("generation", 0)
        assert isinstance(generation, int)
        meta["generation"] = generation + (old is None or _asked(old) != _asked(found))
        body = json.dumps(found, separators=(",", ":")).encode()
        self._objects[resource][key] = found
        self._encoded.setdefault(resource, {})[key] = body
        self._note("ADDED" if old is None else "MODIFIED", resource, key[0], body)
        return copy.deepcopy(found)

    def delete(self, resource: Resource, name: str, namespace: str = "llm") -> None:
        """Remove an object at once."""
        found = self._objects[resource].pop((namespace, name))
        del self._encoded[resource][namespace, name]
        self.version += 1
        section(found, "metadata")["resourceVersion"] = str(self.version)
        self._note("DELETED", resource, namespace, json.dumps(found).encode())

    def get(self, resource: Resource, name: str, namespace: str = "llm") -> Json:
        """Return a copy of an object. Raises KeyError."""
        return copy.deepcopy(self._objects.get(resource, {})[namespace, name])

    def has(self, resource: Resource, name: str, namespace: str = "llm") -> bool:
        """Say whether there is such an object."""
        return (namespace, name) in self._objects.get(resource, {})

    def listed(self, resource: Resource, namespace: str | None) -> Iterator[tuple[Key, bytes]]:
        """Go through the objects in the order of their keys, encoded."""
        encoded = self._encoded.get(resource, {})
        for key in sorted(encoded):
            if namespace is None or key[0] == namespace:
                yield key, encoded[key]

    def all_of(self, resource: Resource, namespace: str | None = None) -> list[Json]:
        """Return copies of all objects of a kind."""
        return [json.loads(body) for _, body in self.listed(resource, namespace)]

    def compact(self) -> None:
        """Forget what happened: whoever resumes from before now is told 410."""
        self.changes.clear()
        self.compacted = self.version

    def resource_of(self, found: Json) -> Resource:
        """Return the kind of an object. Raises KeyError."""
        for resource in self.resources.values():
            if (resource.api_version, resource.kind) == (found["apiVersion"], found["kind"]):
                return resource
        raise KeyError(found["kind"])

    def listen(self, heard: asyncio.Event) -> None:
        """Set the event at each change from now on."""
        self._told.add(heard)

    def listeners(self) -> list[asyncio.Event]:
        """Return the events that are set at each change."""
        return list(self._told)

    def unlisten(self, heard: asyncio.Event) -> None:
        """Stop that."""
        self._told.discard(heard)

    def _note(self, kind: str, resource: Resource, namespace: str, body: bytes) -> None:
        self.changes.append(Change(self.version, resource, kind, namespace, body))
        for heard in self._told:
            heard.set()


def stamp(epoch: float) -> str:
    """Write a time as Kubernetes does, whole seconds of UTC."""
    return datetime.fromtimestamp(epoch, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _asked(found: Json) -> Json:
    return {key: value for key, value in found.items() if key not in {"metadata", "status"}}
