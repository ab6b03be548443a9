"""A ScaledObject may hold any text as its scale target: none leads to another path of the API."""

from __future__ import annotations

import pytest

from scaler.adapters.clock import WallClock
from scaler.adapters.kubernetes_api import KubernetesApi, Link
from scaler.adapters.kubernetes_cluster import KubernetesCluster
from scaler.adapters.kubernetes_selectors import Target
from scaler.adapters.kubernetes_targets import ScaleTargets
from tests.adapters.kubernetes.following import QUICK, until
from tests.kubernetes_server.objects import deployment, scaled_object
from tests.kubernetes_server.server import ApiServer

NAMES = ["..", ".", "../../secrets/x", "a/b", "a?x=1", "a#b", "a%2fb", "", "A", "a\n", "ä", "-a"]
KINDS = ["../../../../v1/namespaces/other/pods/x?", "Deployment/x", "..", "", "a b", "Ä", "x" * 64]
VERSIONS = ["../v1", "apps/v1/../x", "apps/v1?", "", "apps/", "a/b/v1", "http://evil/v1", "v1\n"]

_TARGETS = [
    *(Target("llm", "apps/v1", "Deployment", name) for name in NAMES),
    *(Target("llm", "apps/v1", kind, "chat") for kind in KINDS),
    *(Target("llm", version, "Deployment", "chat") for version in VERSIONS),
]


@pytest.mark.parametrize("hostile", _TARGETS, ids=repr)
async def test_what_can_be_no_target_is_never_asked_for(hostile: Target) -> None:
    """It is not followed, so its count is not known; the others are."""
    honest = Target("llm", "apps/v1", "Deployment", "chat-0.b")
    targets = ScaleTargets(
        Link(api=KubernetesApi(QUICK), settings=QUICK, clock=WallClock()), changed=lambda: None
    )
    targets.want([hostile, honest])
    assert list(targets.kinds) == [("apps/v1", "Deployment")]
    assert list(targets._followed) == [honest]  # noqa: SLF001
    assert targets.counted(hostile) is None


async def test_no_request_leaves_the_paths_that_are_meant(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Over a real socket: dots in names are folded away on the way, and would name another path."""
    for number, name in enumerate(["..", ".", "../../../../namespaces/other/deployments/x"]):
        server.store.put(scaled_object(f"evil-{number}", target=name))
    for number, kind in enumerate(KINDS):
        server.store.put(scaled_object(f"odd-{number}", target="chat", kind=kind or None))
    server.store.put(scaled_object("marker"))
    server.store.put(deployment("marker", replicas=7))
    await until(lambda: (found := cluster.scale("llm", "marker")) and found.current == 7)
    asked = {seen.path for seen in server.seen if seen.path.endswith("/scale")}
    assert asked <= {
        f"/apis/apps/v1/namespaces/llm/deployments/{name}/scale" for name in ("chat", "marker")
    }
    assert cluster.scale("llm", "evil-0") is None
