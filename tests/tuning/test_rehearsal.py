"""The past decided anew is what was decided, and another policy is put to the same past."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.learned import carried
from scaler.core.minutes import MINUTE
from scaler.core.policy import Mode, Policy, Signal
from scaler.core.reasons import Reason
from scaler.core.units import TICK
from scaler.core.workload import Scale
from scaler.tuning.carrying import carried_over
from scaler.tuning.prepared import Prepared
from scaler.tuning.record import Moment, Record
from scaler.tuning.rehearsal import Step, rehearse
from scaler.tuning.summary import summarize
from tests.core.histories import (
    BUSY,
    IDLE,
    NOW,
    QUEUEING,
    STATED,
    policies,
    row_of,
    stamped,
    steady,
)
from tests.tuning.records import lived, record_of, records


def rehearsed(record: Record, policy: Policy = STATED) -> list[Step]:
    """Rehearse a record."""
    return list(rehearse(Prepared(record), policy))


@settings(max_examples=150)
@given(records(), policies(), policies())
def test_a_rehearsal_decides_as_the_loop_did(record: Record, one: Policy, other: Policy) -> None:
    """Moment for moment and to the last note, for one policy after another."""
    prepared = Prepared(record)
    for policy in (one, other, one):
        decided = [step.decision for step in rehearse(prepared, policy)]
        assert decided == lived(record, policy)


@given(records(), policies())
def test_what_was_carried_is_what_the_core_says_of_each_minute(
    record: Record, policy: Policy
) -> None:
    """The sliding peak is the core's own answer, minute for minute."""
    minutes = Prepared(record).minutes
    assert carried_over(policy, minutes) == [carried(policy, minutes, at) for at in minutes.at]


@pytest.mark.parametrize("days", [1.5])
def test_what_was_carried_is_forgotten_after_a_day(days: float) -> None:
    """A peak of three minutes counts for a day, and no longer."""
    moments = []
    for index in range(round(days * 1440)):
        at = NOW + index * MINUTE
        sample = stamped(replace(BUSY, running=80.0 if index in {3, 4, 5} else 8.0), at)
        moments.append(Moment(at=at, sample=sample, scale=None, step=MINUTE))
    minutes = Prepared(Record(namespace="a", name="b", moments=tuple(moments))).minutes
    found = carried_over(STATED, minutes)
    assert found == [carried(STATED, minutes, at) for at in minutes.at]
    assert found[5] == found[3 + 1440] == 20.0
    assert found[4 + 1440] == found[-1] == 2.0


@settings(max_examples=40)
@given(records(), policies(), st.sampled_from([2, 4]))
def test_coarse_moments_know_no_more_than_they_stand_for(
    record: Record, policy: Policy, ticks: int
) -> None:
    """Whatever is kept of it, a rehearsal gives a decision a moment, on the grid and in bounds."""
    kept = tuple(
        replace(moment, step=ticks * TICK)
        for moment in record.moments
        if not moment.at % (ticks * TICK)
    )
    coarse = replace(record, moments=kept)
    steps = rehearsed(coarse, policy)
    assert [(step.decision.at, step.step) for step in steps] == [(m.at, m.step) for m in kept]
    for step, moment in zip(steps, kept, strict=True):
        if step.followed is not None and moment.scale is not None and moment.scale.current:
            assert step.followed == moment.scale.within_bounds(step.followed)


def test_a_minute_of_one_load_is_decided_as_its_four_ticks() -> None:
    """Where nothing changed within the minutes, keeping only minutes changes no answer."""
    fine = record_of(steady(QUEUEING, 80))
    coarse = replace(
        fine,
        moments=tuple(replace(m, step=MINUTE) for m in fine.moments if not m.at % MINUTE),
    )
    by_tick = {step.decision.at: step.decision for step in rehearsed(fine)}
    for step in rehearsed(coarse)[5:]:
        expected = by_tick[step.decision.at]
        assert (step.decision.desired, step.decision.reason) == (
            expected.desired,
            expected.reason,
        )


def test_the_count_follows_the_answers_and_stays_where_nothing_is_known() -> None:
    """Up with the floor, held through silence, down with the ceiling."""
    loud = row_of(*[QUEUEING] * 40, end=NOW)
    calm = row_of(*[replace(IDLE, running=1.0)] * 120, end=NOW + 160 * TICK)
    record = record_of([*loud, *calm])
    counts = [step.followed for step in rehearsed(record)]
    assert counts[0] == 4
    grown = counts[39]
    assert grown is not None
    assert grown > 4
    assert set(counts[40:80]) == {grown}
    shrunk = counts[-1]
    assert shrunk is not None
    assert 1 <= shrunk < 4


def test_the_count_does_not_follow_advice_that_is_not_there() -> None:
    """Without a count there is nothing to follow; advice is followed as an answer would be."""
    unknown = rehearsed(record_of(steady(QUEUEING, 20), current=None))
    assert {step.followed for step in unknown} == {None}
    assert {step.decision.reason for step in unknown} == {Reason.CURRENT_UNKNOWN}
    record = record_of(steady(QUEUEING, 40))
    act, advise = (rehearsed(record, replace(STATED, mode=mode)) for mode in Mode)
    assert [step.followed for step in act] == [step.followed for step in advise]
    assert {step.decision.desired for step in advise} == {4}


def test_a_summary_compares_what_was_with_what_would_have_been() -> None:
    """Replica-hours, changes and turns of both counts, and the time above each threshold."""
    record = record_of(row_of(*[QUEUEING] * 40, *[replace(IDLE, running=1.0)] * 80))
    summary = summarize(STATED, rehearse(Prepared(record), STATED))
    assert summary.seconds == 120 * TICK
    assert summary.was.replica_hours == pytest.approx(4 * 120 * TICK / 3600)
    assert (summary.was.changes, summary.was.turns) == (0, 0)
    assert summary.followed.changes >= 2
    assert summary.followed.turns == 1
    assert summary.over[Signal.WAITING] == 40 * TICK
    assert sum(summary.reasons.values()) == summary.seconds


@pytest.mark.parametrize(
    "moments",
    [
        (Moment(at=NOW + 1, sample=None, scale=None),),
        (Moment(at=NOW, sample=None, scale=None, step=7.0),),
        (Moment(at=NOW, sample=stamped(BUSY, NOW - TICK), scale=None),),
        (
            Moment(at=NOW, sample=None, scale=None),
            Moment(at=NOW + MINUTE, sample=None, scale=None, step=2 * MINUTE),
        ),
        (Moment(at=NOW, sample=None, scale=None), Moment(at=NOW, sample=None, scale=None)),
    ],
)
def test_what_is_no_history_is_refused(moments: tuple[Moment, ...]) -> None:
    """Off the grid, a sample of another moment, or moments that overlap."""
    with pytest.raises(ValueError, match=r"grid|sample|overlap"):
        Record(namespace="prod", name="chat", moments=moments)


def test_a_part_of_a_record_is_cut_by_time() -> None:
    """Both ends belong to it; the coarsest step is that of what is left."""
    record = record_of(steady(BUSY, 10))
    part = record.between(NOW - 3 * TICK, NOW)
    assert [moment.at for moment in part.moments] == [NOW - back * TICK for back in (3, 2, 1, 0)]
    assert part.coarsest == TICK
    assert Scale(current=4, max_replicas=40) == part.moments[0].scale
