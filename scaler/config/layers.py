"""Lays the environment and the flags over the file: later layers are stronger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from scaler.config.faults import Fault, did_you_mean

Tree: TypeAlias = dict[str, object]

PLAIN = {
    "grpc-listen": ("grpc", "listen"),
    "grpc-tls-certificate-file": ("grpc", "tls", "certificateFile"),
    "grpc-tls-key-file": ("grpc", "tls", "keyFile"),
    "grpc-tls-client-ca-file": ("grpc", "tls", "clientCaFile"),
    "grpc-tls-allowed-names": ("grpc", "tls", "allowedNames"),
    "http-listen": ("http", "listen"),
    "http-token-file": ("http", "tokenFile"),
    "http-behind-proxy": ("http", "behindProxy"),
    "log-level": ("log", "level"),
    "log-format": ("log", "format"),
    "history-file": ("history", "file"),
    "cluster": ("cluster",),
    "namespaces": ("kubernetes", "namespaces"),
    "kubeconfig": ("kubernetes", "kubeconfig"),
    "kubeconfig-context": ("kubernetes", "context"),
}
"""Settings that are one place in the file, by the flag's name."""

OF_A_SOURCE = {
    "targets": ("scrape", "targets"),
    "prometheus-url": ("prometheus", "url"),
    "prometheus-bearer-token-file": ("prometheus", "bearerTokenFile"),
    "prometheus-ca-file": ("prometheus", "caFile"),
}
"""Shorthands for the only source of a kind, by the flag's name."""

KINDS = ("scrape", "prometheus")
SETTINGS = (*PLAIN, "source", *OF_A_SOURCE)

PREFIX = "SCALER_"
_READ_ELSEWHERE = {"config"}
"""Where the file is, the caller must know before anything is read."""

_SERVICE_LINK = re.compile(
    r"SCALER_(?:\w+_)?(?:SERVICE_(?:HOST|PORT)(?:_\w+)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)"
)
"""What Kubernetes sets in each pod beside a Service whose name begins with scaler."""


def from_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], list[Fault]]:
    """Return the settings that the environment gives, by the flag's name; empty ones are not."""
    found: dict[str, str] = {}
    faults: list[Fault] = []
    known = {f"{PREFIX}{name.upper().replace('-', '_')}": name for name in SETTINGS}
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX) or not value or _SERVICE_LINK.fullmatch(variable):
            continue
        name = known.get(variable)
        if name is not None:
            found[name] = value
        elif variable.removeprefix(PREFIX).lower() not in _READ_ELSEWHERE:
            faults.append(
                Fault(
                    key=variable,
                    problem="is no setting of the scaler",
                    cure=did_you_mean(variable, known),
                )
            )
    return found, faults


def from_flags(flags: Mapping[str, object]) -> tuple[dict[str, str], list[Fault]]:
    """Return the settings that flags give, by name with dashes; `None` is not given."""
    found: dict[str, str] = {}
    faults: list[Fault] = []
    for flag, value in flags.items():
        name = flag.replace("_", "-")
        if value is None or name in _READ_ELSEWHERE:
            continue
        if name in SETTINGS:
            found[name] = str(value)
        else:
            faults.append(
                Fault(
                    key=f"--{name}",
                    problem="is no setting of the scaler",
                    cure=did_you_mean(name, SETTINGS),
                )
            )
    return found, faults


def lay_over(tree: Tree, settings: Mapping[str, str]) -> list[Fault]:
    """Set a layer's settings in the tree, in place; return what cannot be."""
    for name, path in PLAIN.items():
        if name in settings:
            _set(tree, path, settings[name])
    return _lay_sources(tree, settings)


def _set(tree: Tree, path: tuple[str, ...], value: str) -> None:
    for step in path[:-1]:
        inner = tree.get(step)
        # What stands here and is no section is a fault of the file: the schema names it.
        if inner is not None and not isinstance(inner, dict):
            return
        tree[step] = tree = dict(inner or {})
    tree[path[-1]] = value


def _lay_sources(tree: Tree, settings: Mapping[str, str]) -> list[Fault]:
    kind = settings.get("source")
    if kind is not None and kind not in KINDS:
        return [Fault(key="--source", value=kind, problem="is no kind of source", cure=_KINDS_CURE)]
    given = {name: place for name, place in OF_A_SOURCE.items() if name in settings}
    written = tree.get("sources")
    if (kind is None and not given) or (written is not None and not isinstance(written, dict)):
        return []
    sources: Tree = dict(written or {})
    if kind is not None:
        sources = {name: s for name, s in sources.items() if _kind_of(s) == kind}
        if not sources:
            sources[kind] = {"type": kind}
    tree["sources"] = sources
    faults: list[Fault] = []
    for name, (of_kind, key) in given.items():
        if kind is not None and of_kind != kind:
            faults.append(_contradiction(name, kind))
        else:
            faults += _set_in_only(sources, of_kind, name, key, settings[name])
    return faults


_KINDS_CURE = f"write {' or '.join(KINDS)}"


def _contradiction(name: str, kind: str) -> Fault:
    return Fault(
        key=f"--{name}", problem=f"contradicts --source {kind}", cure="leave one of them out"
    )


def _set_in_only(sources: Tree, kind: str, name: str, key: str, value: str) -> list[Fault]:
    of_kind = [source for source, section in sources.items() if _kind_of(section) == kind]
    if len(of_kind) > 1:
        return [
            Fault(
                key=f"--{name}",
                problem=f"could mean each of {', '.join(map(str, of_kind))}",
                cure="set it in the file",
            )
        ]
    only = of_kind[0] if of_kind else kind
    section = sources.get(only)
    sources[only] = {**(section if isinstance(section, dict) else {"type": kind}), key: value}
    return []


def _kind_of(section: object) -> object:
    return section.get("type") if isinstance(section, dict) else None
