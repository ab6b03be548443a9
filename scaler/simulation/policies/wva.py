"""llm-d's workload variant autoscaler, second version: demand and capacity in tokens.

Source: llm-d/llm-d-workload-variant-autoscaler at b08b1c7. Every 30 s, with one variant:

    demand   = tokens in use + waiting × mean prompt
    k1       = KV blocks × block size × 0.80
    k2       = tokens in use while at least 5 requests wait, a rolling mean of 10 for each class of
               output length (below 100, below 500, above); else that mean; else derived from the
               batch: N = min(B·O / (I + O), S), N × (I + O/2); else k1
    capacity = median over replicas of min(k1, k2)
    out      = ceil((demand / 0.85 − (ready + pending) × capacity) / capacity), where above 0
    in       = floor((supply − demand / 0.70) / capacity), where above 0, leaving at least one

(B tokens a step, S sequences, I and O the mean prompt and output.) Where metrics are missing the
count stays. The wish is published as a metric with target 1 (AverageValue); the chart's autoscaler
has windows of 240 s both ways and moves at most 10 pods in 150 s, with the default tolerance.
Left out: the router's own queue, several variants, and the SLO tuner, which is experimental.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scaler.core.units import Seconds
from scaler.simulation.hpa_types import Behavior, PolicyType, Rules
from scaler.simulation.hpa_types import Policy as Rate
from scaler.simulation.keda_types import CallableScaler, MetricSpec, ScaledObject
from scaler.simulation.policies.port import Bounds, Note, View
from scaler.simulation.replica import Replica
from scaler.simulation.shapes import EngineShape

INTERVAL: Seconds = 30.0
KV_SHARE = 0.80
QUEUE_THRESHOLD = 5
SCALE_UP_THRESHOLD, SCALE_DOWN_BOUNDARY = 0.85, 0.70
ROLLING = 10
CLASSES = (100.0, 500.0)
LENGTHS_OVER: Seconds = 300.0

_RATE = (Rate(type=PolicyType.PODS, value=10, period=150),)
BEHAVIOR = Behavior(
    scale_up=Rules(window=240, policies=_RATE), scale_down=Rules(window=240, policies=_RATE)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One replica: KV tokens in use, and requests waiting."""

    tokens: float
    waiting: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean tokens of prompts and outputs."""

    prompt: float
    output: float


def change(*, demand: float, capacity: float, ready: int, pending: int) -> int:
    """Return by how many replicas the count should change."""
    supply = (ready + pending) * capacity
    short = demand / SCALE_UP_THRESHOLD - supply
    if short > 0:
        return math.ceil(short / capacity)
    spare = supply - demand / SCALE_DOWN_BOUNDARY
    return -min(math.floor(spare / capacity), ready + pending - 1) if spare > 0 else 0


def derived(lengths: Lengths, *, step_tokens: int, sequences: int) -> float:
    """Return the compute-bound capacity that the engine's limits suggest, in tokens."""
    together = lengths.prompt + lengths.output
    if together <= 0:
        return math.inf
    running = min(step_tokens * lengths.output / together, sequences)
    return running * (lengths.prompt + lengths.output / 2)


class Capacity:
    """What a replica can hold, learned while it is full."""

    def __init__(self) -> None:
        self._observed: dict[int, deque[float]] = {}

    def of(self, loads: Sequence[Load], lengths: Lengths, shape: EngineShape) -> float:
        """Return the median capacity of the replicas, in tokens."""
        memory = shape.blocks * shape.block_size * KV_SHARE
        return median(min(memory, self._compute(load, lengths, shape, memory)) for load in loads)

    def _compute(self, load: Load, lengths: Lengths, shape: EngineShape, memory: float) -> float:
        kind = sum(lengths.output >= edge for edge in CLASSES)
        seen = self._observed.setdefault(kind, deque(maxlen=ROLLING))
        if load.waiting >= QUEUE_THRESHOLD and load.tokens > 0:
            seen.append(load.tokens)
        if seen:
            return sum(seen) / len(seen)
        found = derived(
            lengths, step_tokens=shape.max_num_batched_tokens, sequences=shape.max_num_seqs
        )
        return found if 0 < found < math.inf else memory


class WvaPolicy:
    """The controller, and the autoscaler that follows its metric."""

    name = "wva-v2"

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._wish: int | None = None
        self._next: Seconds = -math.inf
        self._capacity = Capacity()
        self._lengths = _LengthsSeen()
        self.scaled_object = ScaledObject(
            min_replicas=bounds.min_replicas,
            max_replicas=bounds.max_replicas,
            polling_interval=30.0,
            behavior=BEHAVIOR,
        )
        self.triggers = (
            CallableScaler(
                spec=MetricSpec(name="wva_desired_replicas"),
                value=lambda _: None if self._wish is None else float(self._wish),
                active=lambda _: True,
            ),
        )

    def observe(self, view: View) -> None:
        """Decide every 30 s; where nothing is seen, keep the wish."""
        if not view.replicas:
            return
        lengths = self._lengths.look(view.at, view.replicas)
        if view.at < self._next:
            return
        self._next = view.at + INTERVAL
        loads = [_load(replica) for replica in view.replicas]
        shape = view.replicas[0].engine.shape
        demand = sum(load.tokens + load.waiting * lengths.prompt for load in loads)
        step = change(
            demand=demand,
            capacity=self._capacity.of(loads, lengths, shape),
            ready=view.ready,
            pending=view.spec - view.ready,
        )
        wish = min(view.spec + step, self._bounds.max_replicas)
        self._wish = max(wish, self._bounds.min_replicas)

    def note(self) -> Note:
        """Return the wish."""
        return Note(answer=self._wish)


def _load(replica: Replica) -> Load:
    engine = replica.engine
    held = engine.kv_cache_usage * engine.shape.blocks * engine.shape.block_size
    return Load(tokens=held, waiting=engine.waiting)


class _LengthsSeen:
    """Mean lengths of the last five minutes, from the engines' counters."""

    def __init__(self) -> None:
        self._past: deque[tuple[Seconds, dict[str, tuple[int, int, int, int]]]] = deque()
        self._newest = Lengths(prompt=0.0, output=0.0)

    def look(self, at: Seconds, replicas: Sequence[Replica]) -> Lengths:
        """Take in a scrape; return the means, or the last known ones where nothing ended."""
        counts = {replica.name: _counts(replica) for replica in replicas}
        self._past.append((at, counts))
        while self._past[0][0] < at - LENGTHS_OVER:
            self._past.popleft()
        grown = [0, 0, 0, 0]
        for name, now in counts.items():
            # A replica younger than the window counts from its first scrape.
            first = next(then[name] for _, then in self._past if name in then)
            grown = [total + new - old for total, new, old in zip(grown, now, first, strict=True)]
        prompts, firsts, outputs, served = grown
        if firsts > 0 and served > 0:
            self._newest = Lengths(prompt=prompts / firsts, output=outputs / served)
        return self._newest


def _counts(replica: Replica) -> tuple[int, int, int, int]:
    counters = replica.engine.counters
    return (
        counters.prompt_tokens,
        counters.ttft.count,
        counters.generation_tokens,
        counters.success,
    )
