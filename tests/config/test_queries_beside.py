"""A scrape source may have a Prometheus beside it for triggers' own queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.config.faults import ConfigInvalid, TriggerInvalid, TriggerUnresolved
from scaler.config.resolve import resolve
from scaler.config.sections import ScrapeSource
from scaler.config.server import ServerConfig, adopt, compare, load_config
from scaler.config.trigger import parse_trigger

BARE = "sources: {engines: {type: scrape, targets: targets.json}}\n"
BESIDE = """\
sources:
  engines:
    type: scrape
    targets: targets.json
    prometheus:
      url: http://prometheus:9090/
      bearerTokenFile: /token
      labels: {namespace: exported_namespace}
      queries: {gateway-queue: sum(gateway_queue)}
"""


def loaded(tmp_path: Path, text: str) -> ServerConfig:
    """Load a text as the file."""
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, {}, {})


def test_the_only_source_stays_the_only_one(tmp_path: Path) -> None:
    """It is no second source: a trigger need not say which one it means."""
    server = loaded(tmp_path, BESIDE)
    (source,) = server.sources.values()
    assert isinstance(source, ScrapeSource)
    assert source.prometheus is not None
    assert source.prometheus.url == "http://prometheus:9090"
    assert source.prometheus.labels.namespace == "exported_namespace"
    trigger = parse_trigger(
        "prod", "chat", {"modelName": "m", "activationQuery": "name:gateway-queue"}
    )
    selection = resolve(trigger, server).selection
    assert (selection.source, selection.activation_query) == ("engines", "name:gateway-queue")


@pytest.mark.parametrize(
    ("text", "metadata", "said"),
    [
        (BARE, {"activationQuery": "sum(queue)"}, "give sources.engines a prometheus to ask"),
        (BARE, {"rejectionQuery": "name:refused"}, "give sources.engines a prometheus to ask"),
        (
            BESIDE,
            {"activationQuery": "name:gateway-queeu"},
            "is no query of the source engines (did you mean gateway-queue?)",
        ),
        (BESIDE, {"source": "prometheus"}, "is no source of the server's configuration"),
    ],
)
def test_what_cannot_be_asked_is_told(
    tmp_path: Path, text: str, metadata: dict[str, str], said: str
) -> None:
    """The trigger is well-formed; what is missing stands in the server's configuration."""
    trigger = parse_trigger("prod", "chat", {"modelName": "m", **metadata})
    with pytest.raises(TriggerUnresolved, match=r".") as refused:
        resolve(trigger, loaded(tmp_path, text))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "metadata",
    [
        {"source": "http://attacker:9090"},
        {"prometheus": "http://attacker:9090"},
        {"prometheusUrl": "http://attacker:9090"},
        {"prometheusAddress": "http://attacker:9090"},
        {"serverAddress": "http://attacker:9090"},
        {"url": "http://attacker:9090"},
        {"queries": "{evil: up}"},
        {"activationQuery": "name:http://attacker:9090"},
        {"activationQuery": "name:../../etc/passwd"},
    ],
)
def test_a_trigger_chooses_no_address(metadata: dict[str, str]) -> None:
    """Who is asked stands in the server's configuration alone."""
    with pytest.raises(TriggerInvalid):
        parse_trigger("prod", "chat", {"modelName": "m", **metadata})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("url: http://prometheus:9090/", "url: http://a:b@p:9090", "holds a user or a password"),
        ("url: http://prometheus:9090/", "uri: http://prometheus:9090", "prometheus.url"),
        ("bearerTokenFile: /token", "headers: {Authorization: Bearer x}", "holds a secret"),
        ("bearerTokenFile: /token", "parameters: {token: x}", "holds a secret"),
        ("bearerTokenFile: /token", "staleness: 30s", "staleness"),
        ("queries:", "quieries:", "did you mean queries?"),
        ("{namespace: exp", "{namspace: exp", "did you mean namespace?"),
        ("namespace: exported_namespace", "namespace: a-b", "is not a label's name"),
        (
            "sum(gateway_queue)",
            "avg(DCGM_FI_DEV_GPU_UTIL)",
            "sources.engines.prometheus.queries.gateway-queue",
        ),
    ],
)
def test_a_faulty_section_names_its_place(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    """It is held to what a source of its own is held to."""
    assert before in BESIDE
    with pytest.raises(ConfigInvalid, match=r".") as refused:
        loaded(tmp_path, BESIDE.replace(before, after))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "live", "restart"),
    [
        (BESIDE.replace("sum(", "max("), ("sources.engines.queries",), ()),
        (BESIDE.replace("9090", "9091"), (), ("sources.engines",)),
        (BESIDE.replace("sum(", "max(").replace("9090", "9091"), (), ("sources.engines",)),
        (BARE, (), ("sources.engines",)),
    ],
)
def test_what_a_reload_changes(
    tmp_path: Path, text: str, live: tuple[str, ...], restart: tuple[str, ...]
) -> None:
    """Named queries at once, whom to ask after a restart."""
    running, changed = loaded(tmp_path, BESIDE), loaded(tmp_path, text)
    change = compare(running, changed)
    assert (change.live, change.restart) == (live, restart)
    taken = adopt(running, changed)
    assert compare(running, taken).restart == ()
    if "max(" in text:
        assert dict(taken.sources["engines"].queries) == {"gateway-queue": "max(gateway_queue)"}
