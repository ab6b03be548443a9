"""Says in the project's words what a schema found, without showing what might be a secret."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scaler.config.faults import Fault, did_you_mean, plain
from scaler.config.sections import (
    FileSection,
    GrpcSection,
    HttpSection,
    KubernetesSection,
    LabelsSection,
    LogSection,
    NameSection,
    NamespaceSection,
    PodsSection,
    PrometheusSource,
    QueriesSection,
    ScrapeSource,
    TlsSection,
    WatchSection,
)

_SHOWN = {
    "level",
    "format",
    "type",
    "listen",
    "interval",
    "timeout",
    "staleness",
    "settle",
    "port",
    "path",
    "scheme",
}
"""Keys whose values may be shown: nobody writes a secret there."""

_INLINE_SECRETS = {
    "password": "passwordFile",
    "bearertoken": "bearerTokenFile",
    "token": "bearerTokenFile",
    "apikey": "bearerTokenFile",
    "authorization": "bearerTokenFile",
    "credentials": "bearerTokenFile",
    "basicauth": "username and passwordFile",
    "key": "keyFile",
    "clientkey": "clientKeyFile",
    "clientcertificate": "clientCertificateFile",
    "ca": "caFile",
}
"""Keys under which people write secrets, without dashes and in lower case, and what to write."""

_SECTIONS: Mapping[tuple[str, ...], type[BaseModel]] = {
    (): FileSection,
    ("grpc",): GrpcSection,
    ("grpc", "tls"): TlsSection,
    ("grpc", "tls", "allowedNames", "*"): NameSection,
    ("http",): HttpSection,
    ("kubernetes",): KubernetesSection,
    ("log",): LogSection,
    ("watch", "*"): WatchSection,
    ("sources", "*", "scrape"): ScrapeSource,
    ("sources", "*", "scrape", "prometheus"): QueriesSection,
    ("sources", "*", "scrape", "prometheus", "labels"): NamespaceSection,
    ("sources", "*", "scrape", "pods"): PodsSection,
    ("sources", "*", "prometheus"): PrometheusSource,
    ("sources", "*", "prometheus", "labels"): LabelsSection,
}

_WORDS = {
    "missing": ("is missing", "add it"),
    "union_tag_not_found": ("has no type", "write type: scrape or type: prometheus"),
    "union_tag_invalid": ("is of no known type", "write type: scrape or type: prometheus"),
    "model_type": ("is no section", "write key: value lines below it"),
    "model_attributes_type": ("is no section", "write key: value lines below it"),
    "dict_type": ("is no mapping", "write name: value lines below it"),
    "mapping_type": ("is no mapping", "write name: value lines below it"),
    "tuple_type": ("is no list", "write a list, each item behind a dash"),
    "string_type": ("is no text", "put it into quotation marks"),
    "path_type": ("is no file's name", "write a path"),
    "float_type": ("is not a duration", "write 5s or 500ms"),
    "int_type": ("is not a whole number", "write digits"),
    "int_parsing": ("is not a whole number", "write digits"),
}


def schema_faults(error: ValidationError) -> list[Fault]:
    """Return one fault for each of the schema's."""
    return [_fault(detail) for detail in error.errors(include_url=False)]


def _fault(detail: ErrorDetails) -> Fault:
    path = detail["loc"]
    key = str(path[-1]) if path else "file"
    problem, cure = _words(detail, key)
    value = detail["input"]
    shown = str(value) if key in _SHOWN and isinstance(value, str | int | float) else None
    return Fault(key=_written(path) or "file", value=shown, problem=problem, cure=cure)


def _words(detail: ErrorDetails, key: str) -> tuple[str, str]:
    kind, message = detail["type"], detail["msg"]
    if kind == "extra_forbidden":
        return _unknown_key(detail["loc"], key)
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == "literal_error":
        return "is not one of the known words", f"write {detail['ctx']['expected']}"
    # Our own validators write "problem (cure)".
    said = message.removeprefix("Value error, ")
    problem, bracket, cure = said.rpartition(" (")
    if bracket and cure.endswith(")"):
        return problem, cure[:-1]
    return said[:1].lower() + said[1:], "see the configuration reference"


def _unknown_key(path: tuple[int | str, ...], key: str) -> tuple[str, str]:
    section = _section(path[:-1])
    known = [field.alias or name for name, field in section.model_fields.items()] if section else []
    file = _INLINE_SECRETS.get(plain(key))
    if file is not None and (path[0] == "sources" or "tls" in path):
        return "may not be written here: a secret is named by its file", f"use {file}"
    return "is no key of the configuration", did_you_mean(key, known)


def _section(path: tuple[int | str, ...]) -> type[BaseModel] | None:
    for pattern, section in _SECTIONS.items():
        if len(pattern) == len(path) and all(
            step in ("*", part) for step, part in zip(pattern, path, strict=True)
        ):
            return section
    return None


def _written(path: tuple[int | str, ...]) -> str:
    """Write the place as a user sees it: without the kind that picks a source's schema."""
    steps = list(path)
    if len(steps) > 2 and steps[0] == "sources":  # noqa: PLR2004 - sources, its name, its kind
        del steps[2]
    return ".".join(str(step)[:40] for step in steps)
