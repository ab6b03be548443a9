"""Applies label matchers as Prometheus does: an absent label is empty, regexes are RE2, anchored.

RE2 takes time linear in the text, so that no pattern of a trigger can hang the process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

import re2  # type: ignore[import-untyped]

from scaler.config import regex
from scaler.control.ports import SelectionInvalid
from scaler.core.workload import Matcher, MatchOp

Accepts = Callable[[str], bool]
"""Says whether a label's value (empty where the label is absent) is meant."""

# What most patterns are: names that may stand there, or how names begin. RE2 is slow to call.
_ALTERNATIVES = re.compile(r"[\w/:@ |-]*", re.ASCII)
_BEGINNING = re.compile(r"([\w/:@ -]*)\.([*+])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Condition:
    """A matcher made ready. `exact` is the only value that it accepts, where there is but one."""

    label: str
    accepts: Accepts
    exact: str | None = None


def conditions_of(matchers: Collection[Matcher]) -> tuple[Condition, ...]:
    """Make matchers ready. Raises SelectionInvalid."""
    return tuple(
        Condition(m.label, compiled(m), m.value if m.op is MatchOp.EQUAL else None)
        for m in matchers
    )


@lru_cache(maxsize=4096)
def compiled(matcher: Matcher) -> Accepts:
    """Make a matcher ready for many values. Raises SelectionInvalid."""
    wanted = matcher.value
    if matcher.op is MatchOp.EQUAL:
        return lambda value: value == wanted
    if matcher.op is MatchOp.NOT_EQUAL:
        return lambda value: value != wanted
    matches = _matching(matcher)
    if matcher.op is MatchOp.REGEX:
        return matches
    return lambda value: not matches(value)


def _matching(matcher: Matcher) -> Accepts:
    pattern = _pattern(matcher)
    if _ALTERNATIVES.fullmatch(matcher.value):
        return frozenset(matcher.value.split("|")).__contains__
    if beginning := _BEGINNING.fullmatch(matcher.value):
        start, least = beginning[1], len(beginning[1]) + (beginning[2] == "+")
        return lambda value: value.startswith(start) and len(value) >= least
    return lambda value: pattern.fullmatch(value) is not None


def compiled_all(matchers: Collection[Matcher]) -> tuple[tuple[str, Accepts], ...]:
    """Make matchers ready, each with its label. Raises SelectionInvalid."""
    return tuple((matcher.label, compiled(matcher)) for matcher in matchers)


def _pattern(matcher: Matcher) -> re2._Regexp:
    fault = regex.fault_of(matcher.value)
    if fault is not None:
        raise SelectionInvalid(
            f"selector {matcher} holds an invalid regular expression: {fault}; use RE2"
        )
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True  # as Prometheus: a label's value may hold a line feed
    return re2.compile(matcher.value, options)
