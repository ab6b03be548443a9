"""Checks ScaledObject manifests before they reach a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from scaler.config.documents import Document, YamlInvalid, read_documents
from scaler.config.findings import Finding, Manifest, Severity, listed, mapping
from scaler.config.keys import BY_NAME, FROM_ENV
from scaler.config.scaled_object_rules import object_findings
from scaler.config.trigger_rules import trigger_findings

_OUR_ADDRESS = re.compile(r"vllm-keda-scaler")
_EXTERNAL = {"external", "external-push"}


def check_manifests(text: str, file: str, address: re.Pattern[str] | None = None) -> list[Finding]:
    """Return what is wrong or doubtful in the manifests of one file, in the order of lines.

    A trigger is ours if it is external and its address matches; without a pattern, if its metadata
    has one of our keys or its address this project's name. Whatever holds none of ours is ignored.
    """
    found: list[Finding] = []
    document_index = 0
    try:
        for document in read_documents(text):
            document_index = document.index + 1
            for manifest in _manifests(document, file):
                found += _check(manifest, address)
    except YamlInvalid as error:
        found.append(_unreadable(error, text, file, document_index))
    return sorted(found, key=lambda finding: (finding.line or 0, finding.rule))


def manifests_of(text: str, file: str) -> Iterator[Manifest]:
    """Go through KEDA's objects in a file. Raises YamlInvalid."""
    for document in read_documents(text):
        yield from _manifests(document, file)


def _unreadable(error: YamlInvalid, text: str, file: str, index: int) -> Finding:
    template = "{{" in text
    return Finding(
        file=file,
        document=index,
        line=error.line,
        object="",
        severity=Severity.ERROR,
        rule="invalid-yaml",
        message=error.problem,
        cure="render the template first" if template else "documents after it were not checked",
    )


def _manifests(document: Document, file: str) -> Iterator[Manifest]:
    body = mapping(document.value)
    if body.get("kind") == "List":
        for index, item in enumerate(listed(body.get("items"))):
            yield from _manifest(document, file, mapping(item), ("items", index))
    else:
        yield from _manifest(document, file, body, ())


def _manifest(
    document: Document, file: str, body: Mapping[str, object], place: tuple[str | int, ...]
) -> Iterator[Manifest]:
    kind = body.get("kind")
    if not str(body.get("apiVersion", "")).startswith("keda.sh/"):
        return
    if kind not in ("ScaledObject", "ScaledJob"):
        return
    metadata = mapping(body.get("metadata"))
    yield Manifest(
        file=file,
        document=document,
        place=place,
        kind=str(kind),
        namespace=str(metadata.get("namespace") or "default"),
        name=str(metadata.get("name") or "unnamed"),
        spec=mapping(body.get("spec")),
    )


def _check(manifest: Manifest, address: re.Pattern[str] | None) -> Iterator[Finding]:
    triggers = [mapping(trigger) for trigger in listed(manifest.spec.get("triggers"))]
    ours = [index for index, trigger in enumerate(triggers) if is_ours(trigger, address)]
    if not ours:
        return
    if manifest.kind == "ScaledJob":
        yield manifest.error(
            "scaled-job",
            "a ScaledJob starts jobs, one for each unit of the value: it would start new engines "
            "at each poll",
            "scale a Deployment, StatefulSet or LeaderWorkerSet with a ScaledObject",
            "kind",
        )
        return
    for index in ours:
        yield from trigger_findings(manifest, index, triggers[index])
    yield from object_findings(manifest, triggers, ours)


def is_ours(trigger: Mapping[str, object], address: re.Pattern[str] | None) -> bool:
    """Say whether a trigger is answered by this scaler."""
    if str(trigger.get("type")) not in _EXTERNAL:
        return False
    metadata = mapping(trigger.get("metadata"))
    at = str(metadata.get("scalerAddress", ""))
    if address is not None:
        return address.search(at) is not None
    known = any(key.removesuffix(FROM_ENV) in BY_NAME for key in metadata)
    return known or _OUR_ADDRESS.search(at) is not None
