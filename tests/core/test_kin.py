"""Telling by their names which pods are, or were, of a workload."""

from __future__ import annotations

import pytest

from scaler.core.kin import Kin, kin_of, narrow_by_name
from scaler.core.pods import Pod
from tests.core.placing import pod, reading, reports

DEPLOYMENT = [pod("chat-6b4d9c7f5d-x2x9z", revision="6b4d9c7f5d")]
STATEFUL = [pod("chat-0"), pod("chat-1")]
GROUPS = [pod("chat-0", replica="chat-0"), pod("chat-0-1", replica="chat-0", leader=False)]


@pytest.mark.parametrize(
    ("pods", "name", "replica"),
    [
        (DEPLOYMENT, "chat-6b4d9c7f5d-bbbbb", "chat-6b4d9c7f5d-bbbbb"),
        (DEPLOYMENT, "chat-7c8f6d5b94-kq7wv", "chat-7c8f6d5b94-kq7wv"),
        (DEPLOYMENT, "chat-long-7c8f6d5b94-kq7wv", None),
        (DEPLOYMENT, "chat-router-0", None),
        (DEPLOYMENT, "chat-gpt-0", None),
        (DEPLOYMENT, "chat-0", None),
        (DEPLOYMENT, "other-6b4d9c7f5d-bbbbb", None),
        (STATEFUL, "chat-7", "chat-7"),
        (STATEFUL, "chat-6b4d9c7f5d-x2x9z", None),
        (GROUPS, "chat-7", "chat-7"),
        (GROUPS, "chat-7-3", "chat-7"),
        (GROUPS, "chat-7-3-1", None),
        ([pod("solo")], "solo", "solo"),
        ([pod("solo")], "solo-1", None),
        ([], "chat-0", None),
    ],
)  # fmt: skip
def test_who_is_kin(pods: list[Pod], name: str, replica: str | None) -> None:
    """A name of the same making is the workload's, and says of which replica."""
    assert kin_of(pods).replica_of(name) == replica


def test_the_past_is_narrowed_by_names() -> None:
    """Pods that have gone count for their own workload, and nobody else's do."""
    seen = reading(
        reports("chat-7c8f6d5b94-kq7wv", 5.0),
        reports("slow-7c8f6d5b94-kq7wv", 9.0),
        silent=frozenset({"chat-6b4d9c7f5d-bbbbb", "slow-1-x"}),
        unheard=frozenset({"chat-6b4d9c7f5d-ccccc", "slow-1-z"}),
        unseen=2,
        loading=2,
    )
    own = narrow_by_name(seen, kin_of(DEPLOYMENT))
    assert [r.name for r in own.replicas] == ["chat-7c8f6d5b94-kq7wv"]
    assert (own.unseen, own.loading) == (1, 1)
    assert own.latencies.keys() == {"chat-7c8f6d5b94-"}
    assert own.ttft == own.latencies["chat-7c8f6d5b94-"]


def test_a_group_of_the_past_is_one_replica() -> None:
    """One that is half seen is unseen, as in the present."""
    kin = kin_of(GROUPS)
    whole = narrow_by_name(reading(reports("chat-3"), reports("chat-3-1")), kin)
    assert [(r.name, r.engines) for r in whole.replicas] == [("chat-3", 2)]
    half = narrow_by_name(reading(reports("chat-3"), silent=frozenset({"chat-3-1"})), kin)
    assert (half.replicas, half.unseen) == ((), 1)


@pytest.mark.parametrize(
    ("kin", "name"),
    [(Kin(frozenset()), "chat-0"), (kin_of(STATEFUL), "10.0.0.7:8000"), (kin_of(STATEFUL), "")],
    ids=["nobody known", "addresses", "no pods named"],
)
def test_what_names_cannot_tell_stays_as_it_is(kin: Kin, name: str) -> None:
    """Names that say nothing of an owner narrow nothing."""
    seen = reading(reports(name), reports("other-1"), unseen=3)
    assert narrow_by_name(seen, kin) == seen
