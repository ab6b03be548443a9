"""A loop over fakes, for the tests of the control room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from scaler.config.trigger import Resolved, Trigger
from scaler.control.board import Board, Posting
from scaler.control.follower import Follower
from scaler.control.registry import Registry
from scaler.core.policy import Policy
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Selection
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import FakeSource, Script


@dataclass
class House:
    """One follower with everything around it, and the time it has got to."""

    clock: FakeClock
    registry: Registry
    board: Board
    source: FakeSource
    cluster: FakeCluster | None
    follower: Follower

    async def ticks(self, count: int) -> None:
        """Let that many ticks go by."""
        for _ in range(count):
            self.clock.set(tick_at(self.clock.now()) + TICK)
            await self.follower.tick(tick_at(self.clock.now()))
            await self.follower.admit(tick_at(self.clock.now()))

    def ask(self, name: str = "chat", **metadata: str) -> None:
        """Ask as KEDA would."""
        self.registry.ask("llm", name, {"modelName": name, **metadata})

    def posting(self, name: str = "chat") -> Posting:
        """Return what the board says of a ScaledObject."""
        return self.board.snapshot.of("llm", name)[0]


def resolve_with(policy: Policy) -> Callable[[Trigger], Resolved]:
    """Make a resolver that gives every trigger this policy and selects by its model."""

    def resolve(trigger: Trigger) -> Resolved:
        selection = Selection(
            source="fake", namespace=trigger.key.namespace, model_name=trigger.key.name
        )
        return Resolved(policy=policy, selection=selection)

    return resolve


def build(
    script: Script,
    cluster: FakeCluster | None,
    *,
    policy: Policy | None = None,
    remembers: bool = True,
) -> House:
    """Wire a follower to fakes."""
    clock = FakeClock()
    registry = Registry(resolve_with(policy or Policy()), clock.now)
    board = Board()
    source = FakeSource(script, remembers=remembers)
    follower = Follower(source, registry, board, cluster)
    return House(clock, registry, board, source, cluster, follower)


@pytest.fixture
def make_house() -> Callable[..., House]:
    """Give the builder to tests."""
    return build
