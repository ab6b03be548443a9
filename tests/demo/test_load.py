"""The script of the demo's load."""

from __future__ import annotations

from itertools import pairwise, takewhile

import pytest

from scaler.demo.load import BURST, CYCLE, SCRIPT, Load
from scaler.simulation.requests import Request
from scaler.simulation.shapes import MEMORY_BOUND

START = 1_800_000_000.0


def requests_until(end: float, seed: int = 0) -> list[Request]:
    """Return the requests that arrive before `end` seconds of the script are over."""
    arriving = Load(started=START, seed=seed).requests()
    return list(takewhile(lambda request: request.arrived < START + end, arriving))


def by_phase(requests: list[Request]) -> list[list[Request]]:
    """Sort a cycle's requests into the script's phases."""
    load = Load(started=START)
    found: list[list[Request]] = [[] for _ in SCRIPT]
    for request in requests:
        found[load.phase_at(request.arrived)[0]].append(request)
    return found


def test_the_burst_comes_at_the_rate_of_the_calm_around_it() -> None:
    """Requests a second are the same before, in and after the burst; only the prompts grow."""
    phases = by_phase(requests_until(CYCLE))
    rates = {
        index: len(phases[index]) / phase.lasts
        for index, phase in enumerate(SCRIPT)
        if phase.name in {"calm", BURST}
    }
    assert len(rates) == 3
    assert max(rates.values()) < 1.02 * min(rates.values())


def test_long_prompts_come_in_the_burst_alone() -> None:
    """A third of the burst's prompts have up to 30,000 tokens; elsewhere none has 15,000."""
    phases = by_phase(requests_until(CYCLE))
    for phase, requests in zip(SCRIPT, phases, strict=True):
        long = [request.prompt for request in requests if request.prompt >= 15_000]
        if phase.name == BURST:
            assert 0.2 < len(long) / len(requests) < 1 / 3
            assert max(long) <= 30_000
        else:
            assert not long


def test_the_ramp_rises_and_falls_back() -> None:
    """The second minute from its end the rise brings about twice the requests of the calm."""
    rise = SCRIPT[1]
    load = Load(started=START)
    begin = START + SCRIPT[0].lasts
    assert load.rate_at(begin) == SCRIPT[0].rate
    assert load.rate_at(begin + rise.lasts - 1e-6) == pytest.approx(rise.rate_after)
    assert rise.rate_after >= 2 * rise.rate
    assert load.rate_at(begin + rise.lasts + SCRIPT[2].lasts) == SCRIPT[0].rate


def test_the_same_seed_gives_the_same_requests() -> None:
    """Arrivals and lengths are equal for one seed, and others for another."""

    def seen(seed: int) -> list[tuple[float, int, int]]:
        return [(r.arrived, r.prompt, r.output) for r in requests_until(300.0, seed)]

    assert seen(0) == seen(0)
    assert seen(0) != seen(1)


def test_requests_come_in_order_and_every_engine_can_hold_them() -> None:
    """Two cycles long, arrivals rise, numbers are unique and no prompt is too long."""
    requests = requests_until(2 * CYCLE)
    assert all(a.arrived < b.arrived and a.number < b.number for a, b in pairwise(requests))
    assert max(request.prompt + request.output for request in requests) < MEMORY_BOUND.max_model_len


@pytest.mark.parametrize(
    ("since", "index", "name"),
    [
        (-60.0, 0, "calm"),
        (0.0, 0, "calm"),
        (SCRIPT[0].lasts - 0.1, 0, "calm"),
        (SCRIPT[0].lasts, 1, "ramp up"),
        (CYCLE - 0.1, len(SCRIPT) - 1, "calm"),
        (CYCLE, len(SCRIPT), "calm"),
        (2 * CYCLE + SCRIPT[0].lasts, 2 * len(SCRIPT) + 1, "ramp up"),
    ],
)
def test_phases_are_counted_through_all_cycles(since: float, index: int, name: str) -> None:
    """The count goes on from cycle to cycle, and the script begins anew."""
    found, phase = Load(started=START).phase_at(START + since)
    assert (found, phase.name) == (index, name)


def test_nothing_comes_before_the_start() -> None:
    """The first request comes at the start, and the rate before it is 0."""
    load = Load(started=START)
    assert load.rate_at(START - 0.1) == 0.0
    assert next(load.requests()).arrived == START


def test_the_cycle_has_room_for_the_scale_in_window() -> None:
    """After the burst it stays calm for longer than the longest wait of the default policy."""
    assert SCRIPT[-1].name == "calm"
    assert SCRIPT[-1].lasts >= 600.0 + 60.0 + 180.0
    assert 40 * 60 <= CYCLE <= 50 * 60
