"""What a Prometheus source is told: where the server is, how to get in, what its labels mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from scaler.core.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesLabels:
    """Which labels of the engines' series hold what.

    `engine` are the labels that tell two engines of one pod apart: vLLM's own, and Ray's, whose
    agent publishes several workers of one pod with the same engine number.
    """

    namespace: str = "namespace"
    pod: str = "pod"
    model_name: str = "model_name"
    engine: tuple[str, ...] = ("engine", "ReplicaId", "WorkerId")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """One Prometheus-compatible API.

    Files are read anew for each query, so that a rotated secret is used at once. `staleness` is
    how old (seconds) a replica's newest value may be: at least one and a half times the scrape
    interval, and below the scale-out window, so that what a dead pod said last moves nothing.
    `settle` is how far (seconds) behind the tick the queries look: a scrape that started before
    that instant must have ended, or two scalers that ask a moment apart see different values.
    `queries` are the operator's own, which triggers ask for as `name:…`.
    """

    url: str
    name: str = "prometheus"
    labels: SeriesLabels = field(default_factory=SeriesLabels)
    bearer_token_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    queries: Mapping[str, str] = field(default_factory=dict)
    timeout: Seconds = 8.0
    staleness: Seconds = 45.0
    settle: Seconds = 5.0
    largest_answer: int = 64 * 2**20
    namespaces_per_query: int = 50

    def __post_init__(self) -> None:
        """Refuse what could only fail later, or leak. Raises ValueError."""
        address = urlsplit(self.url)
        if address.scheme not in {"http", "https"} or not address.hostname:
            raise ValueError("url is not an http or https address (write http://host:9090)")
        if "@" in address.netloc or address.query or address.fragment:
            raise ValueError(
                "url may hold neither user, password nor query: "
                "use username, password_file and parameters"
            )
        if self.bearer_token_file is not None and self.username is not None:
            raise ValueError("bearer_token_file and username are both set: keep one")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file belong together")
        if self.client_key_file is not None and self.client_certificate_file is None:
            raise ValueError("client_key_file needs client_certificate_file")
        if min(self.timeout, self.staleness) <= 0 or self.settle < 0 or self.largest_answer <= 0:
            raise ValueError(
                "timeout, staleness and largest_answer must be above 0, settle not below"
            )

    @property
    def place(self) -> str:
        """Name the server for messages: nothing of it is secret."""
        address = urlsplit(self.url)
        return f"{address.scheme}://{address.netloc}{address.path.rstrip('/')}"
