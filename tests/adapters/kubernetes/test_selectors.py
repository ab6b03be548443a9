"""Selectors as text, and the index that finds each pod's targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.kubernetes_pods import PlacedPod
from scaler.adapters.kubernetes_selectors import (
    Membership,
    Selector,
    Target,
    Term,
    parse_selector,
)
from scaler.core.pods import Pod

LABELS = {"app": "chat", "tier": "gold", "empty": ""}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("app=chat", True),
        ("app==chat", True),
        ("app=chat,tier=gold", True),
        ("app = chat , tier = gold", True),
        ("app=chat,tier=silver", False),
        ("app!=chat", False),
        ("app!=other", True),
        ("absent!=x", True),
        ("app in (chat,other)", True),
        ("app in (other),tier=gold", False),
        ("app notin (chat)", False),
        ("absent notin (x)", True),
        ("app notin (a, b),tier", True),
        ("tier", True),
        ("absent", False),
        ("!absent", True),
        ("!app", False),
        ("empty=", True),
        ("app=", False),
        ("example.com/app-name.x=1", False),
    ],
)
def test_a_selector_means_what_kubernetes_means(text: str, selects: bool) -> None:  # noqa: FBT001
    """Its whole grammar, as /scale writes it."""
    selector = parse_selector(text)
    assert selector is not None
    assert all(term.matches(LABELS) for term in selector) is selects


@pytest.mark.parametrize("text", ["", "app=chat,", ",", "a=b c", "a in b", "a>1", "a=b,,c", "()"])
def test_what_is_no_selector_selects_nothing_and_not_all(text: str) -> None:
    """An empty one would be every pod of the namespace."""
    selector = parse_selector(text)
    assert selector is None or selector == (Term("app", frozenset({"chat"})),)


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
TERMS = st.builds(
    Term,
    key=KEYS,
    values=st.none() | st.frozensets(VALUES, min_size=1, max_size=2),
    wanted=st.booleans(),
)
SELECTORS = st.lists(TERMS, min_size=1, max_size=3).map(tuple)
TARGETS = st.dictionaries(
    st.integers(0, 4).map(lambda n: Target("llm", "x/v1", "Thing", f"t{n}")), SELECTORS, max_size=5
)
STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.none() | st.dictionaries(KEYS, VALUES)) | TARGETS, max_size=30
)


@given(TARGETS, STEPS)
def test_the_index_finds_what_trying_all_would_find(
    targets: dict[Target, Selector],
    steps: list[tuple[int, dict[str, str] | None] | dict[Target, Selector]],
) -> None:
    """Whatever comes, goes, changes its labels or its selector, and in whatever order."""
    book = Membership()
    book.select(targets)
    there: dict[str, dict[str, str]] = {}
    for step in steps:
        if isinstance(step, dict):
            targets = step
            book.select(targets)
        else:
            number, labels = step
            name = f"p{number}"
            there.pop(name, None)
            if labels is not None:
                there[name] = labels
            placed = None if labels is None else _placed(name, labels)
            book.place(name, placed)
        for target, selector in targets.items():
            expected = [n for n in sorted(there) if all(t.matches(there[n]) for t in selector)]
            assert [pod.name for pod in book.members(target)] == expected


def _placed(name: str, labels: dict[str, str]) -> PlacedPod:
    return PlacedPod(Pod(name=name, replica=name, created_at=0.0, labels=labels), None)


def _owned(kind: str, name: str, template: str | None = None) -> PlacedPod:
    labels = {} if template is None else {"pod-template-hash": template}
    return PlacedPod(Pod(name="p", replica="p", created_at=0.0, labels=labels), (kind, name))


@pytest.mark.parametrize(
    ("kind", "placed", "owns"),
    [
        ("Deployment", _owned("ReplicaSet", "chat-5d8f", "5d8f"), True),
        ("Deployment", _owned("ReplicaSet", "chat-v2-5d8f", "5d8f"), False),
        ("Deployment", _owned("ReplicaSet", "whatever"), True),
        ("Deployment", _owned("StatefulSet", "chat"), False),
        ("Deployment", _placed("p", {}), False),
        ("StatefulSet", _owned("StatefulSet", "chat"), True),
        ("StatefulSet", _owned("StatefulSet", "chat-v2"), False),
        ("StatefulSet", _placed("p", {}), False),
        ("LLMInferenceService", _owned("ReplicaSet", "chat-kserve-5d8f", "5d8f"), True),
        ("LLMInferenceService", _placed("p", {}), True),
    ],
)
def test_whose_a_selected_pod_is(kind: str, placed: PlacedPod, owns: bool) -> None:  # noqa: FBT001
    """By its controller, for the kinds whose pods' controllers we know."""
    assert Target("llm", "v1", kind, "chat").owns(placed) is owns
