"""What the engines' signals show: which limit was met, and the borders between the kinds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.diagnosis import diagnose
from scaler.core.diagnosis_finding import Kind, Severity
from scaler.core.diagnosis_load import LOAD_KINDS
from scaler.core.learned import Learned
from scaler.core.policy import Policy
from scaler.core.sample import Sample
from scaler.core.workload import Scale
from tests.core.histories import NOW, steady, ttft_in, without
from tests.core.illness import WELL, facts, found, replica, replicas, samples_of, unknown

QUEUE = replace(WELL, waiting=40.0, queued=4, kv_cache=0.8)
SLOTS = replace(WELL, waiting=24.0, queued=4, running=256.0, saturated=64.0, kv_cache=0.3)
SLOW = replace(WELL, ttft=ttft_in(5))
NEW = Learned()


def kinds(sample: Sample, **changes: object) -> set[Kind]:
    """Return the kinds of load that are found in a fleet seen for half an hour."""
    known = facts(steady(sample, 120), learned=NEW, replicas=(), **changes)  # type: ignore[arg-type]
    return found(known).keys() & set(LOAD_KINDS)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"kv_cache": 0.94}, set()),
        ({"kv_cache": 0.95}, {Kind.KV_CACHE_PRESSURE}),
        # Three preemptions in two minutes, of two requests a second, and a cache nearly full.
        ({"kv_cache": 0.9, "preemption_rate": 0.025}, {Kind.KV_CACHE_PRESSURE}),
        ({"kv_cache": 0.9, "preemption_rate": 0.024}, set()),
        ({"kv_cache": 0.89, "preemption_rate": 1.0}, set()),
        # A hundredth of the requests at least: of 20 a second, 0.1 is less.
        ({"kv_cache": 0.9, "preemption_rate": 0.1, "first_token_rate": 20.0}, set()),
        ({"kv_cache": None, "preemption_rate": 0.5}, {Kind.KV_CACHE_PRESSURE}),
        ({"waiting": 20.0, "queued": 4}, {Kind.QUEUE_BOUND}),
        ({"waiting": 19.9, "queued": 4}, set()),
        # The same queue over a full cache is the cache's doing.
        ({"waiting": 20.0, "queued": 4, "kv_cache": 0.96}, {Kind.KV_CACHE_PRESSURE}),
        ({"waiting": 20.0, "queued": 4, "kv_cache": 0.85}, {Kind.KV_CACHE_PRESSURE}),
        ({"waiting": 20.0, "queued": 4, "kv_cache": 0.84}, {Kind.QUEUE_BOUND}),
        ({"rejection_rate": 0.1}, {Kind.HIDDEN_DEMAND}),
        ({"ttft": ttft_in(5)}, {Kind.PREFILL_BOUND}),
        ({"ttft": ttft_in(4)}, set()),
        ({"ttft": ttft_in(5, observations=19.0)}, set()),
        ({"ttft": ttft_in(5), "waiting": 4.5, "queued": 4}, set()),
        ({"waiting": 40.0, "queued": 1}, {Kind.HOT_REPLICA}),
        ({"waiting": 5.0, "queued": 1}, {Kind.HOT_REPLICA}),
        # Now here and now there one waits for a moment: no fault of the router.
        ({"waiting": 4.9, "queued": 1}, set()),
        ({"waiting": 40.0, "queued": 2}, {Kind.QUEUE_BOUND}),
    ],
)
def test_the_borders_between_kinds(changes: dict[str, object], expected: set[Kind]) -> None:
    """Each kind begins where its figures say, and one limit is not told as another."""
    assert kinds(replace(WELL, **changes)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {Kind.SLOT_LIMITED}),
        ({"waiting": 4.0}, set()),
        ({"kv_cache": 0.69}, {Kind.SLOT_LIMITED}),
        ({"kv_cache": 0.7}, {Kind.QUEUE_BOUND}),
        ({"preemption_rate": 0.01}, {Kind.QUEUE_BOUND}),
        ({"saturated": None}, {Kind.QUEUE_BOUND}),
    ],
)
def test_slots_end_where_the_cache_has_room(
    changes: dict[str, object], expected: set[Kind]
) -> None:
    """A queue over an empty cache at a count that stands still is a limit on slots."""
    assert kinds(replace(SLOTS, **changes)) == expected  # type: ignore[arg-type]


def test_a_count_that_moves_is_no_limit() -> None:
    """Prompts that take all the work keep slots free: running goes up and down under a queue."""
    moving = [
        replace(SLOTS, at=s.at, scraped_at=s.at, saturated=56.0 + 2 * (index % 5))
        for index, s in enumerate(steady(SLOTS, 120))
    ]
    assert found(facts(moving, learned=NEW, replicas=())).keys() == {Kind.QUEUE_BOUND}


@pytest.mark.parametrize(("saturation", "slots"), [(None, True), (71.0, True), (72.0, False)])
def test_a_full_replica_is_known_by_what_it_ran_before(
    saturation: float | None, *, slots: bool
) -> None:
    """64 running where 72 is full is no lack of slots: less than nine tenths."""
    known = facts(steady(SLOTS, 120), learned=Learned(saturation=saturation), replicas=())
    assert (Kind.SLOT_LIMITED in found(known)) is slots


def test_replicas_with_different_counts_have_no_common_limit() -> None:
    """A median may stand still while each replica moves."""
    several = tuple(
        replica(f"chat-{index}", waiting=6.0, running=running)
        for index, running in enumerate([30.0, 64.0, 64.0, 90.0])
    )
    assert Kind.SLOT_LIMITED not in found(facts(steady(SLOTS, 120), learned=NEW, replicas=several))


def test_slots_or_cache_is_not_guessed() -> None:
    """A queue without a known cache usage is a queue; which limit it met is not known."""
    known = facts(steady(replace(SLOTS, kv_cache=None), 120), learned=NEW)
    assert "slots or cache" in unknown(diagnose(known))[Kind.SLOT_LIMITED]
    assert Kind.QUEUE_BOUND in found(known)


def test_a_queue_that_is_being_cured_is_only_noted() -> None:
    """While the fleet grows for it a queue is no alarm; at the maximum it is."""
    growing = found(facts(steady(QUEUE, 120)))[Kind.QUEUE_BOUND]
    stuck = found(facts(steady(QUEUE, 120), scale=Scale(current=4, max_replicas=4)))
    assert growing.severity is Severity.NOTE
    assert "growing from 4 to" in growing.evidence
    assert "10 requests have waited at each replica for 2 min (waitingHigh 5)" in growing.evidence
    assert "2 first tokens a second the queue takes 20 s" in growing.evidence
    assert stuck[Kind.QUEUE_BOUND].severity is Severity.WARNING
    assert stuck[Kind.AT_MAX].evidence.endswith("maxReplicaCount is 4.")


@pytest.mark.parametrize("ticks", [7, 8])
def test_what_has_not_lasted_is_nothing(ticks: int) -> None:
    """A queue of a minute and three quarters is a burst; of two minutes it is a finding."""
    known = facts(samples_of((WELL, 100), (QUEUE, ticks)))
    assert (Kind.QUEUE_BOUND in found(known)) is (ticks == 8)


@pytest.mark.parametrize(("missing", "known"), [((1, 2, 4, 6), True), ((1, 2, 4, 5, 6), False)])
def test_gaps_are_no_evidence(missing: tuple[int, ...], *, known: bool) -> None:
    """Four samples of the last eight are enough to judge by; three are not."""
    diagnosis = diagnose(facts(without(steady(QUEUE, 120), *missing)))
    assert (diagnosis.verdict(Kind.QUEUE_BOUND) is True) is known
    if not known:
        assert diagnosis.verdict(Kind.QUEUE_BOUND) is None


def test_an_old_sample_says_nothing_of_now() -> None:
    """What the source showed a minute ago is not called the present."""
    diagnosis = diagnose(facts(steady(QUEUE, 120, end=NOW - 45.0)))
    assert {diagnosis.verdict(kind) for kind in LOAD_KINDS} == {None}
    assert diagnosis.verdict(Kind.STALLED_ENGINE) is None


def test_at_zero_there_is_no_load_to_judge() -> None:
    """A fleet that sleeps on purpose has nothing unknown about it."""
    diagnosis = diagnose(facts([], scale=Scale(current=0)))
    assert {diagnosis.verdict(kind) for kind in LOAD_KINDS} == {False}


# --- prompts --------------------------------------------------------------------------------------

LONG = replace(WELL, kv_cache=0.9, prompt_token_rate=16_000.0)
"""Two requests a second as before, with prompts of 8,000 tokens instead of 1,000."""


def test_longer_prompts_at_an_unchanged_rate_are_told() -> None:
    """The incident that no request rate shows: the same requests a second, eight times as long."""
    known = facts(samples_of((WELL, 100), (LONG, 20)))
    evidence = found(known)[Kind.KV_CACHE_PRESSURE].evidence
    assert "The KV cache is 0.9 full" in evidence
    assert "prompts are 8000 tokens long on average, 8 times as long as 15 min to" in evidence
    assert "at an unchanged rate of 2 requests a second (2 then)" in evidence


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"kv_cache": 0.84}, False),
        ({"prompt_token_rate": 3_999.0}, False),
        ({"prompt_token_rate": 4_000.0}, True),
        # More of them, each longer: that is more demand, which the other rows see.
        ({"prompt_token_rate": 32_000.0, "first_token_rate": 4.0}, False),
        ({"prompt_token_rate": None}, False),
    ],
)
def test_prompts_that_doubled_over_a_high_cache(
    changes: dict[str, object], *, expected: bool
) -> None:
    """Twice as long at no higher rate, over a cache above kvCacheHigh, is pressure to come."""
    known = facts(samples_of((WELL, 100), (replace(LONG, **changes), 20)))  # type: ignore[arg-type]
    assert (Kind.KV_CACHE_PRESSURE in found(known)) is expected


def test_preemptions_are_compared_with_before() -> None:
    """The evidence says how many lose their place now, and how many did."""
    pressed = replace(WELL, kv_cache=0.98, preemption_rate=1.5, prompt_token_rate=None)
    known = facts(
        samples_of((replace(WELL, preemption_rate=0.5), 100), (pressed, 20)),
        replicas=(*replicas(3, kv_cache=0.97), replica("chat-3", kv_cache=1.0)),
    )
    assert found(known)[Kind.KV_CACHE_PRESSURE].evidence == (
        "The KV cache is 0.98 full (the fullest replica 1); 1.5 requests a second lose their "
        "place, 0.5 before; prompt lengths are not known."
    )


def test_one_full_replica_of_many_is_pressure_too() -> None:
    """The mean hides it; preemptions and the fullest replica do not."""
    sample = replace(WELL, kv_cache=0.4, preemption_rate=0.5)
    one_full = (*replicas(3, kv_cache=0.2), replica("chat-3", kv_cache=1.0))
    assert Kind.KV_CACHE_PRESSURE in found(facts(steady(sample, 120), replicas=one_full))
    assert Kind.KV_CACHE_PRESSURE not in found(
        facts(steady(sample, 120), replicas=replicas(4, kv_cache=0.4))
    )


# --- prefill, refusals, routing -------------------------------------------------------------------


@pytest.mark.parametrize(("ticks", "expected"), [(15, False), (16, True)])
def test_those_that_waited_are_not_called_slow_prompts(ticks: int, *, expected: bool) -> None:
    """A p95 of two minutes shows for two minutes more what a queue of before did."""
    after = samples_of((replace(QUEUE, ttft=ttft_in(5)), 60), (SLOW, ticks))
    assert (Kind.PREFILL_BOUND in found(facts(after, learned=NEW))) is expected


def test_new_replicas_with_empty_caches_hide_no_queue_for_cache() -> None:
    """The mean over all is low; those with a queue are full."""
    sample = replace(WELL, waiting=40.0, queued=2, kv_cache=0.72)
    half = (*replicas(2, waiting=20.0, kv_cache=0.95), *replicas(4, kv_cache=0.4)[2:])
    assert Kind.KV_CACHE_PRESSURE in found(facts(steady(sample, 120), replicas=half))
    roomy = (*replicas(2, waiting=20.0, kv_cache=0.8), *replicas(4, kv_cache=0.6)[2:])
    assert Kind.KV_CACHE_PRESSURE not in found(facts(steady(sample, 120), replicas=roomy))


def test_a_smaller_fleet_that_was_as_fast_is_evidence() -> None:
    """With it a TTFT is prefill-bound also while a few requests wait."""
    sample = replace(SLOW, waiting=8.0, queued=4)
    plain = facts(steady(sample, 120), learned=Learned())
    bound = facts(steady(sample, 120), learned=Learned(prefill_bound=True))
    assert Kind.PREFILL_BOUND not in found(plain)
    assert "a fifth smaller was as fast" in found(bound)[Kind.PREFILL_BOUND].evidence


def test_an_engine_without_a_histogram_cannot_be_prefill_bound() -> None:
    """No TTFT and no first tokens is not known; a histogram that did not grow is idle."""
    silent = replace(WELL, ttft=None, first_token_rate=None)
    assert diagnose(facts(steady(silent, 120))).verdict(Kind.PREFILL_BOUND) is None
    idle = replace(WELL, ttft=None, first_token_rate=0.0)
    assert diagnose(facts(steady(idle, 120))).verdict(Kind.PREFILL_BOUND) is False


@pytest.mark.parametrize(
    ("waiting", "severity", "part"),
    [
        (8.0, Severity.WARNING, "Raise --max-num-queued-reqs"),
        (0.0, Severity.NOTE, "somebody's rate limit"),
    ],
)
def test_refusals_are_demand_only_under_load(waiting: float, severity: Severity, part: str) -> None:
    """Refused requests beside a queue are hidden demand; beside free engines a rate limit."""
    sample = replace(WELL, rejection_rate=3.0, waiting=waiting, queued=4 if waiting else 0)
    policy = Policy(kv_cache_high=0.95)
    known = facts(steady(sample, 120), policy=policy, learned=Learned())
    calm = replace(known, decision=replace(known.decision, need=None))
    finding = found(calm)[Kind.HIDDEN_DEMAND]
    assert (finding.severity, part in finding.advice) == (severity, True)
    assert "3 requests a second are refused, 2 are served" in finding.evidence


def test_refusals_that_nobody_counts_are_not_known() -> None:
    """An old engine without a gateway's query says nothing, which is not none."""
    diagnosis = diagnose(facts(steady(replace(WELL, rejection_rate=None), 120)))
    assert "rejectionQuery" in unknown(diagnosis)[Kind.HIDDEN_DEMAND]


def test_a_hot_replica_is_named_with_what_the_others_run() -> None:
    """The router's fault can be seen in one sentence."""
    sample = replace(WELL, waiting=40.0, queued=1)
    hot = replica("chat-2", waiting=40.0, running=64.0)
    cool = tuple(replica(f"chat-{index}", running=4.0) for index in (0, 1, 3))
    finding = found(facts(steady(sample, 120), replicas=(*cool, hot)))[Kind.HOT_REPLICA]
    assert finding.evidence == (
        "Requests have waited at only 1 of 4 replicas for 2 min: chat-2 (40 waiting, 64 running); "
        "the other 3 run 4 on average."
    )
    assert finding.pods == ("chat-2",)
