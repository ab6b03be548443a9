"""How traffic varies over time, as a share of its peak.

A profile is a broken line over its duration, given as (moment, level) points: moments are shares
of the duration, so a longer run stretches it; levels are shares of the peak.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from scaler.core.units import Seconds
from scaler.simulation.errors import ProfileUnknown

HOUR: Seconds = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile. `replicas_before` is the fleet that is there when it begins, where that matters.

    `long_context` is (from, to, share): between these moments this share of the prompts grows, at
    an unchanged rate of requests.
    """

    name: str
    about: str
    duration: Seconds
    points: tuple[tuple[float, float], ...]
    long_context: tuple[float, float, float] | None = None
    replicas_before: int | None = None

    def level_at(self, moment: float) -> float:
        """Return the level (0..1) at a moment (0..1): linear between points, flat beyond them."""
        points = self.points
        index = bisect_right(points, (moment, 2.0))
        if index == 0:
            return points[0][1]
        if index == len(points):
            return points[-1][1]
        (before, low), (after, high) = points[index - 1], points[index]
        return low + (high - low) * (moment - before) / (after - before)

    def long_context_at(self, moment: float) -> float:
        """Return the share of prompts that grow at a moment."""
        if self.long_context is None:
            return 0.0
        begin, end, share = self.long_context
        return share if begin <= moment < end else 0.0


# A weekday by the hour: night, morning rise, lunch dip, afternoon peak, evening.
_WEEKDAY = (
    *(0.22, 0.16, 0.12, 0.10, 0.10, 0.14, 0.25, 0.45, 0.70, 0.90, 0.97, 0.95),
    *(0.82, 0.90, 1.00, 0.98, 0.92, 0.80, 0.68, 0.60, 0.52, 0.44, 0.35, 0.27, 0.22),
)


def _square(times: int, low: float, high: float) -> tuple[tuple[float, float], ...]:
    """Return `times` periods of high then low, with edges of a thousandth."""
    points = []
    for index in range(times):
        begin, half, end = (index + part for part in (0.0, 0.5, 1.0))
        points += [(begin / times, high), (half / times - 0.001, high)]
        points += [(half / times, low), (end / times - 0.001, low)]
    return tuple(points)


_ALL = (
    Profile(
        name="steady",
        about="the trace as it is",
        duration=HOUR,
        points=((0.0, 1.0),),
    ),
    Profile(
        name="day",
        about="a weekday's shape pressed into six hours",
        duration=6 * HOUR,
        points=tuple((hour / 24, level) for hour, level in enumerate(_WEEKDAY)),
    ),
    Profile(
        name="step",
        about="0.3 of the peak, at once the peak for 40 min, back",
        duration=2 * HOUR,
        points=((0.333, 0.3), (0.3335, 1.0), (0.666, 1.0), (0.6665, 0.3)),
    ),
    Profile(
        name="ramp",
        about="up from 0.15 within 48 min, 24 min of peak, down within 48",
        duration=2 * HOUR,
        points=((0.0, 0.15), (0.4, 1.0), (0.6, 1.0), (1.0, 0.15)),
    ),
    Profile(
        name="spike",
        about="three spikes of 3 min over 0.35",
        duration=2 * HOUR,
        points=tuple(
            (middle + shift, level)
            for middle in (0.25, 0.5, 0.75)
            for shift, level in ((-0.013, 0.35), (-0.0125, 1.0), (0.0125, 1.0), (0.013, 0.35))
        ),
    ),
    Profile(
        name="flash-crowd",
        about="from 0.2 to the peak within a minute, ebbing over an hour and a half",
        duration=2 * HOUR,
        points=(
            *((0.2, 0.2), (0.208, 1.0), (0.25, 0.97), (0.35, 0.72), (0.5, 0.48)),
            *((0.65, 0.35), (0.8, 0.27), (1.0, 0.2)),
        ),
    ),
    Profile(
        name="long-context",
        about="an even rate; in the middle third a third of the prompts grow to 12-30k tokens",
        duration=2 * HOUR,
        points=((0.0, 0.5),),
        long_context=(1 / 3, 2 / 3, 1 / 3),
    ),
    Profile(
        name="on-off",
        about="20 min at the peak, 20 min of almost nothing, three times",
        duration=2 * HOUR,
        points=_square(3, 0.02, 1.0),
    ),
    Profile(
        name="monday",
        about="a night at one replica, then the morning's rise to the peak within 40 min",
        duration=4 * HOUR,
        points=((0.0, 0.03), (0.35, 0.03), (0.52, 1.0), (0.8, 0.9), (1.0, 0.85)),
        replicas_before=1,
    ),
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in _ALL}


def profile_named(name: str) -> Profile:
    """Return a profile by its name. Raises ProfileUnknown."""
    if name not in PROFILES:
        raise ProfileUnknown(f"no profile is called {name!r}: choose one of {', '.join(PROFILES)}")
    return PROFILES[name]
