"""`sources.….namespaces`: which workloads may use which source, refused at the door."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.config.faults import ConfigInvalid
from scaler.config.resolve import resolve
from scaler.config.server import ServerConfig, compare, load_config
from scaler.config.trigger import TriggerInvalid, TriggerUnresolved, parse_trigger

TEXT = """
sources:
  shared: {type: prometheus, url: "http://shared:9090"}
  llm: {type: scrape, targets: /targets.json, namespaces: [llm, chat]}
  ours: {type: prometheus, url: "http://ours:9090", namespaces: [ops]}
"""
CLOSED = """
sources:
  llm: {type: scrape, targets: /targets.json, namespaces: [llm]}
  ours: {type: prometheus, url: "http://ours:9090", namespaces: [ops]}
"""


def _config(tmp_path: Path, text: str) -> ServerConfig:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, {}, {})


def _source(config: ServerConfig, namespace: str, **metadata: str) -> str:
    trigger = parse_trigger(namespace, "chat", {"modelName": "llama", **metadata})
    return resolve(trigger, config).selection.source


@pytest.mark.parametrize(
    ("namespace", "source"),
    [("llm", "llm"), ("chat", "llm"), ("llm", "shared"), ("x", "shared"), ("ops", "ours")],
)
def test_a_listed_namespace_may_use_a_source(tmp_path: Path, namespace: str, source: str) -> None:
    """A source without a list is everybody's."""
    assert _source(_config(tmp_path, TEXT), namespace, source=source) == source


@pytest.mark.parametrize("namespace", ["x", "LLM", "llm ", "ll", "llm2", "chat\n", "llm,chat", "*"])
def test_all_others_are_refused_with_a_reason(tmp_path: Path, namespace: str) -> None:
    """Names are compared letter by letter, whatever a caller sends for one."""
    with pytest.raises(TriggerUnresolved) as refused:
        _source(_config(tmp_path, TEXT), namespace, source="llm")
    assert 'source: "llm" may not be used by workloads of the namespace' in str(refused.value)
    assert "sources.llm.namespaces" in str(refused.value)


def test_the_only_source_is_the_only_one_that_may_be_used(tmp_path: Path) -> None:
    """Where one is left it need not be named, and others are not told of."""
    config = _config(tmp_path, CLOSED)
    assert (_source(config, "llm"), _source(config, "ops")) == ("llm", "ours")
    with pytest.raises(TriggerUnresolved, match="none may be used by the namespace x") as refused:
        _source(config, "x")
    assert "ours" not in str(refused.value)
    with pytest.raises(TriggerUnresolved, match="no source of the server") as refused:
        _source(config, "llm", source="our")
    assert "did you mean" not in str(refused.value)


def test_an_empty_list_is_a_fault(tmp_path: Path) -> None:
    """Nobody wants a source that nobody may use, and none of the two readings is safe."""
    with pytest.raises(ConfigInvalid, match="namespaces: is empty"):
        _config(tmp_path, CLOSED.replace("[llm]", "[]"))
    with pytest.raises(ConfigInvalid, match="is not the name of a namespace"):
        _config(tmp_path, CLOSED.replace("[llm]", "['*']"))


def test_a_changed_list_is_in_force_after_a_restart(tmp_path: Path) -> None:
    """A reload keeps what was valid, so it says that it took nothing away."""
    before, after = _config(tmp_path, TEXT), _config(tmp_path, TEXT.replace("llm, chat", "llm"))
    assert compare(before, after).restart == ("sources.llm",)


@pytest.mark.parametrize("key", ["serverAddress", "url", "prometheusUrl", "targets", "endpoint"])
def test_a_trigger_has_no_key_for_an_address(key: str) -> None:
    """An address is no setting of a trigger, under whatever name."""
    with pytest.raises(TriggerInvalid, match="is no key of this scaler"):
        parse_trigger("llm", "chat", {"modelName": "x", key: "http://169.254.169.254/"})


@pytest.mark.parametrize("source", ["http://evil:9090", "//evil", "evil:9090", "../x", "llm/../x"])
def test_an_address_is_no_source(tmp_path: Path, source: str) -> None:
    """A source is a word that the server's configuration has, and nothing else."""
    with pytest.raises((TriggerInvalid, TriggerUnresolved), match="source"):
        _source(_config(tmp_path, TEXT), "llm", source=source)
