"""Sending at instants: never waiting for answers, with each request ending exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.fates import NO_CONNECTION_LEFT, NO_END, SERVED, Fate, Seen, refused
from scaler.adapters.load_ledger import Ledger
from scaler.adapters.open_loop import OpenLoop
from scaler.simulation.outcomes import Slo
from scaler.simulation.requests import Ending, Request
from tests.fakes.clock import FakeClock, settle

BEGIN = 1_000_000_005.0


class FakeSender:
    """Answers each request after the delays of its number: to the first token, and to its end."""

    def __init__(self, clock: FakeClock, plan: Sequence[tuple[float, float, Fate]]) -> None:
        self.clock = clock
        self.plan = plan
        self.sent: list[tuple[int, float]] = []
        self.cancelled: list[int] = []

    async def send(self, request: Request, seen: Seen) -> Fate:
        """Answer as planned."""
        self.sent.append((request.number, self.clock.now() - BEGIN))
        first, whole, fate = self.plan[request.number % len(self.plan)]
        begun = self.clock.now()
        try:
            if first <= whole:
                await self.clock.sleep_until(begun + first)
                seen.first_token_at = seen.last_token_at = self.clock.now()
                seen.chunks = 1
            await self.clock.sleep_until(begun + whole)
        except asyncio.CancelledError:
            self.cancelled.append(request.number)
            raise
        return fate


class Test:
    """A loop, and the hands that move its time."""

    __test__ = False

    def __init__(
        self,
        plan: Sequence[tuple[float, float, Fate]],
        *,
        most_open: int = 1000,
        warm_up: float = 0,
    ) -> None:
        self.clock = FakeClock(BEGIN)
        self.sender = FakeSender(self.clock, plan)
        self.ledger = Ledger(slo=Slo(), warm_up=warm_up, every=10.0)
        self.loop = OpenLoop(
            sender=self.sender, clock=self.clock, ledger=self.ledger, most_open=most_open
        )

    def start(self, instants: Sequence[float], **patience: float) -> asyncio.Task[None]:
        """Begin to send."""
        return asyncio.create_task(self.loop.run(requests(instants, **patience)))

    async def until(self, work: asyncio.Task[None], step: float = 1.0) -> None:
        """Let time pass until the loop has ended."""
        await settle()
        for _ in range(10_000):
            if work.done():
                break
            await self.clock.advance(step)
        await work


def requests(
    instants: Sequence[float], patience: float = 60.0, timeout: float = 600.0
) -> Iterator[Request]:
    """Make a request for each instant."""
    for number, at in enumerate(instants):
        yield Request(
            number=number, arrived=at, prompt=10, output=5, patience=patience, timeout=timeout
        )


async def test_arrivals_never_wait_for_answers() -> None:
    """A server that hangs gets the next requests at their instants all the same."""
    test = Test([(500.0, 500.0, SERVED)])
    work = test.start([0, 1, 2, 3])
    await settle()
    for _ in range(3):
        await test.clock.advance(1.0)
    assert test.sender.sent == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)]
    assert test.loop.open == 4
    await test.until(work, 60.0)
    assert test.ledger.outcomes.ended[Ending.GIVEN_UP] == 4


async def test_a_late_start_counts_against_the_latency_and_is_told() -> None:
    """A machine that wakes 5 s late adds them to the TTFT: no omission can flatter."""
    test = Test([(1.0, 1.0, SERVED)])
    work = test.start([1.0])
    await settle()
    await test.clock.advance(6.0)
    await test.until(work)
    late, ttft = test.ledger.late.quantile(0.99), test.ledger.outcomes.ttft.quantile(0.5)
    assert late == pytest.approx(5.0, rel=0.02)
    assert test.ledger.most_late == 5.0
    assert ttft == pytest.approx(6.0, rel=0.02)
    assert test.ledger.outcomes.attained == 0


@pytest.mark.parametrize(
    ("first", "whole", "ending", "kind", "at"),
    [
        (2.0, 3.0, Ending.SERVED, "served", 3.0),
        (10.0, 12.0, Ending.GIVEN_UP, "patience", 5.0),
        (2.0, 30.0, Ending.GIVEN_UP, "timeout", 20.0),
    ],
)
async def test_clients_have_patience(
    first: float, whole: float, ending: Ending, kind: str, at: float
) -> None:
    """Without a first token they go after 5 s, in any case after 20 s, and the server sees it."""
    test = Test([(first, whole, SERVED)])
    work = test.start([0.0], patience=5.0, timeout=20.0)
    await settle()
    while not work.done():
        assert test.clock.now() - BEGIN < at
        await test.clock.advance(1.0)
    assert test.clock.now() - BEGIN == at
    assert test.ledger.outcomes.ended[ending] == 1
    assert test.ledger.kinds == {kind: 1}
    assert test.sender.cancelled == ([] if ending is Ending.SERVED else [0])


async def test_what_cannot_be_sent_is_a_miss_and_not_an_ending() -> None:
    """Above the limit requests are counted, not sent, and not taken out of the attainment."""
    test = Test([(1.0, 4.0, SERVED)], most_open=2)
    await test.until(test.start([0, 1, 2, 3, 9]))
    assert [number for number, _ in test.sender.sent] == [0, 1, 4]
    assert test.ledger.unsent == 2
    assert test.ledger.kinds == {"served": 3, "too_many_open": 2}
    assert test.ledger.outcomes.slo_attainment == 3 / 5
    assert test.ledger.unfinished == 0


async def test_stopping_lets_what_is_open_end() -> None:
    """No more is sent, nothing that was sent is lost, and there is nothing to stop twice."""
    test = Test([(1.0, 8.0, SERVED)])
    work = test.start([0, 1, 50, 51])
    await settle()
    await test.clock.advance(2.0)
    assert test.loop.stop()
    await settle()
    assert not test.loop.stop()
    await test.until(work)
    assert test.ledger.outcomes.arrived == 2
    assert test.ledger.outcomes.ended[Ending.SERVED] == 2


async def test_leaving_keeps_what_was_measured() -> None:
    """What is open when everything is cancelled is unfinished, and a miss."""
    test = Test([(1.0, 2.0, SERVED), (1.0, 100.0, SERVED)])
    work = test.start([0, 1, 50])
    await settle()
    for _ in range(3):
        await test.clock.advance(1.0)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert test.ledger.outcomes.ended[Ending.SERVED] == 1
    assert test.ledger.unfinished == 1
    assert test.ledger.outcomes.slo_attainment == 0.5
    assert test.sender.cancelled == [1]


FATES = st.sampled_from([SERVED, NO_END, refused(429), NO_CONNECTION_LEFT])
PLANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40), FATES), min_size=1, max_size=6)


@given(
    st.lists(st.integers(0, 40), max_size=25).map(sorted),
    PLANS,
    st.integers(1, 30),
    st.sampled_from([0.0, 10.0]),
    st.none() | st.integers(0, 30),
)
def test_every_request_ends_exactly_once(
    instants: list[int],
    plan: list[tuple[int, int, Fate]],
    most_open: int,
    warm_up: float,
    stopped_at: int | None,
) -> None:
    """Whatever the server does and whenever it is stopped: arrived = ended + unsent, all told."""

    async def story() -> None:
        test = Test(plan, most_open=most_open, warm_up=warm_up)
        work = test.start(instants, patience=15.0, timeout=25.0)
        await settle()
        for second in range(120):
            if second == stopped_at:
                test.loop.stop()
            await test.clock.advance(1.0)
        await work
        ledger, outcomes = test.ledger, test.ledger.outcomes
        assert test.loop.open == ledger.unfinished == 0
        assert outcomes.arrived == outcomes.total_ended + ledger.unsent
        assert outcomes.arrived == sum(ledger.kinds.values())
        if stopped_at is None:
            assert outcomes.arrived + ledger.warming == len(instants)
        slices = ledger.intervals
        every = sum(slice_.outcomes.arrived for slice_ in slices)
        assert every == outcomes.arrived + ledger.warming
        assert every == sum(slice_.ended for slice_ in slices)
        assert every == sum(slice_.outcomes.total_ended + slice_.unsent for slice_ in slices)

    asyncio.run(story())
