"""What rights that are missing, and granted again, do to the view and to what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.adapters.kubernetes.following import (
    QUICK,
    current,
    following,
    known,
    kubeconfig,
    until,
)
from tests.fakes.clock import FakeClock
from tests.kubernetes_server.objects import deployment, hpa, pod, scaled_object
from tests.kubernetes_server.resources import (
    DEPLOYMENTS,
    HPAS,
    PODS,
    SCALED_OBJECTS,
    Resource,
)
from tests.kubernetes_server.server import ApiServer


@pytest.mark.parametrize(
    ("denied", "verbs", "said", "count", "pods", "situation"),
    [
        (HPAS, ("list", "watch"), "bounds and tolerance are taken from", 3, True, True),
        (SCALED_OBJECTS, ("list", "watch"), "pauses, fallback, zero", 3, True, False),
        (PODS, ("list", "watch"), "may not list pods in llm: a replica", 3, False, True),
        (DEPLOYMENTS, ("list", "watch"), "counts are read one by one", 3, True, True),
        (HPAS, ("watch",), "may not watch horizontalpodautoscalers", 3, True, True),
        (SCALED_OBJECTS, ("watch",), "may not watch scaledobjects", 3, True, True),
        (PODS, ("watch",), "may not watch pods in llm", 3, True, True),
        (DEPLOYMENTS, ("watch",), "may not watch deployments", 3, True, True),
    ],
)
async def test_a_right_that_is_missing_costs_what_is_said_and_no_more(
    server: ApiServer,
    config: Path,
    denied: Resource,
    verbs: tuple[str, ...],
    said: str,
    count: int,
    *,
    pods: bool,
    situation: bool,
) -> None:
    """One sentence names it; what can be known is known, and all of it once it is granted."""
    server.faults.deny(denied, *verbs)
    async with following(config) as cluster:
        await until(lambda: [fault for fault in cluster.faults if said in fault])
        await until(lambda: current(cluster) == count)
        await until(lambda: (cluster.pods("llm", "chat") is not None) == pods)
        await until(lambda: (cluster.situation("llm", "chat") is not None) == situation)
        assert len(cluster.faults) == 1
        server.store.put(deployment("chat", replicas=5))
        await until(lambda: current(cluster) == 5)
        server.faults.allow(denied, *verbs)
        await until(lambda: known(cluster) and cluster.faults == ())


async def test_without_the_right_to_scale_the_hpa_tells_the_count(
    server: ApiServer, config: Path
) -> None:
    """Late, and without the selector there are no pods to be found."""
    server.faults.deny(DEPLOYMENTS, "get", subresource="scale")
    server.store.put(hpa("chat", current=3))
    async with following(config) as cluster:
        await until(lambda: current(cluster) == 3)
        assert cluster.pods("llm", "chat") is None
        server.store.put(hpa("chat", current=4))
        await until(lambda: current(cluster) == 4)
        (fault,) = cluster.faults
        assert fault.startswith("may not read deployments/scale in all namespaces")
        server.faults.allow(DEPLOYMENTS, "get", subresource="scale")
        server.store.put(deployment("chat", replicas=6))
        await until(lambda: current(cluster) == 6)
        await until(lambda: known(cluster) and cluster.faults == ())


async def test_denied_counts_are_not_asked_for_one_by_one(server: ApiServer, config: Path) -> None:
    """Hundreds of refusals in a row would help nobody: one asks for all."""
    for number in range(50):
        server.store.put(deployment(f"m{number}"))
        server.store.put(scaled_object(f"m{number}"))
    server.faults.deny(DEPLOYMENTS, "get", subresource="scale")
    async with following(config, replace(QUICK, denied_every=60.0)) as cluster:
        await until(lambda: server.count("watch", "/deployments") >= 3)
        assert 0 < server.count("get", "/scale") <= 16
        assert current(cluster, "m0") is None


async def test_some_namespaces_only(server: ApiServer, config: Path) -> None:
    """With Roles in two namespaces no other is asked about, and nothing is asked cluster-wide."""
    for namespace in ("one", "two"):
        server.store.put(deployment("m", replicas=2, namespace=namespace))
        server.store.put(hpa("m", namespace=namespace))
        server.store.put(pod("m-0", of="m", namespace=namespace))
        server.store.put(scaled_object("m", namespace=namespace))
    server.faults.only_in = frozenset({"one", "two"})
    async with following(config, replace(QUICK, namespaces=("one", "two"))) as cluster:
        for namespace in ("one", "two"):
            await until(lambda: cluster.pods(namespace, "m"))  # noqa: B023
            await until(lambda: cluster.situation(namespace, "m"))  # noqa: B023
        assert cluster.scale("llm", "chat") is None
        assert cluster.faults == ()


async def test_a_missing_cluster_role_names_the_cure(server: ApiServer, config: Path) -> None:
    """Who has Roles only must name the namespaces."""
    server.faults.only_in = frozenset({"llm"})
    async with following(config) as cluster:
        await until(lambda: len(cluster.faults) == 2)
        assert all("or name the namespaces" in fault for fault in cluster.faults)


async def test_keda_that_is_not_installed_is_named(server: ApiServer, config: Path) -> None:
    """Its kind is unknown to the API server."""
    del server.store.resources[SCALED_OBJECTS.prefix, SCALED_OBJECTS.plural]
    async with following(config) as cluster:
        await until(lambda: any("is KEDA, or the CRD, installed?" in f for f in cluster.faults))
        server.store.define(SCALED_OBJECTS)
        await until(lambda: known(cluster))


async def test_a_rotated_token_is_read_anew(server: ApiServer, tmp_path: Path) -> None:
    """401 is answered with the credentials of now, and no sentence ever holds them."""
    server.faults.token = "first-token"
    path = kubeconfig(tmp_path, server, token="first-token")
    async with following(path) as cluster:
        await until(lambda: known(cluster))
        server.faults.token = "second-token"
        server.drop_watches()
        await until(lambda: any("answered 401" in fault for fault in cluster.faults))
        assert not any("-token" in fault for fault in cluster.faults)
        kubeconfig(tmp_path, server, token="second-token")
        server.store.put(deployment("chat", replicas=8))
        await until(lambda: current(cluster) == 8)
        await until(lambda: cluster.faults == ())


# --- rights that are granted again, and outages while one is missing ------------------------------

SELDOM = replace(QUICK, poll_every=10.0, denied_every=1e6)
"""What was refused is not tried again by itself for as long as a test lasts."""


async def test_one_right_that_is_granted_has_the_others_tried_at_once(
    server: ApiServer, config: Path
) -> None:
    """One role grants them all; until then each sentence says when it was last true."""
    clock = FakeClock()
    server.faults.deny(HPAS, "list")
    async with following(config, replace(QUICK, denied_every=30.0), clock) as cluster:
        await until(lambda: known(cluster) and len(cluster.faults) == 1)
        await clock.advance(15.0)
        server.faults.deny(PODS, "list")
        server.store.put(deployment("late", namespace="late"))
        server.store.put(scaled_object("late", namespace="late"))
        await until(lambda: len(cluster.faults) == 2)
        await clock.advance(14.0)
        hpas, pods = cluster.faults
        assert "(refused 29 s ago, tried every 30 s: grant list and watch" in hpas
        assert "(refused 14 s ago, tried every 30 s: grant list and watch" in pods
        server.faults.allow(HPAS, "list")
        server.faults.allow(PODS, "list")
        await clock.advance(1.0)
        await until(lambda: cluster.faults == ())


async def test_an_outage_is_not_told_as_a_right_to_list_that_is_missing(
    server: ApiServer, config: Path
) -> None:
    """As soon as another view finds nobody there, whoever was refused asks and finds the same."""
    clock = FakeClock()
    server.faults.deny(HPAS, "list")
    async with following(config, SELDOM, clock) as cluster:
        await until(lambda: known(cluster) and len(cluster.faults) == 1)
        await clock.advance(2.0)
        await server.stop()
        await until(lambda: any("cannot be reached" in f and "horiz" in f for f in cluster.faults))
        assert not any("may not" in fault for fault in cluster.faults)
        await server.start()
        await until(
            lambda: any("may not list horiz" in fault for fault in cluster.faults),
            lambda: clock.advance(0.5),
        )
        await until(lambda: len(cluster.faults) == 1, lambda: clock.advance(0.5))


async def test_an_outage_is_not_told_as_a_right_to_watch_that_is_missing(
    server: ApiServer, config: Path
) -> None:
    """What is polled is tried at once, too."""
    clock = FakeClock()
    server.faults.deny(PODS, "watch")
    async with following(config, replace(SELDOM, poll_every=1e6), clock) as cluster:
        await until(lambda: known(cluster) and len(cluster.faults) == 1)
        await clock.advance(2.0)
        await server.stop()
        await until(
            lambda: any("cannot be reached" in f and "(pods" in f for f in cluster.faults),
            lambda: clock.advance(0.5),
        )
        assert not any("may not" in fault for fault in cluster.faults)


async def test_an_outage_is_not_told_as_a_right_to_scale_that_is_missing(
    server: ApiServer, config: Path
) -> None:
    """The counts, which are asked for by other means, follow suit."""
    clock = FakeClock()
    server.faults.deny(DEPLOYMENTS, "get", subresource="scale")
    async with following(config, SELDOM, clock) as cluster:
        await until(lambda: any("may not read deployments/scale" in f for f in cluster.faults))
        await until(lambda: server.watching == 3)
        await clock.advance(2.0)
        await server.stop()
        await until(
            lambda: any("deployments/scale cannot be read" in fault for fault in cluster.faults),
            lambda: clock.advance(0.5),
        )
        assert not any("may not" in fault for fault in cluster.faults)


async def test_a_clock_that_is_set_back_makes_no_refusal_last(
    server: ApiServer, config: Path
) -> None:
    """A refusal from the future is tried again at once, and not when the clock has caught up."""
    clock = FakeClock()
    server.faults.deny(DEPLOYMENTS, "get", subresource="scale")
    async with following(config, replace(QUICK, denied_every=30.0), clock) as cluster:
        await until(lambda: any("may not read deployments/scale" in f for f in cluster.faults))
        server.faults.allow(DEPLOYMENTS, "get", subresource="scale")
        clock.set(clock.now() - 3600.0)
        await until(lambda: known(cluster) and cluster.faults == (), lambda: clock.advance(0.5))
