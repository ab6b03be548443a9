"""Prompts of a wanted length that share their beginnings only as far as is asked for.

A prefix cache would answer prompts that begin alike, and flatter the server. `salt` is new in every
test: what one test sent would be in the cache of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Protocol, TypeVar

_Piece = TypeVar("_Piece", int, str)

_POOL = 1 << 16
_OWN = 8
"""Pieces that are drawn for one prompt alone: what follows may then be a cut of a pool that all
share, since caches compare from the beginning."""

WORDS = (
    *("river", "stone", "green", "paper", "window", "early", "garden", "seven", "market", "cloud"),
    *("table", "winter", "letter", "small", "music", "north", "silver", "bread", "quiet", "train"),
    *("summer", "glass", "story", "yellow", "number", "field", "simple", "water", "light", "road"),
    *("island", "copper", "morning", "bridge", "farmer", "second", "forest", "long", "key", "day"),
)


class Prompts(Protocol):
    """Makes the prompt of a request; the same one for the same number.

    `exact` says whether the lengths are: otherwise they are right on average.
    """

    @property
    def exact(self) -> bool:
        """Say whether a prompt has exactly the wanted tokens."""

    def prompt(self, number: int, tokens: int) -> list[int] | str:
        """Return a prompt of about so many tokens."""


@dataclass(frozen=True, kw_only=True)
class TokenPrompts:
    """Lists of token ids out of [low, high): exactly as long as wanted."""

    salt: str
    low: int
    high: int
    shared: float = 0.0
    exact: bool = True

    @cached_property
    def _pool(self) -> list[int]:
        return _pool(range(self.low, self.high), self.salt)

    def prompt(self, number: int, tokens: int) -> list[int]:
        """Return the list of ids."""
        random = Random(f"prompt:{self.salt}:{number}")  # noqa: S311 - not a secret
        return _mixed(random, range(self.low, self.high), self._pool, tokens, self.shared)


@dataclass(frozen=True, kw_only=True)
class WordPrompts:
    """Words: so many as make the wanted tokens, by a measured ratio and what a template adds."""

    salt: str
    per_word: float
    added: float
    shared: float = 0.0
    exact: bool = False

    @cached_property
    def _pool(self) -> list[str]:
        return _pool(WORDS, self.salt)

    def prompt(self, number: int, tokens: int) -> str:
        """Return the text; at least one word."""
        count = max(1, round((tokens - self.added) / self.per_word))
        random = Random(f"prompt:{self.salt}:{number}")  # noqa: S311 - not a secret
        return " ".join(_mixed(random, WORDS, self._pool, count, self.shared))


def _pool(alphabet: Sequence[_Piece], salt: str) -> list[_Piece]:
    return Random(f"pool:{salt}").choices(alphabet, k=_POOL)  # noqa: S311 - not a secret


def _mixed(
    random: Random, alphabet: Sequence[_Piece], pool: list[_Piece], count: int, shared: float
) -> list[_Piece]:
    """Return `count` pieces, of which the first `shared` (0..1) are the same in every prompt."""
    head = round(count * shared)
    own = random.choices(alphabet, k=min(_OWN, count - head))
    begin = random.randrange(len(pool))
    return _cut(pool, 0, head) + own + _cut(pool, begin, count - head - len(own))


def _cut(pool: list[_Piece], begin: int, count: int) -> list[_Piece]:
    """Return so many pieces of the pool from a place on, over its end to its beginning."""
    found = pool[begin : begin + count]
    while len(found) < count:
        found += pool[: count - len(found)]
    return found
