"""Pods that are told of late, and samples that cannot know of all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.adapters.pod_targets import PodPage, PodTargets
from scaler.control.placement import Placement, pods_of_source
from scaler.control.registry import Registry
from scaler.control.sight import Sight
from scaler.core.pods import Pod
from scaler.core.policy import Policy
from scaler.core.reading import Reading
from scaler.core.workload import Scale, Selection
from tests.control.conftest import resolve_with
from tests.core.histories import NOW
from tests.core.placing import loading, pod
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster

CHAT = Sight(selection=Selection(source="engines", namespace="llm", model_name="m"), name="chat")
OLD = pod("old", age=7200.0)


@pytest.fixture
def cluster() -> FakeCluster:
    """Give the count."""
    return FakeCluster(chat=Scale(current=2))


def looked(cluster: FakeCluster, *lists: list[Pod] | None) -> list[float | None]:
    """Look at one list of pods after the other; return since when samples are in doubt."""
    placement, since = Placement(cluster), []
    for pods in lists:
        if pods is None:
            cluster.placed.clear()
        else:
            cluster.place("chat", *pods)
        since.append(placement.look({CHAT}).get(CHAT))
    return since


class TestLate:
    """A pod has served unseen where it is Ready when it is first told of."""

    def test_those_that_a_scaler_starts_with_are_not(self, cluster: FakeCluster) -> None:
        """No sample was taken before."""
        assert looked(cluster, [OLD]) == [None]

    def test_one_that_is_told_of_while_it_loads_is_not(self, cluster: FakeCluster) -> None:
        """It has served nobody, and its becoming Ready is seen."""
        young = loading("new", age=10.0)
        ready = replace(young, ready=True, ready_at=NOW)
        assert looked(cluster, [OLD], [OLD, young], [OLD, ready]) == [None, None, None]

    def test_one_that_is_ready_at_once_is_since_it_was_created(self, cluster: FakeCluster) -> None:
        """Instants are told in whole seconds; the earliest counts."""
        new, newer = pod("new", age=300.0), pod("newer", age=200.0)
        assert looked(cluster, [OLD], [OLD, newer, new]) == [None, NOW - 299.0]

    def test_it_stays_told_through_an_outage(self, cluster: FakeCluster) -> None:
        """What is compared is the list that was told last."""
        new = pod("new", age=300.0)
        assert looked(cluster, [OLD], None, [OLD, new], [OLD, new]) == [
            None,
            None,
            NOW - 299.0,
            None,
        ]

    def test_one_that_ends_is_not_missed(self, cluster: FakeCluster) -> None:
        """It no longer counts, whatever it has done."""
        assert looked(cluster, [OLD], [OLD, pod("new", age=300.0, terminating=True)])[1] is None


class TestBlind:
    """A source that finds the engines by their pods, while the pods are not known."""

    @pytest.mark.parametrize(("by_pods", "known"), [(True, False), (True, True), (False, False)])
    def test_only_then_replicas_may_serve_unseen(
        self, cluster: FakeCluster, *, by_pods: bool, known: bool
    ) -> None:
        """Others name their engines themselves."""
        placement = Placement(cluster)
        if known:
            cluster.place("chat", OLD)
        placement.look({CHAT})
        reading = Reading(at=NOW, scraped_at=NOW, by_pods=by_pods)
        assert placement.is_blind(CHAT, reading) == (by_pods and not known)


class TestPagesToScrape:
    """Which pods a source is told of, of workloads that are registered for half an hour."""

    def test_a_deleted_scaled_object_has_none(self, cluster: FakeCluster) -> None:
        """Its pods are asked no more at the next look, while an unread cluster changes nothing."""
        clock = FakeClock(NOW)
        registry = Registry(resolve_with(Policy()), clock.now)
        registry.ask("llm", "chat", {"modelName": "chat"})
        registry.ask("llm", "code", {"modelName": "code"})
        targets = PodTargets(PodPage(), lambda: pods_of_source(registry, cluster, "fake"))
        cluster.place("chat", pod("chat-0", ip="10.0.0.1"))
        cluster.place("code", pod("code-0", ip="10.0.0.2"))
        targets.look()
        cluster.placed.clear()
        assert not targets.look()
        assert [target.pod for target in targets.targets] == ["chat-0", "code-0"]
        cluster.delete("chat")
        assert targets.look()
        assert [target.pod for target in targets.targets] == ["code-0"]
