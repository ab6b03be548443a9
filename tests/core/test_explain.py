"""The explanation of a decision, and whether its what-ifs are true."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scaler.core.corridor import round_up
from scaler.core.decision import Decision, decide
from scaler.core.explain import Explained, explain
from scaler.core.learned import Learned
from scaler.core.need import needs
from scaler.core.numbers import number
from scaler.core.policy import Mode, Policy, Signal
from scaler.core.quantile import Percentile
from scaler.core.reasons import EXPLANATIONS, Reason
from scaler.core.rendering import to_plain, to_text
from scaler.core.sample import Sample
from scaler.core.slowdown import Slowdown
from scaler.core.units import TICK
from scaler.core.what_if import steadily, what_would_change
from scaler.core.workload import Scale, WorkloadKey
from tests.core.histories import STATED

NOW = 1_800_000_000.0
KEY = WorkloadKey(namespace="prod", name="chat", trigger="1f3a")
LEARNED = Learned(saturation=100.0, carried=30.0)
FAST = Percentile(value=0.7, lower=0.5, upper=0.75, observations=300.0)


def decided(
    policy: Policy | None = None,
    learned: Learned = LEARNED,
    scale: Scale | None = None,
    ticks: int = 120,
    **changes: object,
) -> Decision:
    """Decide on one sample of four replicas, seen for some ticks."""
    policy = policy or STATED
    plain = Sample(
        at=NOW,
        scraped_at=NOW,
        serving=4,
        waiting=2.0,
        running=100.0,
        kv_cache=0.5,
        ttft=FAST,
        first_token_rate=5.0,
    )
    newest = replace(plain, **changes)  # type: ignore[arg-type]
    times = [NOW - TICK * i for i in reversed(range(ticks))]
    samples = [replace(newest, at=at, scraped_at=at) for at in times]
    return decide(
        policy,
        samples,
        needs(policy, samples, learned),
        scale=scale or Scale(current=4, max_replicas=20),
        learned=learned,
        now=NOW,
        known_since=NOW - 3600,
    )


def explained(policy: Policy | None = None, /, **changes: object) -> Explained:
    """Explain such a decision."""
    policy = policy or STATED
    return explain(KEY, policy, decided(policy, **changes))  # type: ignore[arg-type]


def sentence(sentences: tuple[str, ...], part: str) -> str:
    """Return the one sentence that holds a part."""
    (found,) = [s for s in sentences if part in s]
    return found


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_can_be_explained(reason: Reason) -> None:
    """Whatever word an answer carries, its meaning and its cure stand beside it."""
    decision = replace(decided(), reason=reason, notes=(reason,))
    told = explain(KEY, STATED, decision)
    assert told.because.meaning == EXPLANATIONS[reason].meaning
    assert EXPLANATIONS[reason].cure in to_text(told)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"waiting": 20.0, "queued": 4}, "5 waiting requests per replica: at or above High (5)"),
        ({"waiting": 19.9, "queued": 4}, "4.97 waiting requests per replica: between Low (1)"),
        ({"waiting": 4.0, "queued": 4}, "1 waiting requests per replica: at or below Low (1)"),
        ({"kv_cache": None}, "kvCache  not known"),
        ({"kv_cache": 0.9}, "0.9 of the KV cache: at or above High (0.85)"),
        ({"ttft": replace(FAST, observations=19.0)}, "too few requests for a p95: 19"),
        ({"ttft": None}, "ttft     not known"),
        ({"ttft": replace(FAST, upper=2.5)}, "between Low (1) and High (2.5)"),
        ({"waiting": 40.0, "queued": 4}, "those that wait 8 s): at or above High (2.5)"),
        ({"waiting": 40.0, "queued": 4, "first_token_rate": 0.0}, "those that wait unlimited s"),
    ],
)
def test_a_signal_is_told_against_its_thresholds(changes: dict[str, object], expected: str) -> None:
    """The level that is printed is the one that the decision rests on."""
    assert expected in to_text(explained(**changes))


def test_a_signal_that_is_not_in_use_is_marked() -> None:
    """A value may be shown that moves nothing."""
    told = explained(replace(STATED, signals=frozenset({Signal.KV_CACHE})))
    assert [s.in_use for s in told.signals] == [False, False, True]
    assert "(not in use)" in to_text(told)


def test_what_is_not_learned_yet_is_said() -> None:
    """Nobody should look for headroom that cannot be there."""
    told = explained(learned=Learned())
    assert told.learned is not None
    assert "not learned yet: no headroom" in told.learned.sentences[0]
    assert "not learned yet: taken as nothing" in told.learned.sentences[2]
    assert "assumed until seen" in told.learned.sentences[-1]


def test_the_slowdown_is_told_in_percent() -> None:
    """How far an oversized fleet is seen through can be checked by hand."""
    told = explained(learned=Learned(slowdown=Slowdown(running=0.025, prompt=0.001)))
    assert told.learned is not None
    assert told.learned.sentences[2] == (
        "A step slows with each request by 2.5 % of its base, and by 0.1 % for each prompt token "
        "that goes with a generated one."
    )


def test_what_calm_stands_in_for_is_told() -> None:
    """Until a queue was seen, a quarter more than calm carried is where replicas are wanted."""
    told = explained(learned=Learned(carried=20.0))
    assert told.learned is not None
    assert "not learned yet: calm is the measure" in told.learned.sentences[0]
    assert told.learned.sentences[1] == (
        "In calm a replica has carried 20 requests; more replicas are wanted from 25 on each."
    )
    full = explained(learned=LEARNED)
    assert full.learned is not None
    assert full.learned.sentences[1] == "In calm a replica has carried 30 requests."


def test_calm_alone_makes_running_requests_count() -> None:
    """What-ifs name the running requests where only calm has taught what a replica carries."""
    told = explained(learned=Learned(carried=30.0))
    assert sentence(told.would_change, "running requests per replica").startswith(
        "More replicas: 37.6 running requests per replica (now 25), for 60 s, would ask for 5."
    )


def test_what_was_stated_is_told_from_what_was_learned() -> None:
    """A wrong number is corrected where it came from."""
    policy = replace(STATED, concurrency_per_replica=64.0, lead_time=90.0)
    told = explained(policy, learned=Learned(saturation=64.0, lead_time=90.0))
    assert told.learned is not None
    assert "64 requests (stated)" in told.learned.sentences[0]
    assert "90 s from creation to serving (stated)" in told.learned.sentences[-1]


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (decided(), "4 replicas, and that stays."),
        (decided(waiting=60.0, queued=4), "4 replicas; the scaler asks for"),
        (replace(decided(), desired=None), "the HPA keeps the count"),
        (replace(decided(), current=None, desired=None), "an unknown number of replicas"),
    ],
)
def test_the_summary_is_one_sentence(decision: Decision, expected: str) -> None:
    """Whoever reads only one line reads count and answer."""
    assert expected in explain(KEY, STATED, decision).summary


def test_advice_is_told_from_an_answer() -> None:
    """With mode advise the count stays, and what would have been is said."""
    told = explained(replace(STATED, mode=Mode.ADVISE), waiting=60.0, queued=4)
    assert told.desired == 4
    assert "only advises, and would ask for" in told.summary


def test_an_unproven_ceiling_is_not_a_number() -> None:
    """Infinity is neither in the text nor in the data."""
    told = explained(ticks=3)
    assert told.ceiling is None
    assert "no ceiling proven (warming-up)" in to_text(told)
    assert "Infinity" not in json.dumps(to_plain(told), allow_nan=False)


def test_a_pending_overload_says_how_much_longer() -> None:
    """What is missing to the window is told in seconds."""
    told = what_would_change(STATED, replace(decided(waiting=60.0, queued=4), desired=4))
    assert "for 0 s" not in " ".join(told)
    pending = replace(decided(waiting=60.0, queued=4), desired=4, overload_for=45.0)
    assert "If that stays so for 15 s more" in " ".join(what_would_change(STATED, pending))


def test_pending_calm_says_how_much_longer_and_what_is_missing() -> None:
    """Calm counts only where every tick of the window was seen."""
    told = explained(running=5.0, kv_cache=0.1, ticks=30)
    found = sentence(told.would_change, "Fewer replicas")
    assert "10 samples are missing" in found
    assert re.search(r"stays so for \d+ s more", found)


def test_bounds_are_named_where_they_are_the_reason() -> None:
    """At max and at min only the ScaledObject can change anything."""
    at_max = explained(scale=Scale(current=4, max_replicas=4), waiting=60.0, queued=4)
    at_min = explained(scale=Scale(current=4, min_replicas=4), running=5.0, kv_cache=0.1)
    assert sentence(at_max.would_change, "More") == (
        "More replicas: only a higher maxReplicaCount."
    )
    assert sentence(at_min.would_change, "Fewer") == (
        "Fewer replicas: only a lower minReplicaCount."
    )


def test_a_fleet_on_its_way_is_left_alone() -> None:
    """While the count follows the answer nothing else is worth saying."""
    told = explained(waiting=60.0, queued=4)
    assert len(told.would_change) == 1
    assert "on its way from 4 to" in told.would_change[0]


@pytest.mark.parametrize(
    ("changes", "hindrance"),
    [
        ({"waiting": 8.0, "queued": 4}, "at most 1 waiting requests per replica (now 2)"),
        ({"kv_cache": 0.5}, "a KV-cache usage of at most 0.45 (now 0.5)"),
        ({"running": 140.0, "kv_cache": 0.1}, "running requests in all (now 140)"),
        ({"learned": Learned()}, "concurrencyPerReplica says it at once"),
        ({"ttft": replace(FAST, upper=1.5)}, "a TTFT p95 surely at most 1 s"),
        ({"unseen": 5}, "at least half of the replicas must report"),
        ({"kv_cache": 0.1, "running": 5.0, "unseen": 3}, "3 replicas that are stalled or do not"),
    ],
)
def test_what_keeps_a_replica_is_named(changes: dict[str, object], hindrance: str) -> None:
    """Each row that holds the count says at which value it would let one go."""
    told = explained(**changes)
    assert hindrance in sentence(told.would_change, "Fewer replicas")


@pytest.mark.parametrize("decision", [replace(decided(), desired=None), decided(ticks=0)])
def test_without_an_answer_or_a_sample_nothing_is_guessed(decision: Decision) -> None:
    """What-ifs start from what was seen."""
    assert what_would_change(STATED, decision) == ()


@example(serving=1, waiting=1e-12, running=1.0, kv=0.0, rate=0.25, saturation=None)
@given(
    serving=st.integers(1, 40),
    waiting=st.floats(0.0, 4.0),
    running=st.floats(0.0, 60.0),
    kv=st.floats(0.0, 0.8),
    rate=st.floats(0.1, 50.0),
    saturation=st.none() | st.floats(20.0, 300.0),
)
def test_a_what_if_that_is_printed_is_true(
    *,
    serving: int,
    waiting: float,
    running: float,
    kv: float,
    rate: float,
    saturation: float | None,
) -> None:
    """The very values that are printed, seen again and again, ask for the count that is printed."""
    policy, learned = STATED, Learned(saturation=saturation)
    decision = decided(
        policy,
        learned,
        Scale(current=serving),
        serving=serving,
        waiting=waiting * serving,
        running=running * serving,
        kv_cache=kv,
        first_token_rate=rate * serving,
    )
    assert decision.sample is not None
    for text in what_would_change(policy, decision):
        asked = re.search(r"would ask for (\d+)\.$", text)
        if asked is None:
            continue
        count = int(asked[1])
        if found := re.search(r"\(([\d.]+) instead of", text):
            wait = float(found[1]) * serving
            changed = replace(decision.sample, waiting=wait, queued=serving)
        elif found := re.search(r"usage of ([\d.]+)", text):
            changed = replace(decision.sample, kv_cache=float(found[1]))
        elif found := re.search(r"([\d.]+) running requests per replica", text):
            changed = replace(decision.sample, running=float(found[1]) * serving)
        else:
            found = re.search(r"p95 of ([\d.]+) s", text)
            assert found, text
            slow = float(found[1])
            changed = replace(
                decision.sample, ttft=replace(FAST, value=slow, lower=slow, upper=slow)
            )
        assert round_up(steadily(changed, policy, learned).low) == count > serving


def test_numbers_are_written_as_people_read_them() -> None:
    """Three digits that count, no exponent, and nothing that is not a number."""
    values = [0.0, 0.8512, 3.0, 99.96, 1234.5, 1e7, math.inf, math.nan, -math.inf]
    assert [number(value) for value in values] == [
        "0", "0.851", "3", "100", "1234", "10000000", "unlimited", "unknown", "unknown",
    ]  # fmt: skip


def test_only_plain_data_becomes_plain() -> None:
    """A type that nobody thought of is an error, not a surprise in the interface."""
    assert to_plain({"a": (1, math.inf, frozenset({"y", "x"}), Mode.ACT)}) == {
        "a": [1, None, ["x", "y"], "act"]
    }
    with pytest.raises(TypeError, match="no plain form"):
        to_plain(object())
