"""What a record says of the traffic and the engines behind it: enough to build a model of both.

A record has counts and rates of whole fleets, no request by itself. What follows from them is
estimated, what does not is assumed, and every assumption is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median

from scaler.core.learned import DEFAULT_LEAD_TIME
from scaler.core.minutes import Minutes
from scaler.core.policy import Policy
from scaler.core.sample import Sample
from scaler.core.slowdown import NO_SLOWDOWN, Slowdown, slowdown
from scaler.core.units import RATE_WINDOW, Seconds
from scaler.simulation.errors import ShapeInvalid
from scaler.simulation.shapes import EngineShape, StepCost
from scaler.simulation.traces import Trace, TraceRow
from scaler.simulation.work import Sharing, least_work
from scaler.tuning.errors import NotEnoughKnown
from scaler.tuning.prepared import Prepared

PROMPT_VARIATION, OUTPUT_VARIATION = 1.0, 0.8
"""Standard deviation over mean of the lengths, as in Azure's public trace of conversations."""

LEAST_SPAN: Seconds = 1800.0
MOST_UNSEEN = 0.2
DEFAULT_MAX_RUNNING, DEFAULT_MAX_LEN, DEFAULT_BATCHED = 256, 32_768, 2048

_BIN = RATE_WINDOW
_SHAPE_BINS = 15
_FIT_SPAN: Seconds = 6 * 3600.0
_CACHE_FULL, _CACHE_SEEN = 0.9, 0.03
_BLOCK = 16
_MOST_CORRECTION = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What came in `RATE_WINDOW` seconds from `at`: requests per second, mean tokens of each."""

    at: Seconds
    rate: float
    prompt: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Traffic, engine and start-up time as a record shows them; `assumed` is what it does not."""

    traffic: tuple[Traffic, ...]
    engine: EngineShape
    lead_time: Seconds
    unseen: Seconds
    assumed: tuple[str, ...]

    @property
    def start(self) -> Seconds:
        """Return when the traffic begins."""
        return self.traffic[0].at

    @property
    def end(self) -> Seconds:
        """Return when the traffic ends."""
        return self.traffic[-1].at + _BIN

    @property
    def requests(self) -> float:
        """Return how many requests came, about."""
        return math.fsum(each.rate for each in self.traffic) * _BIN

    def mean(self, name: str) -> float:
        """Return the mean tokens, `prompt` or `output`, of a request."""
        total = math.fsum(each.rate * float(getattr(each, name)) for each in self.traffic)
        return total * _BIN / self.requests

    def trace(self, start: Seconds, end: Seconds, seed: int) -> Trace:
        """Draw the requests of [start, end): Poisson in each window, lengths log-normal."""
        random = Random(f"tune:{seed}")  # noqa: S311 - not a secret
        longest = self.engine.max_model_len
        rows: list[TraceRow] = []
        for each in self.traffic:
            at, until = max(each.at, start), min(each.at + _BIN, end)
            while each.rate > 0:
                at += random.expovariate(each.rate)
                if at >= until:
                    break
                output = min(_drawn(random, each.output, OUTPUT_VARIATION), longest // 2)
                prompt = _drawn(random, each.prompt, PROMPT_VARIATION)
                rows.append(TraceRow(at - start, min(prompt, longest - output - 1), output))
        if not rows:
            raise NotEnoughKnown("no request came in the span that is to be judged")
        return Trace(name="recorded", rows=tuple(rows), duration=end - start)

    def work(self, each: Traffic) -> Seconds:
        """Return the least time of one replica that a mean request of this window takes."""
        prompt = max(1, min(round(each.prompt), self.engine.max_model_len - 1))
        works = [
            least_work(self.engine, prompt, max(1, round(each.output)), way) for way in Sharing
        ]
        return max((work.prefill + work.decode for work in works if work is not None), default=0.0)


def estimate(prepared: Prepared, policy: Policy) -> Estimate:
    """Estimate what was behind a record. Raises NotEnoughKnown, which says what is missing."""
    samples = {sample.at: sample for sample in prepared.samples}
    span = prepared.samples[-1].at - prepared.samples[0].at if prepared.samples else 0.0
    if span < LEAST_SPAN:
        raise NotEnoughKnown(
            f"the history has {span / 60:.0f} minutes: give at least {LEAST_SPAN / 60:.0f}, "
            "better a day"
        )
    traffic, unseen = _traffic(samples)
    if unseen > MOST_UNSEEN * span:
        raise NotEnoughKnown(
            f"nothing was seen in {unseen / span:.0%} of the history: choose a range with fewer "
            "gaps, or look at the source"
        )
    assumed: list[str] = [
        (
            "requests come at random within two minutes (Poisson), and each of them goes to the "
            "replica with the fewest"
        ),
        (
            f"lengths are log-normal, varying by {PROMPT_VARIATION:g} (prompts) and "
            f"{OUTPUT_VARIATION:g} (outputs) times their mean"
        ),
        "requests that were given up before a first token are not seen",
        f"a step computes at most {DEFAULT_BATCHED} tokens (vLLM's --max-num-batched-tokens)",
    ]
    engine = _engine(prepared, policy, traffic, assumed)
    return Estimate(
        traffic=traffic,
        engine=engine,
        lead_time=_lead_time(prepared, policy, assumed),
        unseen=unseen,
        assumed=tuple(assumed),
    )


# --- traffic -------------------------------------------------------------------------------------


def _traffic(samples: Mapping[Seconds, Sample]) -> tuple[tuple[Traffic, ...], Seconds]:
    """Return what came, window by window, and for how long nobody looked."""
    first, last = min(samples), max(samples)
    counted: list[tuple[float, float, float, float] | None] = []
    at = first + _BIN
    while at <= last:
        counted.append(_counted(samples.get(at - _BIN), samples.get(at)))
        at += _BIN
    known = [each for each in counted if each is not None]
    if not known or math.fsum(firsts for _, firsts, _, _ in known) <= 0:
        raise NotEnoughKnown(
            "the history has no first tokens and their rates: nothing came, or the source does "
            "not have vllm:time_to_first_token_seconds"
        )
    found: list[Traffic] = []
    rate = known[0][0]
    for index, each in enumerate(counted):
        rate = rate if each is None else each[0]
        prompt, output = _lengths(counted, known, index)
        found.append(Traffic(at=first + index * _BIN, rate=rate, prompt=prompt, output=output))
    return tuple(found), _BIN * (len(counted) - len(known))


def _counted(
    before: Sample | None, after: Sample | None
) -> tuple[float, float, float, float] | None:
    """Return per second: arrivals, first tokens, prompt tokens, tokens; None where not known."""
    if before is None or after is None or after.first_token_rate is None or after.partial:
        return None
    grown = (after.waiting - before.waiting) / _BIN
    arrivals = after.first_token_rate + grown + (after.rejection_rate or 0.0)
    prompts, tokens = after.prompt_token_rate or 0.0, after.token_rate or 0.0
    return max(0.0, arrivals), after.first_token_rate, prompts, tokens


def _lengths(
    counted: Sequence[tuple[float, float, float, float] | None],
    known: Sequence[tuple[float, float, float, float]],
    index: int,
) -> tuple[float, float]:
    """Return the mean prompt and output around a window, or of the whole where too little came."""
    near = counted[max(0, index - _SHAPE_BINS // 2) : index + _SHAPE_BINS // 2 + 1]
    for group in ([each for each in near if each is not None], known):
        firsts = math.fsum(each[1] for each in group)
        if firsts * _BIN >= 1:
            prompt = math.fsum(each[2] for each in group) / firsts
            return max(1.0, prompt), max(1.0, math.fsum(each[3] for each in group) / firsts)
    return 1.0, 1.0


def _drawn(random: Random, mean: float, variation: float) -> int:
    square = math.log1p(variation * variation)
    return max(1, round(random.lognormvariate(math.log(mean) - square / 2, math.sqrt(square))))


# --- the engine ----------------------------------------------------------------------------------


def _engine(
    prepared: Prepared, policy: Policy, traffic: Sequence[Traffic], assumed: list[str]
) -> EngineShape:
    prompt, output = (
        math.fsum(each.rate * float(getattr(each, name)) for each in traffic)
        / math.fsum(each.rate for each in traffic)
        for name in ("prompt", "output")
    )
    cost = _cost(prepared.minutes, prompt / output, assumed)
    blocks = _blocks(prepared.samples, prompt, output, assumed)
    running = _max_running(prepared, policy, assumed)
    try:
        return EngineShape(
            cost=cost,
            max_num_seqs=running,
            max_num_batched_tokens=max(DEFAULT_BATCHED, running),
            block_size=_BLOCK,
            blocks=blocks,
            max_model_len=min(DEFAULT_MAX_LEN, blocks * _BLOCK),
        )
    except ShapeInvalid as error:
        raise NotEnoughKnown(f"no engine is like what the history shows: {error}") from error


def corrected(found: Estimate, recorded: Minutes, modelled: Minutes) -> Estimate:
    """Return the estimate with the step's cost set right by what the same look at a model shows.

    What a fleet runs at the instants of scrapes is not quite what its steps hold; whatever that
    does to the look at the record, it does to the look at the model.
    """
    base, slopes = _fitted(recorded)
    try:
        base_there, slopes_there = _fitted(modelled)
    except NotEnoughKnown:
        return found
    seen = (
        median(each for each, _, _ in _steps(recorded)),
        median(m for _, m, _ in _steps(recorded)),
    )
    rise, rise_there = (
        size * (slope.running + slope.prompt * seen[1]) * seen[0]
        for size, slope in ((base, slopes), (base_there, slopes_there))
    )
    by = _within(rise / rise_there) if rise_there > 0 else 1.0
    cost = found.engine.cost
    fixed = replace(
        cost,
        base=cost.base * _within(base / base_there),
        per_token=cost.per_token * by,
        per_sequence=cost.per_sequence * by,
    )
    return replace(found, engine=replace(found.engine, cost=fixed))


def _within(factor: float) -> float:
    return max(1 / _MOST_CORRECTION, min(_MOST_CORRECTION, factor))


def _fitted(minutes: Minutes) -> tuple[Seconds, Slowdown]:
    slopes = _slopes(minutes)
    base = median(
        step / (1 + slopes.running * each + slopes.prompt * each * mix)
        for each, mix, step in _steps(minutes)
    )
    return base, slopes


def _cost(minutes: Minutes, ratio: float, assumed: list[str]) -> StepCost:
    base, slopes = _fitted(minutes)
    by_running, by_prompt = base * slopes.running, base * slopes.prompt
    if by_prompt > 0:
        per_token, per_sequence = by_prompt, max(0.0, by_running - by_prompt)
    else:
        # One mix of prompts and outputs shows one slope: no more than their sum is known.
        per_token, per_sequence = by_running / (1 + ratio), 0.0
        assumed.append(
            "a prompt's token costs what an output's does: the mix hardly changed, so that the "
            "history does not tell them apart"
        )
    return StepCost(
        base=base, per_token=per_token, per_sequence=per_sequence, per_context_token=0.0
    )


def _slopes(minutes: Minutes) -> Slowdown:
    """Return the median of what each six hours show."""
    if not minutes.at or not _steps(minutes):
        raise NotEnoughKnown("no minute of the history shows how fast a replica generates tokens")
    first, last = minutes.at[0], minutes.at[-1]
    ends = [last - back * _FIT_SPAN for back in range(int((last - first) // _FIT_SPAN) + 1)]
    found = [each for each in (slowdown(minutes, end) for end in ends) if each != NO_SLOWDOWN]
    if not found:
        raise NotEnoughKnown(
            "a replica's load never varied by a factor of two, so nothing is known of its speed "
            "under another one: choose a range with both quiet and busy hours"
        )
    return Slowdown(
        running=median(each.running for each in found),
        prompt=median(each.prompt for each in found),
    )


def _steps(minutes: Minutes) -> list[tuple[float, float, Seconds]]:
    """Return what a replica ran, prompt tokens per token, and how long a step took."""
    return [
        (running / serving, prompts / tokens if prompts > 0 else 0.0, running / tokens)
        for serving, running, tokens, prompts in zip(
            minutes.serving, minutes.running, minutes.tokens, minutes.prompts, strict=True
        )
        if serving > 0 and running >= serving and tokens > 0
    ]


def _blocks(samples: Sequence[Sample], prompt: float, output: float, assumed: list[str]) -> int:
    """Return the blocks of a replica: tokens in flight over the share that they fill."""
    # Longer outputs run for longer, so that they are seen more often than they come.
    held = prompt + output * (1 + OUTPUT_VARIATION**2) / 2 + _BLOCK / 2
    found = [
        held * sample.running / sample.serving / sample.kv_cache / _BLOCK
        for sample in samples
        if sample.serving and sample.kv_cache is not None and sample.kv_cache > _CACHE_SEEN
    ]
    if found:
        return max(DEFAULT_BATCHED // _BLOCK, round(median(found)))
    assumed.append("the KV cache never fills: the history does not show it in use")
    return round(DEFAULT_MAX_RUNNING * DEFAULT_MAX_LEN / _BLOCK)


def _max_running(prepared: Prepared, policy: Policy, assumed: list[str]) -> int:
    """Return how many requests a full replica runs, where its slots and not its cache bind."""
    most = max((s.running / s.serving for s in prepared.samples if s.serving), default=1.0)
    stated = policy.concurrency_per_replica
    learned = [known.learned.saturation for known in prepared.known if known.learned.saturation]
    full = [s.kv_cache for s in prepared.samples if s.queued and s.kv_cache is not None]
    by_cache = bool(full) and median(full) > _CACHE_FULL
    if stated or (learned and not by_cache):
        return max(math.ceil(most), round(stated or max(learned)))
    if not by_cache:
        assumed.append(
            f"a replica runs up to {DEFAULT_MAX_RUNNING} requests: none was seen full "
            "(concurrencyPerReplica states another number)"
        )
    return max(DEFAULT_MAX_RUNNING, math.ceil(most))


def _lead_time(prepared: Prepared, policy: Policy, assumed: list[str]) -> Seconds:
    seen = {known.moment.lead_time for known in prepared.known if known.moment.lead_time}
    if policy.lead_time or seen:
        return policy.lead_time or median(seen)
    assumed.append(
        f"a replica starts in {DEFAULT_LEAD_TIME:.0f} s: no start was seen (leadTime states it)"
    )
    return DEFAULT_LEAD_TIME
