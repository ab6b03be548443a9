"""The list of targets: what Prometheus' file_sd format may hold, and every fault told at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scaler.adapters.targets import Target, TargetsFile, TargetsInvalid, read_targets

TWO = [
    {"targets": ["10.0.0.1:8000"], "labels": {"namespace": "prod", "pod": "chat-0", "app": "chat"}},
    {"targets": ["[fd00::1]:8000", "engine.prod:8000"], "labels": {"namespace": "prod"}},
]
TWO_AS_YAML = """\
# an operator's own list
- targets:
    - 10.0.0.1:8000
  labels: {namespace: prod, pod: chat-0, app: chat}
- targets: ["[fd00::1]:8000", 'engine.prod:8000']
  labels:
    namespace: prod
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Name a file that does not exist yet."""
    return tmp_path / "targets"


def refused(file: Path, text: str) -> str:
    """Write what must be refused and return the message."""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TargetsInvalid) as caught:
        read_targets(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    return message.removeprefix(f"{file}: ")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(TWO), id="json"),
        pytest.param(json.dumps(TWO, indent="\t"), id="json-with-tabs"),
        pytest.param(TWO_AS_YAML, id="yaml"),
        pytest.param(f"\n  {TWO}", id="yaml-in-flow-style"),
    ],
)
def test_json_and_yaml_say_the_same(file: Path, text: str) -> None:
    """Both forms of the format give the same targets, whatever the file is called."""
    file.write_text(text, encoding="utf-8")
    first, second, third = read_targets(file)
    assert first == Target(
        address="10.0.0.1:8000",
        url="http://10.0.0.1:8000/metrics",
        namespace="prod",
        pod="chat-0",
        labels={"instance": "10.0.0.1:8000", "namespace": "prod", "pod": "chat-0", "app": "chat"},
    )
    assert (second.url, second.pod) == ("http://[fd00::1]:8000/metrics", "[fd00::1]:8000")
    assert (third.url, third.pod) == ("http://engine.prod:8000/metrics", "engine.prod:8000")


@pytest.mark.parametrize(
    ("labels", "url"),
    [
        ({"__scheme__": "https"}, "https://a:1/metrics"),
        ({"__metrics_path__": "/engine/metrics"}, "http://a:1/engine/metrics"),
        ({"__metrics_path__": "stats"}, "http://a:1/stats"),
        ({"__metrics_path__": "/a b"}, "http://a:1/a%20b"),
        ({"__param_module": "x&y"}, "http://a:1/metrics?module=x%26y"),
    ],
)
def test_meta_labels_say_where_the_page_is(file: Path, labels: dict[str, str], url: str) -> None:
    """Scheme, path and parameters are honoured and no selector sees them."""
    groups = [{"targets": ["a:1"], "labels": {"namespace": "n", **labels}}]
    file.write_text(json.dumps(groups), encoding="utf-8")
    (target,) = read_targets(file)
    assert target.url == url
    assert set(target.labels) == {"namespace", "instance"}


def test_yaml_scalars_are_text_as_in_prometheus(file: Path) -> None:
    """A number, a date or a truth keeps the letters that it was written with."""
    file.write_text(
        "- targets: [a:1]\n  labels: {namespace: n, v: 1.10, d: 2026-01-01, on: yes}\n", "utf-8"
    )
    (target,) = read_targets(file)
    assert {"v": "1.10", "d": "2026-01-01", "on": "yes"}.items() <= target.labels.items()


def test_no_targets_are_a_valid_list(file: Path) -> None:
    """A fleet at zero has none."""
    file.write_text("[]", encoding="utf-8")
    assert read_targets(file) == ()


def test_one_page_listed_twice_is_one_target(file: Path) -> None:
    """Two jobs that list one page of one pod do not double it; both jobs' labels select it."""
    groups = [
        {"targets": ["a:1"], "labels": {"namespace": "n", "pod": "p", "job": "one"}},
        {"targets": ["a:1"], "labels": {"namespace": "n", "pod": "p", "job": "two", "app": "x"}},
    ]
    file.write_text(json.dumps(groups), encoding="utf-8")
    (target,) = read_targets(file)
    assert (target.labels["job"], target.labels["app"]) == ("one", "x")


GOOD = '{"targets": ["a:1"], "labels": {"namespace": "n"}}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "is no list (write [] for no targets)", id="empty"),
        pytest.param('{"targets": []}', "is no list", id="no-list"),
        pytest.param(f"[{GOOD},", "neither JSON nor YAML", id="truncated"),
        pytest.param("- targets: [a:1\n", "line 2, column 1", id="broken-yaml"),
        pytest.param("[" * 5000, "neither JSON nor YAML", id="endless-nesting"),
        pytest.param(f"[{GOOD},\n5]", "line 2: it: Input should be", id="no-group"),
        pytest.param(
            f'[{GOOD},\n{GOOD[:-1]}, "lables": {{}}}}]', "line 2: lables: Extra", id="unknown-key"
        ),
        pytest.param(
            '[{"targets": "a:1", "labels": {"namespace": "n"}}]',
            "line 1: targets: Input should be a valid list",
            id="no-list-of-addresses",
        ),
        pytest.param(
            '\n[{"targets": ["10.0.0.1:8000"]}]',
            "line 2: 10.0.0.1:8000: has no label namespace (add it to the group's labels)",
            id="no-namespace",
        ),
        pytest.param(GOOD.join("[]").replace("a:1", "http://a:1"), "is no address", id="url"),
        pytest.param(GOOD.join("[]").replace("a:1", "a:99999"), "is no address", id="port"),
        pytest.param(GOOD.join("[]").replace("a:1", "a:b"), "is no address", id="port-word"),
        pytest.param(GOOD.join("[]").replace("a:1", ""), "is no address", id="no-address"),
        pytest.param(GOOD.join("[]").replace("a:1", "u:p@a"), "is no address", id="user"),
        pytest.param(GOOD.join("[]").replace("a:1", "a b"), "is no address", id="blank"),
        pytest.param(
            GOOD.join("[]").replace("}}", ',"__scheme__":"ftp"}}'),
            '__scheme__ is "ftp" (write http or https)',
            id="scheme",
        ),
        pytest.param(
            GOOD.join("[]").replace("}}", ',"a-b":"c"}}'), '"a-b" is no name of a label', id="label"
        ),
        pytest.param(
            GOOD.join("[]").replace("}}", ',"a":"\\ud800"}}'), "no Unicode text", id="half-a-letter"
        ),
        pytest.param(
            '[{"targets":["a:1"],"labels":{"namespace":"n","pod":"p"}},\n'
            '{"targets":["a:1"],"labels":{"namespace":"n","pod":"q"}}]',
            "line 2: a:1: stands in the list twice, as n/p and as n/q",
            id="one-page-of-two-pods",
        ),
    ],
)
def test_a_fault_is_told_with_its_line(file: Path, text: str, told: str) -> None:
    """The message names the target or the key, the fault and the line."""
    assert told in refused(file, text)


def test_all_faults_are_told_but_no_endless_list(file: Path) -> None:
    """Whoever repairs a file learns of all its faults, up to what can be read."""
    message = refused(file, json.dumps([{"targets": [f"t{n}:1"]} for n in range(30)], indent=1))
    assert all(f"t{n}:1: has no label namespace" in message for n in range(20))
    assert message.endswith("; and 10 faults more")


def test_a_missing_file_is_told(file: Path) -> None:
    """The path and the system's own words."""
    with pytest.raises(TargetsInvalid, match="targets: No such file"):
        TargetsFile(file)


def test_a_broken_edit_changes_nothing_and_is_told(file: Path) -> None:
    """The last valid list stays, the fault says how many that is, and a repair is taken over."""
    file.write_text(f"[{GOOD}]", encoding="utf-8")
    watched = TargetsFile(file)
    assert not watched.look()
    file.write_text(f"[{GOOD},", encoding="utf-8")
    assert not watched.look()
    assert len(watched.targets) == 1
    assert "the 1 targets known before are kept" in (watched.fault or "")
    file.unlink()
    assert not watched.look()
    assert "No such file" in (watched.fault or "")
    file.write_text(f"[{GOOD},{GOOD.replace('a:1', 'b:1')}]", encoding="utf-8")
    assert watched.look()
    assert (len(watched.targets), watched.fault) == (2, None)


def test_a_swapped_link_is_an_edit(tmp_path: Path) -> None:
    """Kubernetes updates a mounted ConfigMap by pointing a link elsewhere."""
    for name, address in (("one", "a:1"), ("two", "b:1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "targets").write_text(f"[{GOOD.replace('a:1', address)}]", "utf-8")
    link = tmp_path / "data"
    link.symlink_to("one")
    watched = TargetsFile(link / "targets")
    new = tmp_path / "new"
    new.symlink_to("two")
    new.rename(link)
    assert watched.look()
    assert [target.address for target in watched.targets] == ["b:1"]
