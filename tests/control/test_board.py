"""The board: one snapshot, and edges for those who watch."""

from __future__ import annotations

import asyncio

from scaler.control.board import Board, Posting
from scaler.core.decision import Decision
from scaler.core.policy import Policy
from scaler.core.reasons import Reason
from scaler.core.workload import Selection, WorkloadKey
from tests.fakes.clock import settle

KEY = WorkloadKey(namespace="llm", name="chat", trigger="0a1b2c3d")


def posting(*, active: bool | None, key: WorkloadKey = KEY) -> Posting:
    """Make a posting that is active, inactive or neither."""
    decision = Decision(
        at=15.0, current=1, desired=1, advised=1, reason=Reason.STEADY, active=active
    )
    selection = Selection(source="fake", namespace="llm")
    return Posting(key=key, policy=Policy(), selection=selection, decision=decision)


async def watch(board: Board, seen: list[str]) -> None:
    """Note each activation, and the end."""
    async for _ in board.activations(KEY):
        seen.extend(["active"])
    seen.append("end")


async def test_only_edges_are_told() -> None:
    """True on open if active, then only from inactive to active; silence is no edge."""
    board, seen = Board(), list[str]()
    board.post(15.0, {KEY: posting(active=True)}, frozenset())
    task = asyncio.create_task(watch(board, seen))
    steps: list[tuple[bool | None, int]] = [
        (True, 1),
        (None, 1),
        (True, 1),
        (False, 1),
        (None, 1),
        (True, 2),
        (True, 2),
    ]
    for active, activations in steps:
        board.post(30.0, {KEY: posting(active=active)}, frozenset())
        await settle()
        assert seen.count("active") == activations
    board.close()
    await task
    assert seen[-1] == "end"


async def test_nothing_is_told_of_an_inactive_workload() -> None:
    """A stream on an idle workload stays open and says nothing."""
    board, seen = Board(), list[str]()
    board.post(15.0, {KEY: posting(active=False)}, frozenset())
    task = asyncio.create_task(watch(board, seen))
    await settle()
    assert seen == []
    board.close()
    await task
    assert seen == ["end"]


async def test_a_watcher_that_leaves_is_forgotten() -> None:
    """A cancelled stream leaves nothing behind on the board."""
    board, seen = Board(), list[str]()
    task = asyncio.create_task(watch(board, seen))
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert board.watchers == 0


async def test_a_post_keeps_the_others() -> None:
    """What one source posts replaces its own workloads and leaves all others alone."""
    board = Board()
    other = WorkloadKey(namespace="llm", name="code", trigger="ffffffff")
    board.post(15.0, {KEY: posting(active=True)}, frozenset())
    first = board.snapshot
    board.post(30.0, {other: posting(active=True, key=other)}, frozenset())
    assert set(board.snapshot.postings) == {KEY, other}
    assert set(first.postings) == {KEY}
    board.post(45.0, {}, frozenset({KEY}))
    assert set(board.snapshot.postings) == {other}


async def test_until_closed_ends_with_the_board() -> None:
    """A stream without news returns when the board closes, also when it opens too late."""
    board = Board()
    task = asyncio.create_task(board.until_closed())
    await settle()
    assert not task.done()
    board.close()
    await asyncio.wait_for(task, 1)
    await asyncio.wait_for(board.until_closed(), 1)
