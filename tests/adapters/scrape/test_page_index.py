"""Matchers and the index over pages: whatever is quick must say what the slow way says."""

from __future__ import annotations

import pytest
import re2  # type: ignore[import-untyped]
from hypothesis import example, given
from hypothesis import strategies as st

from scaler.adapters.matching import compiled, compiled_all, conditions_of
from scaler.adapters.page_index import Index, Page
from scaler.adapters.page_memory import Place, place_of, remember
from scaler.adapters.targets import Target
from scaler.control.ports import SelectionInvalid
from scaler.core.workload import Matcher, MatchOp, Selection


def _is_re2(pattern: str) -> bool:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error:
        return False
    return True


values = st.text("ab|.-\n+*", max_size=5)
patterns = st.text("ab|.-+*", max_size=6).filter(_is_re2)


@given(patterns, values)
@example("", "")
@example("a|", "")
@example("a.*", "a\nb")
@example("a.+", "a")
@example("a|b", "ab")
@example(".*", "")
def test_patterns_are_re2_anchored_and_a_dot_is_any_letter(pattern: str, value: str) -> None:
    """Alternatives of names and beginnings of names are told without RE2, and told the same."""
    expected = re2.fullmatch(f"(?s:{pattern})", value) is not None
    assert compiled(Matcher(label="x", op=MatchOp.REGEX, value=pattern))(value) is expected
    assert compiled(Matcher(label="x", op=MatchOp.NOT_REGEX, value=pattern))(value) is not expected


@pytest.mark.parametrize(
    ("op", "value", "accepted"),
    [
        (MatchOp.EQUAL, "a", ["a"]),
        (MatchOp.EQUAL, "", [""]),
        (MatchOp.NOT_EQUAL, "a", ["", "b", "ab"]),
        (MatchOp.NOT_EQUAL, "", ["a", "b", "ab"]),
        (MatchOp.REGEX, "a|b", ["a", "b"]),
        (MatchOp.REGEX, "a.*", ["a", "ab"]),
        (MatchOp.NOT_REGEX, "a.*", ["", "b"]),
        (MatchOp.REGEX, "(?i)A", ["a"]),
    ],
)
def test_operators_mean_what_they_mean_in_promql(
    op: MatchOp, value: str, accepted: list[str]
) -> None:
    """An absent label is an empty one."""
    accepts = compiled(Matcher(label="x", op=op, value=value))
    assert [text for text in ("", "a", "b", "ab") if accepts(text)] == accepted


def test_a_pattern_that_would_hang_another_engine_does_not() -> None:
    """Time is linear in the text: nested repetition costs nothing."""
    accepts = compiled(Matcher(label="x", op=MatchOp.REGEX, value="(a*)*(a|aa)+b"))
    assert not accepts("a" * 20_000)
    assert accepts("a" * 20_000 + "b")


def test_an_invalid_pattern_is_the_selections_own_fault() -> None:
    """The message names the matcher and the cure."""
    broken = Matcher(label="tier", op=MatchOp.REGEX, value="(gold")
    for prepare in (compiled_all, conditions_of):
        with pytest.raises(SelectionInvalid, match=r'tier=~"\(gold" holds an invalid .*; use RE2'):
            prepare([broken])


labels = st.fixed_dictionaries(
    {"namespace": st.sampled_from(["prod", "test"])},
    optional={
        "app": st.sampled_from(["", "chat", "code"]),
        "tier": st.sampled_from(["gold", "silver"]),
        "model_name": st.sampled_from(["m", "n"]),
    },
)
matchers = st.builds(
    Matcher,
    label=st.sampled_from(["app", "tier", "model_name", "absent", "pod"]),
    op=st.sampled_from(MatchOp),
    value=st.sampled_from(["", "chat", "gold|silver", "c.*", "g[a-z]+", "m", "pod-1"]),
)
selections = st.builds(
    Selection,
    source=st.just("scrape"),
    namespace=st.sampled_from(["prod", "test", "none"]),
    model_name=st.sampled_from([None, "m", "n"]),
    matchers=st.lists(matchers, max_size=3).map(tuple),
)


@st.composite
def fleets(draw: st.DrawFn) -> list[Page]:
    """Draw pages of which some have shown a model, some another, and some nothing yet."""
    pages = []
    drawn = draw(st.lists(st.tuples(labels, st.sampled_from(["", "m", "n"])), max_size=8))
    for number, (own, model) in enumerate(drawn):
        pod = f"pod-{number}"
        target = Target(
            address=pod,
            url=pod,
            namespace=own["namespace"],
            pod=pod,
            labels={**own, "pod": pod},
        )
        page = Page(target)
        if model:
            remember(page.models, [_tokens(model)], 5.0)
            page.answered.append(5.0)
        pages.append(page)
    return pages


def _tokens(model: str) -> tuple[Place, float]:
    place = place_of("vllm:generation_tokens_total", {"model_name": model, "app": "series"})
    assert place is not None
    return place, 1.0


@given(fleets(), selections)
def test_the_index_finds_what_looking_at_every_page_finds(
    pages: list[Page], selection: Selection
) -> None:
    """Target labels hide those of the series; a page that has shown nothing may be any model."""
    index, conditions = Index(pages), conditions_of(selection.matchers)
    known, strange = set(), set()
    for page in pages:
        target = page.target
        if target.namespace != selection.namespace:
            continue
        shown = {dict(group)["model_name"] for group in page.models}
        seen = {"app": "series", "model_name": next(iter(shown))} if shown else {}
        seen |= target.labels
        if not all(compiled(m)(seen.get(m.label, "")) for m in selection.matchers):
            continue
        wanted = selection.model_name
        if shown and wanted in (None, *shown):
            known.add(target.pod)
        if not shown and wanted in (None, seen.get("model_name", wanted)):
            strange.add(target.pod)
    assert {each.page.target.pod for each in index.known(selection, conditions)} == known
    found = index.strangers(selection, conditions)
    assert frozenset().union(*(some.silent for some in found)) == strange
    assert not any(some.answered for some in found)
