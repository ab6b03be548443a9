"""The day in memory: nothing is lost of two hours, minutes of the rest, and edits keep the past."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from scaler.control.archive import FINE_FOR, KEPT_FOR, Archive
from scaler.core.decision import Decision
from scaler.core.minutes import MINUTE
from scaler.core.policy import Policy
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale, WorkloadKey
from scaler.tuning.record import Record
from tests.core.histories import BUSY, NOW, policies, stamped, ttft_in
from tests.tuning.records import lived, records

CHAT = WorkloadKey(namespace="prod", name="chat", trigger="1")
EDITED = replace(CHAT, trigger="2")
FOUR = Scale(current=4, max_replicas=9, ready=4)
SEEN = replace(BUSY, ttft=ttft_in(4), saturated=12.0, activation=0.0)


def answer(at: Seconds, desired: int | None = 4, reason: Reason = Reason.STEADY) -> Decision:
    """Return an answer."""
    return Decision(at=at, current=4, desired=desired, advised=desired, reason=reason)


def kept_for(span: Seconds, archive: Archive | None = None, key: WorkloadKey = CHAT) -> Archive:
    """Return an archive that was told the same every tick, up to and without `NOW`."""
    archive = archive or Archive()
    for tick in range(round(span / TICK)):
        at = NOW - span + tick * TICK
        archive.keep(key, answer(at), sample=stamped(SEEN, at), scale=FOUR)
    return archive


@settings(max_examples=60)
@given(records(), policies())
def test_two_hours_are_given_back_as_they_were(record: Record, policy: Policy) -> None:
    """Samples, counts, lead times and answers, of every tick."""
    archive = Archive()
    decisions = lived(record, policy)
    for moment, decision in zip(record.moments, decisions, strict=True):
        archive.keep(CHAT, decision, sample=moment.sample, scale=moment.scale)
    end = record.moments[-1].at
    fine = [m for m in record.moments if m.at > end - FINE_FOR]
    back = {m.at: m for m in archive.record(CHAT, end - FINE_FOR, end).moments}
    for moment in fine:
        found = back[moment.at]
        assert found.sample == moment.sample
        assert found.scale == moment.scale
    rows = {row.at: row for row, _ in archive.rows(CHAT, end - FINE_FOR, end)}
    for decision in decisions[-len(fine) :]:
        row = rows[decision.at]
        told = (row.current, row.desired, row.floor, row.ceiling, row.reason)
        assert told == (
            decision.current,
            decision.desired,
            decision.floor,
            decision.proven_ceiling,
            decision.reason,
        )


def test_a_day_is_kept_in_minutes_and_no_longer() -> None:
    """Two hours to the tick, a minute beyond, nothing after a day."""
    archive = kept_for(KEPT_FOR + 2 * FINE_FOR)
    minutes, fine = archive.stretches(CHAT)
    assert (minutes.step, fine.step) == (MINUTE, TICK)
    assert FINE_FOR <= NOW - fine.start <= FINE_FOR + 70 * TICK
    assert KEPT_FOR <= NOW - minutes.start <= KEPT_FOR + 70 * MINUTE
    assert minutes.end < fine.start
    record = archive.record(CHAT, 0.0, NOW)
    assert {m.step for m in record.moments} == {MINUTE, TICK}
    old = record.moments[0].sample
    assert old is not None
    assert old.ttft is not None
    assert SEEN.ttft is not None
    assert old.ttft.value == pytest.approx(SEEN.ttft.value)
    assert (old.running, old.waiting, old.serving) == (SEEN.running, SEEN.waiting, SEEN.serving)


def test_silence_is_kept_as_silence() -> None:
    """A tick without a sample, or with an old one, and an unknown count stay what they are."""
    archive = Archive()
    archive.keep(CHAT, answer(NOW), sample=stamped(SEEN, NOW), scale=FOUR)
    nothing = answer(NOW + TICK, None, Reason.CURRENT_UNKNOWN)
    archive.keep(CHAT, replace(nothing, current=None), sample=stamped(SEEN, NOW), scale=None)
    first, second = archive.record(CHAT, NOW, NOW + TICK).moments
    assert first.sample is not None
    assert (second.sample, second.scale) == (None, None)


def test_only_what_changes_the_answer_is_a_change() -> None:
    """Between two ticks, too; of what stays the first is kept."""
    archive = Archive()
    for at, desired, reason in (
        (NOW, 4, Reason.STEADY),
        (NOW + TICK, 4, Reason.STEADY),
        (NOW + TICK + 4, 6, Reason.SCALE_OUT_QUEUE),
        (NOW + 2 * TICK, 6, Reason.SCALE_OUT_QUEUE),
        (NOW + 3 * TICK, 6, Reason.STEADY),
    ):
        archive.keep(CHAT, answer(at, desired, reason), sample=None, scale=FOUR)
    assert [(c.at - NOW, c.desired) for c in archive.changes(CHAT, 0.0, NOW + 60)] == [
        (0.0, 4),
        (TICK + 4, 6),
        (3 * TICK, 6),
    ]
    assert [m.at - NOW for m in archive.record(CHAT, NOW, NOW + 60).moments] == [0, 15, 30, 45]


def test_of_two_answers_at_one_tick_the_first_that_saw_something_stays() -> None:
    """The second is given once the count has moved, and would hide why it did."""
    archive = Archive()
    waiting = answer(NOW, 4, Reason.NOT_YET_SAMPLED)
    archive.keep(CHAT, waiting, sample=None, scale=FOUR)
    archive.keep(
        CHAT, answer(NOW, 6, Reason.SCALE_OUT_QUEUE), sample=stamped(SEEN, NOW), scale=FOUR
    )
    moved = replace(answer(NOW, 6), current=6)
    archive.keep(CHAT, moved, sample=stamped(SEEN, NOW), scale=replace(FOUR, current=6))
    rows = [(row.current, row.desired, row.reason) for row, _ in archive.rows(CHAT, NOW, NOW)]
    assert rows == [(4, 6, Reason.SCALE_OUT_QUEUE)]
    assert [change.desired for change in archive.changes(CHAT, NOW, NOW)] == [4, 6, 6]


def test_an_edited_trigger_keeps_the_past_and_a_stranger_has_none() -> None:
    """KEDA tells us of an edit as of another trigger."""
    archive = kept_for(10 * TICK)
    for tick in range(4):
        at = NOW + tick * TICK
        archive.keep(EDITED, answer(at), sample=stamped(SEEN, at), scale=FOUR)
    assert len(archive.record(EDITED, 0.0, NOW + 100).moments) == 14
    assert len(archive.changes(EDITED, 0.0, NOW + 100)) == 2
    assert len(archive.record(CHAT, 0.0, NOW + 100).moments) == 10
    stranger = replace(CHAT, name="other")
    assert archive.record(stranger, 0.0, NOW).moments == ()
    assert archive.changes(stranger, 0.0, NOW) == []
    assert archive.stretches(stranger) == []


def test_who_is_gone_for_a_day_is_forgotten() -> None:
    """And nobody else."""
    archive = kept_for(10 * TICK)
    later = NOW + KEPT_FOR
    archive.keep(EDITED, answer(later), sample=stamped(SEEN, later), scale=FOUR)
    archive.forget_old(later)
    assert archive.stretches(CHAT) == []
    assert len(archive.record(EDITED, 0.0, later).moments) == 1


def test_a_clock_that_was_ahead_leaves_nothing_behind() -> None:
    """What was kept for times that have not come is dropped when the clock is set back."""
    archive = kept_for(20 * TICK)
    at = NOW - 10 * TICK
    archive.keep(CHAT, answer(at, 7), sample=stamped(SEEN, at), scale=FOUR)
    moments = archive.record(CHAT, 0.0, NOW).moments
    assert moments[-1].at == at
    assert len(moments) == 11


def test_numbers_beyond_any_fleet_do_no_harm() -> None:
    """A count larger than a column holds is cut, not wrapped and not an error."""
    archive = Archive()
    vast = Sample(at=NOW, scraped_at=NOW, serving=10**6, running=1e12)
    archive.keep(CHAT, answer(NOW, 10**6), sample=vast, scale=Scale(current=10**6))
    (row, _), *_ = archive.rows(CHAT, NOW, NOW)
    assert row.sample is not None
    assert row.sample.serving > 30_000
    assert row.sample.running == 1e12
