"""Findings told on their ScaledObject: when they come, once, and within bounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from scaler.control.board import Board, Posting
from scaler.control.notices import LOOKS_EVERY, Notifier
from scaler.control.ports import WriteDenied, WriteFailed, WriteMissing
from scaler.core.diagnosis_finding import Diagnosis, Finding, Kind, Severity
from scaler.core.diagnosis_notice import message_of, reason_of
from scaler.core.policy import Policy
from scaler.core.workload import Selection, WorkloadKey
from tests.core.histories import NOW
from tests.core.illness import SITUATION, facts
from tests.fakes.cluster import FakeCluster
from tests.fakes.writes import FakeNotices


def finding(kind: Kind = Kind.HOST_OOM_KILL, **changes: object) -> Finding:
    """Return a finding, changed as told."""
    plain = Finding(
        kind=kind, severity=Severity.CRITICAL, evidence="It was killed.", advice="Look."
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@dataclass
class Desk:
    """A notifier over a board that a test fills, and the time it has got to."""

    board: Board = field(default_factory=Board)
    cluster: FakeCluster = field(default_factory=FakeCluster)
    notices: FakeNotices = field(default_factory=FakeNotices)
    now: float = NOW
    notifier: Notifier = field(init=False)

    def __post_init__(self) -> None:
        """Wire it; every ScaledObject that is posted is known to the cluster."""
        self.notifier = Notifier(self.board, self.cluster, self.notices)

    def post(
        self,
        *findings: Finding,
        name: str = "chat",
        namespace: str = "llm",
        trigger: str = "1f3a",
        known: bool = True,
        blind: tuple[Kind, ...] = (),
    ) -> None:
        """Put what was found on the board, and what could not be looked at."""
        key = WorkloadKey(namespace=namespace, name=name, trigger=trigger)
        posting = Posting(
            key=key,
            policy=Policy(),
            selection=Selection(source="s", namespace=namespace),
            decision=facts().decision,
            diagnosis=Diagnosis(
                at=self.now,
                findings=findings,
                not_known=tuple((kind, "the pods are not known") for kind in blind),
            )
            if known
            else None,
        )
        self.board.post(self.now, {key: posting}, frozenset())
        self.cluster.situations[namespace, name] = SITUATION

    async def looks(self, count: int = 1) -> list[str]:
        """Let it look so often; return what was told meanwhile."""
        before = len(self.notices.told)
        for _ in range(count):
            await self.notifier.look(self.now)
            self.now += LOOKS_EVERY
        return self.notices.reasons[before:]


async def test_a_finding_is_told_when_it_comes_and_not_while_it_lasts() -> None:
    """One Event for an hour of the same, with the ScaledObject's uid."""
    desk = Desk()
    desk.post(finding())
    assert await desk.looks(240) == ["HostOomKill"]
    (notice,) = desk.notices.told
    assert (notice.namespace, notice.name, notice.uid) == ("llm", "chat", "1f3a")
    assert notice.message == "It was killed. Look."


async def test_a_flicker_is_not_told() -> None:
    """What stands in one look only is no news."""
    desk = Desk()
    for _ in range(10):
        desk.post(finding())
        assert await desk.looks() == []
        desk.post()
        assert await desk.looks() == []


async def test_what_comes_back_is_told_again_but_not_at_once() -> None:
    """A finding that comes and goes every minute is told every five."""
    desk = Desk()
    told = 0
    for _ in range(30):
        desk.post(finding())
        told += len(await desk.looks(2))
        desk.post()
        told += len(await desk.looks(2))
    assert told == 6


async def test_what_could_not_be_looked_at_for_a_while_is_no_news_afterwards() -> None:
    """An API server that was away has not made the same finding a new one."""
    desk = Desk()
    desk.post(finding())
    assert await desk.looks(4) == ["HostOomKill"]
    desk.post(blind=(finding().kind,))
    assert await desk.looks(40) == []
    desk.post(finding())
    assert await desk.looks(40) == []
    desk.post()
    assert await desk.looks(40) == []
    desk.post(finding())
    assert await desk.looks(4) == ["HostOomKill"]


async def test_one_more_occurrence_is_told_with_its_own_evidence() -> None:
    """The second kill of an hour is news, even though the first still stands."""
    desk = Desk()
    desk.post(finding(occurrence="a@1"))
    assert await desk.looks(30) == ["HostOomKill"]
    desk.post(finding(occurrence="b@2", evidence="Another was killed."))
    assert await desk.looks(30) == ["HostOomKill"]
    assert desk.notices.told[-1].message.startswith("Another")


async def test_new_figures_alone_are_no_news() -> None:
    """Evidence changes with every sample; an Event for each would be noise."""
    desk = Desk()
    for index in range(40):
        desk.post(finding(Kind.QUEUE_BOUND, evidence=f"{index} requests wait."))
        await desk.looks()
    assert desk.notices.reasons == ["QueueBound"]


async def test_notes_are_not_told() -> None:
    """What nobody need act on is on the board and in no Event."""
    desk = Desk()
    desk.post(finding(Kind.PAUSED, severity=Severity.NOTE))
    assert await desk.looks(5) == []


async def test_two_triggers_of_one_scaled_object_tell_a_thing_once() -> None:
    """The gravest of the two is told."""
    desk = Desk()
    desk.post(finding(severity=Severity.WARNING, evidence="Mild."), trigger="a")
    desk.post(finding(evidence="Grave."), trigger="b")
    assert await desk.looks(5) == ["HostOomKill"]
    assert desk.notices.told[0].message.startswith("Grave.")


async def test_who_is_not_known_to_the_cluster_waits() -> None:
    """Without the ScaledObject's situation there is nothing to write on; later there is."""
    desk = Desk()
    desk.post(finding())
    del desk.cluster.situations["llm", "chat"]
    desk.post(known=False, name="other")
    assert await desk.looks(5) == []
    desk.cluster.situations["llm", "chat"] = SITUATION
    assert await desk.looks() == ["HostOomKill"]


async def test_a_storm_is_told_in_bounded_portions() -> None:
    """A hundred workloads that fall ill at once are told twenty at a time, each once."""
    desk = Desk()
    for index in range(100):
        desk.post(finding(), name=f"chat-{index}")
    told = [len(await desk.looks()) for _ in range(8)]
    assert told == [0, 20, 20, 20, 20, 20, 0, 0]
    assert len({notice.name for notice in desk.notices.told}) == 100


@pytest.mark.parametrize(
    ("error", "pause"), [(WriteDenied("may not"), 600.0), (WriteFailed("down"), 60.0)]
)
async def test_a_refusal_is_one_sentence_and_a_pause(error: WriteFailed, pause: float) -> None:
    """Who may not write asks rarely, says so in one place, and tells all when it may again."""
    desk = Desk()
    desk.notices.refusals["llm"] = error
    for index in range(3):
        desk.post(finding(), name=f"chat-{index}")
    assert await desk.looks(2) == []
    assert desk.notices.asked == 1
    assert desk.notifier.faults == (f"in llm: {error}",)
    assert await desk.looks(int(pause // LOOKS_EVERY) - 1) == []
    assert desk.notices.asked == 1
    desk.notices.refusals.clear()
    assert len(await desk.looks(2)) == 3
    assert not desk.notifier.faults


async def test_a_refusal_in_one_namespace_silences_no_other() -> None:
    """Rights are given by namespace."""
    desk = Desk()
    desk.notices.refusals["llm"] = WriteDenied("may not")
    desk.post(finding())
    desk.post(finding(), namespace="prod")
    await desk.looks(3)
    assert [notice.namespace for notice in desk.notices.told] == ["prod"]


async def test_what_has_gone_is_done_with() -> None:
    """A ScaledObject that was deleted meanwhile is no fault."""
    desk = Desk()
    desk.notices.refusals["llm"] = WriteMissing("gone")
    desk.post(finding())
    await desk.looks(10)
    assert (desk.notices.asked, desk.notifier.faults) == (1, ())


async def test_a_clock_that_was_set_back_does_not_silence() -> None:
    """What was told in a future that did not come is no reason to be quiet."""
    desk = Desk()
    desk.post(finding(occurrence="a"))
    await desk.looks(3)
    desk.now -= 86_400.0
    desk.post(finding(occurrence="b"))
    assert await desk.looks() == ["HostOomKill"]


def test_reasons_and_messages_are_kubernetes_own_form() -> None:
    """A reason is CamelCase, a message at most 1,024 characters."""
    assert {reason_of(finding(kind)).isalnum() for kind in Kind} == {True}
    assert reason_of(finding(Kind.KV_CACHE_PRESSURE)) == "KvCachePressure"
    assert len(message_of(finding(evidence="x" * 5000))) == 1024
