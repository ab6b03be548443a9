"""The pods of the scale targets: watched by namespace, sorted by their targets' selectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from scaler.adapters.kubernetes_api import Link
from scaler.adapters.kubernetes_pods import PODS, PlacedPod
from scaler.adapters.kubernetes_reflector import Key, Reflector
from scaler.adapters.kubernetes_running import Running
from scaler.adapters.kubernetes_selectors import Membership, Selector, Target
from scaler.core.pods import Pod
from scaler.core.units import Seconds

MOST_NAMESPACES = 40
"""Beyond these, one watch over all namespaces costs the API server less than one for each."""


class Placement:
    """Holds the pods of the namespaces in which there are scale targets."""

    def __init__(
        self,
        link: Link,
        *,
        changed: Callable[[], None],
    ) -> None:
        """Watch nothing yet. `changed` is called when a target's pods may have changed."""
        self._link = link
        self._changed = changed
        self._books: dict[str, Membership] = {}
        self._mirrors: dict[str | None, Reflector[PlacedPod]] = {}
        self.running = Running[str | None]()

    def want(self, selectors: Mapping[Target, Selector]) -> None:
        """Follow the pods of these targets from now on, and no others."""
        by_namespace: dict[str, dict[Target, Selector]] = defaultdict(dict)
        for target, selector in selectors.items():
            by_namespace[target.namespace][target] = selector
        scopes = self._scopes(by_namespace)
        if scopes != set(self._mirrors):
            self._mirrors = {
                scope: self._mirrors.get(scope) or self._mirror(scope) for scope in scopes
            }
            self.running.keep({scope: mirror.run for scope, mirror in self._mirrors.items()})
        self._books = {name: self._book(name) for name in by_namespace}
        for name, wanted in by_namespace.items():
            self._books[name].select(wanted)

    def pods(self, target: Target) -> tuple[tuple[Pod, ...], Seconds] | None:
        """Return a target's pods and as of when that is true; None where that is not known."""
        book, mirror = self._books.get(target.namespace), self._mirror_of(target.namespace)
        if book is None or mirror is None or mirror.seen_at is None:
            return None
        if target not in book.selectors:
            return None
        return book.members(target), mirror.seen_at

    def mirrors(self) -> Iterator[Reflector[PlacedPod]]:
        """Go through what is watched."""
        yield from self._mirrors.values()

    def _scopes(self, namespaces: Mapping[str, object]) -> set[str | None]:
        if self._link.settings.namespaces or len(namespaces) <= MOST_NAMESPACES:
            # Once all are watched at once, it stays so: each change would read everything anew.
            return {None} if None in self._mirrors else set(namespaces)
        return {None}

    def _mirror(self, scope: str | None) -> Reflector[PlacedPod]:
        return Reflector(
            PODS,
            scope,
            self._link,
            changed=self._heard,
        )

    def _mirror_of(self, namespace: str) -> Reflector[PlacedPod] | None:
        return self._mirrors.get(namespace) or self._mirrors.get(None)

    def _book(self, namespace: str) -> Membership:
        """Return what sorts a namespace's pods, with those that are known already."""
        found = self._books.get(namespace)
        if found is None:
            found = Membership()
            mirror = self._mirror_of(namespace)
            for key, placed in mirror.held.items() if mirror is not None else ():
                if key[0] == namespace:
                    found.place(key[1], placed)
        return found

    def _heard(self, key: Key, placed: PlacedPod | None) -> None:
        book = self._books.get(key[0])
        if book is not None and book.place(key[1], placed):
            self._changed()
