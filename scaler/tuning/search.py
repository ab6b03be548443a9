"""Many settings drawn within bounds and screened on a record, open loop, over the cores."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from random import Random

from scaler.core.policy import Policy
from scaler.core.units import Seconds
from scaler.tuning.errors import TuningError
from scaler.tuning.estimate import Estimate, estimate
from scaler.tuning.prepared import Prepared
from scaler.tuning.record import Record
from scaler.tuning.rehearsal import rehearse


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """Between which values a field of the policy is tried, and how far one step of it is.

    `even` draws evenly; otherwise evenly in the logarithm.
    """

    low: float
    high: float
    step: float
    even: bool = False

    def at(self, share: float) -> float:
        """Return the value at a share (0..1) of the way, on a whole number of steps."""
        if self.even:
            value = self.low + share * (self.high - self.low)
        else:
            value = self.low * (self.high / self.low) ** share
        stepped = round(value / self.step) * self.step
        return round(max(self.low, min(self.high, stepped)), 6)


KNOBS: Mapping[str, Knob] = {
    "waiting_high": Knob(low=1.0, high=20.0, step=0.5),
    "ttft_p95_high": Knob(low=0.5, high=10.0, step=0.25),
    "kv_cache_high": Knob(low=0.6, high=0.95, step=0.05, even=True),
    "scale_out_window": Knob(low=15.0, high=120.0, step=15.0),
    "scale_in_window": Knob(low=60.0, high=1800.0, step=60.0),
    "headroom": Knob(low=0.0, high=0.7, step=0.05, even=True),
    "drain_time": Knob(low=30.0, high=600.0, step=15.0),
}
"""What is tried. A Low keeps the share of its High that it has."""

_LOWS = {
    "waiting_high": "waiting_low",
    "ttft_p95_high": "ttft_p95_low",
    "kv_cache_high": "kv_cache_low",
}


class WorkerLost(TuningError):
    """A process that screened is gone."""


def settings(
    present: Policy, count: int, seed: int, knobs: Mapping[str, Knob] = KNOBS
) -> tuple[Policy, ...]:
    """Draw settings by a Latin hypercube: each knob's range is covered evenly by all of them."""
    random = Random(f"settings:{seed}")  # noqa: S311 - not a secret
    columns = {name: random.sample(range(count), count) for name in knobs}
    drawn = []
    for index in range(count):
        shares = {name: (columns[name][index] + random.random()) / count for name in knobs}
        drawn.append(changed(present, {name: knobs[name].at(shares[name]) for name in knobs}))
    return tuple(dict.fromkeys(drawn))


def changed(present: Policy, values: Mapping[str, float]) -> Policy:
    """Return a policy with these fields, each Low at the share of its High that it had."""
    lows = {
        _LOWS[name]: round(value * getattr(present, _LOWS[name]) / getattr(present, name), 6)
        for name, value in values.items()
        if name in _LOWS
    }
    return replace(present, **values, **lows)  # type: ignore[arg-type] # each is a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """What a setting came to open loop.

    `replica_hours` are those of the followed count. `short` is the share of requests that came
    while the followed count, serving only after a start-up, had a backlog of more than `within`
    seconds of work: a fluid stand-in for missed promises, fit to sort settings and nothing else.
    """

    policy: Policy
    replica_hours: float
    short: float


def screen(prepared: Prepared, found: Estimate, policy: Policy, within: Seconds) -> Screened:
    """Rehearse one setting and put the recorded work to the count that it asks for."""
    work = {each.at: (each.rate, each.rate * found.work(each)) for each in found.traffic}
    width = found.traffic[1].at - found.traffic[0].at if len(found.traffic) > 1 else 1.0
    recent: list[tuple[Seconds, int]] = []
    hours = backlog = came = late = 0.0
    for step in rehearse(prepared, policy):
        at, count = step.decision.at, step.followed
        if count is None:
            continue
        hours += count * step.step / 3600.0
        recent = [each for each in recent if each[0] >= at - found.lead_time]
        recent.append((at, count))
        serving = min(each for _, each in recent)
        begun = found.start + math.floor((at - step.step - found.start) / width) * width
        rate, need = work.get(begun, (0.0, 0.0))
        backlog = max(0.0, backlog + (need - serving) * step.step)
        came += rate * step.step
        late += rate * step.step * (backlog > within * max(1, serving))
    return Screened(policy=policy, replica_hours=hours, short=late / came if came else 0.0)


def screen_all(
    record: Record,
    present: Policy,
    policies: Sequence[Policy],
    within: Seconds,
    *,
    jobs: int,
    progress: Callable[[int, int], None],
) -> list[Screened]:
    """Screen every setting, `jobs` at a time; an interrupt (Ctrl-C) keeps what was found.

    Raises TuningError.
    """
    found: list[Screened] = []
    try:
        with _screening(record, present, policies, within, jobs) as done:
            for each in done:
                found.append(each)
                progress(len(found), len(policies))
    except KeyboardInterrupt:
        pass
    except BrokenProcessPool as error:
        raise WorkerLost(
            "a worker process was ended from outside, perhaps for want of memory: run again "
            "with fewer jobs or a shorter range"
        ) from error
    places = {policy: index for index, policy in enumerate(policies)}
    return sorted(found, key=lambda each: places[each.policy])


@contextmanager
def _screening(
    record: Record, present: Policy, policies: Sequence[Policy], within: Seconds, jobs: int
) -> Iterator[Iterator[Screened]]:
    if jobs == 1:
        desk = _Desk(record, present, within)
        yield (desk.screen(policy) for policy in policies)
        return
    pool = ProcessPoolExecutor(
        max_workers=jobs,
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(record, present, within),
    )
    try:
        futures = [pool.submit(_screen, policy) for policy in policies]
        yield (future.result() for future in as_completed(futures))
    finally:
        pool.shutdown(cancel_futures=True)


class _Desk:
    """A record prepared once, in each process."""

    def __init__(self, record: Record, present: Policy, within: Seconds) -> None:
        self._prepared = Prepared(record)
        self._found = estimate(self._prepared, present)
        self._within = within

    def screen(self, policy: Policy) -> Screened:
        return screen(self._prepared, self._found, policy, self._within)


_desks: list[_Desk] = []


def _begin(record: Record, present: Policy, within: Seconds) -> None:
    # Ctrl-C reaches the whole group: who started the workers decides what becomes of them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _desks[:] = [_Desk(record, present, within)]


def _screen(policy: Policy) -> Screened:
    return _desks[0].screen(policy)


def front(screened: Sequence[Screened], most: int) -> list[Screened]:
    """Return the best `most`: those that no other beats in both figures, then the next layer."""
    left = sorted(screened, key=lambda each: (each.replica_hours, each.short))
    chosen: list[Screened] = []
    while left and len(chosen) < most:
        layer, least = [], math.inf
        for each in left:
            if each.short < least:
                layer.append(each)
                least = each.short
        left = [each for each in left if each not in layer]
        room = most - len(chosen)
        if len(layer) > room:
            # Spread over the layer, its ends included.
            steps = max(1, room - 1)
            layer = [layer[round(i * (len(layer) - 1) / steps)] for i in range(room)]
        chosen += layer
    return chosen
