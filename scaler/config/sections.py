"""The sections of the server's configuration file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from scaler.config.section_values import (
    Address,
    CertificateName,
    HostName,
    Label,
    Namespace,
    PagePath,
    Port,
    Span,
    Text,
    listed,
    named,
)

_SECRET_NAME = re.compile(
    r"authorization|passw|secret|token|api[-_]?key|cookie|credential|^key$", re.IGNORECASE
)
_SECRET_VALUE = re.compile(r"\s*(?:bearer|basic)\s+\S", re.IGNORECASE)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class Section(BaseModel):
    """A part of the file, frozen; keys are written in camel case."""

    # Sections are read from files only, so the aliases need not be known to the type checker.
    model_config = ConfigDict(  # type: ignore[pydantic-alias]
        frozen=True, extra="forbid", alias_generator=to_camel, hide_input_in_errors=True
    )


class NameSection(Section):
    """A name in a client's certificate, and the namespaces that it may ask for; none: all."""

    name: CertificateName
    namespaces: tuple[Namespace, ...] = ()


class TlsSection(Section):
    """PEM files of the gRPC server; with a client CA only clients that it signed are served.

    With `allowed_names` only those of them whose certificate has one of the names.
    """

    certificate_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    allowed_names: Annotated[
        tuple[Annotated[NameSection, BeforeValidator(named)], ...], BeforeValidator(listed)
    ] = ()

    @field_validator("allowed_names")
    @classmethod
    def _signed_by_somebody(
        cls, names: tuple[NameSection, ...], info: ValidationInfo
    ) -> tuple[NameSection, ...]:
        if names and info.data.get("client_ca_file") is None:
            raise ValueError("needs clientCaFile (anybody can write a name into a certificate)")
        return names


class GrpcSection(Section):
    """Where KEDA asks."""

    listen: Address = "0.0.0.0:50051"
    tls: TlsSection | None = None


class HttpSection(Section):
    """Where metrics, health, the page and its data are served, and who may read these.

    The data only with a token of `token_file`; without one only on this machine, or by all whom a
    proxy lets through.
    """

    listen: Address = "0.0.0.0:8080"
    token_file: Path | None = None
    behind_proxy: bool = False


class LogSection(Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class _Client(Section):
    """How a source is asked. Secrets are named by their file only."""

    bearer_token_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None
    headers: Mapping[str, Text] = Field(default_factory=dict)

    @field_validator("headers")
    @classmethod
    def _no_secret(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in headers.items():
            if _SECRET_NAME.search(name) or _SECRET_VALUE.match(value):
                raise ValueError(
                    f"{name[:40]} holds a secret "
                    "(name its file: bearerTokenFile, or username and passwordFile)"
                )
            if not _HEADER.fullmatch(name) or not value.isprintable():
                raise ValueError(f"{name[:40]!r} is not a header")
        return headers

    @model_validator(mode="after")
    def _complete(self) -> _Client:
        if self.bearer_token_file is not None and self.username is not None:
            raise ValueError("bearerTokenFile and username are both given (keep one)")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and passwordFile belong together (give both or none)")
        if self.username is not None and not (
            ":" not in self.username and self.username.isprintable()
        ):
            raise ValueError("username holds a colon or a control character, which cannot be sent")
        if self.client_key_file is not None and self.client_certificate_file is None:
            raise ValueError("clientKeyFile needs clientCertificateFile (give both or none)")
        return self


class LabelsSection(Section):
    """Which labels of the engines' series hold what."""

    namespace: Label = "namespace"
    pod: Label = "pod"
    model_name: Label = "model_name"
    engine: tuple[Label, ...] = ("engine", "ReplicaId", "WorkerId")


class NamespaceSection(Section):
    """Which label of a gateway's series holds its namespace: what triggers' queries are held to."""

    namespace: Label = "namespace"


class _Named(_Client):
    """A source: what triggers name. Without `namespaces` those of all may use it."""

    namespaces: tuple[Namespace, ...] | None = None

    @field_validator("namespaces")
    @classmethod
    def _some(cls, namespaces: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if namespaces == ():
            raise ValueError("is empty, so that nobody may use the source (leave it out for all)")
        return namespaces

    def may_be_used_by(self, namespace: str) -> bool:
        """Say whether workloads of a namespace may use the source."""
        return self.namespaces is None or namespace in self.namespaces


class _Api(_Client):
    """A Prometheus-compatible API. `queries` are those that triggers ask for by `name:…`."""

    url: str
    parameters: Mapping[str, Text] = Field(default_factory=dict)
    queries: Mapping[str, Annotated[str, Field(min_length=1, max_length=16384)]] = Field(
        default_factory=dict
    )
    timeout: Span = 8.0
    settle: Span = 5.0
    largest_answer: int = Field(default=64 * 2**20, ge=64 * 2**10, le=2**30)

    @field_validator("url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        try:
            address = urlsplit(url)
            usable = address.scheme in {"http", "https"} and bool(address.hostname)
            _ = address.port
        except ValueError:
            usable = False
        if "@" in url:
            raise ValueError("holds a user or a password (use username and passwordFile)")
        if not usable:
            raise ValueError("is not an http or https address (write http://prometheus:9090)")
        if address.query or address.fragment:
            raise ValueError("holds a query (use parameters)")
        return url.rstrip("/")

    @field_validator("parameters")
    @classmethod
    def _no_secret_parameter(cls, parameters: Mapping[str, str]) -> Mapping[str, str]:
        for name in parameters:
            if _SECRET_NAME.search(name):
                raise ValueError(f"{name[:40]} holds a secret (name its file: bearerTokenFile)")
        return parameters


class QueriesSection(_Api):
    """The Prometheus that is asked triggers' own queries where the engines are scraped."""

    labels: NamespaceSection = NamespaceSection()


class PodsSection(Section):
    """Where on its pod an engine serves its page; `port` may be a container port's name.

    `server_name` is what the certificates of https are checked against instead of the pod's
    address.
    """

    port: Port = 8000
    path: PagePath = "/metrics"
    scheme: Literal["http", "https"] = "http"
    server_name: HostName | None = None


class ScrapeSource(_Named):
    """Reads the engines' own pages, at targets or at the pods of the scale targets.

    `targets` is a file in Prometheus' file_sd format. Pages answer no queries: `prometheus` is who
    is asked those of triggers.
    """

    type: Literal["scrape"]
    pods: PodsSection | None = None
    targets: Path | None = Field(default=None, validate_default=True)
    interval: Span = 5.0
    timeout: Span = 3.0
    largest_answer: int = Field(default=16 * 2**20, ge=64 * 2**10, le=2**30)
    prometheus: QueriesSection | None = None

    @field_validator("targets")
    @classmethod
    def _one_of_two(cls, targets: Path | None, info: ValidationInfo) -> Path | None:
        pods = info.data.get("pods")
        if targets is None and pods is None and "pods" in info.data:
            raise ValueError("is missing, and so is pods (add one of them)")
        if targets is not None and pods is not None:
            raise ValueError("is given beside pods (keep one of them)")
        return targets

    @property
    def queries(self) -> Mapping[str, str]:
        """Return the queries that triggers may ask for by name."""
        return self.prometheus.queries if self.prometheus is not None else {}

    @property
    def answers_queries(self) -> bool:
        """Say whether there is anybody to ask a trigger's own queries."""
        return self.prometheus is not None

    def with_queries(self, queries: Mapping[str, str]) -> ScrapeSource:
        """Return the source with other named queries."""
        if self.prometheus is None:
            return self
        changed = self.prometheus.model_copy(update={"queries": queries})
        return self.model_copy(update={"prometheus": changed})


class PrometheusSource(_Api, _Named):
    """Asks a Prometheus-compatible API for the engines' series."""

    type: Literal["prometheus"]
    labels: LabelsSection = LabelsSection()
    staleness: Span = 45.0
    namespaces_per_query: int = Field(default=50, ge=1, le=1000)

    @property
    def answers_queries(self) -> bool:
        """Say that a trigger's own queries can be asked."""
        return True

    def with_queries(self, queries: Mapping[str, str]) -> PrometheusSource:
        """Return the source with other named queries."""
        return self.model_copy(update={"queries": queries})


SourceSection: TypeAlias = Annotated[ScrapeSource | PrometheusSource, Field(discriminator="type")]


class WatchSection(Section):
    """A workload that something else scales: watched and advised on, without a trigger."""

    namespace: str = Field(min_length=1, max_length=63)
    name: str = Field(min_length=1, max_length=253)
    metadata: Mapping[str, object] = Field(default_factory=dict)


class KubernetesSection(Section):
    """Which cluster is looked at with `cluster: kubernetes`, and which of its namespaces.

    All of them where none is named. Without a kubeconfig a pod's own service account is used.
    `events` tells findings on the ScaledObjects, `deletion_cost` lets the least busy pods go first.
    """

    namespaces: Annotated[tuple[Namespace, ...], BeforeValidator(listed)] = ()
    kubeconfig: Path | None = None
    context: str | None = None
    events: bool = True
    deletion_cost: bool = False


class HistorySection(Section):
    """Where changes of answers are kept over a restart, as SQLite; nowhere by default."""

    file: Path | None = None


class FileSection(Section):
    """The whole file."""

    grpc: GrpcSection = GrpcSection()
    http: HttpSection = HttpSection()
    log: LogSection = LogSection()
    max_workloads: int = Field(default=20_000, ge=1, le=1_000_000)
    cluster: Path | Literal["kubernetes"] | None = None
    kubernetes: KubernetesSection = KubernetesSection()
    sources: Mapping[str, SourceSection] = Field(default_factory=dict)
    history: HistorySection = HistorySection()
    profiles: Mapping[str, Mapping[str, object]] = Field(default_factory=dict)
    watch: tuple[WatchSection, ...] = ()

    @field_validator("cluster", mode="plain")
    @classmethod
    def _who_counts(cls, value: object) -> object:
        if value is None or value == "none":
            return None
        if value == "kubernetes":
            return value
        if isinstance(value, str | Path) and str(value):
            return Path(value)
        raise ValueError("is no file's name (write a path, kubernetes or none)")
