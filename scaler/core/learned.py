"""What a workload's own history teaches: how much a replica runs, how long one takes to come."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from scaler.core.minutes import MINUTE, RECENT, REMEMBERED, Minutes
from scaler.core.policy import Policy
from scaler.core.sample import Sample
from scaler.core.slowdown import NO_SLOWDOWN, Slowdown, slowdown
from scaler.core.units import TICK, Seconds

DEFAULT_LEAD_TIME: Seconds = 180.0
LONGEST_LEAD_TIME: Seconds = 900.0

_SATURATED_NEWEST, _SATURATED_LEAST = 40, 8
_TICKS_OF_A_MINUTE = int(MINUTE // TICK)
_LASTING_QUEUE = 1.0
HELD_MINUTES = 3
"""So many consecutive minutes hold a load for two minutes."""

_SMALLER_FLEET, _NO_WORSE, _CURE_SPAN = 0.8, 1.1, 7200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What the decision takes as given at one moment.

    `saturation` is how many requests a full replica runs at once, `carried` the most that a
    replica has run while the fleet was calm (requests per replica); None while unknown.
    `slowdown` says how much a step slows for each request that a replica runs.
    `lead_time` is seconds from a replica's creation to serving, `lead_time_observed` says that it
    was seen. `prefill_bound` says that a
    clearly smaller fleet carried as many requests with a TTFT no worse: replicas do not cure it.
    """

    saturation: float | None = None
    carried: float | None = None
    slowdown: Slowdown = NO_SLOWDOWN
    lead_time: Seconds = DEFAULT_LEAD_TIME
    lead_time_observed: bool = False
    prefill_bound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the minutes alone teach (see `Learned`): it changes once a minute at most."""

    carried: float | None = None
    slowdown: Slowdown = NO_SLOWDOWN


def standing(policy: Policy, minutes: Minutes, now: Seconds) -> Standing:
    """Learn from the minutes."""
    return Standing(carried=carried(policy, minutes, now), slowdown=slowdown(minutes, now))


def learn(
    policy: Policy,
    samples: Sequence[Sample],
    minutes: Minutes,
    now: Seconds,
    held: Standing,
    observed_lead_time: Seconds | None = None,
) -> Learned:
    """Learn from `samples` (ascending, the last `RECENT` seconds are used) and `minutes`.

    `held` is what `standing` says of the minutes. What the policy states is taken as stated.
    Whoever holds the same history learns the same.
    """
    lead_time = policy.lead_time or min(observed_lead_time or DEFAULT_LEAD_TIME, LONGEST_LEAD_TIME)
    return Learned(
        saturation=policy.concurrency_per_replica or saturation(samples, minutes, now),
        carried=held.carried,
        slowdown=held.slowdown,
        lead_time=lead_time,
        lead_time_observed=policy.lead_time is None and observed_lead_time is not None,
        prefill_bound=is_prefill_bound(samples[-1], minutes, now) if samples else False,
    )


def saturation(samples: Sequence[Sample], minutes: Minutes, now: Seconds) -> float | None:
    """Return the median running of replicas with a queue, over the newest 40 looks (8 at least).

    A look counts where the queue lasts: more than one request a replica waits in it and in the look
    before. On an engine that is not full a request waits for the step under way, and that queue
    says nothing. A minute stands for its four ticks.
    """
    values: list[float] = []
    for running, ticks in _looks(samples, minutes, now):
        values += [running] * ticks
        if len(values) >= _SATURATED_NEWEST:
            break
    newest = values[:_SATURATED_NEWEST]
    return median(newest) if len(newest) >= _SATURATED_LEAST else None


def _looks(
    samples: Sequence[Sample], minutes: Minutes, now: Seconds
) -> Iterator[tuple[float, int]]:
    """Go back through the looks with a lasting queue: what was running, for how many ticks."""
    horizon = now - RECENT
    for index in range(len(samples) - 1, 0, -1):
        newer, older = samples[index], samples[index - 1]
        if newer.at <= horizon:
            break
        adjacent = newer.at <= now and older.at == newer.at - TICK
        if adjacent and newer.saturated and _queued(older) and _queued(newer):
            yield newer.saturated, 1
    first = bisect_left(minutes.at, now - REMEMBERED)
    for index in range(bisect_right(minutes.at, horizon) - 1, first, -1):
        adjacent = minutes.at[index] - minutes.at[index - 1] == MINUTE
        full = adjacent and minutes.saturated[index] > 0
        if full and _was_queued(minutes, index - 1) and _was_queued(minutes, index):
            yield minutes.saturated[index], _TICKS_OF_A_MINUTE


def _queued(sample: Sample) -> bool:
    return sample.waiting_per_replica > _LASTING_QUEUE


def _was_queued(minutes: Minutes, index: int) -> bool:
    serving = minutes.serving[index]
    return serving > 0 and minutes.waiting[index] > _LASTING_QUEUE * serving


def carried(policy: Policy, minutes: Minutes, now: Seconds) -> float | None:
    """Return the most running per replica that was held for two minutes while the fleet was calm.

    Calm: no more waiting than `waitingLow` a replica, a TTFT not known to be above High, and every
    replica seen. Three consecutive minutes on the grid hold it for two minutes.
    """
    first = bisect_left(minutes.at, now - REMEMBERED)
    last = bisect_right(minutes.at, now)
    best = 0.0
    held: list[float] = []
    previous = -math.inf
    for index in range(first, last):
        at = minutes.at[index]
        calm = is_calm(policy, minutes, index)
        if not calm or at - previous != MINUTE:
            held = []
        if calm:
            held.append(minutes.running[index] / minutes.serving[index])
            if len(held) >= HELD_MINUTES:
                best = max(best, min(held[-HELD_MINUTES:]))
        previous = at
    return best if best > 0 else None


def is_calm(policy: Policy, minutes: Minutes, index: int) -> bool:
    """Say whether what ran in a minute was carried well, as `carried` has it."""
    serving = minutes.serving[index]
    return (
        serving > 0
        and minutes.waiting[index] <= policy.waiting_low * serving
        and not minutes.ttft_lower[index] >= policy.ttft_p95_high
    )


def is_prefill_bound(newest: Sample, minutes: Minutes, now: Seconds) -> bool:
    """Say whether a fleet at least a fifth smaller did as well in the last two hours.

    As well: as many requests running, with a TTFT p95 at most a tenth above the present one.
    """
    if newest.ttft is None or newest.serving == 0:
        return False
    first = bisect_left(minutes.at, now - _CURE_SPAN)
    smaller, worst = _SMALLER_FLEET * newest.serving, _NO_WORSE * newest.ttft.value
    return any(
        0 < minutes.serving[index] <= smaller
        and minutes.running[index] >= newest.running > 0
        and minutes.ttft[index] <= worst
        for index in range(first, bisect_right(minutes.at, now))
    )
