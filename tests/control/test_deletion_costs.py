"""Deletion costs written on pods: only near a scale-in, only on change, and taken away again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pytest

from scaler.control.board import Board, Posting
from scaler.control.deletion_costs import LOOKS_EVERY, CostRemover, CostWriter
from scaler.control.ports import WriteDenied, WriteMissing
from scaler.core.decision import Decision
from scaler.core.policy import Policy
from scaler.core.workload import Scale, Selection, WorkloadKey
from tests.core.histories import NOW
from tests.core.illness import SITUATION, facts, pod, replica
from tests.fakes.cluster import FakeCluster
from tests.fakes.writes import FakeDeletionCosts

HOLD = facts().decision
SHRINK = replace(HOLD, current=4, desired=2, advised=2)
LOADS = {"chat-0": 9.0, "chat-1": 0.0, "chat-2": 40.0, "chat-3": 3.0}


@dataclass
class Desk:
    """A writer over a board and four pods that a test changes, and the time it has got to."""

    board: Board = field(default_factory=Board)
    cluster: FakeCluster = field(default_factory=lambda: FakeCluster(chat=Scale(current=4)))
    costs: FakeDeletionCosts = field(default_factory=FakeDeletionCosts)
    now: float = NOW
    writer: CostWriter | CostRemover = field(init=False)

    def __post_init__(self) -> None:
        """Wire it to four Ready pods of a Deployment."""
        self.writer = CostWriter(self.board, self.cluster, self.costs)
        self.cluster.situations["llm", "chat"] = SITUATION
        self.cluster.place("chat", *(pod(name) for name in LOADS))

    def post(
        self,
        decision: Decision,
        loads: Mapping[str, float] = MappingProxyType({}),
        *,
        trigger: str = "1f3a",
    ) -> None:
        """Put a decision on the board, and what the replicas run."""
        key = WorkloadKey(namespace="llm", name="chat", trigger=trigger)
        running = {**LOADS, **loads}
        posting = Posting(
            key=key,
            policy=Policy(),
            selection=Selection(source="s", namespace="llm"),
            decision=decision,
            replicas=tuple(replica(name, running=load) for name, load in running.items()),
        )
        self.board.post(self.now, {key: posting}, frozenset())

    async def looks(self, count: int = 1, *, shown: bool = True) -> list[tuple[str, int | None]]:
        """Let it look so often; return what was written. `shown`: the cluster shows it at once."""
        before = len(self.costs.written)
        for _ in range(count):
            await self.writer.look(self.now)
            self.now += LOOKS_EVERY
            if shown:
                self.show()
        return [(name, cost) for _, name, cost in self.costs.written[before:]]

    def show(self) -> None:
        """Let the cluster's view show what was written."""
        newest = {name: cost for _, name, cost in self.costs.written}
        pods = self.cluster.placed["llm", "chat"]
        placed = [replace(p, deletion_cost=newest.get(p.name, p.deletion_cost)) for p in pods]
        self.cluster.place("chat", *placed)


async def test_the_least_busy_are_marked_once_and_freed_again() -> None:
    """Two go: the idle one and the one with three requests; afterwards no mark is left."""
    desk = Desk()
    desk.post(HOLD)
    assert await desk.looks(3) == []
    desk.post(SHRINK)
    assert sorted(await desk.looks(5)) == [("chat-1", -1000), ("chat-3", -998)]
    desk.post(HOLD)
    assert sorted(await desk.looks(5)) == [("chat-1", None), ("chat-3", None)]


async def test_a_late_view_writes_nothing_twice() -> None:
    """Until the cluster shows a write, for half a minute, it counts as done."""
    desk = Desk()
    desk.post(SHRINK)
    assert len(await desk.looks(6, shown=False)) == 2
    assert len(await desk.looks(1, shown=False)) == 2


async def test_a_load_that_changes_changes_the_choice() -> None:
    """The one that got busy is freed, the one that is idle now is marked, in that look."""
    desk = Desk()
    desk.post(SHRINK)
    await desk.looks()
    desk.post(SHRINK, {"chat-1": 50.0})
    assert sorted(await desk.looks(3), key=str) == [("chat-0", -996), ("chat-1", None)]


@pytest.mark.parametrize("kind", ["StatefulSet", "LeaderWorkerSet"])
async def test_who_does_not_look_at_costs_gets_none(kind: str) -> None:
    """Only a Deployment's controller orders by it."""
    desk = Desk()
    desk.cluster.situations["llm", "chat"] = replace(SITUATION, target_kind=kind)
    desk.post(SHRINK)
    assert await desk.looks(3) == []


async def test_what_is_not_known_is_not_marked() -> None:
    """Without pods, without a situation or without replicas nothing is written."""
    desk = Desk()
    desk.post(SHRINK)
    del desk.cluster.situations["llm", "chat"]
    assert await desk.looks() == []
    desk.cluster.situations["llm", "chat"] = SITUATION
    placed = desk.cluster.placed.pop(("llm", "chat"))
    assert await desk.looks(shown=False) == []
    desk.cluster.placed["llm", "chat"] = placed
    assert len(await desk.looks()) == 2


async def test_of_two_triggers_the_one_that_wants_more_counts() -> None:
    """The HPA obeys the highest count, so nobody goes whom one trigger still wants."""
    desk = Desk()
    desk.post(SHRINK)
    desk.post(HOLD, trigger="other")
    assert await desk.looks(3) == []
    desk.post(replace(SHRINK, desired=3), trigger="other")
    assert await desk.looks(3) == [("chat-1", -1000)]


async def test_what_an_earlier_scaler_left_is_taken_away() -> None:
    """The pods themselves say what was written; a mark of somebody else stays."""
    desk = Desk()
    desk.cluster.place("chat", pod("chat-0", deletion_cost=-997), pod("chat-1", deletion_cost=5))
    desk.post(HOLD)
    assert await desk.looks(3) == [("chat-0", None)]


async def test_what_a_deleted_scaled_object_leaves_is_taken_away() -> None:
    """Its pods live on and are seen no more; a mark of somebody else among them stays."""
    desk = Desk()
    desk.cluster.place("chat", *(pod(name) for name in LOADS), pod("odd", deletion_cost=7))
    desk.post(SHRINK)
    assert len(await desk.looks()) == 2
    desk.cluster.delete("chat")
    assert sorted(await desk.looks(3, shown=False)) == [("chat-1", None), ("chat-3", None)]


async def test_what_is_gone_before_its_marks_are_seen_is_freed_too() -> None:
    """Nor does it matter whether the view of its pods outlives it by a while."""
    desk = Desk()
    desk.post(SHRINK)
    assert len(await desk.looks(shown=False)) == 2
    desk.cluster.gone.add(("llm", "chat"))
    assert sorted(await desk.looks(12, shown=False)) == [("chat-1", None), ("chat-3", None)]


async def test_a_workload_that_nobody_asks_for_any_more_leaves_no_mark() -> None:
    """Its trigger was taken out of the ScaledObject, so it leaves the board."""
    desk = Desk()
    desk.post(SHRINK)
    await desk.looks()
    desk.board.post(desk.now, {}, frozenset(desk.board.snapshot.postings))
    assert sorted(await desk.looks(3)) == [("chat-1", None), ("chat-3", None)]


async def test_a_cluster_that_is_not_seen_keeps_its_marks() -> None:
    """Not to know the pods is not to know that they are gone; afterwards all is as it was."""
    desk = Desk()
    desk.post(SHRINK)
    await desk.looks()
    placed = desk.cluster.placed.pop(("llm", "chat"))
    assert await desk.looks(20, shown=False) == []
    desk.cluster.placed["llm", "chat"] = placed
    assert await desk.looks(3) == []
    desk.cluster.placed.pop(("llm", "chat"))
    assert await desk.looks(shown=False) == []
    desk.cluster.delete("chat")
    assert sorted(await desk.looks(3, shown=False)) == [("chat-1", None), ("chat-3", None)]


async def test_what_is_left_is_taken_away_in_portions_and_when_it_is_let() -> None:
    """Twenty a look; while that is refused it is remembered."""
    desk = Desk()
    names = [f"p{index:02}" for index in range(30)]
    desk.cluster.place("chat", *(pod(name, deletion_cost=-1000) for name in names))
    desk.post(replace(SHRINK, current=60, desired=30), dict.fromkeys(names, 0.0))
    assert await desk.looks() == []
    desk.cluster.delete("chat")
    desk.costs.refusal = WriteDenied("may not (grant patch on pods)")
    assert await desk.looks(2, shown=False) == []
    desk.costs.refusal = None
    portions = [await desk.looks(shown=False) for _ in range(125)]
    assert [len(portion) for portion in portions if portion] == [20, 10]
    assert {name for portion in portions for name, _ in portion} == set(names)


async def test_what_is_left_of_a_workload_that_nobody_remembers_is_swept_up() -> None:
    """The scaler restarted and the ScaledObject is gone; what belongs to a workload is left."""
    desk = Desk()
    desk.costs.found = {("llm", "old-1"): True, ("apart", "old-2"): True, ("llm", "new-1"): False}
    assert await desk.looks(12) == []
    assert (desk.costs.sweeps, await desk.looks()) == (0, [("old-2", None), ("old-1", None)])
    desk.costs.found["llm", "old-3"] = True
    assert await desk.looks(710) == []
    assert await desk.looks(20) == [("old-3", None)]
    assert desk.costs.sweeps == 2


async def test_a_clock_that_is_set_back_puts_no_sweep_off_for_long() -> None:
    """An hour later by the new time it sweeps."""
    desk = Desk()
    await desk.looks(2)
    desk.now -= 86400.0
    desk.costs.found = {("llm", "old-1"): True}
    assert await desk.looks(721) == [("old-1", None)]


async def test_a_sweep_that_fails_harms_nothing() -> None:
    """The marks of the workloads are written all the same."""
    desk = Desk()
    await desk.looks(12)
    desk.costs.unread = WriteDenied("may not (grant list on pods)")
    desk.post(SHRINK)
    assert (len(await desk.looks()), desk.costs.sweeps) == (2, 1)


def turned_off(*marked: str) -> Desk:
    """Return a desk whose pods carry costs of an earlier scaler, and whose option is off."""
    desk = Desk()
    desk.writer = CostRemover(desk.board, desk.cluster, desk.costs)
    desk.cluster.place(
        "chat", *(pod(name, deletion_cost=-1000 if name in marked else None) for name in LOADS)
    )
    desk.costs.found = {("llm", name): False for name in marked}
    return desk


async def test_turned_off_it_takes_away_what_it_wrote_and_marks_nobody() -> None:
    """Those of workloads that are gone, too."""
    desk = turned_off("chat-1", "chat-3")
    desk.costs.found["llm", "old-1"] = True
    desk.post(SHRINK)
    assert await desk.looks(12) == []
    assert await desk.looks(3) == [("chat-1", None), ("chat-3", None), ("old-1", None)]
    assert await desk.looks(1500) == []
    assert desk.costs.sweeps == 1


async def test_turned_off_nothing_is_asked_while_nothing_is_seen() -> None:
    """Whoever never turned it on pays nothing; a cost with such a value by somebody else stays."""
    desk = turned_off()
    desk.post(SHRINK)
    assert (await desk.looks(100), desk.costs.sweeps) == ([], 0)
    desk.cluster.place("chat", pod("chat-0", deletion_cost=-1000))
    assert (await desk.looks(1500), desk.costs.sweeps) == ([], 3)


async def test_turned_off_without_the_right_it_says_so_until_a_person_helped() -> None:
    """Tried again every ten minutes, and no fault any more once nobody is marked."""
    desk = turned_off("chat-1")
    desk.post(HOLD)
    desk.costs.refusal = WriteDenied("may not write (grant patch on pods)")
    assert await desk.looks(200) == []
    assert (desk.costs.asked, desk.writer.faults) == (
        2,
        ("in llm: may not write (grant patch on pods)",),
    )
    desk.costs.found.clear()
    desk.cluster.place("chat", *(pod(name) for name in LOADS))
    await desk.looks(720)
    assert desk.writer.faults == ()


async def test_a_refusal_is_one_sentence_and_a_pause() -> None:
    """Without the right nothing is tried for ten minutes, and the fault says which is missing."""
    desk = Desk()
    desk.costs.refusal = WriteDenied("may not write pods' deletion costs (grant patch on pods)")
    desk.post(SHRINK)
    await desk.looks(100)
    assert desk.costs.asked == 1
    assert desk.writer.faults == (
        "in llm: may not write pods' deletion costs (grant patch on pods)",
    )
    desk.costs.refusal = None
    await desk.looks(22)
    assert len(desk.costs.written) == 2
    assert not desk.writer.faults


async def test_a_pod_that_has_gone_is_done_with() -> None:
    """A pod that ended between look and write is no fault."""
    desk = Desk()
    desk.costs.refusal = WriteMissing("gone")
    desk.post(SHRINK)
    await desk.looks(3)
    assert (desk.costs.asked, desk.writer.faults) == (2, ())


async def test_a_large_fleet_is_written_in_bounded_portions() -> None:
    """A hundred pods that go are marked twenty a look, marks before what is taken away."""
    desk = Desk()
    desk.cluster = FakeCluster(chat=Scale(current=200))
    desk.cluster.situations["llm", "chat"] = SITUATION
    names = [f"p{index:03}" for index in range(200)]
    left = [pod(name, deletion_cost=-990) for name in names[:5]]
    desk.cluster.place("chat", *left, *(pod(name) for name in names[5:]))
    desk.writer = CostWriter(desk.board, desk.cluster, desk.costs)
    desk.post(
        replace(SHRINK, current=200, desired=100),
        dict.fromkeys(names[:5], 900.0) | dict.fromkeys(names[5:], 1.0),
    )
    portions = [await desk.looks() for _ in range(7)]
    assert [len(portion) for portion in portions] == [20, 20, 20, 20, 20, 5, 0]
    assert [cost for _, cost in portions[5]] == [None] * 5
