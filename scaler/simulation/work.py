"""The least engine time that a request can take, in seconds of one replica.

A step's cost is a sum over what is in it, plus a base. The first part belongs to requests one by
one: their tokens, their places, the context that they read, their attention. The base is shared,
and how thinly is limited by what a step can hold. In every step each of these is at most 1:

    slots:  running requests / max_num_seqs
    tokens: tokens computed / max_num_batched_tokens
    cache:  blocks held / blocks

so charging every request the base times its own share of any one of them charges each step no more
than its base. All requests of a run are charged by the same one (`Sharing`): whichever gives most.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scaler.core.units import Seconds
from scaler.simulation.shapes import EngineShape


class Sharing(StrEnum):
    """By which of a step's limits its base is shared out."""

    SLOTS = "slots"
    TOKENS = "tokens"
    CACHE = "cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Engine time that a request cannot do without: until its first token, and after it."""

    prefill: Seconds
    decode: Seconds


def least_work(shape: EngineShape, prompt: int, output: int, sharing: Sharing) -> Work | None:
    """Return the least work of a request of so many tokens; None for one that no engine takes.

    Preemption, a chunk smaller than it could be and a step that waits for others only add to it.
    """
    if prompt >= shape.max_model_len:
        return None
    output = min(output, shape.max_model_len - prompt)
    cost, size = shape.cost, shape.block_size
    hits = int(shape.prefix_hit_rate * prompt) // size * size
    hits = min(hits, (prompt - 1) // size * size)
    new = prompt - hits
    chunks = -(-new // shape.max_num_batched_tokens)
    steps = output - 1  # the first token comes out of the prefill
    read = steps * prompt + steps * (steps - 1) / 2
    match sharing:
        case Sharing.SLOTS:
            first, later = chunks / shape.max_num_seqs, steps / shape.max_num_seqs
        case Sharing.TOKENS:
            first = new / shape.max_num_batched_tokens
            later = steps / shape.max_num_batched_tokens
        case Sharing.CACHE:
            held = shape.blocks * size
            first, later = chunks * prompt / held, read / held
    prefill = (
        cost.base * first
        + cost.per_token * new
        + cost.per_sequence * chunks
        + cost.per_context_token * hits * chunks
        + cost.per_attention_pair * (prompt * prompt - hits * hits) / 2
    )
    decode = (
        cost.base * later
        + (cost.per_token + cost.per_sequence) * steps
        + cost.per_context_token * read
    )
    return Work(prefill=prefill, decode=decode)
