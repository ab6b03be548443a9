"""What is written to a cluster: the fakes of the tests and the real adapters keep one promise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from scaler.adapters.kubernetes_api import KubernetesApi
from scaler.adapters.kubernetes_deletion_cost import ANNOTATION, KubernetesDeletionCosts
from scaler.adapters.kubernetes_events import KubernetesEvents
from scaler.adapters.kubernetes_settings import KubernetesSettings
from scaler.control.ports import DeletionCosts, Notices, WriteDenied
from scaler.core.diagnosis_notice import Notice
from tests.adapters.kubernetes.following import kubeconfig
from tests.fakes.writes import FakeDeletionCosts, FakeNotices
from tests.kubernetes_server.objects import pod
from tests.kubernetes_server.resources import CORE_EVENTS, PODS, at
from tests.kubernetes_server.server import api_server

NOTICE = Notice(
    namespace="llm", name="chat", uid="1f3a", reason="HostOomKill", message="Killed.", at=1e9
)


@dataclass
class Desk:
    """Where findings and deletion costs are written, what stands there, and a way to refuse."""

    notices: Notices
    costs: DeletionCosts
    told: Callable[[], list[str]]
    cost: Callable[[], object]
    refuse: Callable[[], None]


@asynccontextmanager
async def _fake_desk() -> AsyncIterator[Desk]:
    notices, costs = FakeNotices(), FakeDeletionCosts()

    def refuse() -> None:
        notices.refusals["llm"] = costs.refusal = WriteDenied("may not")

    yield Desk(
        notices,
        costs,
        lambda: list(dict.fromkeys(notices.reasons)),
        lambda: costs.written[-1][2] if costs.written else None,
        refuse,
    )


@asynccontextmanager
async def _kubernetes_desk(directory: Path) -> AsyncIterator[Desk]:
    async with api_server() as server:
        server.store.put(pod("chat-0", of="chat"))
        settings = KubernetesSettings(kubeconfig=kubeconfig(directory, server))

        def cost() -> int | None:
            found = at(server.store.get(PODS, "chat-0"), "metadata.annotations")
            return int(str(found[ANNOTATION])) if isinstance(found, dict) and found else None

        def refuse() -> None:
            server.faults.deny(CORE_EVENTS, "create", "patch")
            server.faults.deny(PODS, "patch")

        async with KubernetesApi(settings) as api:
            yield Desk(
                KubernetesEvents(api),
                KubernetesDeletionCosts(api),
                lambda: [str(event["reason"]) for event in server.store.all_of(CORE_EVENTS)],
                cost,
                refuse,
            )


@pytest.fixture(params=["fake", "kubernetes"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    """Give each place to write to."""
    async with _fake_desk() if request.param == "fake" else _kubernetes_desk(tmp_path) as made:
        yield made


async def test_what_is_told_stands_there_once(desk: Desk) -> None:
    """The same notice twice is one thing that was told, another kind is another."""
    for notice in (NOTICE, NOTICE, replace(NOTICE, reason="CrashLoop")):
        await desk.notices.tell(notice)
    assert sorted(desk.told()) == ["CrashLoop", "HostOomKill"]


async def test_a_deletion_cost_is_written_and_taken_away(desk: Desk) -> None:
    """The newest stands; None leaves none, also where there was none."""
    for cost in (-998, -1000, None, None):
        await desk.costs.write("llm", "chat-0", cost)
        assert desk.cost() == cost
        marked = [(each.namespace, each.name) for each in await desk.costs.marked()]
        assert marked == ([] if cost is None else [("llm", "chat-0")])


async def test_who_may_not_write_is_told_so(desk: Desk) -> None:
    """A missing right is WriteDenied, and nothing is written."""
    desk.refuse()
    with pytest.raises(WriteDenied):
        await desk.notices.tell(NOTICE)
    with pytest.raises(WriteDenied):
        await desk.costs.write("llm", "chat-0", -998)
    assert (desk.told(), desk.cost()) == ([], None)
