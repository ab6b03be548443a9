"""Records to rehearse: made by hand, drawn by Hypothesis, and decided on as the loop does it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from scaler.core.decision import Decision, decide
from scaler.core.gateway import Gateway
from scaler.core.history import History, Judgement, span_needed
from scaler.core.lateness import count_to_decide_on, told
from scaler.core.policy import Policy
from scaler.core.sample import Sample
from scaler.core.units import TICK
from scaler.core.workload import Scale
from scaler.tuning.record import Moment, Record
from tests.core.histories import NOW, histories, stamped


def record_of(
    samples: Sequence[Sample], current: int | None = 4, *, most: int | None = 40
) -> Record:
    """Return these samples with a count that stays, a moment a tick from the first to the last."""
    scale = None if current is None else Scale(current=current, max_replicas=most)
    known = {sample.at: sample for sample in samples}
    first, last = samples[0].at, samples[-1].at
    ticks = round((last - first) / TICK)
    return Record(
        namespace="prod",
        name="chat",
        moments=tuple(
            Moment(at=at, sample=known.get(at), scale=scale)
            for at in (first + tick * TICK for tick in range(ticks + 1))
        ),
    )


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Draw up to six histories one after the other, with counts that move and get lost."""
    drawn = draw(st.lists(histories(), min_size=1, max_size=6))
    at = NOW
    moments: list[Moment] = []
    lead_time = draw(st.sampled_from([None, 52.3]))
    for history in drawn:
        scale = draw(st.one_of(st.none(), _scales(), _scales(), _scales()))
        lead_time = draw(st.sampled_from([lead_time, 180.0]))
        offset = at - history[0].at
        known = {sample.at + offset: sample for sample in history}
        while at <= history[-1].at + offset:
            found = known.get(at)
            sample = stamped(found, at) if found is not None else None
            moments.append(Moment(at=at, sample=sample, scale=scale, lead_time=lead_time))
            at += TICK
        at += TICK * draw(st.sampled_from([0, 0, 1, 30]))
    return Record(
        namespace="prod", name="chat", moments=tuple(moments), asks_gateway=draw(st.booleans())
    )


def _scales() -> st.SearchStrategy[Scale]:
    return st.builds(
        Scale,
        current=st.integers(0, 12),
        min_replicas=st.sampled_from([0, 1, 3]),
        max_replicas=st.sampled_from([None, 8, 40]),
        tolerance_out=st.sampled_from([0.0, 0.1]),
        tolerance_in=st.sampled_from([0.0, 0.1]),
        ready=st.sampled_from([None, 0, 4]),
    )


def lived(record: Record, policy: Policy) -> list[Decision]:
    """Decide on each moment as the loop does: a sample at a time, nothing prepared."""
    history, judgement = History(), Judgement()
    decisions: list[Decision] = []
    zero_at = None
    for moment in record.moments:
        if moment.sample is not None:
            history.add(moment.sample)
        history.forget(moment.at, span_needed(policy, judgement.learned))
        judgement.update(policy, history, moment.at, moment.lead_time)
        previous = decisions[-1] if decisions else None
        count = count_to_decide_on(moment.scale, previous, history.newest, moment.at)
        if count.scale is not None and count.scale.current == 0:
            zero_at = moment.at
        decision = decide(
            policy,
            history.samples,
            judgement.needs,
            scale=count.scale,
            learned=judgement.learned,
            now=moment.at,
            known_since=record.moments[0].at,
            gateway=Gateway(asked=record.asks_gateway, zero_at=zero_at),
        )
        decisions.append(told(decision, previous, count))
    return decisions
