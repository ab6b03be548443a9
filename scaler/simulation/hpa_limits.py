"""What holds a proposal back: stabilisation windows and rates of change."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scaler.simulation.hpa_types import Behavior, HpaState, Policy, PolicyType, Rules, SelectPolicy
from scaler.simulation.quantity import INT32_MAX, INT32_MIN, wrapped

MICROS = 1_000_000
_LEGACY_FACTOR = 2
_LEGACY_LEAST = 4


def highest_of_window(state: HpaState, now: int, proposal: int, window: int) -> int:
    """Return the highest proposal of the window, which holds a sample of exactly its age.

    This is the path without a `behavior` block. Times and `window` are in microseconds.
    """
    samples = state.proposals or []
    recent = [count for at, count in samples if at >= now - window]
    _keep(samples, (now, proposal), oldest=now - window)
    state.proposals = samples
    return max([proposal, *recent])


def stabilized(state: HpaState, now: int, spec: int, proposal: int, rules: Behavior) -> int:
    """Return spec, moved no further than every proposal of the direction's window agrees to.

    A window holds samples strictly younger than its length. `now` is in microseconds.
    """
    up_from = now - (rules.scale_up.window or 0) * MICROS
    down_from = now - (rules.scale_down.window or 0) * MICROS
    samples = state.proposals or []
    lowest = min([proposal, *(count for at, count in samples if at > up_from)])
    highest = max([proposal, *(count for at, count in samples if at > down_from)])
    _keep(samples, (now, proposal), oldest=min(up_from, down_from))
    state.proposals = samples
    return min(max(spec, lowest), highest)


def remember(state: HpaState, now: int, before: int, after: int, rules: Behavior) -> None:
    """Record a rescale for the rates to come.

    It takes the place of an event that is older than every period of its own direction. The other
    direction may still have counted that one: its periods can be longer.
    """
    events = state.added if after > before else state.removed
    own = rules.scale_up if after > before else rules.scale_down
    longest = max(policy.period for policy in own.policies or ())
    _keep(events, (now, abs(after - before)), oldest=now - longest * MICROS)


def highest_allowed(state: HpaState, now: int, spec: int, rules: Rules) -> int:
    """Return up to which count the rate lets the target grow; never below spec."""
    if rules.select is SelectPolicy.DISABLED:
        return spec
    limits = [_up(policy, _at_start(state, now, spec, policy)) for policy in rules.policies or ()]
    return max(spec, min(limits) if rules.select is SelectPolicy.MIN else max(limits))


def lowest_allowed(state: HpaState, now: int, spec: int, rules: Rules) -> int:
    """Return down to which count the rate lets the target shrink; never above spec."""
    if rules.select is SelectPolicy.DISABLED:
        return spec
    limits = [_down(policy, _at_start(state, now, spec, policy)) for policy in rules.policies or ()]
    return min(spec, max(limits) if rules.select is SelectPolicy.MIN else min(limits))


def legacy_highest(spec: int) -> int:
    """Return the most that one reconcile may answer where there is no `behavior` block."""
    return max(_LEGACY_FACTOR * spec, _LEGACY_LEAST)


def _at_start(state: HpaState, now: int, spec: int, policy: Policy) -> int:
    """Return the count at the start of a policy's period; events of both directions move it."""
    start = now - policy.period * MICROS
    return spec - _since(state.added, start) + _since(state.removed, start)


def _since(events: Sequence[tuple[int, int]], start: int) -> int:
    return sum(change for at, change in events if at > start)


def _up(policy: Policy, base: int) -> int:
    if policy.type is PolicyType.PODS:
        return wrapped(base + policy.value, 32)  # so 2147483647 pods block what they should free
    return _converted(math.ceil(base * (1 + policy.value / 100)))


def _down(policy: Policy, base: int) -> int:
    if policy.type is PolicyType.PODS:
        return wrapped(base - policy.value, 32)
    return _converted(int(base * (1 - policy.value / 100)))


def _converted(count: int) -> int:
    """Return a double as 32 bits take it: what does not fit becomes the lowest number (amd64)."""
    return count if INT32_MIN <= count <= INT32_MAX else INT32_MIN


def _keep(samples: list[tuple[int, int]], sample: tuple[int, int], *, oldest: int) -> None:
    """Add a sample, in the place of the last one in the list that is older than `oldest`."""
    for index in range(len(samples) - 1, -1, -1):
        if samples[index][0] < oldest:
            samples[index] = sample
            return
    samples.append(sample)
