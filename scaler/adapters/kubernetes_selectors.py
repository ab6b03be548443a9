"""Label selectors as text, and which pods of a namespace belong to which scale target."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from scaler.adapters.kubernetes_pods import TEMPLATE_HASH, PlacedPod
from scaler.core.pods import Pod

_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<missing>[^\s,!=()<>]+)"
    r"|(?P<key>[^\s,!=()<>]+)\s*(?:"
    r"(?P<op>=|==|!=)\s*(?P<value>[^\s,!=()<>]*)"
    r"|(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    r")?)\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement: the label has one of `values` (any, if None), or `wanted` is False."""

    key: str
    values: frozenset[str] | None
    wanted: bool = True

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether labels meet it. As in Kubernetes, a missing label is in no set."""
        value = labels.get(self.key)
        has = value is not None and (self.values is None or value in self.values)
        return has == self.wanted


Selector = tuple[Term, ...]


def parse_selector(text: str) -> Selector | None:
    """Read what /scale calls its selector; None where it selects nothing that we understand.

    An empty one is none: it would select every pod of the namespace.
    """
    terms: list[Term] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None or match.end() == position:
            return None
        terms.append(_term(match))
        position = match.end()
    return tuple(terms) or None


def _term(match: re.Match[str]) -> Term:
    if match["absent"]:
        return Term(match["missing"], None, wanted=False)
    key = match["key"]
    if match["op"]:
        return Term(key, frozenset({match["value"]}), wanted=match["op"] != "!=")
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Term(key, values, wanted=match["set"] == "in")
    return Term(key, None)


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A scale target, as a `scaleTargetRef` names it."""

    namespace: str
    api_version: str
    kind: str
    name: str

    def owns(self, placed: PlacedPod) -> bool:
        """Say whether a pod that the selector finds is really the target's.

        Two Deployments can select the same labels, and a person's copy of a pod has them too.
        A Deployment's pods belong to its ReplicaSets, which are called after it and the template's
        hash. Of kinds whose pods we do not know the owners of, every selected pod counts.
        """
        if self.kind == "StatefulSet":
            return placed.owner == ("StatefulSet", self.name)
        if self.kind != "Deployment":
            return True
        if placed.owner is None or placed.owner[0] != "ReplicaSet":
            return False
        template = placed.pod.labels.get(TEMPLATE_HASH)
        return template is None or placed.owner[1] == f"{self.name}-{template}"


_Pair = tuple[str, str]


class Membership:
    """The pods of one namespace, by scale target; worked out when asked, then kept up to date."""

    def __init__(self) -> None:
        """Start with no pods and no targets."""
        self.selectors: dict[Target, Selector] = {}
        self._pods: dict[str, PlacedPod] = {}
        self._of: dict[str, frozenset[Target]] = {}
        self._members: dict[Target, dict[str, Pod]] = {}
        self._told: dict[Target, tuple[Pod, ...]] = {}
        self._by_pair: dict[_Pair, list[Target]] | None = None
        self._unpaired: list[Target] = []

    def select(self, selectors: Mapping[Target, Selector]) -> None:
        """Replace the targets."""
        if selectors != self.selectors:
            self.selectors = dict(selectors)
            self._by_pair = None

    def place(self, name: str, placed: PlacedPod | None) -> bool:
        """Take in a pod, or None for one that went; say whether it may be some target's."""
        if placed is None:
            self._pods.pop(name, None)
        else:
            self._pods[name] = placed
        # Unless somebody has asked since the targets changed, nothing is worked out yet.
        return self._by_pair is None or self._sort_in(name, placed)

    def members(self, target: Target) -> tuple[Pod, ...]:
        """Return a target's pods by name."""
        if self._by_pair is None:
            self._sort_all()
        told = self._told.get(target)
        if told is None:
            found = self._members.get(target, {})
            told = self._told[target] = tuple(found[name] for name in sorted(found))
        return told

    def _sort_all(self) -> None:
        """Index the targets by a label value each, the rarest, so that a pod finds them fast."""
        common = Counter(pair for s in self.selectors.values() for pair in _pairs(s))
        index: dict[_Pair, list[Target]] = defaultdict(list)
        self._unpaired = []
        for target, selector in self.selectors.items():
            pairs = _pairs(selector)
            if pairs:
                index[min(pairs, key=lambda pair: common[pair])].append(target)
            else:
                self._unpaired.append(target)
        self._by_pair = dict(index)
        self._of, self._members, self._told = {}, {}, {}
        for name, placed in self._pods.items():
            self._sort_in(name, placed)

    def _sort_in(self, name: str, placed: PlacedPod | None) -> bool:
        before = self._of.pop(name, frozenset())
        now = frozenset() if placed is None else self._targets(placed)
        for target in before - now:
            del self._members[target][name]
        if placed is not None and now:
            self._of[name] = now
            for target in now:
                self._members.setdefault(target, {})[name] = placed.pod
        for target in before | now:
            self._told.pop(target, None)
        return bool(before or now)

    def _targets(self, placed: PlacedPod) -> frozenset[Target]:
        labels = placed.pod.labels
        by_pair = self._by_pair or {}
        candidates = [*self._unpaired]
        for pair in labels.items():
            candidates += by_pair.get(pair, ())
        return frozenset(
            target
            for target in candidates
            if all(term.matches(labels) for term in self.selectors[target]) and target.owns(placed)
        )


def _pairs(selector: Selector) -> list[_Pair]:
    return [
        (term.key, value)
        for term in selector
        if term.wanted and term.values is not None and len(term.values) == 1
        for value in term.values
    ]
