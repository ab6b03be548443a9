"""Reads the one ScaledObject of a file: what it scales, within which bounds, by which trigger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scaler.config.documents import YamlInvalid
from scaler.config.faults import ConfigurationError, Fault
from scaler.config.findings import Manifest, integer, listed, mapping
from scaler.config.manifest import is_ours, manifests_of

DEFAULT_TOLERANCE = "0.1"
"""The HPA's own, where its behaviour states none."""
_DEFAULT_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledObject:
    """A ScaledObject with one trigger of ours; `hpa` is the name of KEDA's HPA for it.

    The tolerances are Kubernetes quantities as they are written, such as 0.05 or 50m.
    """

    namespace: str
    name: str
    kind: str
    target: str
    hpa: str
    min_replicas: int
    max_replicas: int
    tolerance_out: str
    tolerance_in: str
    metadata: Mapping[str, str]


def read_scaled_object(text: str, file: str) -> ScaledObject:
    """Read it. Raises ConfigurationError where there is none, or more than one."""
    try:
        manifests = [m for m in manifests_of(text, file) if m.kind == "ScaledObject"]
    except YamlInvalid as error:
        raise _refused(file, f"is no YAML: {error}", "scaler check says where") from error
    found = [(m, mapping(t)) for m in manifests for t in listed(m.spec.get("triggers"))]
    ours = [(manifest, trigger) for manifest, trigger in found if is_ours(trigger, None)]
    if len(ours) != 1:
        problem = f"has {len(ours)} triggers of this scaler where one is wanted"
        raise _refused(file, problem, "give a file with one ScaledObject and one such trigger")
    return _read(*ours[0])


def _read(manifest: Manifest, trigger: Mapping[str, object]) -> ScaledObject:
    spec = manifest.spec
    target = mapping(spec.get("scaleTargetRef"))
    hpa = mapping(mapping(spec.get("advanced")).get("horizontalPodAutoscalerConfig"))
    behavior = mapping(hpa.get("behavior"))
    metadata = mapping(trigger.get("metadata"))
    return ScaledObject(
        namespace=manifest.namespace,
        name=manifest.name,
        kind=str(target.get("kind") or "Deployment"),
        target=str(target.get("name") or manifest.name),
        hpa=str(hpa.get("name") or f"keda-hpa-{manifest.name}"),
        min_replicas=integer(spec.get("minReplicaCount"), 0),
        max_replicas=integer(spec.get("maxReplicaCount"), _DEFAULT_MAX),
        tolerance_out=_tolerance(mapping(behavior.get("scaleUp"))),
        tolerance_in=_tolerance(mapping(behavior.get("scaleDown"))),
        metadata={key: str(value) for key, value in metadata.items()},
    )


def _tolerance(rules: Mapping[str, object]) -> str:
    written = rules.get("tolerance")
    return DEFAULT_TOLERANCE if written is None else str(written)


def _refused(file: str, problem: str, cure: str) -> ConfigurationError:
    fault = Fault(key=file, problem=problem, cure=cure)
    return ConfigurationError("the ScaledObject cannot be read", [fault])
