"""What an engine is like: its limits, and how long a step takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

from scaler.core.units import Seconds
from scaler.simulation.errors import ShapeInvalid
from scaler.simulation.outcomes import Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """How long one engine step takes: base + tokens·t + sequences·s + context·c, in seconds.

    `base` is reading the weights once and launching the step; `per_token` the arithmetic of one
    token (prefilled or decoded); `per_sequence` scheduling and sampling of one request;
    `per_context_token` reading one cached token's keys and values. Attention's quadratic part in
    long prefills is not modelled: at 30k tokens it would add about half on a model of 8B.
    """

    base: Seconds
    per_token: Seconds
    per_sequence: Seconds
    per_context_token: Seconds

    def of(self, tokens: int, sequences: int, context: int) -> Seconds:
        """Return the duration of a step with this much in it."""
        return (
            self.base
            + self.per_token * tokens
            + self.per_sequence * sequences
            + self.per_context_token * context
        )


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
        parts = (self.cost.base, self.cost.per_token, self.cost.per_sequence)
        if not all(math.isfinite(p) and p >= 0 for p in (*parts, self.cost.per_context_token)):
            raise ShapeInvalid("a step's costs must be finite and not negative")
        if self.cost.of(1, 1, 0) <= 0:
            raise ShapeInvalid("a step must take time: give it a base cost")

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks hold this many tokens."""
        return -(-tokens // self.block_size)


COMPUTE_BOUND = EngineShape(
    # 8B in bf16 on a 48 GB card (864 GB/s, about 145 TFLOP/s reached): 16 GB of weights in 22 ms,
    # 16 GFLOP a token, 128 KiB of cache a token (8 KV heads), about 24 GB left for it.
    cost=StepCost(base=0.024, per_token=110e-6, per_sequence=40e-6, per_context_token=0.18e-6),
    max_num_seqs=64,
    max_num_batched_tokens=2048,
    blocks=11_750,
    max_model_len=32_768,
)
"""Prefill arithmetic and slots bind long before the KV cache does."""

MEMORY_BOUND = EngineShape(
    # 8B in fp8 on a 24 GB card (300 GB/s, about 90 TFLOP/s reached): 8 GB of weights in 29 ms,
    # the same cache per token read at a third of the speed, about 11.6 GB left for it.
    cost=StepCost(base=0.030, per_token=180e-6, per_sequence=50e-6, per_context_token=0.5e-6),
    max_num_seqs=256,
    max_num_batched_tokens=2048,
    blocks=5_900,
    max_model_len=32_768,
)
"""The KV cache binds: it fills, requests wait and are preempted while slots are free."""

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
