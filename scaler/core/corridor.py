"""The corridor: a floor that sustained overload lifts, a ceiling that sustained calm lowers."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from scaler.core.need import REASON_OF_ROW, Need
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds, ticks_in

_FLOOR_SHARE = 0.1
_COVERED_SHARE = 0.8
_SCRAPES_LEAST = 3
_WIDEST_STRETCH = 4.0
_ROUNDING = 1e-6

_at = attrgetter("at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window's samples: how many ticks it spans and how many of them have a sample."""

    span: Seconds
    ticks: int
    present: int

    @property
    def missing(self) -> int:
        """Count the ticks without a sample."""
        return self.ticks - self.present

    @property
    def enough(self) -> bool:
        """Say whether the floor may rest on this window: four fifths of its ticks, at least one."""
        return self.present >= max(1, math.floor(_COVERED_SHARE * self.ticks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Corridor:
    """Floor and ceiling in replicas before rounding and bounds; `floor <= ceiling` always.

    `floor_reason` is the row that sets the floor, or why the floor knows nothing; likewise
    `ceiling_reason`, which is `None` while the ceiling is proven.
    """

    floor: float
    ceiling: float
    out_window: Window
    in_window: Window
    floor_reason: Reason | None = None
    ceiling_reason: Reason | None = None


def round_up(replicas: float) -> float:
    """Round up to whole replicas, ignoring what arithmetic leaves behind; infinity stays."""
    return replicas if math.isinf(replicas) else float(math.ceil(replicas - _ROUNDING))


def widest_out_span(span: Seconds) -> Seconds:
    """Return how far back a scale-out window of this span may stretch in search of scrapes."""
    return _WIDEST_STRETCH * span + _SCRAPES_LEAST * TICK


def corridor(
    samples: Sequence[Sample],
    needs: Sequence[Need],
    now: Seconds,
    out_span: Seconds,
    in_span: Seconds,
) -> Corridor:
    """Return the corridor at the tick `now`; `needs` go with `samples`, ascending in time.

    Windows are (now - span, now]. A missing tick is a tick of which nothing is known: it
    contributes nothing to the floor, and it leaves the ceiling infinite, for the missing sample
    may have been the highest. So a gap forbids scale-in and never scale-out.
    """
    last = bisect_right(samples, now, key=_at)
    out_first, out_window = _out_window(samples, last, now, out_span)
    in_first = bisect_right(samples, now - in_span, hi=last, key=_at)
    in_window = Window(span=in_span, ticks=ticks_in(now, in_span), present=last - in_first)
    floor, floor_reason = _floor(samples, needs, out_first, last, out_window)
    ceiling, ceiling_reason = math.inf, None
    if in_window.missing:
        warm = bool(samples) and samples[0].at <= now - in_span + TICK
        ceiling_reason = Reason.GAP if warm else Reason.WARMING_UP
    else:
        ceiling = max(need.high for need in needs[in_first:last])
        if any(sample.partial for sample in samples[in_first:last]):
            ceiling_reason = Reason.PODS_LATE
    return Corridor(
        floor=floor,
        ceiling=max(ceiling, floor),
        out_window=out_window,
        in_window=in_window,
        floor_reason=floor_reason,
        ceiling_reason=ceiling_reason,
    )


def _out_window(
    samples: Sequence[Sample], last: int, now: Seconds, span: Seconds
) -> tuple[int, Window]:
    """Return where the scale-out window begins: stretched until it holds three distinct scrapes.

    Ticks come faster than some Prometheus servers scrape, and one scrape seen four times is not
    an overload that lasts.
    """
    first = bisect_right(samples, now - span, hi=last, key=_at)
    widest = bisect_right(samples, now - widest_out_span(span), key=_at)
    while first > widest and _scrapes(samples[first:last]) < _SCRAPES_LEAST:
        first -= 1
        span = max(span, now - samples[first].at + TICK)
    return first, Window(span=span, ticks=ticks_in(now, span), present=last - first)


def _scrapes(samples: Sequence[Sample]) -> int:
    return sum({sample.scraped_at: sample.scrapes for sample in samples}.values())


def _floor(
    samples: Sequence[Sample], needs: Sequence[Need], first: int, last: int, window: Window
) -> tuple[float, Reason | None]:
    """Return the 10th percentile (nearest rank) of the lows, at most the newest's, and why."""
    if not window.enough:
        return 0.0, Reason.WARMING_UP if first == 0 else Reason.GAP
    if _scrapes(samples[first:last]) < _SCRAPES_LEAST:
        return 0.0, Reason.TOO_FEW_SCRAPES
    ranked = sorted(needs[first:last], key=lambda need: need.low)
    chosen = ranked[math.ceil(_FLOOR_SHARE * len(ranked)) - 1]
    newest = needs[last - 1]
    lower = newest if newest.low < chosen.low else chosen
    row = lower.low_row
    return lower.low, REASON_OF_ROW[row] if row is not None else None
