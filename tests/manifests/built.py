"""What the manifests become once the real kubectl has built them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml

Json: TypeAlias = dict[str, object]

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
_KUBECTL_AT_LEAST = (1, 27)
"""From here on its kustomize knows all that the manifests use."""


def kustomizations(kind: str) -> list[str]:
    """Name the folders that hold a Kustomization, or a Component, below manifests/."""
    found = [
        path.parent.relative_to(MANIFESTS).as_posix()
        for path in sorted(MANIFESTS.rglob("kustomization.yaml"))
        if yaml.safe_load(path.read_text(encoding="utf-8"))["kind"] == kind
    ]
    assert found
    return found


FOLDERS = kustomizations("Kustomization")
COMPONENTS = kustomizations("Component")
EXAMPLES = [folder for folder in FOLDERS if folder.startswith("examples/")]
INSTALLS = [folder for folder in FOLDERS if folder.startswith("install/")]


@cache
def kubectl() -> str:
    """Find kubectl, which the tools for development bring; skip without one that is new enough."""
    beside = Path(sys.executable).with_name("kubectl")
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if found is None:
        pytest.skip("no kubectl here (make test installs it)")
    said = subprocess.run(
        [found, "version", "--client", "--output=json"], capture_output=True, check=True, timeout=60
    )
    version = json.loads(said.stdout)["clientVersion"]
    numbers = tuple(int(re.sub(r"\D.*", "", version[part])) for part in ("major", "minor"))
    if numbers < _KUBECTL_AT_LEAST:
        pytest.skip(f"kubectl {version['gitVersion']} is older than 1.27")
    return found


@cache
def text_of(folder: Path) -> str:
    """Build a folder, and return what kubectl would apply."""
    built = subprocess.run(
        [kubectl(), "kustomize", str(folder)],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert built.returncode == 0, built.stderr
    assert "deprecated" not in built.stderr, built.stderr
    return built.stdout


def objects_of(folder: str | Path) -> list[Json]:
    """Build a folder, below manifests/ where it is given by name, into its objects."""
    return list(_read(MANIFESTS / folder if isinstance(folder, str) else folder))


@cache
def _read(folder: Path) -> tuple[Json, ...]:
    """Read what a folder builds, once: whoever changes an object copies it first."""
    found = tuple(yaml.load_all(text_of(folder), Loader=yaml.CSafeLoader))
    assert found
    assert all(isinstance(each, dict) for each in found)
    return found


def compose(directory: Path, *components: str) -> Path:
    """Write a kustomization of the base and these components, and return its folder."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = {
        # kustomize knows no absolute paths.
        "resources": [_relative(directory, MANIFESTS / "base")],
        "components": [_relative(directory, MANIFESTS / "components" / c) for c in components],
    }
    (directory / "kustomization.yaml").write_text(json.dumps(lines), encoding="utf-8")
    return directory


def _relative(start: Path, target: Path) -> str:
    up = "../" * len(start.resolve().relative_to("/").parts)
    return up + target.resolve().relative_to("/").as_posix()


def only(objects: list[Json], kind: str) -> Json:
    """Return the one object of a kind."""
    (found,) = of_kind(objects, kind)
    return found


def of_kind(objects: list[Json], *kinds: str) -> list[Json]:
    """Return the objects of these kinds."""
    return [each for each in objects if each["kind"] in kinds]


def at(value: object, *path: str | int) -> object:
    """Follow a path of keys and places; `None` where it ends early."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def rows(value: object, *path: str | int) -> list[Json]:
    """Return the list of mappings at a path; an empty one where there is none."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def texts(value: object, *path: str | int) -> list[str]:
    """Return the list of texts at a path; an empty one where there is none."""
    found = at(value, *path)
    return [str(each) for each in found] if isinstance(found, list) else []


def mapping(value: object, *path: str | int) -> Json:
    """Return the mapping at a path; an empty one where there is none."""
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def name_of(found: Json) -> str:
    """Return kind, namespace and name, as an error should show them."""
    return f"{found['kind']} {at(found, 'metadata', 'namespace')}/{at(found, 'metadata', 'name')}"


_POD_FIELDS_OF_KSERVE = {
    *("minReplicas", "maxReplicas", "scaleTarget", "scaleMetric", "containerConcurrency"),
    *("timeout", "canaryTrafficPercent", "labels", "annotations", "deploymentStrategy"),
}


def pods_of(found: Json) -> Iterator[Json]:
    """Go through the pods that a workload makes, as Pods."""
    if found["kind"] in {"Deployment", "StatefulSet"}:
        templates = [mapping(found, "spec", "template")]
    elif found["kind"] == "LeaderWorkerSet":
        both = mapping(found, "spec", "leaderWorkerTemplate")
        templates = [mapping(both, "leaderTemplate"), mapping(both, "workerTemplate")]
    elif found["kind"] == "InferenceService":
        predictor = mapping(found, "spec", "predictor")
        spec = {k: v for k, v in predictor.items() if k not in _POD_FIELDS_OF_KSERVE}
        templates = [{"metadata": {"labels": kserve_labels(found)}, "spec": spec}]
    else:
        templates = []
    for template in templates:
        metadata = {"name": str(at(found, "metadata", "name")), **mapping(template, "metadata")}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": mapping(template, "spec"),
        }


def kserve_labels(found: Json) -> dict[str, str]:
    """Return the labels by which KServe's predictor pods are known."""
    return {
        "serving.kserve.io/inferenceservice": str(at(found, "metadata", "name")),
        "component": "predictor",
    }
