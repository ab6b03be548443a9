"""Histories of a fleet as a seed gives them, the faults that befall them, and what must hold.

A healthy history and the same one with faults are decided on with the same of everything else. A
seed is all that is needed to see one again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from scaler.core.decision import Decision, decide, scale_in_span
from scaler.core.gateway import Gateway
from scaler.core.learned import Learned
from scaler.core.need import needs
from scaler.core.policy import Policy, Signal
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.slowdown import Slowdown
from scaler.core.units import TICK
from scaler.core.workload import MAX_REPLICAS, Scale
from tests.core.histories import EDGES, NOW, ttft_in

UNANSWERED = {Reason.CURRENT_UNKNOWN, Reason.SILENT_TOO_LONG}
_SLOTS = 32.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fleet's past, and the same past with faults; `faults` names what was done to it."""

    seed: int
    healthy: tuple[Sample, ...]
    faulty: tuple[Sample, ...]
    faults: tuple[str, ...]
    policy: Policy
    scale: Scale
    learned: Learned

    def decided(self, samples: Sequence[Sample]) -> Decision:
        """Decide at `NOW` over one of the two pasts."""
        return decide(
            self.policy,
            samples,
            needs(self.policy, samples, self.learned),
            scale=self.scale,
            learned=self.learned,
            now=NOW,
            known_since=NOW - 400 * TICK,
            gateway=Gateway(asked=False),
        )


def case_of(seed: int) -> Case:
    """Make the case of a seed."""
    chance = Random(seed)  # noqa: S311 - the same again, not a secret
    healthy = tuple(_lives(chance, chance.choice([6, 12, 24, 40])))
    faulty: list[Sample] = list(healthy)
    befell = chance.sample(sorted(FAULTS), chance.choice([1, 1, 2, 3]))
    for name in befell:
        faulty = FAULTS[name](chance, faulty)
    known = healthy[-1].serving + healthy[-1].stalled
    return Case(
        seed=seed,
        healthy=healthy,
        faulty=tuple(faulty),
        faults=tuple(befell),
        policy=_policy(chance),
        scale=_scale(chance, known),
        learned=_learned(chance),
    )


# --- a fleet -----------------------------------------------------------------------------------


def _lives(chance: Random, ticks: int) -> Iterator[Sample]:
    """Let demand wander, now and then turn, and replicas come and go."""
    serving = chance.randint(1, 12)
    demand = serving * _SLOTS * chance.choice([0.0, 0.1, 0.5, 0.9, 1.5])
    drift = chance.choice([0.0, 0.0, 2.0, -2.0, 10.0, -10.0])
    for back in reversed(range(ticks)):
        if chance.random() < 0.05:
            drift = -drift
        if chance.random() < 0.04:
            serving = max(1, serving + chance.choice([-1, 1, 2]))
        demand = max(0.0, demand + drift + chance.choice([-1.0, 0.0, 1.0]))
        yield _sample(chance, NOW - back * TICK, serving, float(round(demand)))


def _sample(chance: Random, at: float, serving: int, demand: float) -> Sample:
    running = min(demand, serving * _SLOTS)
    waiting = demand - running
    full = running / (serving * _SLOTS)
    rate = running / 8.0
    return Sample(
        at=at,
        scraped_at=at - chance.choice([0.0, 5.0]),
        serving=serving,
        stalled=int(chance.random() < 0.01),
        waiting=waiting,
        running=running,
        queued=serving if waiting >= serving else min(serving, math.ceil(waiting)),
        kv_cache=min(1.0, full * chance.choice([0.5, 0.8, 1.0])),
        ttft=ttft_in(min(len(EDGES) - 1, 2 + int(4 * full) + int(waiting > 0)), observations=90.0),
        first_token_rate=rate,
        token_rate=rate * 200.0,
        prompt_token_rate=rate * chance.choice([500.0, 4000.0]),
        saturated=_SLOTS if waiting else None,
    )


def _policy(chance: Random) -> Policy:
    signals = chance.choice([frozenset(Signal), frozenset({chance.choice(list(Signal))})])
    return Policy(
        signals=signals,
        scale_out_window=chance.choice([15.0, 45.0, 120.0]),
        scale_in_window=chance.choice([60.0, 300.0]),
        headroom=chance.choice([0.0, 0.4]),
        hold_for=chance.choice([60.0, 300.0]),
    )


def _learned(chance: Random) -> Learned:
    return Learned(
        saturation=chance.choice([None, _SLOTS]),
        carried=chance.choice([None, 4.0, 20.0]),
        lead_time=chance.choice([30.0, 150.0]),
        prefill_bound=chance.random() < 0.1,
        slowdown=Slowdown(running=chance.choice([0.0, 0.02])),
    )


def _scale(chance: Random, known: int) -> Scale:
    current = max(1, known + chance.choice([0, 0, 0, 0, 1, 3, -1]))
    lowest = chance.choice([0, 1, 1, 3])
    highest = max(lowest, 1, current + chance.choice([-2, 0, 4, 30]))
    return Scale(
        current=current,
        min_replicas=lowest,
        max_replicas=chance.choice([None, highest]),
        tolerance_out=chance.choice([0.0, 0.1]),
        tolerance_in=chance.choice([0.0, 0.1]),
        ready=chance.choice([None, known]),
        settling=chance.random() < 0.05,
    )


# --- what befalls it ---------------------------------------------------------------------------


def _span(chance: Random, samples: Sequence[Sample]) -> tuple[int, int]:
    first = chance.randrange(max(1, len(samples)))
    return first, first + chance.choice([1, 2, 5, 20, len(samples)])


def _silence(chance: Random, samples: list[Sample]) -> list[Sample]:
    """The source is away: ticks have no sample."""
    first, last = _span(chance, samples)
    return samples[:first] + samples[last:]


def _nobody(chance: Random, samples: list[Sample]) -> list[Sample]:
    """The source answers and has no series, although the replicas are there."""
    return _each(chance, samples, lambda s: _without(s, s.serving + s.stalled))


def _half(chance: Random, samples: list[Sample]) -> list[Sample]:
    """A share of the replicas is not heard, and what they do is not seen."""
    share = chance.choice([0.1, 0.3, 0.5, 0.7, 0.9])
    return _each(chance, samples, lambda s: _without(s, math.ceil(share * s.serving)))


def _part(chance: Random, samples: list[Sample]) -> list[Sample]:
    """The source says itself that its answer is not whole."""
    return _each(chance, samples, lambda s: replace(s, partial=True))


def _lost_ttft(chance: Random, samples: list[Sample]) -> list[Sample]:
    """The histogram has gone, or its name has changed."""
    return _each(chance, samples, lambda s: replace(s, ttft=None, first_token_rate=None))


def _lost_kv_cache(chance: Random, samples: list[Sample]) -> list[Sample]:
    """The gauge of the cache has gone, or its name has changed."""
    return _each(chance, samples, lambda s: replace(s, kv_cache=None))


FAULTS: dict[str, Callable[[Random, list[Sample]], list[Sample]]] = {
    "silence": _silence,
    "nobody": _nobody,
    "half": _half,
    "part": _part,
    "lost-ttft": _lost_ttft,
    "lost-kv-cache": _lost_kv_cache,
}


def _each(
    chance: Random, samples: list[Sample], change: Callable[[Sample], Sample]
) -> list[Sample]:
    first, last = _span(chance, samples)
    return [
        change(sample) if first <= index < last else sample for index, sample in enumerate(samples)
    ]


def _without(sample: Sample, lost: int) -> Sample:
    """Return the sample without so many replicas, each of which had its share of the work."""
    serving = max(0, sample.serving - lost)
    stalled = sample.stalled if lost <= sample.serving else 0
    left = serving / sample.serving if sample.serving else 0.0
    gone = sample.serving - serving + sample.stalled - stalled

    def part(value: float | None) -> float | None:
        return value if value is None or serving else None

    def share(value: float | None) -> float | None:
        return None if value is None or not serving else value * left

    return replace(
        sample,
        serving=serving,
        stalled=stalled,
        unseen=sample.unseen + gone,
        waiting=sample.waiting * left,
        running=sample.running * left,
        queued=min(sample.queued, serving),
        kv_cache=part(sample.kv_cache),
        ttft=sample.ttft if serving else None,
        first_token_rate=share(sample.first_token_rate),
        token_rate=share(sample.token_rate),
        prompt_token_rate=share(sample.prompt_token_rate),
        saturated=part(sample.saturated),
    )


# --- what must hold ----------------------------------------------------------------------------


def broken(case: Case) -> list[str]:
    """Return what does not hold of a case; nothing where all is well."""
    healthy, faulty = case.decided(case.healthy), case.decided(case.faulty)
    found = [f"healthy: {each}" for each in _wrong(case, healthy, case.healthy)]
    found += [f"faulty: {each}" for each in _wrong(case, faulty, case.faulty)]
    if healthy.desired is not None and faulty.desired is not None:
        least = min(case.scale.current, healthy.desired)
        if faulty.desired < least:
            found.append(f"faults took the count from {least} to {faulty.desired}")
    if faulty.active is False and healthy.active is not False:
        found.append("faults made it inactive")
    return found


def _wrong(case: Case, decision: Decision, samples: Sequence[Sample]) -> Iterator[str]:
    """Say what no answer may be, whatever was seen."""
    scale, desired = case.scale, decision.desired
    if desired is None:
        if decision.reason not in UNANSWERED:
            yield f"no answer, because {decision.reason}"
        return
    most = scale.max_replicas if scale.max_replicas is not None else MAX_REPLICAS
    if type(desired) is not int or not 0 < desired <= most:
        yield f"the answer {desired!r} is not a count between 1 and {most}"
    if (decision.floor or 0) > (math.inf if decision.ceiling is None else decision.ceiling):
        yield f"floor {decision.floor} above ceiling {decision.ceiling}"
    # A count outside its bounds the HPA brings back by itself.
    kept = min(scale.current, scale.within_bounds(scale.current))
    heard = bool(samples) and samples[-1].at == NOW and samples[-1].reporting > 0
    if not heard and desired < kept:
        yield f"silence took the count from {kept} to {desired}"
    span = scale_in_span(case.policy, case.learned)
    window = [s for s in samples if s.at > NOW - span]
    gap = len(window) < round(span / TICK)
    if desired < kept and gap:
        yield f"a gap took the count from {kept} to {desired}"
    if decision.active is False and (gap or not all(s.idle and not s.unseen for s in window)):
        yield "inactive without proof"
