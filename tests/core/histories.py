"""Histories to decide over: made by hand for the tables, drawn by Hypothesis for the laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from scaler.core.decision import Decision, decide
from scaler.core.gateway import Gateway
from scaler.core.learned import Learned
from scaler.core.need import Need, needs
from scaler.core.policy import Policy, Signal
from scaler.core.quantile import Percentile
from scaler.core.sample import Sample
from scaler.core.slowdown import NO_SLOWDOWN, Slowdown
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale

NOW: Seconds = 1_800_000_000.0
"""On the tick grid and on the minute grid."""

IDLE = Sample(at=NOW, scraped_at=NOW, serving=4, kv_cache=0.0, first_token_rate=0.0)
"""Four replicas without a request."""

BUSY = replace(IDLE, running=40.0, kv_cache=0.7, first_token_rate=2.0)
"""Four replicas that are well used: no row asks for more, none has fewer to offer."""

QUEUEING = replace(BUSY, waiting=40.0, queued=4)
"""Four replicas with ten requests waiting at each."""

EDGES = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)
"""The upper edges of the TTFT buckets in use here; both default thresholds are among them."""


STATED = Policy(scale_out_window=60.0, scale_in_window=600.0, drain_time=300.0, headroom=0.5)
"""The policy that the tables count with; stated, so that the defaults may move without them."""


def only(*signals: Signal) -> Policy:
    """Return the stated policy with these signals alone."""
    return replace(STATED, signals=frozenset(signals))


def stamped(sample: Sample, at: Seconds) -> Sample:
    """Return the sample as of `at`, scraped at that moment."""
    return replace(sample, at=at, scraped_at=at)


def steady(sample: Sample, ticks: int, end: Seconds = NOW) -> list[Sample]:
    """Return the sample repeated on each of the newest `ticks` ticks up to `end`."""
    return [stamped(sample, end - back * TICK) for back in reversed(range(ticks))]


def row_of(*samples: Sample, end: Seconds = NOW) -> list[Sample]:
    """Return these samples on adjacent ticks, the last one at `end`."""
    first = end - (len(samples) - 1) * TICK
    return [stamped(sample, first + index * TICK) for index, sample in enumerate(samples)]


def without(samples: Sequence[Sample], *backs: int) -> list[Sample]:
    """Return the samples without those so many places before the newest (0: the newest itself)."""
    gone = {len(samples) - 1 - back for back in backs}
    return [sample for index, sample in enumerate(samples) if index not in gone]


def ttft_in(bucket: int, part: float = 0.5, observations: float = 100.0) -> Percentile:
    """Return a p95 that lies in the bucket with this index, `part` of the way up."""
    lower, upper = EDGES[bucket - 1] if bucket else 0.0, EDGES[bucket]
    value = lower if math.isinf(upper) else lower + (upper - lower) * part
    return Percentile(value=value, lower=lower, upper=upper, observations=observations)


def newest_need(
    samples: Sequence[Sample], policy: Policy | None = None, learned: Learned | None = None
) -> Need:
    """Return the need of the newest sample."""
    return needs(policy or STATED, samples, learned or Learned())[-1]


def decided(
    samples: Sequence[Sample],
    policy: Policy | None = None,
    *,
    scale: Scale | None,
    learned: Learned | None = None,
    now: Seconds = NOW,
    known_since: Seconds = 0.0,
    gateway: Gateway | None = None,
) -> Decision:
    """Decide over the samples as the loop does, their needs computed at once."""
    policy, learned = policy or STATED, learned or Learned()
    return decide(
        policy,
        samples,
        needs(policy, samples, learned),
        scale=scale,
        learned=learned,
        now=now,
        known_since=known_since,
        gateway=gateway,
    )


# --- what Hypothesis draws ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that a decision depends on, but for the time."""

    samples: list[Sample]
    policy: Policy
    scale: Scale
    learned: Learned

    def decided(self, samples: Sequence[Sample] | None = None, *, late: int = 0) -> Decision:
        """Decide `late` ticks after `NOW`, over other samples where they are given."""
        return decided(
            self.samples if samples is None else samples,
            self.policy,
            scale=self.scale,
            learned=self.learned,
            now=NOW + late * TICK,
            known_since=NOW - 100 * TICK,
        )


def _quarters(most: int) -> st.SearchStrategy[float]:
    """Draw numbers that floats hold exactly, so that sums do not depend on their order."""
    return st.integers(0, 4 * most).map(lambda quarters: quarters / 4)


_RATES = st.one_of(st.none(), st.just(0.0), _quarters(20), st.sampled_from([1e-9, 1e9]))
_PERCENTILES = st.one_of(
    st.none(),
    st.builds(
        ttft_in,
        st.integers(0, len(EDGES) - 1),
        st.sampled_from([0.125, 0.5, 1.0]),
        st.sampled_from([1.0, 19.0, 20.0, 500.0]),
    ),
)


@st.composite
def samples_at_now(draw: st.DrawFn, serving: int | None = None) -> Sample:
    """Draw what one tick can say: its parts agree with each other, its values may be nasty."""
    calm = serving is not None
    serving = draw(st.integers(0, 9)) if serving is None else serving
    waiting = draw(st.one_of(st.just(0.0), _quarters(120))) if serving else 0.0
    queued = draw(st.integers(1, serving)) if waiting else 0
    return Sample(
        at=NOW,
        scraped_at=NOW,
        scrapes=draw(st.sampled_from([1, 1, 3])),
        serving=serving,
        stalled=draw(st.sampled_from([0] * 9 + [1, 3])),
        asleep=0 if calm else draw(st.sampled_from([0, 0, 0, 2])),
        unseen=draw(st.sampled_from([0] * 9 + [1, 5])),
        waiting=waiting,
        running=draw(st.one_of(st.just(0.0), _quarters(300))) if serving else 0.0,
        queued=queued,
        kv_cache=draw(st.sampled_from([None, 0.0, 0.1, 0.3, 0.59, 0.6, 0.85, 1.0])),
        ttft=draw(_PERCENTILES),
        first_token_rate=draw(_RATES),
        token_rate=draw(_RATES),
        prompt_token_rate=draw(_RATES),
        rejection_rate=draw(st.sampled_from([None, None, 0.0, 0.5, 40.0])),
        activation=draw(st.sampled_from([None, None, 0.0, 3.0])),
    )


@st.composite
def phases(draw: st.DrawFn) -> list[Sample]:
    """Draw a fleet's history without gaps: a few phases, within which load may ramp up or down."""
    fleet = draw(st.integers(1, 9))
    count = draw(st.integers(1, 3))
    history: list[Sample] = []
    for length in [draw(st.sampled_from([1, 8, 40])) for _ in range(count)]:
        base = draw(samples_at_now(fleet + draw(st.sampled_from([0, 0, 0, 1]))))
        slope = draw(st.sampled_from([0.0, 0.0, 0.25, -0.25, 2.0]))
        for step in range(length):
            running = max(0.25, base.running + slope * step) if base.running else 0.0
            waiting = max(0.25, base.waiting + slope * step) if base.waiting else 0.0
            history.append(replace(base, running=running, waiting=waiting))
    return row_of(*history)


@st.composite
def restless(draw: st.DrawFn) -> list[Sample]:
    """Draw a short history in which every tick is unlike the one before."""
    return row_of(*draw(st.lists(samples_at_now(), min_size=1, max_size=10)))


def complete_histories() -> st.SearchStrategy[list[Sample]]:
    """Draw 1 to 120 samples on adjacent ticks, the newest at `NOW`."""
    return st.one_of(phases(), phases(), restless())


@st.composite
def histories(draw: st.DrawFn) -> list[Sample]:
    """Draw 1 to 120 samples on the tick grid up to `NOW`, often with gaps."""
    history = draw(complete_histories())
    gone = draw(st.sets(st.integers(0, len(history) - 1), max_size=4))
    return without(history, *gone) or history


def policies() -> st.SearchStrategy[Policy]:
    """Draw policies, most with windows short enough for a drawn history to fill."""
    return st.builds(
        Policy,
        signals=st.one_of(
            st.just(frozenset(Signal)),
            st.sets(st.sampled_from(Signal), min_size=1).map(frozenset),
        ),
        waiting_high=st.sampled_from([5.0, 2.0]),
        waiting_low=st.sampled_from([1.0, 0.0]),
        scale_out_window=st.sampled_from([15.0, 60.0, 100.0, 300.0]),
        scale_in_window=st.sampled_from([15.0, 60.0, 100.0, 600.0]),
        drain_time=st.sampled_from([None, 1.0, 300.0]),
        headroom=st.sampled_from([0.4, 0.5, 0.0, 0.9]),
    )


STEEP = Slowdown(running=1.0)


def learnings() -> st.SearchStrategy[Learned]:
    """Draw what may have been learned; most lead times are no multiple of the tick."""
    return st.builds(
        Learned,
        saturation=st.sampled_from([None, 0.5, 32.0, 256.0]),
        carried=st.sampled_from([None, 0.25, 20.0]),
        lead_time=st.sampled_from([15.0, 52.3, 180.0, 310.0]),
        prefill_bound=st.booleans(),
        slowdown=st.sampled_from(
            [NO_SLOWDOWN, Slowdown(running=0.02), Slowdown(running=0.02, prompt=0.01), STEEP]
        ),
    )


@st.composite
def scales(
    draw: st.DrawFn, around: int | None = None, tolerances: Sequence[float] = (0.0, 0.1)
) -> Scale:
    """Draw a count of at least one and its bounds; now and then somebody set it outside of them."""
    anything = st.one_of(st.integers(1, 12), st.integers(13, 120))
    near = st.integers(max(1, (around or 1) - 1), (around or 1) + 2)
    current = draw(anything if around is None else st.one_of(near, near, near, anything))
    lowest = draw(st.sampled_from([0, 1, 1, current, 6]))
    highest = max(1, lowest, current + draw(st.sampled_from([-3, 0, 1, 2, 40, 40])))
    return Scale(
        current=current,
        min_replicas=lowest,
        max_replicas=draw(st.sampled_from([None, highest, highest])),
        tolerance_out=draw(st.sampled_from(tolerances)),
        tolerance_in=draw(st.sampled_from(tolerances)),
        ready=draw(st.sampled_from([None, 0, 3])),
    )


@st.composite
def worlds(draw: st.DrawFn, *, gaps: bool = True) -> World:
    """Draw a history with a policy, a count that mostly fits it, and what may have been learned."""
    samples = draw(histories() if gaps else complete_histories())
    known = samples[-1].reporting + samples[-1].unseen
    return World(
        samples=samples,
        policy=draw(policies()),
        scale=draw(scales(max(1, known))),
        learned=draw(learnings()),
    )
