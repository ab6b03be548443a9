"""Free PromQL is held to its namespace, or refused."""

from __future__ import annotations

import threading

import promql_parser as promql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.config.promql import (
    LONGEST_QUERY,
    MOST_OPERATORS,
    QueryInvalid,
    named_query,
    pin_to_namespace,
)


@pytest.mark.parametrize(
    ("query", "pinned"),
    [
        ("queue", 'queue{namespace="a"}'),
        ('queue{gateway="g"}', 'queue{gateway="g",namespace="a"}'),
        ('queue{namespace="a"}', 'queue{namespace="a"}'),
        ('{__name__="queue"}', '{__name__="queue",namespace="a"}'),
        ("sum(rate(refused[1m] offset 1m))", 'sum(rate(refused{namespace="a"}[1m] offset 1m))'),
        ("queue - on (pod) done", 'queue{namespace="a"} - on (pod) done{namespace="a"}'),
        ("topk(scalar(x), y)", 'topk(scalar(x{namespace="a"}), y{namespace="a"})'),
        ("max_over_time(x[5m:1m] @ end())", 'max_over_time(x{namespace="a"}[5m:1m] @ end())'),
        ("absent(queue)", 'absent(queue{namespace="a"})'),
        (r'x{a="\"} or y{b=\""}', r'x{a="\"} or y{b=\"",namespace="a"}'),
        ('x{a=`"} or y`}', r'x{a="\"} or y",namespace="a"}'),
        ("x # } or y", 'x{namespace="a"}'),
    ],
)
def test_every_selector_gets_the_namespace(query: str, pinned: str) -> None:
    """Each selector holds the matcher once, wherever it stands and whatever it quotes."""
    line = " ".join(pin_to_namespace(query, "a").split())
    assert line.replace("( ", "(").replace(" )", ")") == pinned


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ('queue{namespace="b"}', "leave namespace out"),
        ('queue{namespace=~"a|b"}', "leave namespace out"),
        ('queue{namespace!="b"}', "leave namespace out"),
        ('queue{namespace="a"} + queue{namespace=~".+"}', "leave namespace out"),
        ('queue{namespace="a",namespace=~".+"}', "leave namespace out"),
        ('queue{a="b" or namespace="b"}', "two selectors"),
        ("queue[5m]", "range of values"),
        ("queue[5m:1m]", "range of values"),
        ("info(queue)", "info()"),
        ("vector(1)", "selects no series"),
        ("42", "selects no series"),
        ('"text"', "selects no series"),
        ("sum(", "not valid PromQL"),
        ("", "not valid PromQL"),
        ("limitk(2", "not valid PromQL"),
        ("x" * (LONGEST_QUERY + 1), "characters"),
        ("(" * 900 + "x" + ")" * 900, "operators"),
        ("-" * 1999 + "x", "operators"),
        ("x" + " or x" * 399, "operators"),
    ],
)
def test_what_cannot_be_held_to_its_namespace_is_refused(query: str, why: str) -> None:
    """The refusal says what to write instead."""
    with pytest.raises(QueryInvalid, match=why.replace("(", r"\(").replace(")", r"\)")):
        pin_to_namespace(query, "a")


def test_the_label_is_a_setting() -> None:
    """Where Prometheus renames the label, the renamed one is pinned and the other is free."""
    pinned = pin_to_namespace('queue{namespace="monitoring"}', "a", label="exported_namespace")
    assert pinned == 'queue{exported_namespace="a",namespace="monitoring"}'


@pytest.mark.parametrize(
    ("query", "name"), [("name:queue", "queue"), (" name: queue ", "queue"), ("queue", None)]
)
def test_named_queries_are_told_from_promql(query: str, name: str | None) -> None:
    """`name:x` is a name; anything else is PromQL."""
    assert named_query(query) == name


def test_the_deepest_query_allowed_is_pinned_in_a_thread() -> None:
    """The parser recurses: what may be asked must not overrun a thread's stack."""
    pinned: list[str] = []

    def ask() -> None:
        pinned.append(pin_to_namespace("-" * MOST_OPERATORS + "x", "a"))
        pinned.append(pin_to_namespace("x" + "+x" * 50, "a"))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert [query.count('namespace="a"') for query in pinned] == [1, 51]


_names = st.sampled_from(["x", "vllm:waiting", "sum_total", "namespace"])
_quotes = st.sampled_from(['"', "'"])


@st.composite
def _strings(draw: st.DrawFn) -> str:
    text = draw(st.text(alphabet="ab\"\\'`{}[]()=~!,\n\t #é", max_size=8))
    quote = draw(_quotes)
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return quote + escaped.replace("\n", "\\n") + quote


@st.composite
def _selector(draw: st.DrawFn) -> str:
    labels = draw(st.lists(st.sampled_from(["a", "le", "exported_namespace", "namespace"])))
    matchers = [
        f"{label}{draw(st.sampled_from(['=', '!=']))}{draw(_strings())}" for label in labels[:3]
    ]
    offset = draw(st.sampled_from(["", " offset 5m", " @ 17", " @ start() offset -1h"]))
    return f"{draw(_names)}{{{','.join(matchers)}}}{offset}"


_expressions = st.recursive(
    st.one_of(_selector(), st.just("1.5"), st.just("vector(2)")),
    lambda inner: st.one_of(
        st.builds("sum by (a) ({})".format, inner),
        st.builds("({})".format, inner),
        st.builds("-{}".format, inner),
        st.builds("{} or {}".format, inner, inner),
        st.builds("{} * on (a) group_left (b) {}".format, inner, inner),
        st.builds("max_over_time(({})[10m:1m])".format, inner),
        st.builds("label_replace({}, 'namespace', {}, 'a', '.*')".format, inner, _strings()),
        st.builds("topk(3, {})".format, inner),
    ),
    max_leaves=6,
)


@given(query=st.one_of(_expressions, st.text()))
def test_whatever_is_accepted_is_pinned(query: str) -> None:
    """An accepted query holds the matcher in each selector; pinning it again changes nothing."""
    try:
        pinned = pin_to_namespace(query, "a")
    except QueryInvalid:
        return
    nodes: list[promql.Expr] = []
    promql.walk(promql.parse(pinned), nodes.append)
    selectors = [node for node in nodes if isinstance(node, promql.VectorSelector)]
    assert selectors
    for selector in selectors:
        held = [(m.op, m.value) for m in selector.matchers.matchers if m.name == "namespace"]
        assert held == [(promql.MatchOp.Equal, "a")]
    assert pin_to_namespace(pinned, "a") == pinned


@given(value=_strings(), metric=_names)
def test_pinning_changes_nothing_else(value: str, metric: str) -> None:
    """A label value comes out as it went in, whatever it holds."""
    before = promql.parse(f"{metric}{{a={value}}}")
    after = promql.parse(pin_to_namespace(f"{metric}{{a={value}}}", "a"))
    assert isinstance(before, promql.VectorSelector)
    assert isinstance(after, promql.VectorSelector)
    assert [m.value for m in after.matchers.matchers if m.name == "a"] == [
        m.value for m in before.matchers.matchers
    ]
    assert after.name == metric
