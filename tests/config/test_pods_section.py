"""A scrape source that finds its engines by pods: what may be written, and what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.config.faults import ConfigInvalid, TriggerUnresolved
from scaler.config.resolve import resolve
from scaler.config.sections import PodsSection, ScrapeSource
from scaler.config.server import load_config
from scaler.config.trigger import parse_trigger

KUBERNETES = "cluster: kubernetes\n"


def section(directory: Path, pods: str) -> PodsSection:
    """Load a configuration with this section."""
    file = directory / "scaler.yaml"
    file.write_text(KUBERNETES + f"sources: {{s: {{type: scrape, pods: {pods}}}}}")
    source = load_config(file, {}, {}).sources["s"]
    assert isinstance(source, ScrapeSource)
    assert source.pods is not None
    return source.pods


def test_what_is_left_out(tmp_path: Path) -> None:
    """VLLM's own port and path."""
    pods = section(tmp_path, "{}")
    assert (pods.port, pods.path, pods.scheme, pods.server_name) == (
        8000,
        "/metrics",
        "http",
        None,
    )


@pytest.mark.parametrize(
    ("written", "port"), [("9000", 9000), ("'9000'", 9000), ("http", "http"), ("h2c-1", "h2c-1")]
)
def test_a_port(tmp_path: Path, written: str, port: int | str) -> None:
    """A number is one, however it is written; anything else is a container port's name."""
    assert section(tmp_path, f"{{port: {written}}}").port == port


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ("{port: 0}", 'sources.s.pods.port: "0" is neither a port'),
        ("{port: 65536}", "is neither a port nor a container port's name (write 8000 or http)"),
        ("{port: true}", "is neither a port"),
        ("{port: Not_A_Name}", "is neither a port"),
        ("{path: metrics}", "is not a path"),
        ("{scheme: ftp}", "is not one of the known words"),
        ("{serverName: 'a b'}", "is not a host's name"),
        ("{prot: 1}", "port"),
    ],
)
def test_what_is_refused(tmp_path: Path, pods: str, message: str) -> None:
    """Each fault is named with its place and its cure."""
    with pytest.raises(ConfigInvalid) as caught:
        section(tmp_path, pods)
    assert message.partition(" (")[0] in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sources: {s: {type: scrape, pods: {}}}", "sources.s.pods: needs a cluster"),
        (
            KUBERNETES + "sources: {s: {type: scrape, pods: {}, targets: t}}",
            "sources.s.targets: is given beside pods",
        ),
        (KUBERNETES + "sources: {s: {type: scrape}}", "sources.s.targets: is missing, and so"),
    ],
)
def test_one_way_to_find_engines(tmp_path: Path, text: str, message: str) -> None:
    """Targets or pods, and pods only where somebody shows them."""
    (tmp_path / "scaler.yaml").write_text(text)
    with pytest.raises(ConfigInvalid) as caught:
        load_config(tmp_path / "scaler.yaml", {}, {})
    assert message in str(caught.value)


def test_pods_tell_which_series_are_meant(tmp_path: Path) -> None:
    """Where pods are known a trigger needs neither modelName nor selector; elsewhere it does."""
    file = tmp_path / "scaler.yaml"
    trigger = parse_trigger("llm", "chat", {})
    file.write_text(KUBERNETES + "sources: {s: {type: scrape, pods: {}}}")
    selection = resolve(trigger, load_config(file, {}, {})).selection
    assert (selection.namespace, selection.model_name, selection.matchers) == ("llm", None, ())
    file.write_text("sources: {s: {type: scrape, targets: t}}")
    with pytest.raises(TriggerUnresolved, match="which series are meant"):
        resolve(trigger, load_config(file, {}, {}))
