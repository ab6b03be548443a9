"""The p95 out of histogram buckets, and what is known of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.quantile import Percentile, percentile
from scaler.core.reading import LatencyBuckets
from tests.core.histories import EDGES


def buckets(*counts: float, edges: Sequence[float] = (1.0, 2.5, 5.0, math.inf)) -> LatencyBuckets:
    """Return buckets with these cumulative counts."""
    return LatencyBuckets(edges=tuple(edges), counts=counts)


@pytest.mark.parametrize(
    ("counts", "value", "lower", "upper"),
    [
        pytest.param((100, 100, 100, 100), 0.95, 0.0, 1.0, id="first-bucket-starts-at-0"),
        pytest.param((95, 100, 100, 100), 1.0, 0.0, 1.0, id="exactly-on-an-edge-is-below-it"),
        pytest.param((94, 96, 100, 100), 1.75, 1.0, 2.5, id="half-way-up-a-bucket"),
        pytest.param((0, 0, 100, 100), 4.875, 2.5, 5.0, id="empty-buckets-below"),
        pytest.param((0, 0, 94, 100), 5.0, 5.0, math.inf, id="above-the-last-finite-edge"),
        pytest.param((96, 50, 60, 100), 0.95 / 0.96, 0.0, 1.0, id="a-dip-is-repaired"),
        pytest.param((96, math.nan, 60, 100), 0.95 / 0.96, 0.0, 1.0, id="a-nan-inside-is-a-dip"),
    ],
)
def test_the_bucket_and_the_estimate(
    counts: tuple[float, ...], value: float, lower: float, upper: float
) -> None:
    """The p95 lies in (lower, upper] and is estimated by Prometheus' linear rule."""
    found = percentile(buckets(*counts))
    assert found is not None
    assert found.value == pytest.approx(value)
    assert (found.lower, found.upper, found.observations) == (lower, upper, 100.0)


@pytest.mark.parametrize(
    "nothing",
    [
        pytest.param(buckets(0, 0, 0, 0), id="no-observation"),
        pytest.param(buckets(edges=()), id="no-bucket"),
        pytest.param(buckets(1, 2), id="fewer-counts-than-edges"),
        pytest.param(buckets(1, 2, 3, math.inf), id="infinitely-many"),
        pytest.param(buckets(math.nan, math.nan, math.nan, math.nan), id="nan"),
        pytest.param(buckets(-5, -5, -5, -5), id="negative"),
    ],
)
def test_what_has_no_percentile(nothing: LatencyBuckets) -> None:
    """Where nothing was observed the percentile is not known, never 0."""
    assert percentile(nothing) is None


def test_a_histogram_of_one_bucket_knows_only_that_there_were_observations() -> None:
    """With +Inf alone the p95 may be anything above 0."""
    found = percentile(buckets(50, edges=(math.inf,)))
    assert found == Percentile(value=0.0, lower=0.0, upper=math.inf, observations=50.0)


_growths = st.lists(st.integers(0, 50), min_size=len(EDGES), max_size=len(EDGES))


def cumulated(growths: Sequence[Sequence[int]]) -> LatencyBuckets:
    """Merge replicas' bucket growths into cumulative counts."""
    merged = [sum(column) for column in zip(*growths, strict=True)]
    counts = tuple(float(sum(merged[: index + 1])) for index in range(len(merged)))
    return LatencyBuckets(edges=EDGES, counts=counts)


@given(st.lists(_growths, min_size=1, max_size=5), st.integers(0, 1000))
def test_the_order_of_replicas_does_not_matter_to_the_merged_percentile(
    growths: list[list[int]], seed: int
) -> None:
    """Histograms merged in any order have the same p95."""
    shuffled = list(growths)
    Random(seed).shuffle(shuffled)  # noqa: S311 - an order, no secret
    assert percentile(cumulated(growths)) == percentile(cumulated(shuffled))


@given(_growths, st.integers(0, len(EDGES) - 2))
def test_slower_observations_never_give_a_faster_percentile(growth: list[int], place: int) -> None:
    """Moving observations from a bucket into the next moves no part of the p95 down."""
    slower = list(growth)
    slower[place + 1] += slower[place]
    slower[place] = 0
    before, after = percentile(cumulated([growth])), percentile(cumulated([slower]))
    if before is None or after is None:
        assert before == after
        return
    assert after.value >= before.value - 1e-9
    assert after.lower >= before.lower
    assert after.upper >= before.upper


@given(_growths)
def test_the_estimate_lies_in_its_bucket(growth: list[int]) -> None:
    """The estimate is never outside the bucket that the p95 is known to lie in."""
    found = percentile(cumulated([growth]))
    if found is not None:
        assert found.lower <= found.value <= found.upper
        assert math.isfinite(found.value)
