"""Every reason can be reached and is explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scaler.core.decision import Decision
from scaler.core.gateway import Gateway
from scaler.core.lateness import noted
from scaler.core.learned import Learned
from scaler.core.moves import with_notes
from scaler.core.policy import Policy, Signal
from scaler.core.reasons import EXPLANATIONS, Reason
from scaler.core.sample import Sample
from scaler.core.workload import Scale
from tests.core.histories import (
    BUSY,
    IDLE,
    NOW,
    QUEUEING,
    decided,
    only,
    row_of,
    steady,
    ttft_in,
    without,
)

NOT_FROM_THE_CORE = {Reason.SHARED_SERIES, Reason.UNRESOLVED}
"""Reasons that need more than one workload, or the server's configuration."""

FOUR = Scale(current=4)
KV = only(Signal.KV_CACHE)
FULL_CACHE = replace(BUSY, kv_cache=1.0)
EMPTIER = replace(BUSY, kv_cache=0.3)
PARTIAL = replace(EMPTIER, partial=True)
SLOW = replace(BUSY, ttft=ttft_in(6))
TEN = replace(BUSY, serving=10)
TENTH = Scale(current=10, tolerance_out=0.1, tolerance_in=0.1)
NOBODY = replace(IDLE, serving=0)
ZERO = Scale(current=0)
TO_ZERO = Scale(current=4, min_replicas=0)


def case(
    reason: Reason,
    samples: Sequence[Sample],
    policy: Policy | None = None,
    scale: Scale | None = FOUR,
    *,
    learned: Learned | None = None,
    known_since: float = 0.0,
    gateway: Gateway | None = None,
) -> tuple[Reason, Decision]:
    """Return the expected reason of an answer, and the decision."""
    decision = decided(
        samples, policy, scale=scale, learned=learned, known_since=known_since, gateway=gateway
    )
    return reason, decision


ANSWERS = [
    case(Reason.SCALE_OUT_QUEUE, steady(QUEUEING, 60)),
    case(Reason.SCALE_OUT_CONCURRENCY, steady(BUSY, 60), learned=Learned(saturation=16.0)),
    case(Reason.SCALE_OUT_KV_CACHE, steady(FULL_CACHE, 60)),
    case(Reason.SCALE_OUT_TTFT, steady(SLOW, 60)),
    case(Reason.SCALE_IN, steady(IDLE, 60)),
    case(Reason.WITHIN_BOUNDS, steady(BUSY, 60), scale=Scale(current=4, min_replicas=5)),
    case(Reason.WOKEN, steady(replace(NOBODY, activation=1.0), 1), scale=Scale(current=0)),
    case(Reason.STEADY, steady(BUSY, 60), KV),
    case(Reason.STEADY, steady(BUSY, 60)),  # open above: nothing was learned yet
    case(Reason.SCALE_OUT_PENDING, row_of(*[BUSY] * 60, FULL_CACHE), KV),
    case(Reason.SCALE_IN_PENDING, row_of(*[BUSY] * 60, EMPTIER), KV),
    case(Reason.AT_MAX, steady(FULL_CACHE, 60), scale=Scale(current=4, max_replicas=4)),
    case(Reason.AT_MIN, steady(EMPTIER, 60), KV, Scale(current=4, min_replicas=4)),
    case(Reason.TOLERANCE_ROUNDED_UP, steady(replace(TEN, kv_cache=0.9), 60), KV, TENTH),
    case(Reason.TOLERANCE_HELD, steady(replace(TEN, kv_cache=0.5), 60), KV, TENTH),
    case(Reason.GAP, without(steady(EMPTIER, 60), 7), KV),
    case(Reason.GAP, without(row_of(*[FULL_CACHE] * 60), 1, 2), KV),
    case(Reason.WARMING_UP, steady(EMPTIER, 9), KV),
    case(Reason.WARMING_UP, steady(FULL_CACHE, 2), KV),
    case(Reason.TOO_FEW_SCRAPES, [replace(s, scraped_at=NOW) for s in steady(FULL_CACHE, 60)], KV),
    case(Reason.SETTLING, steady(EMPTIER, 60), KV, replace(FOUR, settling=True)),
    case(Reason.PODS_LATE, row_of(*[EMPTIER] * 39, PARTIAL, *[EMPTIER] * 9), KV),
    case(Reason.LOADING, steady(EMPTIER, 60), KV, Scale(current=9)),
    case(Reason.LOADING, [], scale=Scale(current=4, ready=0)),
    case(Reason.NOTHING_SERVING, steady(replace(NOBODY, asleep=4), 60)),
    case(Reason.NOTHING_SERVING, steady(replace(NOBODY, stalled=4), 60)),
    case(Reason.SOURCE_SILENT, steady(BUSY, 60, NOW - 60)),
    case(Reason.SILENT_TOO_LONG, steady(BUSY, 60, NOW - 600)),
    case(Reason.CURRENT_UNKNOWN, steady(BUSY, 60), scale=None),
    case(Reason.AT_ZERO, [], scale=ZERO),
    case(Reason.AT_ZERO, [], scale=ZERO, gateway=Gateway(asked=True, answers=((NOW, 0.0),))),
    case(Reason.GATEWAY_SILENT, [], scale=ZERO, gateway=Gateway(asked=True)),
    case(Reason.NO_WAY_TO_WAKE, [], scale=ZERO, gateway=Gateway(asked=False)),
    case(Reason.NOT_YET_SAMPLED, [], known_since=NOW),
]  # fmt: skip

NOTED = [
    case(Reason.UNSEEN, steady(replace(BUSY, unseen=9), 60), scale=Scale(current=13)),
    case(Reason.LOADING, steady(EMPTIER, 60), KV, Scale(current=5)),
    case(Reason.OVERDUE, steady(replace(BUSY, overdue=1), 60), scale=Scale(current=5)),
    case(Reason.SKEWED, steady(replace(QUEUEING, queued=1), 60)),
    case(Reason.PREFILL_BOUND, steady(SLOW, 60), learned=Learned(prefill_bound=True)),
    case(Reason.STALLED, steady(replace(BUSY, stalled=1), 60)),
    case(Reason.REJECTIONS_WITHOUT_LOAD, steady(replace(BUSY, rejection_rate=1.0), 60)),
    case(Reason.NOTHING_SERVING, row_of(*[BUSY] * 59, NOBODY), scale=Scale(current=4, ready=4)),
    case(Reason.GAP, without(steady(FULL_CACHE, 60), 20), KV),
    case(Reason.WARMING_UP, steady(FULL_CACHE, 9), KV),
    case(Reason.GATEWAY_SILENT, steady(BUSY, 60), scale=TO_ZERO, gateway=Gateway(asked=True)),
    case(Reason.NO_WAY_TO_WAKE, steady(BUSY, 60), scale=TO_ZERO, gateway=Gateway(asked=False)),
]

MOVED = with_notes(
    decided(steady(BUSY, 60), KV, scale=FOUR), decided(steady(BUSY, 60), KV, scale=Scale(current=5))
)


def named(cases: Sequence[tuple[Reason, Decision]]) -> list[str]:
    """Return a readable name for each case."""
    return [f"{index}-{reason.value}" for index, (reason, _) in enumerate(cases)]


LATE = noted(decided(steady(BUSY, 60), KV, scale=FOUR), NOW)


@pytest.mark.parametrize(("reason", "decision"), ANSWERS, ids=named(ANSWERS))
def test_each_answer_has_its_reason(reason: Reason, decision: Decision) -> None:
    """The situation is answered with the reason that a person would give."""
    assert decision.reason is reason
    assert reason not in decision.notes


@pytest.mark.parametrize(("reason", "decision"), NOTED, ids=named(NOTED))
def test_each_oddity_is_noted_or_is_the_reason(reason: Reason, decision: Decision) -> None:
    """What a person should know beside the reason is said once."""
    assert [decision.reason, *decision.notes].count(reason) == 1


def test_every_reason_of_the_core_can_be_reached() -> None:
    """No reason is dead: the tables above produce all that the core can say."""
    assert MOVED.reason is Reason.MOVED_BY_OTHERS
    said: set[Reason] = {MOVED.reason, *LATE.notes}
    for _, decision in [*ANSWERS, *NOTED]:
        said |= {decision.reason, *decision.notes}
    assert set(Reason) - said == NOT_FROM_THE_CORE


def test_every_reason_is_explained() -> None:
    """Each reason has a meaning and a cure of its own, in whole sentences."""
    assert set(EXPLANATIONS) == set(Reason)
    for explanation in EXPLANATIONS.values():
        for text in (explanation.meaning, explanation.cure):
            assert text[:1].isupper()
            assert text[-1:] in {".", "?"}
    meanings = {explanation.meaning for explanation in EXPLANATIONS.values()}
    assert len(meanings) == len(Reason)


def test_reasons_are_words_for_labels() -> None:
    """Reasons are lower-case words joined by hyphens: fit for metrics and URLs."""
    for reason in Reason:
        assert all(word.isalpha() and word.islower() for word in reason.value.split("-"))
