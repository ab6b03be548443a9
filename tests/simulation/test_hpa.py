"""The autoscaler model's edges, each with its name, and what holds for every input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.simulation.hpa import Hpa
from scaler.simulation.hpa_types import (
    Behavior,
    HpaInvalid,
    HpaSpec,
    MetricTarget,
    MetricType,
    MetricValue,
    PodCount,
    Policy,
    PolicyType,
    Rules,
    SelectPolicy,
    TargetScale,
)
from scaler.simulation.quantity import QuantityInvalid, approximate, milli

ONE = MetricTarget(milli=1000)
EXACT = Behavior(
    scale_up=Rules(tolerance=0.0, policies=(Policy(type=PolicyType.PODS, value=1000, period=15),)),
    scale_down=Rules(tolerance=0.0, window=0),
)


def spec(
    behavior: Behavior | None,
    *,
    low: int = 1,
    high: int = 100,
    metrics: tuple[MetricTarget, ...] = (ONE,),
) -> HpaSpec:
    """Return an autoscaler object."""
    return HpaSpec(min_replicas=low, max_replicas=high, metrics=metrics, behavior=behavior)


def walk(hpa: Hpa, start: int, values: Sequence[str | None], every: float = 15.0) -> list[int]:
    """Return spec after each reconcile; status and readiness follow spec at once."""
    replicas, answers = start, []
    for index, value in enumerate(values):
        seen = hpa.reconcile(
            index * every,
            TargetScale(spec=replicas, status=replicas),
            [None if value is None else MetricValue.of(value)],
            PodCount(matching=replicas, ready=replicas),
        )
        replicas = seen.desired
        answers.append(replicas)
    return answers


def rules(
    policy_type: PolicyType, value: int, period: int, select: SelectPolicy = SelectPolicy.MAX
) -> Rules:
    """Return rules with one policy, no window and no tolerance."""
    policy = Policy(type=policy_type, value=value, period=period)
    return Rules(window=0, select=select, policies=(policy,), tolerance=0.0)


PODS, PERCENT = PolicyType.PODS, PolicyType.PERCENT


@pytest.mark.parametrize(
    ("behavior", "start", "values", "answers"),
    [
        pytest.param(None, 1, ["10"] * 3, [4, 8, 10], id="no block doubles, or goes to four"),
        pytest.param(Behavior(), 1, ["10"] * 3, [5, 10, 10], id="the defaults add four, or double"),
        pytest.param(EXACT, 10, ["11", "10.001"], [11, 11], id="any rest is a replica"),
        pytest.param(None, 10, ["11", "9", "11.001"], [10, 10, 12], id="borders of the tolerance"),
        pytest.param(EXACT, 4, ["9", None, "2"], [9, 9, 2], id="an outage freezes the count"),
        pytest.param(EXACT, 4, ["-1"], [100], id="a negative value scales up"),
        pytest.param(EXACT, 4, ["0"], [1], id="zero goes to min"),
        pytest.param(EXACT, 0, ["9"], [0], id="at zero it is off"),
        pytest.param(
            Behavior(
                scale_up=EXACT.scale_up,
                scale_down=Rules(select=SelectPolicy.DISABLED, tolerance=0.0),
            ),
            300,
            ["2", "2"],
            [100, 100],
            id="above max it falls even where scaling down is disabled",
        ),
        pytest.param(
            Behavior(scale_up=rules(PODS, 2147483647, 15), scale_down=EXACT.scale_down),
            3,
            ["9"],
            [3],
            id="a policy of the largest number blocks",
        ),
        pytest.param(
            Behavior(scale_up=rules(PERCENT, 10, 60), scale_down=EXACT.scale_down),
            1,
            ["9"] * 5,
            [2, 2, 2, 2, 3],
            id="per cent up rounds up, once a period",
        ),
        pytest.param(
            Behavior(scale_up=EXACT.scale_up, scale_down=rules(PERCENT, 10, 60)),
            5,
            ["1"] * 5,
            [4, 4, 4, 4, 3],
            id="per cent down keeps whole replicas only",
        ),
    ],
)
def test_named_edges(
    behavior: Behavior | None, start: int, values: list[str | None], answers: list[int]
) -> None:
    """Each edge gives the counts that the controller gives."""
    assert walk(Hpa(spec(behavior)), start, values) == answers


def test_inside_the_tolerance_the_answer_is_status_not_spec() -> None:
    """With a lagging status a value that asks for spec takes spec back."""
    hpa = Hpa(spec(Behavior(scale_down=Rules(window=0))))
    scale = TargetScale(spec=20, status=18)
    seen = hpa.reconcile(0, scale, [MetricValue.of(19)], PodCount(matching=18, ready=0))
    assert seen.desired == 18


def test_an_outage_as_long_as_the_window_empties_it() -> None:
    """Failed reconciles record nothing: the first low value afterwards drops at once."""
    hpa = Hpa(spec(Behavior(scale_up=EXACT.scale_up)))
    assert walk(hpa, 8, ["8", "2", *[None] * 20, "2"]) == [8] * 22 + [2]


@pytest.mark.parametrize(("age", "answer"), [(300.0, 8), (300.001, 2)])
def test_without_a_block_a_sample_of_exactly_the_window_counts(age: float, answer: int) -> None:
    """The older path keeps a sample of 300 s; nothing older."""
    assert walk(Hpa(spec(None)), 8, ["8", "2"], every=age)[-1] == answer


@pytest.mark.parametrize(("age", "answer"), [(299.999, 8), (300.0, 2)])
def test_with_a_block_a_sample_of_exactly_the_window_is_gone(age: float, answer: int) -> None:
    """The newer path keeps samples younger than 300 s only."""
    assert walk(Hpa(spec(Behavior())), 8, ["8", "2"], every=age)[-1] == answer


def test_ready_pods_multiply_where_the_type_is_value() -> None:
    """A count sent as a Value runs away while it is above its target."""
    three = MetricTarget(type=MetricType.VALUE, milli=3000)
    hpa = Hpa(spec(EXACT, metrics=(three,)))
    assert walk(hpa, 3, ["6"] * 4) == [6, 12, 24, 48]


@pytest.mark.parametrize(
    ("matching", "answer", "failed"),
    [
        pytest.param(4, 1, 0, id="all loading: down to min"),
        pytest.param(0, 4, 1, id="no pods: an error"),
    ],
)
def test_value_without_ready_pods(matching: int, answer: int, failed: int) -> None:
    """No ready pod proposes nothing; no pod at all is an error."""
    hpa = Hpa(spec(EXACT, metrics=(MetricTarget(type=MetricType.VALUE, milli=1000),)))
    scale = TargetScale(spec=4, status=matching)
    seen = hpa.reconcile(0, scale, [MetricValue.of(9)], PodCount(matching=matching, ready=0))
    assert (seen.desired, seen.failed) == (answer, failed)


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        pytest.param(("9", None), 9, id="up with one failed"),
        pytest.param(("2", None), 4, id="not down with one failed"),
        pytest.param(("2", "3"), 3, id="the largest wins"),
        pytest.param((None, None), 4, id="all failed"),
    ],
)
def test_two_metrics(values: tuple[str | None, ...], answer: int) -> None:
    """A failed metric forbids a fall and nothing else."""
    given_ = [None if value is None else MetricValue.of(value) for value in values]
    seen = Hpa(spec(EXACT, metrics=(ONE, ONE))).reconcile(
        0, TargetScale(spec=4, status=4), given_, PodCount(matching=4, ready=4)
    )
    assert seen.desired == answer


def test_an_event_is_overwritten_by_its_own_direction_s_longest_period() -> None:
    """Scaling down for 600 s looks at events that scaling up with 15 s has already thrown away."""
    behavior = Behavior(scale_up=rules(PODS, 10, 15), scale_down=rules(PODS, 1, 600))
    hpa = Hpa(spec(behavior))
    # From 2 to 12 in 600 s: down to 2 - 1 would be allowed. But the second step's event took the
    # place of the first one's, and the period seems to have begun at 7.
    assert walk(hpa, 2, ["7", "7", "12", "1"]) == [7, 7, 12, 6]
    assert walk(Hpa(spec(behavior)), 2, ["12", "12", "12", "1"]) == [12, 12, 12, 1]
    assert [change for _, change in hpa.state.added] == [5]


def test_a_raised_minimum_wakes_what_the_autoscaler_took_to_zero() -> None:
    """With scaling to zero on, the least is answered even where the metric asks for nothing."""
    asleep = replace(spec(EXACT, low=0), scale_to_zero=True)
    hpa = Hpa(asleep)
    assert walk(hpa, 2, ["0", "0"]) == [0, 0]
    hpa.spec = replace(asleep, min_replicas=3)
    assert walk(hpa, 0, ["0"]) == [3]


def test_a_negative_value_of_type_value_asks_for_nothing() -> None:
    """It is no overflow there: the proposal is below 0 and counts as 0, within range."""
    metrics = (MetricTarget(type=MetricType.VALUE, milli=1000),)
    hpa = Hpa(replace(spec(EXACT, low=0, metrics=metrics), scale_to_zero=True))
    scale, pods = TargetScale(spec=2, status=2), PodCount(matching=2, ready=2)
    seen = hpa.reconcile(0, scale, [MetricValue.of(-5)], pods)
    assert (seen.proposal, seen.desired, str(seen.limited)) == (-10, 0, "False:DesiredWithinRange")


def test_values_must_match_the_metrics() -> None:
    """A value too few is a fault of the caller, not a failed metric."""
    with pytest.raises(HpaInvalid, match="0 values for 1 metrics"):
        Hpa(spec(None)).reconcile(
            0, TargetScale(spec=1, status=1), [], PodCount(matching=1, ready=1)
        )


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: Rules(window=3601), id="a window above an hour"),
        pytest.param(lambda: Rules(tolerance=-0.1), id="a negative tolerance"),
        pytest.param(lambda: Rules(tolerance=nan), id="a tolerance that is no number"),
        pytest.param(lambda: Rules(policies=()), id="no policies"),
        pytest.param(lambda: Policy(type=PODS, value=0, period=15), id="a policy of nothing"),
        pytest.param(lambda: Policy(type=PODS, value=1, period=1801), id="too long a period"),
        pytest.param(lambda: MetricTarget(milli=0), id="a target of nothing"),
        pytest.param(lambda: spec(None, low=3, high=2), id="min above max"),
        pytest.param(lambda: spec(None, metrics=()), id="no metric"),
    ],
)
def test_what_the_api_refuses_is_refused(build: object) -> None:
    """A specification that no cluster would take cannot be simulated."""
    assert callable(build)
    with pytest.raises(HpaInvalid):
        build()


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("1n", 1),
        ("-1n", -1),
        ("0.0004", 1),
        ("1.0001", 1001),
        ("-1.0001", -1001),
        ("3k", 3_000_000),
        ("1Ki", 1_024_000),
        ("30e-1", 3000),
        ("+.5", 500),
        ("03", 3000),
        ("0", 0),
    ],
)
def test_a_quantity_s_rest_is_rounded_away_from_zero(text: str, thousandths: int) -> None:
    """Whatever is below a thousandth becomes one."""
    assert milli(text) == thousandths


@pytest.mark.parametrize("text", ["", "x", "1 k", "0x3", "NaN", "1e", "1ki", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """The message shows the text."""
    with pytest.raises(QuantityInvalid, match="is no quantity"):
        milli(text)


@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_a_number_that_is_none_is_refused(number: float) -> None:
    """NaN and infinities never become quantities."""
    with pytest.raises(QuantityInvalid, match="finite"):
        milli(number)


@pytest.mark.parametrize(
    ("text", "share"), [("0", 0.0), ("0.1", 0.1), ("50m", 0.05), ("0.0001", 1e-4), ("7n", 7e-9)]
)
def test_a_tolerance_keeps_its_small_digits(text: str, share: float) -> None:
    """A tolerance is not rounded to thousandths."""
    assert approximate(text) == pytest.approx(share, rel=1e-15)


VALUES = st.one_of(st.none(), st.fractions(0, 300, max_denominator=5000))
POLICIES = st.lists(
    st.builds(
        Policy,
        type=st.sampled_from(PolicyType),
        value=st.integers(1, 300),
        period=st.integers(1, 120),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
RULES = st.builds(
    Rules,
    window=st.none() | st.integers(0, 120),
    select=st.none() | st.sampled_from(SelectPolicy),
    policies=st.none() | POLICIES,
    tolerance=st.none() | st.floats(0, 0.5),
)
BEHAVIORS = st.none() | st.builds(Behavior, scale_up=RULES, scale_down=RULES)


@given(
    behavior=BEHAVIORS,
    low=st.integers(1, 20),
    more=st.integers(0, 80),
    start=st.integers(1, 120),
    values=st.lists(VALUES, max_size=12),
)
def test_the_answer_stays_within_bounds(
    behavior: Behavior | None,
    low: int,
    more: int,
    start: int,
    values: list[Fraction | None],
) -> None:
    """Whatever the metrics say, and when they fail, the count ends between min and max."""
    hpa = Hpa(spec(behavior, low=low, high=low + more))
    texts = [None if value is None else f"{float(value):.6f}" for value in values]
    assert all(low <= answer <= low + more for answer in walk(hpa, start, texts))


@given(value=st.fractions(0, 10**6), status=st.integers(0, 1000), start=st.integers(1, 10**6))
def test_with_target_one_and_no_tolerance_the_proposal_is_the_value(
    value: Fraction, status: int, start: int
) -> None:
    """Neither status nor readiness plays a part, and any rest counts as a replica."""
    hpa = Hpa(spec(EXACT, high=2 * 10**6))
    scale = TargetScale(spec=start, status=status)
    items = (milli(value),)
    seen = hpa.reconcile(0, scale, [MetricValue(items=items)], PodCount(matching=0, ready=0))
    assert seen.proposal == ceil(value)


@given(behavior=BEHAVIORS, start=st.integers(1, 100), values=st.lists(VALUES, max_size=10))
def test_a_disabled_direction_never_moves(
    behavior: Behavior | None, start: int, values: list[Fraction | None]
) -> None:
    """With scaling down disabled the count never falls while it is within bounds."""
    block = (behavior or Behavior()).without(scale_down=True)
    texts = [None if value is None else f"{float(value):.6f}" for value in values]
    answers = [start, *walk(Hpa(spec(block)), start, texts)]
    assert answers == sorted(answers)
