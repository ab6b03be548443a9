"""Findings as Events on their ScaledObject: one Event for each kind, counted up as it recurs.

They are core/v1 Events, not events.k8s.io/v1, for two reasons. The message of a core Event may
change, and ours holds figures that do; a note of the newer API may not, so that each new figure
would be an Event of its own. And a count may be patched knowing no more than the Event's name, so
two scalers, or one that restarts, write to one Event without the right to read any. Both APIs show
the same objects, `kubectl describe` and `kubectl events` too.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from datetime import UTC, datetime

from scaler.adapters.kubernetes_api import KubernetesApi
from scaler.adapters.kubernetes_errors import ClusterConflict, ClusterMissing
from scaler.adapters.kubernetes_objects import Fields, decoded
from scaler.adapters.kubernetes_writes import MERGE_PATCH, translated
from scaler.control.ports import WriteFailed
from scaler.core.diagnosis_notice import Notice
from scaler.core.units import Seconds

_COMPONENT = "vllm-keda-scaler"
_MOST_COUNTED = 50_000
_COST = "findings are not shown by kubectl describe scaledobject"
_RIGHT = "create and patch on events"


class _Counted(Fields, frozen=True):
    count: int = 0


class KubernetesEvents:
    """Fulfils the port `Notices`."""

    def __init__(self, api: KubernetesApi) -> None:
        """Write through this session, which somebody else opens."""
        self._api = api
        self._counts: dict[str, int] = {}
        self._instance = os.environ.get("HOSTNAME") or socket.gethostname()

    async def tell(self, notice: Notice) -> None:
        """Write an Event, or count it up; see the port."""
        name = _name(notice)
        with translated("Events", _COST, _RIGHT):
            try:
                count = await self._told(notice, name)
            except ClusterMissing as error:
                raise WriteFailed(
                    f"Events could not be written: {_COST} (no namespace {notice.namespace})"
                ) from error
        if len(self._counts) >= _MOST_COUNTED:
            self._counts.clear()
        self._counts[name] = count

    async def _told(self, notice: Notice, name: str) -> int:
        known = self._counts.get(name)
        if known is not None:
            try:
                return await self._patch(notice, name, known + 1)
            except ClusterMissing:
                pass  # an Event lives for an hour
        try:
            await self._create(notice, name)
        except ClusterConflict:
            # Another scaler, or this one before it restarted, has told it: it is no second time.
            return await self._patch(notice, name, None)
        return 1

    async def _create(self, notice: Notice, name: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": notice.namespace},
            "involvedObject": {
                "apiVersion": "keda.sh/v1alpha1",
                "kind": "ScaledObject",
                "namespace": notice.namespace,
                "name": notice.name,
                **({"uid": notice.uid} if notice.uid else {}),
            },
            "type": "Warning",
            "reason": notice.reason,
            "message": notice.message,
            "source": {"component": _COMPONENT},
            "reportingComponent": _COMPONENT,
            "reportingInstance": self._instance[:128],
            "firstTimestamp": _written(notice.at),
            "lastTimestamp": _written(notice.at),
            "count": 1,
        }
        await self._api.send("POST", _path(notice), json.dumps(body).encode())

    async def _patch(self, notice: Notice, name: str, count: int | None) -> int:
        """Write the newest message and time, and the count where it is known; return the count."""
        body: dict[str, object] = {
            "message": notice.message,
            "lastTimestamp": _written(notice.at),
        }
        if count is not None:
            body["count"] = count
        answer = await self._api.send(
            "PATCH",
            f"{_path(notice)}/{name}",
            json.dumps(body).encode(),
            content_type=MERGE_PATCH,
        )
        return max(1, decoded(_Counted, answer).count)


def _name(notice: Notice) -> str:
    """Name the Event by what it is about, so that every scaler finds it again."""
    about = "\n".join([notice.uid or "", notice.namespace, notice.name, notice.reason])
    digest = hashlib.sha256(about.encode()).hexdigest()[:16]
    return f"{notice.name[:200]}.{digest}"


def _path(notice: Notice) -> str:
    return f"/api/v1/namespaces/{notice.namespace}/events"


def _written(at: Seconds) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
