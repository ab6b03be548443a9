"""What is odd in a record itself, a plain sentence for each."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.core.numbers import seconds
from scaler.core.rendering import instant_of
from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds
from scaler.tuning.record import Moment, Record

_SHOWN = 3


def oddities(record: Record) -> tuple[str, ...]:
    """Say what is missing in a record, or cannot be."""
    return (*_gaps(record), *_ahead(record))


def _gaps(record: Record) -> Iterator[str]:
    """Find where nobody was heard although there were replicas, or nothing was recorded."""
    gaps: list[tuple[Seconds, Seconds]] = []
    previous: Moment | None = None
    for moment in record.moments:
        begins = moment.at - moment.step
        if previous is not None and begins > previous.at:
            _join(gaps, previous.at, begins)
        if _is_silent(moment):
            _join(gaps, begins, moment.at)
        previous = moment
    if not gaps:
        return
    shown = ", ".join(
        f"from {instant_of(begin)} to {instant_of(end)} ({seconds(end - begin)})"
        for begin, end in gaps[:_SHOWN]
    )
    more = f", and {len(gaps) - _SHOWN} more" if len(gaps) > _SHOWN else ""
    whole = sum(end - begin for begin, end in gaps)
    yield (
        f"the range has gaps, {seconds(whole)} in all: no engine was heard {shown}{more}; there "
        "the count is held, then nothing is answered, and no replica is removed until the gap "
        "has left the scale-in window"
    )


def _is_silent(moment: Moment) -> bool:
    at_zero = moment.scale is not None and moment.scale.current == 0
    return not at_zero and (moment.sample is None or moment.sample.reporting == 0)


def _join(gaps: list[tuple[Seconds, Seconds]], begin: Seconds, end: Seconds) -> None:
    if gaps and gaps[-1][1] >= begin:
        gaps[-1] = gaps[-1][0], end
    else:
        gaps.append((begin, end))


def _ahead(record: Record) -> Iterator[str]:
    """Find samples that were scraped after they were looked at."""
    odd = [
        moment.sample
        for moment in record.moments
        if moment.sample is not None and moment.sample.scraped_at > moment.at + TICK
    ]
    if odd:
        first, most = odd[0], max(map(_lead, odd))
        yield (
            f"a clock jumped: {len(odd)} samples, the first at {instant_of(first.at)}, say that "
            f"they were scraped up to {seconds(most)} after they were looked at; the windows there "
            "are not to be relied on"
        )


def _lead(sample: Sample) -> Seconds:
    return sample.scraped_at - sample.at
