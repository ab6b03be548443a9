"""How the readings of replicas become one sample."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.reading import LatencyBuckets, Reading, ReplicaReading
from scaler.core.sample import Sample, is_stalled, take_sample
from scaler.core.units import RATE_WINDOW
from tests.core.histories import EDGES, NOW

ONE = ReplicaReading(name="a", running=8.0, waiting=0.0, token_rate=100.0)


def reading(*replicas: ReplicaReading) -> Reading:
    """Return what a source saw of these replicas."""
    return Reading(at=NOW, scraped_at=NOW - 4, replicas=replicas)


@pytest.mark.parametrize(
    ("replica", "stalled"),
    [
        pytest.param(
            replace(ONE, busy_for=RATE_WINDOW, token_rate=0.0), True, id="exactly-the-rate-window"
        ),
        pytest.param(
            replace(ONE, busy_for=RATE_WINDOW - 15, token_rate=0.0), False, id="one-tick-less"
        ),
        pytest.param(replace(ONE, busy_for=RATE_WINDOW, token_rate=0.1), False, id="some-tokens"),
        pytest.param(
            replace(ONE, busy_for=RATE_WINDOW, token_rate=None), False, id="tokens-not-known"
        ),
        pytest.param(
            replace(ONE, running=0.0, waiting=5.0, busy_for=RATE_WINDOW, token_rate=0.0),
            True,
            id="waiting-with-nothing-running",
        ),
        pytest.param(replace(ONE, running=0.0, token_rate=0.0), False, id="idle"),
    ],
)
def test_who_is_stalled(replica: ReplicaReading, *, stalled: bool) -> None:
    """A replica is stalled when it has had work for a whole rate window and made no token."""
    assert is_stalled(replica) is stalled
    sample = take_sample(reading(replica))
    assert (sample.stalled, sample.serving) == ((1, 0) if stalled else (0, 1))
    assert sample.reporting == 1


def test_only_those_that_serve_are_added_up() -> None:
    """Sleepers and stalled replicas are counted, and their load is not."""
    sample = take_sample(
        reading(
            replace(ONE, name="serving", waiting=2.0, kv_cache=0.5),
            replace(ONE, name="asleep", asleep=True, waiting=9.0, kv_cache=0.9),
            replace(ONE, name="stalled", busy_for=500.0, token_rate=0.0, waiting=9.0, kv_cache=0.9),
        )
    )
    assert (sample.serving, sample.asleep, sample.stalled, sample.reporting) == (1, 1, 1, 3)
    assert (sample.waiting, sample.running, sample.queued, sample.kv_cache) == (2.0, 8.0, 1, 0.5)
    assert (sample.token_rate, sample.saturated, sample.scraped_at) == (100.0, 8.0, NOW - 4)


def test_the_cache_is_averaged_over_engines() -> None:
    """A replica of three engines weighs three times, one without the gauge not at all."""
    sample = take_sample(
        reading(
            replace(ONE, name="a", kv_cache=0.8, engines=3),
            replace(ONE, name="b", kv_cache=0.4, engines=1),
            replace(ONE, name="c", kv_cache=None, engines=4),
        )
    )
    assert sample.kv_cache == pytest.approx(0.7)


def test_what_nobody_knows_stays_unknown() -> None:
    """Without a value there is no sum, no mean and no percentile, rather than 0."""
    sample = take_sample(reading(ReplicaReading(name="a", running=0.0, waiting=0.0)))
    assert sample == Sample(at=NOW, scraped_at=NOW - 4, serving=1)
    assert take_sample(reading()) == Sample(at=NOW, scraped_at=NOW - 4)


def test_prompt_tokens_add_up_over_those_that_tell() -> None:
    """The sum is over the serving replicas whose rate is known; none known is no zero."""
    sample = take_sample(
        reading(
            replace(ONE, name="a", prompt_token_rate=300.0),
            replace(ONE, name="b", prompt_token_rate=0.5),
            replace(ONE, name="silent"),
            replace(ONE, name="asleep", asleep=True, prompt_token_rate=1e6),
        )
    )
    assert sample.prompt_token_rate == 300.5
    assert take_sample(reading(ONE)).prompt_token_rate is None
    assert take_sample(reading(replace(ONE, prompt_token_rate=0.0))).prompt_token_rate == 0.0


def test_refusals_of_engines_and_gateway_add_up() -> None:
    """Rejections come from the engines that serve and from the gateway."""
    refusing = reading(replace(ONE, rejection_rate=0.5), replace(ONE, name="b"))
    assert take_sample(refusing).rejection_rate == 0.5
    assert take_sample(replace(refusing, rejection_rate=2.0)).rejection_rate == 2.5
    assert take_sample(replace(reading(ONE), rejection_rate=2.0)).rejection_rate == 2.0


def test_saturation_is_seen_where_requests_wait() -> None:
    """The median is over the replicas with a queue; the others show nothing about full ones."""
    sample = take_sample(
        reading(
            replace(ONE, name="a", running=10.0, waiting=1.0),
            replace(ONE, name="b", running=30.0, waiting=4.0),
            replace(ONE, name="c", running=99.0),
        )
    )
    assert (sample.saturated, sample.queued) == (20.0, 2)


@pytest.mark.parametrize(
    ("serving", "queued", "skewed"),
    [
        pytest.param(4, 0, False, id="nobody-waits"),
        pytest.param(4, 1, True, id="one-of-four"),
        pytest.param(4, 2, False, id="exactly-half"),
        pytest.param(5, 2, True, id="two-of-five"),
        pytest.param(5, 3, False, id="three-of-five"),
        pytest.param(1, 1, False, id="the-only-one"),
        pytest.param(2, 1, False, id="one-of-two"),
        pytest.param(3, 1, True, id="one-of-three"),
    ],
)
def test_skew(serving: int, queued: int, *, skewed: bool) -> None:
    """Requests that wait at fewer than half of the replicas are skewed."""
    assert Sample(at=NOW, scraped_at=NOW, serving=serving, queued=queued).skewed is skewed


@pytest.mark.parametrize(
    ("sample", "idle"),
    [
        pytest.param(Sample(at=NOW, scraped_at=NOW, serving=1), True, id="one-idle-replica"),
        pytest.param(Sample(at=NOW, scraped_at=NOW), False, id="nobody-serves"),
        pytest.param(Sample(at=NOW, scraped_at=NOW, serving=1, running=1.0), False, id="running"),
        pytest.param(Sample(at=NOW, scraped_at=NOW, serving=1, waiting=1.0), False, id="waiting"),
        pytest.param(Sample(at=NOW, scraped_at=NOW, serving=1, stalled=1), False, id="stalled"),
    ],
)
def test_idle(sample: Sample, *, idle: bool) -> None:
    """Idleness needs a replica that serves and nothing to do anywhere."""
    assert sample.idle is idle


_values = st.sampled_from([None, 0.0, 0.1, 1 / 3, 0.7, 1e-9, 12_345.678])
_replicas = st.lists(
    st.builds(
        ReplicaReading,
        name=st.uuids().map(str),
        running=st.sampled_from([0.0, 0.1, 7.0, 1 / 3]),
        waiting=st.sampled_from([0.0, 0.1, 2.0]),
        kv_cache=st.sampled_from([None, 0.1, 1 / 3, 0.7]),
        engines=st.integers(1, 3),
        asleep=st.booleans(),
        busy_for=st.sampled_from([0.0, 105.0, 120.0]),
        first_token_rate=_values,
        token_rate=_values,
        prompt_token_rate=_values,
        preemption_rate=_values,
        rejection_rate=_values,
    ),
    max_size=6,
    unique_by=lambda replica: replica.name,
)


@given(_replicas, st.integers(0, 1000))
def test_the_order_of_replicas_does_not_matter(replicas: list[ReplicaReading], seed: int) -> None:
    """The same replicas in any order give the same sample to the last bit."""
    shuffled = list(replicas)
    Random(seed).shuffle(shuffled)  # noqa: S311 - an order, no secret
    assert take_sample(reading(*replicas)) == take_sample(reading(*shuffled))


def test_the_histogram_becomes_a_percentile() -> None:
    """The sample's TTFT is the p95 of the merged histogram."""
    counts = (0.0, 0.0, 0.0, 0.0, 40.0, 40.0, 40.0, 40.0)
    found = take_sample(replace(reading(ONE), ttft=LatencyBuckets(edges=EDGES, counts=counts))).ttft
    assert found is not None
    assert (found.lower, found.upper, found.observations) == (1.0, 2.5, 40.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_what_cannot_be_is_no_report(value: float) -> None:
    """A replica that tells nonsense is unseen, so it neither calms nor alarms the fleet."""
    good = ReplicaReading(name="a", running=2.0, waiting=1.0)
    bad = [
        ReplicaReading(name="b", running=value, waiting=0.0),
        ReplicaReading(name="c", running=0.0, waiting=value),
    ]
    sample = take_sample(Reading(at=NOW, scraped_at=NOW, replicas=(good, *bad), unseen=1))
    assert (sample.serving, sample.running, sample.waiting, sample.unseen) == (1, 2.0, 1.0, 3)
