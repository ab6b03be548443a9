"""What a test can make the API server do wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.kubernetes_server.resources import Resource


@dataclass(slots=True)
class Faults:
    """Switches; all of them may be turned at any time.

    `token` is the only bearer token that is let in (`None`: anybody). `denied` holds (verb,
    plural) pairs that are refused with 403, `pods/log`-like for subresources: ("get",
    "deployments/scale"). `only_in` limits rights to these namespaces, as a Role does.
    `failing` is the status that every request is answered with, `retry_after` its header.
    `silent` lets watches that are open or opened say nothing and never end. `garbled` answers
    every LIST with a login page. `page_at_most` cuts pages even where no limit is asked for, and
    `expired` answers every continue token with 410. `delay` (seconds) comes before each answer.
    """

    token: str | None = None
    denied: set[tuple[str, str]] = field(default_factory=set)
    broken: set[tuple[str, str]] = field(default_factory=set)
    only_in: frozenset[str] | None = None
    failing: int | None = None
    retry_after: int | None = None
    silent: bool = False
    garbled: bool = False
    page_at_most: int | None = None
    expired: bool = False
    delay: float = 0.0

    def deny(self, resource: Resource, *verbs: str, subresource: str = "") -> None:
        """Refuse these verbs on a kind from now on."""
        plural = resource.plural + (f"/{subresource}" if subresource else "")
        self.denied |= {(verb, plural) for verb in verbs}

    def allow(self, resource: Resource, *verbs: str, subresource: str = "") -> None:
        """Grant them again."""
        plural = resource.plural + (f"/{subresource}" if subresource else "")
        self.denied -= {(verb, plural) for verb in verbs}

    def refuses(self, verb: str, plural: str, namespace: str | None) -> bool:
        """Say whether a request is answered with 403."""
        outside = self.only_in is not None and namespace not in self.only_in
        return outside or (verb, plural) in self.denied
