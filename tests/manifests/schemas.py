"""Checks objects against Kubernetes' schemas and those kept for custom resources."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator

from tests.manifests.built import Json, at, mapping, name_of, pods_of

SCHEMAS = Path(__file__).parents[1] / "data" / "schemas"
OLDEST, NEWEST = "1.30", "1.37"
"""Kubernetes' versions that the manifests are for: pauses without a shell came with the first."""


@cache
def kept() -> dict[tuple[str, str], Draft202012Validator]:
    """Read the schemas that are kept, by apiVersion and kind."""
    found = {}
    for file in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(file.read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
        properties = schema["properties"]
        key = (properties["apiVersion"]["const"], properties["kind"]["const"])
        found[key] = Draft202012Validator(schema)
    return found


def faults_of(found: Json) -> list[str]:
    """Say what is wrong with an object, its pods included; nothing where all is well."""
    own = kept().get((str(found["apiVersion"]), str(found["kind"])))
    if own is None:
        return _foreign(found, OLDEST) + _foreign(found, NEWEST)
    faults = [
        f"{name_of(found)}: {error.json_path}: {error.message}" for error in own.iter_errors(found)
    ]
    for pod in pods_of(found):
        faults += _foreign(pod, OLDEST) + _foreign(pod, NEWEST)
    return faults + _behavior(found)


def _behavior(found: Json) -> list[str]:
    """Check a ScaledObject's behavior as that of the HPA that KEDA makes of it."""
    if found["kind"] != "ScaledObject":
        return []
    path = ("advanced", "horizontalPodAutoscalerConfig", "behavior")
    autoscaler: Json = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": str(at(found, "metadata", "name"))},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "any"},
            "maxReplicas": 1,
            "behavior": mapping(found, "spec", *path),
        },
    }
    return _foreign(autoscaler, NEWEST)


def _foreign(found: Json, version: str) -> list[str]:
    return list(_checked(json.dumps(found, sort_keys=True), version))


@cache
def _checked(text: str, version: str) -> tuple[str, ...]:
    """Check an object once: examples that build on one another share most of theirs."""
    found = json.loads(text)
    try:
        kubernetes_validate.validate(found, version, strict=True)
    except kubernetes_validate.SchemaNotFoundError as error:
        return (f"{name_of(found)}: {error.message}",)
    except kubernetes_validate.ValidationError as error:
        place = ".".join(str(step) for step in error.path)
        return (f"{name_of(found)} on Kubernetes {version}: {place}: {error.message}",)
    return ()
