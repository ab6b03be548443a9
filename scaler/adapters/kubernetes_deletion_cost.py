"""A pod's deletion cost, written as the annotation that its Deployment's controller looks at.

The API server notes who wrote a field (`metadata.managedFields`). That tells our costs from those
of others, whatever their values, also on pods of which we know nothing else.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from scaler.adapters.kubernetes_api import KubernetesApi
from scaler.adapters.kubernetes_objects import Fields, ManagedFields, Page, PodAnnotations, decoded
from scaler.adapters.kubernetes_pods import PODS, deletion_cost
from scaler.adapters.kubernetes_reflector import METADATA_ONLY
from scaler.adapters.kubernetes_settings import KubernetesSettings
from scaler.adapters.kubernetes_writes import MERGE_PATCH, translated
from scaler.control.ports import MarkedPod
from scaler.core.deletion_cost import is_ours

ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
MANAGER = "vllm-keda-scaler"
_FIELD = f'"f:{ANNOTATION}"'.encode()
_COSTS = "pods' deletion costs"
_LOSS = "a scale-in may remove a busy replica before an idle one"
_STAYS = f"they stay until `kubectl annotate pods NAME {ANNOTATION}-`"
_UNSEEN = "those of workloads that are gone are not found"


class _Meta(Fields, frozen=True):
    name: str
    namespace: str
    deletion_timestamp: datetime | None = None
    annotations: PodAnnotations | None = None
    managed_fields: list[ManagedFields] | None = None


class _PodHead(Fields, frozen=True):
    metadata: _Meta


def _unknown(namespace: str) -> None:
    del namespace


class KubernetesDeletionCosts:
    """Fulfils the port `DeletionCosts`."""

    def __init__(
        self,
        api: KubernetesApi,
        settings: KubernetesSettings | None = None,
        pods_in: Callable[[str], frozenset[str] | None] = _unknown,
    ) -> None:
        """Write through this session, which somebody else opens.

        `pods_in` returns the pods in a namespace that are of a workload; None if not known.
        """
        self._api = api
        self._settings = settings or KubernetesSettings()
        self._pods_in = pods_in

    async def write(self, namespace: str, pod: str, cost: int | None) -> None:
        """Write the annotation, or take it away; see the port."""
        value = None if cost is None else str(cost)
        body = {"metadata": {"annotations": {ANNOTATION: value}}}
        with translated(_COSTS, _LOSS if cost is not None else _STAYS, "patch on pods"):
            await self._api.send(
                "PATCH",
                f"/api/v1/namespaces/{namespace}/pods/{pod}",
                json.dumps(body).encode(),
                content_type=MERGE_PATCH,
                query={"fieldManager": MANAGER},
            )

    async def marked(self) -> list[MarkedPod]:
        """Read all pods' metadata, page by page; see the port."""
        with translated(_COSTS, _UNSEEN, "list on pods"):
            found = [
                (meta.namespace, meta.name)
                for scope in self._settings.scopes
                async for meta in self._metas(scope)
                if _is_marked(meta)
            ]
        placed = {namespace: self._pods_in(namespace) for namespace, _ in found}
        return [
            MarkedPod(namespace, name, stray=known is not None and name not in known)
            for namespace, name in found
            for known in (placed[namespace],)
        ]

    async def _metas(self, scope: str | None) -> AsyncIterator[_Meta]:
        query = {"limit": str(self._settings.page)}
        accept = METADATA_ONLY.format("PartialObjectMetadataList")
        while True:
            page = decoded(Page, await self._api.get(PODS.path(scope), query, accept=accept))
            for item in page.items or ():
                yield decoded(_PodHead, item).metadata
            if not page.metadata.next:
                return
            query["continue"] = page.metadata.next


def _is_marked(meta: _Meta) -> bool:
    return (
        meta.deletion_timestamp is None
        and is_ours(deletion_cost(meta.annotations))
        and any(
            entry.manager == MANAGER and _FIELD in bytes(entry.fields_v1)
            for entry in meta.managed_fields or ()
        )
    )
