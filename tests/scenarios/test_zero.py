"""From zero and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from scaler.control.ports import SourceError
from scaler.core.workload import Selection
from scaler.simulation.gateway import Gateway
from scaler.simulation.requests import Ending
from tests.scenarios.fleets import SimulatedFleet
from tests.scenarios.stage import START, Setting, stage

pytestmark = pytest.mark.timeout(300)


class Queue:
    """Who is asked for the activationQuery: the gateway's queue as it is."""

    def __init__(self, gateway: Gateway) -> None:
        """Look at this gateway."""
        self._gateway = gateway

    async def demands(
        self, selections: Collection[Selection], at: float
    ) -> Mapping[Selection, float | SourceError | None]:
        """Tell how many requests it holds."""
        del at
        return dict.fromkeys(selections, float(len(self._gateway)))


async def test_from_zero_and_back_without_a_flap(tmp_path: Path) -> None:
    """Held requests wake the fleet, it serves them all, and goes to zero once, after calm."""
    gateway = Gateway(per_replica=None)
    fleet = SimulatedFleet(
        lambda t: 2.0 if 120.0 <= t < 600.0 else 0.0,
        replicas=0,
        start=START,
        start_up=40.0,
        gateway=gateway,
    )
    setting = Setting(replicas=0, min_replicas=0, metadata={"activationQuery": "name:queue"})
    async with stage(tmp_path, fleet, setting, Queue(gateway)) as on:
        await on.ticks(100)
    first, last = on.counts.index(max(on.counts[:20])), len(on.counts)
    assert on.counts[0] == 0
    assert on.counts[9] > 0, on.story()
    assert on.counts[-1] == 0, on.story()
    assert on.turns == 1, on.story()
    assert first < last
    outcomes = fleet.fleet.outcomes
    assert outcomes.ended[Ending.REJECTED] == outcomes.ended[Ending.CUT_OFF] == 0
