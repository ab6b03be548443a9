"""Label matchers are read as PromQL has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.config import regex
from scaler.config.faults import Unreadable
from scaler.config.matchers import matchers
from scaler.core.workload import Matcher, MatchOp


def _one(label: str, value: str, op: MatchOp = MatchOp.EQUAL) -> Matcher:
    return Matcher(label=label, op=op, value=value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('app="chat"', "chat"),
        ("app='chat'", "chat"),
        ("app=`chat`", "chat"),
        ('  app = "chat" , ', "chat"),
        (r'app="a\"b"', 'a"b'),
        (r"app='it\'s'", "it's"),
        (r'app="a\\b"', "a\\b"),
        (r"app=`a\d`", r"a\d"),
        (r'app="\u00e9\x41\101\n"', "éAA\n"),
        ('app="a,b=c}"', "a,b=c}"),
        ('app="cpu-chat"', "cpu-chat"),
    ],
)
def test_values_are_unquoted(text: str, value: str) -> None:
    """Three kinds of quotation marks, and PromQL's escapes."""
    assert matchers(text) == (_one("app", value),)


def test_matchers_are_sorted_and_without_doubles() -> None:
    """Two ways to write a selection are one."""
    text = 'tier=~"gold|silver",app="chat",tier!="x",app="chat",pod!~"old-.*"'
    assert matchers(text) == (
        _one("app", "chat"),
        _one("pod", "old-.*", MatchOp.NOT_REGEX),
        _one("tier", "x", MatchOp.NOT_EQUAL),
        _one("tier", "gold|silver", MatchOp.REGEX),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('namespace="other"', "always the ScaledObject's own"),
        ('namespace=~".*"', "always the ScaledObject's own"),
        ('app="a",__name__="x"', "names a metric"),
        ('le="1"', "bucket edge"),
        ('{app="a"}', "in braces"),
        ("app=chat", "cannot be read"),
        ("app", "cannot be read"),
        ('app=="a"', "cannot be read"),
        ('app="a" tier="b"', "cannot be read"),
        ('app="a",,tier="b"', "cannot be read"),
        ('app="a', "cannot be read"),
        ('app="a\nb"', "cannot be read"),
        ('app="a"} or vector(1) or x{a="b"', "cannot be read"),
        ('1app="a"', "cannot be read"),
        (r'app="\d"', "unknown escape"),
        (r'app="\ud800"', "no character"),
        (r'app="\U00110000"', "no character"),
        ('app=~"("', "missing )"),
        ('app=~"(?=x)"', "invalid perl operator"),
        ('app=~"a{1001}"', "invalid repetition"),
        ('app=""', "selects every series"),
        ('app=~".*"', "selects every series"),
        ('app!="x"', "selects every series"),
        ('app="a",app="b"', "two values at once"),
        (",".join(f'a{i}="b"' for i in range(33)), "more than 32"),
        ("", "no matcher"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    """The refusal says what is wrong."""
    with pytest.raises(Unreadable) as refused:
        matchers(text)
    assert problem in refused.value.problem


_labels = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True).filter(
    lambda label: label not in {"namespace", "le", "__name__"}
)


@given(
    wanted=st.dictionaries(
        _labels,
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        min_size=1,
        max_size=5,
    )
)
def test_what_a_matcher_writes_reads_back(wanted: dict[str, str]) -> None:
    """Any value survives being written and read."""
    given_matchers = tuple(sorted(_one(label, value) for label, value in wanted.items()))
    assert matchers(",".join(map(str, given_matchers))) == given_matchers


@given(text=st.text(alphabet="abcpod=~!\"'`,\\{}().*|[]0 \n", max_size=60))
def test_hostile_text_is_read_or_refused(text: str) -> None:
    """Nothing else happens, and what is accepted selects by a label that is there."""
    try:
        found = matchers(text)
    except Unreadable:
        return
    assert found == tuple(sorted(set(found)))


def test_regular_expressions_are_anchored() -> None:
    """As in Prometheus."""
    assert regex.matches("gold|silver", "gold")
    assert not regex.matches("gold", "golden")
    assert not regex.matches("(", "(")
