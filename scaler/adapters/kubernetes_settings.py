"""How the cluster is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scaler.core.units import Seconds

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Where the API server is, what of it is looked at, and how long anything may take (seconds).

    `namespaces` are looked at one by one; none means all at once, which needs a ClusterRole.
    Without a `kubeconfig` a pod's own `service_account` is used, and outside of a cluster
    whatever KUBECONFIG or ~/.kube/config says; `context` is one of the kubeconfig's.

    `watch_for` is how long a watch lasts before it is opened anew. Since each opening proves that
    nothing was missed, `settle` after it, it bounds the view's age; whoever says nothing `grace`
    after its end is gone.
    What is older than `stale_after` is not known any more. `poll_every` is how often is read what
    may not be watched, `denied_every` how often is tried what was refused; `page` is how many
    objects are listed at once.
    """

    namespaces: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    context: str | None = None
    service_account: Path = SERVICE_ACCOUNT
    watch_for: Seconds = 18.0
    grace: Seconds = 4.0
    settle: Seconds = 0.5
    stale_after: Seconds = 30.0
    answer_within: Seconds = 10.0
    connect_within: Seconds = 3.0
    poll_every: Seconds = 10.0
    denied_every: Seconds = 30.0
    page: int = 500
    largest_answer: int = 128 * 2**20

    @property
    def scopes(self) -> tuple[str | None, ...]:
        """Return the namespaces to look at, `None` for all at once."""
        return self.namespaces or (None,)
