"""The loads under which the model and the real engine are compared.

Each is short, for the real engine runs at its own pace. Lengths are drawn from a seed by who asks
and how often they have asked, so that both engines get the same requests however their turns fall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

Lengths = tuple[int, int]
"""Prompt and output, in tokens."""

MAX_MODEL_LEN = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request that comes at its time (seconds from the start), whatever the others do."""

    at: float
    prompt: int
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Limits of the engine, and what is sent to it for `seconds`.

    `clients` each send a request, wait for its end and send the next, of `lengths(client, turn)`,
    and begin `apart` seconds after one another; `arrivals` come beside them. `blocks` are the KV
    blocks that the engine may use (None: as many as it likes), `batched` its token budget a step.
    """

    name: str
    says: str
    seconds: float
    seqs: int
    blocks: int | None = None
    batched: int = 2048
    clients: int = 0
    apart: float = 0.0
    lengths: Callable[[int, int], Lengths] = field(default=lambda _client, _turn: (100, 100))
    arrivals: tuple[Arrival, ...] = ()


def drawn(prompts: tuple[int, int], outputs: tuple[int, int]) -> Callable[[int, int], Lengths]:
    """Draw lengths evenly from two ranges, by client and turn."""

    def lengths(client: int, turn: int) -> Lengths:
        chance = Random(client * 10_007 + turn)  # noqa: S311 - a load, not a secret
        return chance.randint(*prompts), chance.randint(*outputs)

    return lengths


def poisson(rate: float, seconds: float, lengths: Callable[[int, int], Lengths]) -> list[Arrival]:
    """Let requests come at this many a second, independently of each other."""
    chance, at = Random(7), 0.0  # noqa: S311 - a load, not a secret
    arrivals: list[Arrival] = []
    while (at := at + chance.expovariate(rate)) < seconds:
        prompt, output = lengths(len(arrivals), 0)
        arrivals.append(Arrival(at=at, prompt=prompt, output=output))
    return arrivals


CHAT = drawn((100, 300), (150, 350))

SLOTS = Scenario(
    name="slots",
    says="24 clients on 4 slots, 100–300 + 150–350 tokens each: slots are short, the cache is not.",
    seconds=60.0,
    seqs=4,
    clients=24,
    lengths=CHAT,
)
CACHE = Scenario(
    name="cache",
    says="8 clients on 8 slots, 100 + 900 tokens each, and only 17 blocks of 128 for them.",
    seconds=75.0,
    seqs=8,
    blocks=17,
    clients=8,
    lengths=lambda _client, _turn: (100, 900),
)
BURST = Scenario(
    name="burst",
    says=(
        "4 clients, one more every 3 s, with 100–300 + 100–200 tokens on 16 slots and 80 blocks of "
        "128; after 25 s 16 prompts of 1,500 tokens at once, in steps of at most 512 tokens."
    ),
    seconds=60.0,
    seqs=16,
    blocks=80,
    batched=512,
    clients=4,
    apart=3.0,
    lengths=drawn((100, 300), (100, 200)),
    arrivals=tuple(Arrival(at=25.0, prompt=1500, output=100) for _ in range(16)),
)


def open_loop(rate: float) -> Scenario:
    """Send the requests of `SLOTS` at this many a second to as many slots."""
    seconds = 90.0
    return Scenario(
        name="poisson",
        says=(
            "Requests as in `slots`, coming at random at 70 % of the rate at which 4 slots served "
            "them there, whatever becomes of them."
        ),
        seconds=seconds,
        seqs=SLOTS.seqs,
        arrivals=tuple(poisson(rate, seconds, CHAT)),
    )
