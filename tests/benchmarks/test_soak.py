"""The soak: each bad day runs against a real server, and growth is told from noise."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator

import pytest

from benchmarks._fleet import registry_of
from benchmarks._serving import postings_of
from benchmarks.soak import DAYS, Day, Look, Soak, grown
from scaler.adapters.clock import WallClock
from scaler.control.board import Board
from scaler.edge.grpc_server import GrpcServer
from scaler.edge.measures import Measures


def looks(*memory: float, files: int = 10, threads: int = 8) -> list[Look]:
    """Return looks at so much memory; the last quarter has these files and threads."""
    last = len(memory) - len(memory) // 4
    return [
        Look(
            at=float(index),
            memory=held,
            files=files if index >= last else 10,
            threads=threads if index >= last else 8,
        )
        for index, held in enumerate(memory)
    ]


@pytest.mark.parametrize(
    ("seen", "faults"),
    [
        (looks(*[50.0] * 4, *[100.0] * 8), 0),
        (looks(*[100.0] * 9, *[109.0] * 3), 0),
        (looks(*[100.0] * 9, *[111.0] * 3), 1),
        (looks(*[100.0] * 9, 100.0, 150.0, 100.0), 0),
        (looks(*[100.0] * 12, files=23), 1),
        (looks(*[100.0] * 12, files=22), 0),
        (looks(*[100.0] * 12, threads=13), 1),
        (looks(*[100.0] * 9, *[120.0] * 3, files=30, threads=30), 3),
        (looks(100.0, 100.0), 1),
    ],
)
def test_growth_in_the_last_quarter_is_a_leak(seen: list[Look], faults: int) -> None:
    """Filling up in the first half is none, nor is one look in between."""
    assert len(grown(seen)) == faults


@pytest.fixture
async def soaked() -> AsyncIterator[Soak]:
    """Serve ScaledObjects that are decided on."""
    registry, board = registry_of(200, WallClock()), Board()
    board.post(time.time(), postings_of(registry, active=True), frozenset())
    edge = GrpcServer(registry=registry, board=board, now=time.time, measures=Measures())
    port = await edge.serve("127.0.0.1:0")
    yield Soak(port=port, pid=os.getpid())
    await edge.drain()


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.__name__)
async def test_a_bad_day_leaves_a_server_that_answers(soaked: Soak, day: Day) -> None:
    """After each of them every ScaledObject is answered, whatever came before."""
    await day(soaked)
    await asyncio.sleep(0)
    soaked.codes.clear()
    await DAYS[0](soaked)
    assert soaked.codes == {"OK": 400}
    soaked.look()
    assert soaked.looks[-1].threads > 0
