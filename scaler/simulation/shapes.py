"""What an engine is like: its limits, and how long a step takes."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field
from random import Random

from scaler.core.units import Seconds
from scaler.simulation.errors import ShapeInvalid
from scaler.simulation.outcomes import Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """How long one engine step takes: a sum of what is in it, in seconds.

    `base` is reading the weights once and launching the step; `per_token` the arithmetic of one
    token, prefilled or decoded; `per_sequence` scheduling and sampling of one request;
    `per_context_token` reading the keys and values of one cached token; `per_attention_pair` a
    prefilled token's attention to one token before it, which makes long prompts cost more than
    their length.
    """

    base: Seconds
    per_token: Seconds
    per_sequence: Seconds
    per_context_token: Seconds
    per_attention_pair: Seconds = 0.0

    def of(self, tokens: int, sequences: int, context: int) -> Seconds:
        """Return the duration of a step with this much in it, prefill's attention left out."""
        return (
            self.base
            + self.per_token * tokens
            + self.per_sequence * sequences
            + self.per_context_token * context
        )

    def of_attention(self, chunk: int, before: int) -> Seconds:
        """Return what attention adds to a step for a chunk of a prompt that has `before` tokens."""
        return self.per_attention_pair * chunk * (before + chunk / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineShape:
    """One engine: the flags that limit it and the cost of a step.

    `blocks` are the usable KV blocks (vLLM's num_gpu_blocks less one). A hit in the prefix cache
    saves `prefix_hit_rate` of a prompt's arithmetic, in whole blocks; the blocks are charged all
    the same. `max_queued` is vLLM's `--max-num-queued-reqs` (None: no bound).

    Raises ShapeInvalid.
    """

    cost: StepCost
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    block_size: int = 16
    blocks: int
    max_model_len: int
    prefix_hit_rate: float = 0.0
    max_queued: int | None = None

    def __post_init__(self) -> None:
        if min(self.max_num_seqs, self.block_size, self.blocks, self.max_model_len) < 1:
            raise ShapeInvalid("max_num_seqs, block_size, blocks, max_model_len: all at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ShapeInvalid(
                f"max_num_batched_tokens {self.max_num_batched_tokens} is below max_num_seqs "
                f"{self.max_num_seqs}: raise it, as vLLM demands too"
            )
        if self.max_model_len > self.blocks * self.block_size:
            raise ShapeInvalid(
                f"max_model_len {self.max_model_len} does not fit {self.blocks} blocks of "
                f"{self.block_size} tokens: lower it or add blocks"
            )
        if not 0.0 <= self.prefix_hit_rate <= 1.0:
            raise ShapeInvalid(f"prefix_hit_rate {self.prefix_hit_rate} is not within 0..1")
        if not all(math.isfinite(part) and part >= 0 for part in astuple(self.cost)):
            raise ShapeInvalid("a step's costs must be finite and not negative")
        if self.cost.of(1, 1, 0) <= 0:
            raise ShapeInvalid("a step must take time: give it a base cost")

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks hold this many tokens."""
        return -(-tokens // self.block_size)


COMPUTE_BOUND = EngineShape(
    # 8B in bf16 with 8 KV heads: 16 GB of weights in 6 ms, 16 GFLOP a token and 0.5 MFLOP an
    # attention pair at 450 TFLOP/s, 128 KiB of cache a token and 52 GB left for it.
    cost=StepCost(
        base=0.007,
        per_token=36e-6,
        per_sequence=20e-6,
        per_context_token=50e-9,
        per_attention_pair=1.2e-9,
    ),
    max_num_seqs=32,
    max_num_batched_tokens=2048,
    blocks=26_500,
    max_model_len=32_768,
)
"""A model of 8B on one 80 GB card of 3.35 TB/s: prefill and slots bind, the cache never does."""

MEMORY_BOUND = EngineShape(
    # 7B in bf16 without grouped heads: 512 KiB of cache a token, so four times the reading and a
    # quarter of the room.
    cost=StepCost(
        base=0.007,
        per_token=33e-6,
        per_sequence=20e-6,
        per_context_token=0.2e-6,
        per_attention_pair=1.2e-9,
    ),
    max_num_seqs=256,
    max_num_batched_tokens=2048,
    blocks=6_600,
    max_model_len=32_768,
)
"""A model of 7B on the same card: the cache fills, requests are preempted while slots are free."""

ENGINES: dict[str, EngineShape] = {
    "compute-bound": COMPUTE_BOUND,
    "memory-bound": MEMORY_BOUND,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """How long a replica takes from creation to serving: log-normal around `median` seconds.

    `spread` is the standard deviation of the logarithm (0: always the median). Draws are cut at
    three standard deviations, so that no replica loads for ever.
    """

    median: Seconds = 180.0
    spread: float = 0.15

    def sample(self, random: Random) -> Seconds:
        """Draw one start-up time in seconds."""
        drawn = max(-3.0, min(3.0, random.gauss(0.0, 1.0)))
        return self.median * math.exp(self.spread * drawn)


INSTANT = StartUp(median=0.0, spread=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """A fleet: its engines, how they start, and how a replica is taken away.

    `drain` is how long a terminating replica may go on with what it has before it is cut off
    (the pod's grace period, bounded by the engine's own shutdown timeout); 0 is vLLM's default.
    `slo` is what its users were promised.
    """

    engine: EngineShape = field(default_factory=lambda: MEMORY_BOUND)
    start_up: StartUp = field(default_factory=StartUp)
    drain: Seconds = 0.0
    slo: Slo = field(default_factory=Slo)
