"""Two scalers on one real Prometheus, one of them restarted: they never disagree."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.config.trigger import Resolved, Trigger
from scaler.control.board import Board
from scaler.control.follower import Follower
from scaler.control.registry import Registry
from scaler.core.decision import Decision
from scaler.core.policy import Policy
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Scale, Selection
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.prometheus_server import Past, prometheus

pytestmark = pytest.mark.prometheus

END = tick_at(time.time() - 3600.0)
BEGIN = END - 3600.0
_EDGES = (0.5, 1.0, 2.5, 5.0, float("inf"))


def phase(at: float) -> tuple[float, float, float]:
    """Say what each of four replicas runs, has waiting, and its TTFT: calm, overload, calm."""
    minute = (at - BEGIN) / 60.0
    if 20 <= minute < 35:
        return 30.0, 9.0 + minute % 3, 4.0
    if minute >= 44:
        return 1.0, 0.0, 0.4
    return 6.0 + minute % 4, 0.0, 0.4


def write_past() -> Past:
    """Write an hour of four replicas, scraped every 15 s."""
    past = Past()
    scrapes = [BEGIN - 600.0 + 15.0 * number + 4.0 for number in range(int(4200 / 15))]
    for index in range(4):
        base = {"namespace": "llm", "pod": f"chat-{index}", "engine": "0", "model_name": "chat"}
        tokens, firsts, buckets = 0.0, 0.0, dict.fromkeys(_EDGES, 0.0)
        for at in scrapes:
            running, waiting, ttft = phase(at)
            tokens, firsts = tokens + running * 300.0, firsts + 15.0
            for edge in _EDGES:
                buckets[edge] += 15.0 if edge >= ttft else 0.0
            for name, value in (
                ("num_requests_running", running),
                ("num_requests_waiting", waiting),
                ("kv_cache_usage_perc", min(1.0, running / 40.0)),
                ("generation_tokens_total", tokens),
                ("time_to_first_token_seconds_count", firsts),
            ):
                past.add(f"vllm:{name}", base, {at: value})
            for edge, count in buckets.items():
                le = "+Inf" if edge == float("inf") else str(edge)
                name = "vllm:time_to_first_token_seconds_bucket"
                past.add(name, {**base, "le": le}, {at: count})
    return past


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one server for this file."""
    with prometheus(tmp_path_factory.mktemp("prometheus"), write_past()) as address:
        yield address


class Twin:
    """A scaler's loop on the real source, with a clock and a count of its own."""

    def __init__(self, url: str, at: float) -> None:
        """Start it at a tick."""
        self.clock = FakeClock(at + 0.5)
        self.registry = Registry(_resolve, self.clock.now)
        self.board = Board()
        self.cluster = FakeCluster(chat=Scale(current=4, max_replicas=20))
        source = PrometheusSource(PrometheusSettings(url=url))
        self.follower = Follower(source, self.registry, self.board, self.cluster)
        self.registry.ask("llm", "chat", {"modelName": "chat"})

    async def tick(self, at: float) -> Decision:
        """Let one tick go by and return the decision."""
        self.clock.set(at + 0.5)
        self.registry.ask("llm", "chat", {"modelName": "chat"})
        await self.follower.tick(at)
        await self.follower.admit(at)
        while self.follower.wants_minutes:
            await self.follower.recall_a_day(at)
        decision = self.board.snapshot.of("llm", "chat")[0].decision
        if decision.desired is not None:
            self.cluster.move("chat", decision.desired)
        return decision


def _resolve(trigger: Trigger) -> Resolved:
    selection = Selection(
        source="prometheus", namespace=trigger.key.namespace, model_name=trigger.key.name
    )
    return Resolved(policy=Policy(), selection=selection)


def answer(decision: Decision) -> tuple[object, ...]:
    """Return what must be equal: the answer, its reason, and what was learned."""
    return (decision.desired, decision.reason, decision.floor, decision.ceiling, decision.learned)


async def test_history_gives_a_decision_at_once(url: str) -> None:
    """A scaler that starts within an overload that is on record scales out at its first tick."""
    first = await Twin(url, BEGIN + 30 * 60).tick(BEGIN + 30 * 60)
    assert (first.desired or 0) > 4
    assert first.overload_for >= Policy().scale_out_window


async def test_calm_on_record_is_given_up_at_once(url: str) -> None:
    """A scaler that starts after long calm does not wait for its own window."""
    decision = await Twin(url, BEGIN + 58 * 60).tick(BEGIN + 58 * 60)
    assert decision.desired is not None
    assert decision.desired < 4


async def test_a_restart_in_mid_window_changes_nothing(url: str) -> None:
    """Whenever the second scaler is started anew, both answer alike at every tick."""
    first = Twin(url, BEGIN + 15 * 60)
    second = Twin(url, BEGIN + 15 * 60)
    for number in range(100):
        at = BEGIN + 15 * 60 + number * TICK
        if number % 17 == 16:
            current = second.cluster.scales["llm", "chat"]
            second = Twin(url, at)
            second.cluster.scales["llm", "chat"] = current
        assert answer(await first.tick(at)) == answer(await second.tick(at)), number
