"""What networks and API servers do to the view, and how the view comes through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.adapters.kubernetes_cluster import KubernetesCluster
from tests.adapters.kubernetes.following import QUICK, current, following, known, until
from tests.fakes.clock import FakeClock
from tests.kubernetes_server.objects import deployment, pod, scaled_object
from tests.kubernetes_server.resources import PODS
from tests.kubernetes_server.server import ApiServer


async def test_dropped_watches_go_on_where_they_were(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """What happened in between is heard, and nothing is listed again."""
    await until(lambda: server.watching == 4)
    lists = server.count("list", "/")
    server.drop_watches()
    server.store.put(deployment("chat", replicas=9))
    server.store.put(pod("chat-3", of="chat"))
    await until(lambda: current(cluster) == 9)
    await until(lambda: len(cluster.pods("llm", "chat") or ()) == 4)
    assert server.count("list", "/") == lists


async def test_a_version_too_old_to_go_on_from_means_a_new_list(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """410: what was deleted in between is found out by its absence."""
    await until(lambda: server.watching == 4)
    server.faults.silent = True
    server.drop_watches()
    server.store.delete(PODS, "chat-1")
    server.store.put(deployment("chat", replicas=2))
    server.store.compact()
    server.faults.silent = False
    await until(lambda: current(cluster) == 2)
    await until(lambda: len(cluster.pods("llm", "chat") or ()) == 2)
    assert server.count("list", "/pods") == 2


async def test_bookmarks_keep_a_quiet_view_young_enough_to_go_on(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """Where nothing happens for hours, the version to go on from moves on all the same."""
    await until(lambda: server.watching == 4)
    lists = server.count("list", "/")
    for number in range(20):
        server.store.put(pod("busy", of="busy", namespace="elsewhere", restarts=number))
    for _ in range(2):
        opened = server.count("watch", "/")
        await until(lambda: server.count("watch", "/") >= opened + 8)  # noqa: B023
        server.store.compact()
    assert server.count("list", "/") == lists
    server.store.put(deployment("chat", replicas=6))
    await until(lambda: current(cluster) == 6)


async def test_a_watch_that_falls_silent_is_left(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """A half-open connection says nothing for ever: the read has a deadline."""
    await until(lambda: server.watching == 4)
    server.faults.silent = True
    server.store.put(deployment("chat", replicas=7))
    opened = server.count("watch", "/")
    await until(lambda: server.count("watch", "/") >= opened + 4)
    assert current(cluster) == 3
    server.faults.silent = False
    await until(lambda: current(cluster) == 7)


async def test_pages_are_put_together(server: ApiServer, config: Path) -> None:
    """Five hundred at a time are enough for any answer."""
    for number in range(25):
        server.store.put(pod(f"chat-x{number:02}", of="chat"))
    async with following(config, replace(QUICK, page=10)) as cluster:
        await until(lambda: len(cluster.pods("llm", "chat") or ()) == 28)
    assert server.count("list", "/pods") == 3


async def test_a_page_that_expired_means_the_list_from_its_start(
    server: ApiServer, config: Path
) -> None:
    """A slow reader is told 410 in the middle of a list."""
    server.faults.expired = True
    async with following(config, replace(QUICK, page=2)) as cluster:
        await until(lambda: server.count("list", "/pods") >= 4)
        assert cluster.pods("llm", "chat") is None
        server.faults.expired = False
        await until(lambda: len(cluster.pods("llm", "chat") or ()) == 3)


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (lambda faults: setattr(faults, "failing", 500), "answered 500"),
        (lambda faults: setattr(faults, "failing", 503), "answered 503"),
        (lambda faults: setattr(faults, "failing", 429), "asks for patience"),
        (lambda faults: setattr(faults, "failing", 302), "answered 302"),
        (lambda faults: setattr(faults, "token", "other"), "answered 401"),
    ],
)
async def test_a_server_that_fails_is_asked_until_it_is_well(
    server: ApiServer, config: Path, fail: Callable[[object], None], said: str
) -> None:
    """The adapter starts into it, says so, and knows everything once it is over."""
    fail(server.faults)
    server.faults.retry_after = 1
    async with following(config) as cluster:
        await until(lambda: any(said in fault for fault in cluster.faults))
        assert cluster.scale("llm", "chat") is None
        assert any("last seen never" in fault for fault in cluster.faults)
        server.faults.failing = server.faults.token = None
        await until(lambda: known(cluster))
        await until(lambda: cluster.faults == ())


async def test_a_login_page_is_no_list(server: ApiServer, config: Path) -> None:
    """A proxy that answers 200 with HTML empties no view."""
    server.faults.garbled = True
    async with following(config) as cluster:
        await until(lambda: any("is a proxy before it?" in fault for fault in cluster.faults))
        server.faults.garbled = False
        await until(lambda: known(cluster))


async def test_one_odd_object_harms_no_other(server: ApiServer, config: Path) -> None:
    """A pod of a shape that nobody knows is left out, from lists and from watches."""
    odd = pod("chat-odd", of="chat")
    odd["status"] = {"phase": 3}
    server.store.put(odd)
    async with following(config) as cluster:
        await until(lambda: len(cluster.pods("llm", "chat") or ()) == 3)
        server.store.put({**odd, "status": {"phase": 4}})
        server.store.put(pod("chat-9", of="chat"))
        await until(lambda: len(cluster.pods("llm", "chat") or ()) == 4)
        server.store.put(pod("chat-odd", of="chat"))
        await until(lambda: len(cluster.pods("llm", "chat") or ()) == 5)


async def test_an_odd_change_keeps_what_was_last_understood(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """A known pod stays, also through a new list; it is counted as a fault until it is mended."""
    odd = {**pod("chat-1", of="chat"), "status": {"phase": 3}}
    server.store.put(odd)
    await until(lambda: any("1 pods in llm cannot be decoded" in f for f in cluster.faults))
    assert len(cluster.pods("llm", "chat") or ()) == 3
    lists = server.count("list", "pods")
    await until(lambda: server.watching == 4)
    server.faults.silent = True
    server.drop_watches()
    server.store.put(pod("chat-9", of="chat"))
    server.store.compact()
    server.faults.silent = False
    await until(lambda: server.count("list", "pods") > lists)
    await until(lambda: len(cluster.pods("llm", "chat") or ()) == 4)
    assert any("such as llm/chat-1" in fault for fault in cluster.faults)
    server.store.delete(PODS, "chat-1")
    await until(lambda: len(cluster.pods("llm", "chat") or ()) == 3)
    assert cluster.faults == ()


async def test_an_odd_scaled_object_is_not_gone(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """It is there, whatever it says."""
    server.store.put({**scaled_object("odd"), "spec": 3})
    await until(lambda: any("scaledobjects in all" in fault for fault in cluster.faults))
    assert not cluster.is_gone("llm", "odd")


async def test_a_cluster_restored_from_a_backup_is_listed_anew(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    """It counts its versions from before, and would tell a watcher of later ones nothing."""
    await until(lambda: server.watching == 4)
    server.store.version = 500
    server.store.changes.clear()
    server.store.put(deployment("chat", replicas=2))
    await until(lambda: current(cluster) == 2)


# --- an hour without an API server ----------------------------------------------------------------


async def test_an_api_server_that_is_down_for_an_hour(server: ApiServer, config: Path) -> None:
    """Known for 30 s, then unknown and not zero, and right again as soon as it answers."""
    clock = FakeClock()
    async with following(config, clock=clock) as cluster:
        await until(lambda: known(cluster))
        await server.stop()
        clock.set(clock.now() + 29.0)
        assert known(cluster)
        assert cluster.is_gone("llm", "other")
        assert not cluster.is_gone("llm", "chat")
        clock.set(clock.now() + 2.0)
        assert cluster.scale("llm", "chat") is None
        assert cluster.pods("llm", "chat") is None
        assert cluster.situation("llm", "chat") is None
        assert not cluster.is_gone("llm", "other")
        told: list[int | None] = []
        cluster.on_change(lambda: told.append(current(cluster)))
        for _ in range(60):
            await clock.advance(60.0)
            assert current(cluster) is None
        await until(
            lambda: any("ago" in fault for fault in cluster.faults), lambda: clock.advance(1)
        )
        server.store.put(deployment("chat", replicas=12))
        server.store.delete(PODS, "chat-0")
        await server.start()
        await until(lambda: known(cluster), lambda: clock.advance(0.5))
        await until(lambda: current(cluster) == 12, lambda: clock.advance(0.5))
        await until(lambda: len(cluster.pods("llm", "chat") or ()) == 2)
        assert 3 not in told
        await until(lambda: cluster.faults == (), lambda: clock.advance(0.5))


async def test_what_was_seen_before_an_outage_is_not_shown_after_it(
    server: ApiServer, config: Path
) -> None:
    """That a watch is opened again proves nothing yet: what was missed comes first."""
    clock = FakeClock()
    async with following(config, clock=clock) as cluster:
        await until(lambda: known(cluster))
        await server.stop()
        clock.set(clock.now() + 3600.0)
        server.store.put(deployment("chat", replicas=12))
        server.store.compact()
        shown: set[int | None] = set()
        await server.start()

        async def look() -> None:
            shown.add(current(cluster))
            await clock.advance(0.2)

        await until(lambda: 12 in shown, look)
        assert shown == {None, 12}


async def test_a_count_that_is_known_to_have_changed_and_cannot_be_read_grows_old(
    server: ApiServer, config: Path
) -> None:
    """The watch goes on and says so: the old count is the count for half a minute, and no more."""
    clock = FakeClock()
    async with following(config, clock=clock) as cluster:
        await until(lambda: known(cluster))
        server.faults.broken.add(("get", "deployments/scale"))
        server.store.put(deployment("chat", replicas=9))
        await until(lambda: server.count("get", "/scale") >= 2)
        for shown in (3, None):
            await clock.advance(20.0)
            opened = server.count("watch", "/")
            await until(lambda: server.count("watch", "/") >= opened + 8)  # noqa: B023
            assert current(cluster) == shown
            assert cluster.pods("llm", "chat") is not None
        assert any("deployments/scale cannot be read" in fault for fault in cluster.faults)
        server.faults.broken.clear()
        await until(lambda: current(cluster) == 9, lambda: clock.advance(1.0))
        assert cluster.faults == ()


async def test_a_clock_that_is_set_back_makes_no_view_young(
    server: ApiServer, config: Path
) -> None:
    """A view from the future is not known until it is seen again."""
    clock = FakeClock()
    async with following(config, clock=clock) as cluster:
        await until(lambda: known(cluster))
        await server.stop()
        clock.set(clock.now() - 3600.0)
        assert cluster.scale("llm", "chat") is None


async def test_a_start_without_an_api_server(server: ApiServer, config: Path) -> None:
    """The scaler runs, and the cluster comes later."""
    await server.stop()
    async with following(config) as cluster:
        await until(lambda: any("cannot be reached" in fault for fault in cluster.faults))
        assert cluster.scale("llm", "chat") is None
        await server.start()
        await until(lambda: known(cluster))


async def test_a_server_that_restarts_now_and_then(server: ApiServer, config: Path) -> None:
    """Each time the view goes on, and no task or watch is left behind."""
    async with following(config) as cluster:
        for count in (4, 5, 6):
            await until(lambda: known(cluster))
            await server.stop()
            server.store.put(deployment("chat", replicas=count))
            await server.start()
            await until(lambda: current(cluster) == count)  # noqa: B023
        await until(lambda: server.watching == 4)
