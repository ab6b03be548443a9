"""How much a step slows for each request beside the others, and for the prompts among them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scaler.core.context import look_back
from scaler.core.learned import Learned
from scaler.core.minutes import MINUTE, Minutes
from scaler.core.need import Row, need_of
from scaler.core.slowdown import NO_SLOWDOWN, Slowdown, slowdown
from tests.core.histories import BUSY, NOW, STATED, stamped, steady

BASE, RUNNING, PROMPT = 0.02, 0.001, 0.0004
"""An engine whose step takes so many seconds, more for each request, more for its prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Minutes of one load: requests of one replica, prompt tokens per generated one."""

    each: float
    ratio: float | None = 0.0
    minutes: int = 4
    serving: int = 4
    waiting: float = 0.0
    unseen: int = 0


def remembered(
    *phases: Phase, base: float = BASE, running: float = RUNNING, prompt: float = PROMPT
) -> Minutes:
    """Return the minutes of an engine with this step, the newest at `NOW`.

    Between two phases a minute is missing, so that no mean spans both.
    """
    minutes = Minutes()
    at = NOW - (sum(phase.minutes + 1 for phase in phases) - 2) * MINUTE
    for phase in phases:
        ratio = phase.ratio or 0.0
        step = base + running * phase.each + prompt * phase.each * ratio
        tokens = phase.serving * phase.each / step
        sample = replace(
            BUSY,
            serving=phase.serving,
            running=phase.serving * phase.each,
            waiting=phase.waiting,
            unseen=phase.unseen,
            token_rate=tokens,
            prompt_token_rate=None if phase.ratio is None else ratio * tokens,
        )
        for _ in range(phase.minutes):
            minutes.keep(stamped(sample, at))
            at += MINUTE
        at += MINUTE
    return minutes


LOW, HIGH = Phase(each=10.0), Phase(each=40.0)


@pytest.mark.parametrize(
    ("minutes", "running"),
    [
        pytest.param(Minutes(), 0.0, id="nothing-remembered"),
        pytest.param(remembered(replace(LOW, minutes=60)), 0.0, id="one-load-has-no-slope"),
        pytest.param(remembered(LOW, Phase(each=19.9)), 0.0, id="loads-too-near-each-other"),
        pytest.param(remembered(LOW, Phase(each=20.0)), 0.05, id="exactly-twice-as-much"),
        pytest.param(remembered(LOW, HIGH), 0.05, id="two-loads"),
        pytest.param(remembered(HIGH, LOW), 0.05, id="in-any-order"),
        pytest.param(
            remembered(LOW, replace(HIGH, minutes=3)), 0.0, id="two-minutes-in-a-bin-at-least"
        ),
        pytest.param(
            remembered(replace(LOW, minutes=300), HIGH), 0.05, id="rare-loads-count-as-much"
        ),
        pytest.param(
            remembered(LOW, replace(HIGH, waiting=80.0)), 0.05, id="with-a-queue-it-holds-as-well"
        ),
        pytest.param(remembered(LOW, replace(HIGH, unseen=1)), 0.0, id="half-seen"),
        pytest.param(remembered(LOW, replace(HIGH, serving=9)), 0.05, id="another-size"),
        pytest.param(
            remembered(replace(LOW, each=0.5), Phase(each=2.0)),
            0.0,
            id="not-every-replica-had-work",
        ),
        pytest.param(remembered(LOW, HIGH, running=-0.0001), 0.0, id="a-faster-step-is-noise"),
        pytest.param(remembered(LOW, HIGH, base=0.0), 0.4, id="a-step-always-has-a-base"),
        pytest.param(
            remembered(LOW, HIGH, base=-0.001), 0.4, id="also-where-noise-puts-it-below-zero"
        ),
        pytest.param(
            remembered(LOW, HIGH, Phase(each=25.0, minutes=350)),
            0.05,
            id="six-hours-back",
        ),
        pytest.param(
            remembered(LOW, HIGH, Phase(each=25.0, minutes=361)), 0.0, id="then-forgotten"
        ),
    ],
)
def test_the_slope_of_running(minutes: Minutes, running: float) -> None:
    """A straight line through what the fleet showed under different loads."""
    found = slowdown(minutes, NOW)
    assert found.running == pytest.approx(running, rel=0.03, abs=1e-9)
    assert found.prompt == 0.0


SHORT, LONG = 1.0, 30.0


@pytest.mark.parametrize(
    ("minutes", "running", "prompt"),
    [
        pytest.param(
            remembered(LOW, HIGH, replace(LOW, ratio=LONG), replace(HIGH, ratio=LONG)),
            0.05,
            0.02,
            id="each-load-with-each-shape",
        ),
        pytest.param(
            remembered(replace(LOW, ratio=SHORT), HIGH, replace(LOW, ratio=LONG)),
            0.05,
            0.02,
            id="three-points-make-a-plane",
        ),
        pytest.param(
            remembered(LOW, HIGH, replace(LOW, ratio=LONG), running=0.0),
            0.0,
            0.02,
            id="prompts-alone",
        ),
        pytest.param(
            remembered(LOW, HIGH, replace(LOW, ratio=LONG), prompt=0.0),
            0.05,
            0.0,
            id="requests-alone",
        ),
        pytest.param(
            remembered(replace(LOW, ratio=SHORT), replace(HIGH, ratio=SHORT)),
            0.07,
            0.0,
            id="one-shape-is-a-part-of-the-requests",
        ),
        pytest.param(
            remembered(replace(LOW, ratio=None), replace(HIGH, ratio=None)),
            0.05,
            0.0,
            id="prompts-not-known",
        ),
    ],
)
def test_the_slope_of_prompts(minutes: Minutes, running: float, prompt: float) -> None:
    """What long prompts cost is told from what requests cost, where both have varied."""
    found = slowdown(minutes, NOW)
    assert found.running == pytest.approx(running, abs=1e-6)
    assert found.prompt == pytest.approx(prompt, abs=1e-6)


def test_a_peak_beside_a_mean_rate_is_no_slow_step() -> None:
    """What ran is averaged over the window of the rates: a burst of one minute teaches nothing."""
    minutes = Minutes()
    for back in reversed(range(30)):
        burst = 10 < back % 15 < 12
        running = 4 * (70.0 if burst else 10.0)
        # Of the 30 a replica ran on average, one minute after the other through the window.
        mean = 30.0 if back % 15 in {9, 10, 11} else 10.0
        tokens = 4 * mean / (BASE + RUNNING * mean)
        minutes.keep(
            stamped(replace(BUSY, running=running, token_rate=tokens), NOW - back * MINUTE)
        )
    assert slowdown(minutes, NOW).running == pytest.approx(RUNNING / BASE)


@pytest.mark.parametrize("changed", [0, 1, 2], ids=["now", "a-minute-ago", "two-minutes-ago"])
def test_a_fleet_that_changes_its_size_teaches_nothing(changed: int) -> None:
    """Rates of two minutes in which replicas came are those of no fleet."""
    steps = [replace(LOW, minutes=10)]
    minutes = remembered(*steps)
    at = NOW - 10 * MINUTE
    other = Minutes()
    for number in range(30):
        size = 5 if number % 3 == changed else 4
        tokens = size * 40.0 / (BASE + RUNNING * 40.0)
        sample = replace(BUSY, serving=size, running=size * 40.0, token_rate=tokens)
        other.keep(stamped(sample, at - (30 - number) * MINUTE))
    merged = Minutes()
    merged.merge(other, {})
    assert slowdown(merged, NOW) == NO_SLOWDOWN
    for index, each in enumerate(minutes.at):
        sample = replace(
            BUSY,
            running=minutes.running[index],
            token_rate=minutes.tokens[index],
        )
        merged.keep(stamped(sample, each))
    assert slowdown(merged, NOW) == NO_SLOWDOWN


@given(
    base=st.floats(0.001, 0.1),
    running=st.floats(0.0, 0.2),
    prompt=st.floats(0.0, 0.2),
    least=st.floats(1.0, 50.0),
    apart=st.floats(2.5, 10.0),
    ratios=st.tuples(st.floats(0.0, 4.0), st.floats(6.0, 60.0)),
)
def test_the_fit_recovers_what_the_engine_is(
    *,
    base: float,
    running: float,
    prompt: float,
    least: float,
    apart: float,
    ratios: tuple[float, float],
) -> None:
    """Minutes of an engine with such a step give both of its slopes back, whatever they are."""
    phases = [Phase(each=each, ratio=ratio) for each in (least, least * apart) for ratio in ratios]
    minutes = remembered(*phases, base=base, running=running * base, prompt=prompt * base)
    found = slowdown(minutes, NOW)
    # Where the base is below a tenth of the steps it is not told from nothing.
    median = sorted(
        1 + (running + prompt * p.ratio) * p.each for p in phases if p.ratio is not None
    )
    assume(0.1 * (median[1] + median[2]) / 2 < 0.99)
    assert found.running == pytest.approx(running, rel=1e-3, abs=1e-4)
    assert found.prompt == pytest.approx(prompt, rel=1e-3, abs=1e-4)


_numbers = st.one_of(st.sampled_from([0.0, math.nan]), st.floats(1e-3, 1e6))


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(0.0, 1e4), _numbers, _numbers, st.integers(2, 6)),
        max_size=12,
    )
)
def test_noise_never_gives_a_slope_that_cannot_be(
    phases: list[tuple[int, float, float, float, int]],
) -> None:
    """Whatever minutes hold, both slopes are finite and not negative."""
    minutes = Minutes()
    at = NOW - 12 * 6 * MINUTE
    for serving, running, tokens, prompts, count in phases:
        for _ in range(count):
            sample = replace(
                BUSY,
                serving=serving,
                running=running,
                token_rate=None if math.isnan(tokens) else tokens,
                prompt_token_rate=None if math.isnan(prompts) else prompts,
            )
            minutes.keep(stamped(sample, at))
            at += MINUTE
    found = slowdown(minutes, NOW)
    assert 0.0 <= found.running < math.inf
    assert 0.0 <= found.prompt < math.inf


@pytest.mark.parametrize(
    ("prompts", "tokens", "share"),
    [
        pytest.param(3000.0, 1000.0, 0.05 + 3 * 0.01, id="both-known"),
        pytest.param(0.0, 1000.0, 0.05, id="no-prompt"),
        pytest.param(None, 1000.0, 0.05, id="prompts-not-known"),
        pytest.param(3000.0, None, 0.05, id="tokens-not-known"),
        pytest.param(3000.0, 0.0, 0.05, id="no-token"),
    ],
)
def test_the_share_at_the_present_rates(
    prompts: float | None, tokens: float | None, share: float
) -> None:
    """Rates that are not known leave the prompts' part out."""
    found = Slowdown(running=0.05, prompt=0.01).per_request(prompts, tokens)
    assert found == pytest.approx(share)


def test_an_oversized_fleet_is_seen_through() -> None:
    """Sixteen replicas that run 5 each would, on this engine, not be four that run 20."""
    learned = Learned(saturation=40.0, slowdown=Slowdown(running=0.05))
    oversized = replace(BUSY, serving=16, running=80.0)
    samples = steady(oversized, 21, NOW)
    need = need_of(samples[-1], look_back(samples, 20, 180.0), STATED, learned)
    row = next(row for row in need.rows if row.row is Row.CONCURRENCY)
    assert row.low == pytest.approx(80 / 20 * (1 + 0.05 * 20) / (1 + 0.05 * 5))


@given(
    base=st.floats(0.001, 0.1),
    running=st.floats(0.0, 0.5),
    prompt=st.floats(0.0, 0.05),
    ratio=st.floats(0.0, 60.0),
    fleet=st.integers(1, 40),
)
def test_the_need_does_not_depend_on_the_size_of_the_fleet(
    *, base: float, running: float, prompt: float, ratio: float, fleet: int
) -> None:
    """On an engine with such a step, fleets of any size ask for the same count, up to their cap."""
    slope, target, wanted = running + prompt * ratio, 20.0, 10.0
    # What `fleet` replicas run in all when ten replicas would run `target` each.
    tokens = wanted * target / (base * (1 + slope * target))
    room = fleet - slope * base * tokens
    assume(room > 0.1)
    sample = replace(
        BUSY,
        serving=fleet,
        running=base * tokens * fleet / room,
        token_rate=tokens,
        prompt_token_rate=ratio * tokens,
    )
    samples = steady(sample, 21, NOW)
    learned = Learned(saturation=40.0, slowdown=Slowdown(running=running, prompt=prompt))
    need = need_of(samples[-1], look_back(samples, 20, 180.0), STATED, learned)
    row = next(row for row in need.rows if row.row is Row.CONCURRENCY)
    assert row.low == pytest.approx(min(wanted, fleet / 0.5), rel=1e-6)
    assert row.high == pytest.approx(wanted, rel=1e-6)
