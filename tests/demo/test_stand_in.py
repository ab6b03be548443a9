"""The stand-in for KEDA and the HPA, against a scripted scaler over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from scaler.demo.scene import Scene
from scaler.demo.stand_in import StandIn
from scaler.wire.externalscaler_pb2_grpc import ExternalScalerStub
from tests.demo.stepping import FakeFleet, ScriptedScaler, SteppingClock, served
from tests.fakes.clock import FakeClock

if TYPE_CHECKING:
    from scaler.wire.externalscaler_pb2_grpc import ExternalScalerAsyncStub

START = 1_800_000_000.0


class Rounds:
    """A stand-in whose rounds a test makes one by one, 15 s apart."""

    def __init__(self, scaler: ScriptedScaler, stub: ExternalScalerAsyncStub) -> None:
        """Begin with a fleet of two."""
        self.scaler = scaler
        self.fleet = FakeFleet()
        self.clock = FakeClock(START)
        self.stand_in = StandIn(
            scene=Scene(), fleet=self.fleet, address="scaler:9090", clock=self.clock
        )
        self._stub = stub

    async def ask(self, desired: int | None, times: int = 1) -> int:
        """Let the scaler answer this for some rounds; return the fleet's size afterwards."""
        self.scaler.desired = lambda: desired
        for _ in range(times):
            await self.stand_in.round(self._stub)
            self.clock.set(self.clock.now() + 15.0)
        return self.fleet.replicas


@asynccontextmanager
async def rounds() -> AsyncIterator[Rounds]:
    """Serve a scripted scaler to a stand-in."""
    scaler = ScriptedScaler(lambda: 2)
    async with served(scaler) as address, grpc.aio.insecure_channel(address) as channel:
        yield Rounds(scaler, ExternalScalerStub(channel))


async def test_a_round_asks_in_keda_s_order() -> None:
    """The spec first, then the metric that it names, then the activity."""
    async with rounds() as keda:
        await keda.ask(2, times=2)
        assert keda.scaler.asked == ["GetMetricSpec", "GetMetrics replicas", "IsActive"] * 2
        ref = keda.scaler.refs[0]
        assert (ref.namespace, ref.name) == ("demo", "chat")
        assert dict(ref.scalerMetadata) == {
            "scalerAddress": "scaler:9090",
            "modelName": "emulated-8b",
        }


async def test_a_higher_answer_is_obeyed_at_once() -> None:
    """Neither a tolerance nor a window holds growth back."""
    async with rounds() as keda:
        assert await keda.ask(3) == 3
        assert await keda.ask(5) == 5


async def test_a_lower_answer_is_obeyed_after_a_minute() -> None:
    """The scale-down window takes the highest answer of 60 s."""
    async with rounds() as keda:
        await keda.ask(4)
        assert await keda.ask(3, times=3) == 4
        assert await keda.ask(3) == 3
        assert keda.fleet.writes == [4, 3]


async def test_the_count_stays_within_the_bounds() -> None:
    """However many are asked for, the maximum holds."""
    async with rounds() as keda:
        assert await keda.ask(100, times=5) == 12


async def test_the_whole_number_counts_where_the_fraction_is_zero() -> None:
    """An answer as older releases give it is understood as well."""
    async with rounds() as keda:
        keda.scaler.as_fraction = False
        assert await keda.ask(3) == 3


async def test_a_refusal_keeps_the_count_and_is_told() -> None:
    """Without a number nothing moves, KEDA asks twice, and the next answer ends the trouble."""
    async with rounds() as keda:
        await keda.ask(4)
        keda.scaler.asked.clear()
        assert await keda.ask(None, times=6) == 4
        assert keda.scaler.asked[:3] == [
            "GetMetricSpec",
            "GetMetrics replicas",
            "GetMetrics replicas",
        ]
        assert keda.stand_in.trouble == "UNAVAILABLE: nobody knows"
        assert await keda.ask(5) == 5
        assert keda.stand_in.trouble is None


@pytest.mark.parametrize("specs", [0, 2])
async def test_a_spec_that_is_not_one_metric_moves_nothing(specs: int) -> None:
    """It is told as trouble, and no value is asked for."""
    async with rounds() as keda:
        keda.scaler.specs = specs
        assert await keda.ask(9, times=2) == 2
        assert keda.stand_in.trouble == f"{specs} metrics where the scaler has one"
        assert set(keda.scaler.asked) == {"GetMetricSpec"}


async def test_the_stand_in_asks_once_a_tick() -> None:
    """Left to itself it asks at once, and then 8 s after every tick."""
    clock = SteppingClock(parties=2)
    asked: list[float] = []

    def answer() -> int:
        asked.append(clock.now() - START)
        return 2

    scaler = ScriptedScaler(answer)
    async with served(scaler) as address:
        stand_in = StandIn(scene=Scene(), fleet=FakeFleet(), address=address, clock=clock)
        running = asyncio.create_task(stand_in.run())
        await clock.sleep_until(START + 40.0)
        running.cancel()
    assert asked == [0.0, 8.0, 23.0, 38.0]
