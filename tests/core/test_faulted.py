"""No fault lowers a count, activates or ends anything: thousands of seeds, and those that failed.

`python -m benchmarks histories` runs a million of them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.learned import Learned
from scaler.core.policy import Signal
from scaler.core.sample import Sample
from scaler.core.units import TICK
from tests.core.faulted import FAULTS, broken, case_of
from tests.core.histories import (
    BUSY,
    NOW,
    STATED,
    newest_need,
    only,
    row_of,
    stamped,
    steady,
    ttft_in,
)

SEEDS = 1_500

FOUND = (
    *(267, 1423, 2616, 3068, 10807, 15116, 16428, 50256),
    *(145028, 179043, 209790, 217262, 221291, 253687, 267930, 340539),
    *(345041, 389690, 705425, 710127, 858247, 932844),
)
"""Seeds that broke a law once: a fleet not heard for a while was taken for one that was small."""


@pytest.mark.parametrize("part", range(4))
def test_no_fault_takes_replicas_away(part: int) -> None:
    """Of any of these histories, with any of the faults."""
    wrong = {seed: faults for seed in range(part, SEEDS, 4) if (faults := broken(case_of(seed)))}
    assert wrong == {}


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_broken_once_holds(seed: int) -> None:
    """Each seed that was found stays."""
    assert broken(case_of(seed)) == []


def test_a_fleet_that_was_not_heard_was_not_small() -> None:
    """Neither a slow first token nor a trend counts for less when the source was away."""
    policy = only(Signal.TTFT)
    slow = replace(BUSY, waiting=8.0, queued=4, ttft=ttft_in(5))
    unheard = replace(slow, serving=0, unseen=4, waiting=0.0, running=0.0, ttft=None)
    back = row_of(*[slow] * 10, *[unheard] * 5, *[slow] * 10)
    assert newest_need(back, policy).low == newest_need(steady(slow, 25), policy).low > 4
    grows = [replace(BUSY, running=40.0 + step) for step in range(20)]
    missed = [
        replace(sample, serving=3, unseen=1, running=sample.running * 0.75) if index < 5 else sample
        for index, sample in enumerate(grows)
    ]
    learned = Learned(saturation=32.0)
    lows = [newest_need(row_of(*samples), STATED, learned).low for samples in (grows, missed)]
    assert lows[0] == pytest.approx(lows[1])


def test_the_cases_are_worth_deciding_on() -> None:
    """Fleets grow, shrink, hold and go idle in them, and every fault befalls some."""
    cases = [case_of(seed) for seed in range(400)]
    steps = {
        (decision.desired or 0) - case.scale.current
        for case in cases
        for decision in [case.decided(case.healthy)]
    }
    assert min(steps) < 0 < max(steps)
    assert 0 in steps
    assert {case.decided(case.healthy).active for case in cases} == {True, False}
    assert {fault for case in cases for fault in case.faults} == set(FAULTS)
    changed = sum(case.healthy != case.faulty for case in cases)
    assert changed > 300


def test_a_broken_law_is_seen() -> None:
    """Samples that lie about calm make the very law fail that faults must not break."""
    for seed in range(400):
        case = case_of(seed)
        idle = [
            stamped(Sample(at=NOW, scraped_at=NOW, serving=4), NOW - back * TICK)
            for back in range(len(case.healthy))
        ]
        lying = replace(case, faulty=tuple(reversed(idle)), faults=("lie",))
        if any("faults took the count" in fault for fault in broken(lying)):
            return
    pytest.fail("no lie was found out")
