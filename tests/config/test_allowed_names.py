"""`grpc.tls.allowedNames`: who of a CA's clients may ask, as the configuration says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.config.faults import ConfigInvalid
from scaler.config.sections import TlsSection
from scaler.config.server import load_config

BASE = "sources: {main: {type: prometheus, url: 'http://p:9090'}}\n"
TLS = "grpc: {tls: {certificateFile: c, keyFile: k, clientCaFile: a, allowedNames: %s}}\n"


def _tls(tmp_path: Path, text: str, **flags: object) -> TlsSection:
    file = tmp_path / "config.yaml"
    file.write_text(BASE + text, encoding="utf-8")
    tls = load_config(file, {}, flags).grpc.tls
    assert tls is not None
    return tls


def test_names_are_text_or_bound_to_namespaces(tmp_path: Path) -> None:
    """A name alone may ask for all namespaces."""
    tls = _tls(tmp_path, TLS % "[keda.svc, {name: 'spiffe://a/b', namespaces: [llm]}]")
    assert [(n.name, n.namespaces) for n in tls.allowed_names] == [
        ("keda.svc", ()),
        ("spiffe://a/b", ("llm",)),
    ]


def test_flags_give_a_list(tmp_path: Path) -> None:
    """As the environment does."""
    tls = _tls(tmp_path, TLS % "[x]", grpc_tls_allowed_names="keda.svc, spiffe://a/b")
    assert [n.name for n in tls.allowed_names] == ["keda.svc", "spiffe://a/b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TLS % "['*.keda.svc']", "is neither a whole DNS name nor a URI"),
        (TLS % "[10.0.0.1]", "is neither a whole DNS name nor a URI"),
        (TLS % "['spiffe://a b']", "is neither a whole DNS name nor a URI"),
        (TLS % "[me@example.com]", "is neither a whole DNS name nor a URI"),
        (TLS % "['']", "is neither a whole DNS name nor a URI"),
        (TLS % "[{name: x, namespaces: ['A B']}]", "is not the name of a namespace"),
        (TLS % "[{name: x, namespace: [a]}]", "did you mean namespaces?"),
        (TLS % "[{namespaces: [a]}]", "grpc.tls.allowedNames.0.name: is missing"),
        (
            "grpc: {tls: {certificateFile: c, keyFile: k, allowedNames: [x]}}\n",
            "needs clientCaFile",
        ),
    ],
)
def test_what_cannot_be_a_name_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """A pattern would let in what nobody thought of; a name needs a CA that vouches for it."""
    with pytest.raises(ConfigInvalid) as refused:
        _tls(tmp_path, text)
    assert said in str(refused.value)
