"""The bodies that the test API server answers with."""

from __future__ import annotations

import json

from aiohttp import web

from tests.kubernetes_server.resources import Json, Resource, at, section, selector_text
from tests.kubernetes_server.store import Change


def status(
    code: int, reason: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    """Answer with a Kubernetes `Status`."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.json_response(body, status=code, headers=headers)


def resource_list(found: list[Resource]) -> web.Response:
    """Answer discovery of one group and version."""
    rows: list[Json] = []
    for resource in found:
        rows.append({"name": resource.plural, "kind": resource.kind, "namespaced": True})
        if resource.selector is not None:
            rows.append({"name": f"{resource.plural}/scale", "kind": "Scale"})
    version = found[0].api_version
    return web.json_response(
        {"kind": "APIResourceList", "groupVersion": version, "resources": rows}
    )


def object_list(resource: Resource, meta: Json, bodies: list[bytes], *, slim: bool) -> bytes:
    """Write a list of encoded objects."""
    kind = "PartialObjectMetadata" if slim else resource.kind
    head = {"kind": f"{kind}List", "apiVersion": resource.api_version, "metadata": meta}
    items = [slimmed(body) for body in bodies] if slim else bodies
    return json.dumps(head).encode()[:-1] + b',"items":[' + b",".join(items) + b"]}"


def slimmed(body: bytes) -> bytes:
    """Return the PartialObjectMetadata of an encoded object."""
    return json.dumps(
        {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": json.loads(body)["metadata"],
        }
    ).encode()


def labels(body: bytes) -> dict[str, str]:
    """Return the labels of an encoded object."""
    found: dict[str, str] = json.loads(body)["metadata"].get("labels") or {}
    return found


def event(change: Change, *, slim: bool) -> bytes:
    """Write a line of a watch."""
    return line(change.type, slimmed(change.body) if slim else change.body)


def bookmark(resource: Resource, version: int) -> bytes:
    """Write a bookmark."""
    body = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
    }
    return line("BOOKMARK", json.dumps(body).encode())


def ended(code: int, reason: str) -> bytes:
    """Write the line that ends a watch for a reason: 410 sends the watcher back to a list."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": "resource version"}
    return line("ERROR", json.dumps(body).encode())


def line(kind: str, body: bytes) -> bytes:
    """Write one event."""
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"


def scale(resource: Resource, found: Json) -> Json:
    """Show an object as its subresource /scale; a zero is left out, as Go encodes it."""
    meta = found["metadata"]
    assert isinstance(meta, dict)
    asked, there = at(found, "spec.replicas"), at(found, "status.replicas")
    shown = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion")}
    state: Json = {"replicas": there or 0}
    if selector := selector_text(resource, found):
        state["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": {"replicas": asked} if asked else {},
        "status": state,
    }


def merged(found: Json, patch: Json) -> Json:
    """Apply a JSON merge patch."""
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = merged(section(found, key), value)
        else:
            found[key] = value
    return found


def owned(found: Json, patch: Json, manager: str) -> Json:
    """Note in `managedFields` who wrote what a patch sets; the others own that no more."""
    entries = section(found, "metadata").setdefault("managedFields", [])
    assert isinstance(entries, list)
    for entry in entries:
        merged(section(entry, "fieldsV1"), _fields(patch, None))
    ours = next((e for e in entries if e["manager"] == manager), None)
    if ours is None:
        ours = {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1"}
        entries.append(ours)
    merged(section(ours, "fieldsV1"), _fields(patch, {}))
    return found


def _fields(patch: Json, leaf: Json | None) -> Json:
    """Name a patch's fields as `fieldsV1` does; one that it takes away is none."""
    named: Json = {}
    for key, value in patch.items():
        inner = _fields(value, leaf) if isinstance(value, dict) else leaf
        named[f"f:{key}"] = inner if value is not None else None
    return named
