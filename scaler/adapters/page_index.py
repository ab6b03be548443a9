"""Finds what a selection means among thousands of pages without looking at each.

Every tick asks for all selections, and all of them may lie in one namespace: what is common to
them is put in order once, and each looks only where its model or its labels can be.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from scaler.adapters.matching import Condition
from scaler.adapters.page_memory import Group, Model
from scaler.adapters.targets import Target
from scaler.control.ports import SourceError
from scaler.core.units import Seconds
from scaler.core.workload import Selection

_MODEL_NAME = "model_name"
_CLOCK_SLEWS_BY: Seconds = 1.0


@dataclass(slots=True, eq=False)
class Page:
    """One target and what it has shown: per model, for all labels but the engines'."""

    target: Target
    models: dict[Group, Model] = field(default_factory=dict)
    answered: deque[Seconds] = field(default_factory=lambda: deque(maxlen=16))
    trouble: SourceError | None = None
    fetching: bool = False

    def forget_future(self, now: Seconds) -> None:
        """Drop everything where the clock was ahead when it was seen, and has been set back.

        It would pass for fresh until that time comes again, and rates would be unknown until then.
        """
        if self.answered and self.answered[-1] > now + _CLOCK_SLEWS_BY:
            self.answered.clear()
            self.models.clear()

    def answered_since(self, instant: Seconds) -> bool:
        """Say whether the page was read after an instant."""
        return bool(self.answered) and self.answered[-1] > instant


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A model on a page, with the labels that selectors see.

    `model` is None before any answer, and where the newest answer no longer shows it.
    """

    page: Page
    model: Model | None
    labels: Mapping[str, str]


class Strangers:
    """Pages that may show the selected engines, but have not shown any."""

    def __init__(self, shown: Collection[Shown]) -> None:
        """Take the pages."""
        self.pages = [each.page for each in shown]

    @cached_property
    def answered(self) -> frozenset[str]:
        """Name the pods that have answered without an engine."""
        return frozenset(page.target.pod for page in self.pages if page.answered)

    @cached_property
    def silent(self) -> frozenset[str]:
        """Name the pods that have never answered."""
        return frozenset(page.target.pod for page in self.pages) - self.answered

    @cached_property
    def newest(self) -> Seconds:
        """Return when one of them last answered; 0 where none ever has."""
        return max((page.answered[-1] for page in self.pages if page.answered), default=0.0)

    @cached_property
    def trouble(self) -> Page | None:
        """Return the first page that told why it cannot be read."""
        return next((page for page in self.pages if page.trouble is not None), None)


class _Shelf:
    """Pages that are looked through together, ordered by a label's value once one asks for it."""

    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self._ordered: dict[str, dict[str, list[Shown]]] = {}

    def pick(self, conditions: Collection[Condition]) -> list[Shown]:
        """Return what fulfils all conditions."""
        if not conditions:
            return self.shown
        # An exact value leaves the fewest to look at.
        first = min(conditions, key=lambda condition: condition.exact is None)
        rest = [condition for condition in conditions if condition is not first]
        by_value = self._by_value(first.label)
        if first.exact is not None:
            found = by_value.get(first.exact, [])
        else:
            found = [
                each for value, some in by_value.items() if first.accepts(value) for each in some
            ]
        return [
            each
            for each in found
            if all(condition.accepts(each.labels.get(condition.label, "")) for condition in rest)
        ]

    def _by_value(self, label: str) -> dict[str, list[Shown]]:
        ordered = self._ordered.get(label)
        if ordered is None:
            ordered = self._ordered[label] = {}
            for each in self.shown:
                ordered.setdefault(each.labels.get(label, ""), []).append(each)
        return ordered

    @cached_property
    def strangers(self) -> Strangers:
        """Sum the whole shelf up."""
        return Strangers(self.shown)


class Index:
    """What the pages show, by namespace and model."""

    def __init__(self, pages: Iterable[Page]) -> None:
        """Order the pages as they are now."""
        # Under None stand all models of the namespace; of strangers, those whose target names none
        # stand under the empty name.
        self._known: defaultdict[tuple[str, str | None], _Shelf] = defaultdict(_Shelf)
        self._strange: defaultdict[tuple[str, str | None], _Shelf] = defaultdict(_Shelf)
        for page in pages:
            namespace = page.target.namespace
            engines = [(g, m) for g, m in page.models.items() if m.is_engine]
            for group, model in engines:
                newest = model.seen_at == page.answered[-1]
                series = dict(group)
                labels = {**series, **page.target.labels}
                shown = Shown(page, model if newest else None, labels)
                self._known[namespace, None].shown.append(shown)
                self._known[namespace, series.get(_MODEL_NAME, "")].shown.append(shown)
            # A page that shows gauges but counts nothing is a router's.
            if not engines and not (page.models and page.trouble is None):
                shown = Shown(page, None, page.target.labels)
                self._strange[namespace, None].shown.append(shown)
                self._strange[namespace, shown.labels.get(_MODEL_NAME, "")].shown.append(shown)

    def known(self, selection: Selection, conditions: Collection[Condition]) -> list[Shown]:
        """Return what shows the selected engines."""
        shelf = self._known.get((selection.namespace, selection.model_name))
        return shelf.pick(conditions) if shelf is not None else []

    def strangers(self, selection: Selection, conditions: Collection[Condition]) -> list[Strangers]:
        """Return the pages that may turn out to show them."""
        models = (None,) if selection.model_name is None else ("", selection.model_name)
        found = []
        for model in dict.fromkeys(models):
            shelf = self._strange.get((selection.namespace, model))
            if shelf is not None:
                picked = Strangers(shelf.pick(conditions)) if conditions else shelf.strangers
                found.append(picked)
        return [strangers for strangers in found if strangers.pages]
