"""What the queries of a tick leave out, and how they cut pods' names."""

from __future__ import annotations

import re

import pytest

from scaler.adapters.prometheus_answer import Series
from scaler.adapters.prometheus_queries import STEM, Kind, Shape, models_of, tick_queries
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.prometheus_view import Seen, View, enter
from scaler.core.reading import stem_of

SETTINGS = PrometheusSettings(url="http://prometheus:9090")


def test_few_models_are_asked_for_by_name() -> None:
    """Neighbours in a namespace cost nothing; names stand for themselves in the pattern."""
    (matcher,) = models_of("model_name", ["llama-3.1", "qwen"])
    assert matcher.value == r"llama-3\.1|qwen"


@pytest.mark.parametrize("models", [["llama", None], [f"m{n}" for n in range(101)]])
def test_all_models_are_asked_for_where_some_are_not_named_or_many(
    models: list[str | None],
) -> None:
    """A selection without a model may mean any; a query does not grow without bounds."""
    assert models_of("model_name", models) == []
    assert len(models_of("model_name", [f"m{n}" for n in range(100)])) == 1


@pytest.mark.parametrize(
    "pod", ["", "solo", "chat-0", "chat-6b4d9c7f5d-x2x9z", "-", "a--b", "ends-", "10.0.0.7:8000"]
)
def test_the_server_cuts_names_as_we_do(pod: str) -> None:
    """One pattern gives what `stem_of` gives, with a dash and without."""
    query = tick_queries(SETTINGS, Shape.of(SETTINGS, []), [])[Kind.BUCKETS]
    found = re.search(rf'"{STEM}", "\$1\$2", "pod", "([^"]*)"', query)
    assert found is not None
    match = re.fullmatch(found[1], pod)
    assert match is not None
    assert (match[1] or "") + (match[2] or "") == stem_of(pod)


def seen_of(*pods: str) -> Seen:
    """Return what an instant shows of these pods."""
    return Seen(gauges={pod: {} for pod in pods})


def test_histograms_are_told_apart_only_where_pods_have_several_owners() -> None:
    """A pod that fell silent within the last minutes has an owner, too."""
    view = View()
    view.seen[("prod", "llama")] = seen_of("chat-6b4d-a", "chat-6b4d-b")
    view.seen[("prod", "qwen")] = seen_of("other-77c4-a")
    assert view.has_single_stems
    view.seen[("prod", "qwen")].unseen.add("other-9f1b-a")
    assert not view.has_single_stems


def test_a_histogram_of_all_belongs_to_the_only_owner() -> None:
    """Without a stem in the answer it is that of the pods, and nobody's where there are several."""
    shape = Shape.of(SETTINGS, [])
    labels = {"namespace": "prod", "model_name": "llama", "le": "1.0"}
    for pods, stem in ((("chat-6b4d-a", "chat-6b4d-b"), "chat-6b4d-"), (("a-1", "b-1"), "")):
        view = View()
        view.seen[("prod", "llama")] = seen_of(*pods)
        enter(Kind.BUCKETS, shape, Series(labels, [(10.0, 3.0)]), {10.0: view})
        assert view.seen[("prod", "llama")].buckets == {stem: {1.0: 3.0}}
