"""What a fleet has carried in calm: the core's answer for every minute at once."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque

from scaler.core.learned import HELD_MINUTES, is_calm
from scaler.core.minutes import MINUTE, REMEMBERED, Minutes
from scaler.core.policy import Policy


def carried_over(policy: Policy, minutes: Minutes) -> list[float | None]:
    """Return `learned.carried` as of each of the minutes (requests per replica).

    The core looks through a day each time; here the day's highest is kept up to date.
    """
    found: list[float | None] = []
    peaks: deque[tuple[int, float]] = deque()
    run: list[float] = []
    previous = -math.inf
    for index, at in enumerate(minutes.at):
        calm = is_calm(policy, minutes, index)
        if not calm or at - previous != MINUTE:
            run = []
        if calm:
            run = [*run[1 - HELD_MINUTES :], minutes.running[index] / minutes.serving[index]]
        if len(run) == HELD_MINUTES:
            held = min(run)
            while peaks and peaks[-1][1] <= held:
                peaks.pop()
            peaks.append((index - HELD_MINUTES + 1, held))
        oldest = bisect_left(minutes.at, at - REMEMBERED)
        while peaks and peaks[0][0] < oldest:
            peaks.popleft()
        best = peaks[0][1] if peaks else 0.0
        found.append(best if best > 0 else None)
        previous = at
    return found
