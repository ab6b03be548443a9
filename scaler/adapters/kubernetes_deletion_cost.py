"""A pod's deletion cost, written as the annotation that its Deployment's controller looks at."""

from __future__ import annotations

import json

from scaler.adapters.kubernetes_api import KubernetesApi
from scaler.adapters.kubernetes_writes import MERGE_PATCH, translated

ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
_LOSS = "a scale-in may remove a busy replica before an idle one"


class KubernetesDeletionCosts:
    """Fulfils the port `DeletionCosts`."""

    def __init__(self, api: KubernetesApi) -> None:
        """Write through this session, which somebody else opens."""
        self._api = api

    async def write(self, namespace: str, pod: str, cost: int | None) -> None:
        """Write the annotation, or take it away; see the port."""
        value = None if cost is None else str(cost)
        body = {"metadata": {"annotations": {ANNOTATION: value}}}
        with translated("pods' deletion costs", _LOSS, "patch on pods"):
            await self._api.send(
                "PATCH",
                f"/api/v1/namespaces/{namespace}/pods/{pod}",
                json.dumps(body).encode(),
                content_type=MERGE_PATCH,
            )
