"""All that kubectl would apply fits Kubernetes' schemas and those of the custom resources."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tests.manifests.built import (
    COMPONENTS,
    EXAMPLES,
    FOLDERS,
    INSTALLS,
    Json,
    compose,
    name_of,
    objects_of,
    only,
)
from tests.manifests.schemas import SCHEMAS, faults_of, kept

SCOPES = ("components/cluster-wide", "components/namespaces")
OPTIONS = [folder for folder in COMPONENTS if folder not in SCOPES]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_builds_into_valid_objects(folder: str) -> None:
    """The real kubectl builds it; each object and each pod in it is valid, to the last field."""
    assert [fault for found in objects_of(folder) for fault in faults_of(found)] == []


@pytest.mark.parametrize("scope", SCOPES)
def test_all_options_fit_together(scope: str, tmp_path: Path) -> None:
    """Either choice of namespaces takes every further component, all at once."""
    chosen = [folder.removeprefix("components/") for folder in (scope, *OPTIONS)]
    built = objects_of(compose(tmp_path / "all", *chosen))
    assert [fault for found in built for fault in faults_of(found)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_object_stands_once_and_in_a_namespace_that_is_told(folder: str) -> None:
    """No two objects share a name, and none lands in whatever namespace kubectl is set to."""
    names = [name_of(found) for found in objects_of(folder)]
    assert len(set(names)) == len(names)
    adrift = [name for name in names if " None/" in name and not name.startswith("Cluster")]
    assert adrift == []


def test_the_folders_are_those_that_the_documentation_names() -> None:
    """There are two ways to install, and an example for each kind of fleet."""
    assert INSTALLS == ["install/cluster-wide", "install/namespaces"]
    assert [folder.removeprefix("examples/") for folder in EXAMPLES] == [
        "context-pools",
        "cron-floor",
        "deployment",
        "istio",
        "kserve",
        "leaderworkerset",
        "prefill-decode",
        "production-stack",
        "scale-to-zero",
        "tls",
    ]


MISTAKES: list[tuple[str, str, tuple[str | int, ...], object]] = [
    ("examples/deployment", "ScaledObject", ("spec", "minReplicas"), 1),
    ("examples/deployment", "ScaledObject", ("spec", "fallback", "behavior"), "higher"),
    ("examples/deployment", "ScaledObject", ("spec", "triggers", 0, "metadata", "holdFor"), 5),
    ("examples/deployment", "PodMonitor", ("spec", "podMetricsEndpoints", 0, "interval"), "10"),
    ("examples/deployment", "Deployment", ("spec", "template", "spec", "grace"), 60),
    ("examples/leaderworkerset", "LeaderWorkerSet", ("spec", "size"), 2),
    (
        "examples/leaderworkerset",
        "LeaderWorkerSet",
        ("spec", "leaderWorkerTemplate", "workerTemplate", "spec", "containers", 0, "arg"),
        [],
    ),
    ("examples/kserve", "InferenceService", ("spec", "predictor", "graceSeconds"), 60),
    ("examples/tls", "TriggerAuthentication", ("spec", "secretTargetRef", 0, "secret"), "x"),
    ("examples/istio", "PeerAuthentication", ("spec", "portLevelMtls", "http"), {}),
    ("install/cluster-wide", "ServiceMonitor", ("spec", "endpoints", 0, "honourLabels"), True),
    ("install/cluster-wide", "NetworkPolicy", ("spec", "ingress", 0, "port"), 50051),
    (
        "examples/deployment",
        "ScaledObject",
        ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleUp", "window"),
        0,
    ),
]


@pytest.mark.parametrize(("folder", "kind", "path", "value"), MISTAKES)
def test_a_mistake_is_found(
    folder: str, kind: str, path: tuple[str | int, ...], value: object
) -> None:
    """A field that does not exist, and a value that is not allowed, are each a fault."""
    broken: Json = copy.deepcopy(only(objects_of(folder), kind))
    place: object = broken
    for step in path[:-1]:
        place = place[step]  # type: ignore[index]
    place[path[-1]] = value  # type: ignore[index]
    assert faults_of(broken) != []


def test_a_kind_without_a_schema_is_a_fault() -> None:
    """What nobody can check is not taken for valid."""
    unknown: Json = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    assert "find schema" in faults_of(unknown)[0]


@pytest.mark.parametrize("file", sorted(SCHEMAS.glob("*.json")), ids=lambda file: file.stem)
def test_a_schema_says_where_it_comes_from(file: Path) -> None:
    """Each kept schema names a repository, a file and a commit, and what it left out."""
    comment = json.loads(file.read_text(encoding="utf-8"))["$comment"]
    assert "Pruned:" in comment
    assert any(len(word.strip(".;,")) == 40 for word in comment.split())


def test_every_schema_is_used_or_waited_for() -> None:
    """A schema that no manifest needs would rot; the rules for alerts come with the alerts."""
    used = {(str(o["apiVersion"]), str(o["kind"])) for f in FOLDERS for o in objects_of(f)}
    assert {kind for _, kind in kept().keys() - used} <= {"PrometheusRule"}
