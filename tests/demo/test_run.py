"""Whole cycles of the demo, over real HTTP and gRPC, in stepped time and with a scripted scaler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler.control.board import Posting
from scaler.core.reasons import Reason
from scaler.demo.fleet_server import FleetServer
from scaler.demo.load import BURST, Load, Phase
from scaler.demo.run import Scaler, fleet_for, run_demo
from scaler.demo.scene import Scene
from tests.demo.postings import posting
from tests.demo.stepping import ScriptedScaler, SteppingClock, served
from tests.fakes.clock import FakeClock


def phase(name: str, minutes: float) -> Phase:
    """Return a short phase."""
    return Phase(name=name, about=name, lasts=60.0 * minutes, rate=1.0, rate_after=1.0)


SHORT = (phase("calm", 1), phase(BURST, 3), phase("calm", 3))


class Stage:
    """A short demo whose scaler answers by a script."""

    def __init__(self, directory: Path) -> None:
        """Set the stage: three wait for the time, the fleet, the stand-in and the watch."""
        self.clock = SteppingClock(parties=3)
        self.load = Load(started=self.clock.now() + 60.0, script=SHORT)
        self.scene = Scene(start_up=30.0)
        self.fleet = FleetServer(
            clock=self.clock, load=self.load, directory=directory, scene=self.scene
        )
        self.said: list[str] = []
        self._news: asyncio.Queue[str] = asyncio.Queue()

    def _say(self, text: str) -> None:
        self.said.append(text)
        self._news.put_nowait(text)

    async def said_of(self, words: str) -> None:
        """Return when these words are said for the next time."""
        while words not in await self._news.get():
            pass

    def phase(self) -> str:
        """Return the present phase's name, with "after" for the calm after the burst."""
        index, now = self.load.phase_at(self.clock.now())
        return "after" if index % len(SHORT) == len(SHORT) - 1 else now.name

    async def play(
        self,
        desired: Callable[[], int | None],
        *,
        newest: Callable[[], Posting | None] = lambda: None,
        once: bool = True,
    ) -> int:
        """Run the demo."""
        async with served(ScriptedScaler(desired)) as address, self.fleet:
            scaler = Scaler(grpc=address, http="http://127.0.0.1:1", newest=newest)
            return await run_demo(
                self.fleet,
                scaler,
                clock=self.clock,
                speed=30.0,
                say=self._say,
                once=once,
            )


async def test_a_cycle_with_growth_and_shrinking_ends_well(tmp_path: Path) -> None:
    """The stand-in obeys the scaler, the fleet follows, the table shows it, and the exit is 0."""
    stage = Stage(tmp_path)
    counts = {"calm": 2, BURST: 4, "after": 1}
    held = posting(2, 2, Reason.STEADY, ttft=0.2)
    assert await stage.play(lambda: counts[stage.phase()], newest=lambda: held) == 0
    text = "\n".join(stage.said)
    assert "took the fleet from 2 to 4 replicas" in text
    assert "the fleet shrank to 1" in text
    # 60 s before the load and 7 min of it: one line a tick.
    assert sum("steady" in said for said in stage.said) == (60 + 7 * 60) / 15
    assert [said.split()[1] for said in stage.said if "---" in said] == ["calm:", "burst:", "calm:"]


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"calm": 2, BURST: 2, "after": 1}, "did not grow under the burst"),
        ({"calm": 2, BURST: 4, "after": 4}, "did not shrink"),
    ],
)
async def test_a_cycle_without_one_of_both_ends_badly(
    counts: dict[str, int], words: str, tmp_path: Path
) -> None:
    """The exit is 1 and the last sentence says why."""
    stage = Stage(tmp_path)
    assert await stage.play(lambda: counts[stage.phase()]) == 1
    assert words in stage.said[-1]


async def test_a_scaler_that_refuses_is_told_in_the_table(tmp_path: Path) -> None:
    """The fleet stays as it is, and every line says that KEDA got no number."""
    stage = Stage(tmp_path)
    assert await stage.play(lambda: None) == 1
    assert sum("KEDA got no number: UNAVAILABLE" in said for said in stage.said) > 20
    assert stage.fleet.census().spec == 2


async def test_without_once_it_goes_on_until_it_is_stopped(tmp_path: Path) -> None:
    """After a cycle comes the next one, with its own verdict, and a cancel ends it."""
    stage = Stage(tmp_path)
    counts = {"calm": 2, BURST: 4, "after": 1}
    running = asyncio.create_task(stage.play(lambda: counts[stage.phase()], once=False))
    for _ in range(2):
        await stage.said_of("took the fleet from")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("late", [0.0, 5.0, 14.9, 15.0, 16.0, 59.0])
async def test_the_load_begins_on_a_full_minute_soon(late: float, tmp_path: Path) -> None:
    """The scaler has 45 s at least to start in, and every run meets the same grid."""
    clock = FakeClock(1_800_000_000.0 + late)
    started = fleet_for(clock, tmp_path).load.started
    assert started % 60.0 == 0.0
    assert 45.0 <= started - clock.now() <= 105.0
