"""Prompts: how long they are, and what they share."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.openai_prompts import TokenPrompts, WordPrompts

LENGTHS = st.integers(1, 200_000) | st.integers(1, 20)


def alike(one: list[int], other: list[int]) -> int:
    """Count the ids with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@given(LENGTHS, st.integers(0, 1000), st.floats(0, 1))
def test_a_prompt_of_ids_has_exactly_the_wanted_length(
    tokens: int, number: int, shared: float
) -> None:
    """Also longer than what it is cut from, and whatever its prompts share; always known ids."""
    prompt = TokenPrompts(salt="s", low=10, high=500, shared=shared).prompt(number, tokens)
    assert len(prompt) == tokens
    assert all(10 <= token < 500 for token in prompt)


def test_prompts_do_not_begin_alike() -> None:
    """Of a thousand prompts no two share their first eight ids, so no block of a cache fits."""
    prompts = TokenPrompts(salt="s", low=10, high=500)
    assert len({tuple(prompts.prompt(number, 40)[:8]) for number in range(1000)}) == 1000


def test_prompts_share_the_share_that_is_asked_for() -> None:
    """A third of each begins all of them, a longer one with more of the same, and no more."""
    prompts = TokenPrompts(salt="s", low=0, high=100_000, shared=1 / 3)
    short, long = prompts.prompt(1, 300), prompts.prompt(2, 900)
    assert alike(short, long) == 100
    assert alike(prompts.prompt(3, 900), long) == 300


def test_all_can_be_shared() -> None:
    """Prompts that share all are beginnings of one another."""
    prompts = TokenPrompts(salt="s", low=0, high=100_000, shared=1.0)
    assert alike(prompts.prompt(1, 300), prompts.prompt(2, 900)) == 300


def test_another_test_sends_other_prompts() -> None:
    """What one test left in the server's cache is nothing that the next one sends."""
    one, other = (TokenPrompts(salt=salt, low=0, high=1000, shared=0.5) for salt in "ab")
    assert alike(one.prompt(1, 100), other.prompt(1, 100)) < 3
    assert one.prompt(1, 100) == TokenPrompts(salt="a", low=0, high=1000, shared=0.5).prompt(1, 100)


@pytest.mark.parametrize(
    ("tokens", "words"), [(1, 1), (5, 1), (9, 2), (105, 50), (200_005, 100_000)]
)
def test_words_make_the_wanted_tokens(tokens: int, words: int) -> None:
    """At 2 tokens a word and 5 that a template adds; never without a word."""
    prompts = WordPrompts(salt="s", per_word=2.0, added=5.0)
    assert len(prompts.prompt(3, tokens).split()) == words


def test_words_share_what_is_asked_for() -> None:
    """As with ids; and texts of two requests differ from the first words on."""
    half = WordPrompts(salt="s", per_word=1.0, added=0.0, shared=0.5)
    one, other = (half.prompt(number, 100).split() for number in (1, 2))
    assert one[:50] == other[:50]
    assert one[50:58] != other[50:58]
    none = WordPrompts(salt="s", per_word=1.0, added=0.0)
    assert len({none.prompt(number, 50)[:40] for number in range(500)}) == 500
