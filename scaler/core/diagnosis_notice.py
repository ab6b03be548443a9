"""What of a diagnosis is worth telling where people look first: on the ScaledObject itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scaler.core.diagnosis_finding import Diagnosis, Finding, Severity
from scaler.core.units import Seconds

_LONGEST = 1024
"""Characters of an Event's message."""

_GRAVEST_FIRST = {severity: place for place, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to be told of a ScaledObject.

    `reason` is the finding's kind as Kubernetes writes reasons (`HostOomKill`), `uid` the
    ScaledObject's, `at` when it was found.
    """

    namespace: str
    name: str
    uid: str | None
    reason: str
    message: str
    at: Seconds


def worth_telling(diagnoses: Iterable[Diagnosis]) -> list[Finding]:
    """Return the warnings and worse of a ScaledObject's triggers, each kind once, the gravest."""
    found: dict[str, Finding] = {}
    for diagnosis in diagnoses:
        for finding in diagnosis.findings:
            held = found.get(finding.kind)
            if held is None or _GRAVEST_FIRST[finding.severity] < _GRAVEST_FIRST[held.severity]:
                found[finding.kind] = finding
    return [each for each in found.values() if each.severity is not Severity.NOTE]


def reason_of(finding: Finding) -> str:
    """Write a finding's kind as Kubernetes writes the reasons of Events."""
    return "".join(word.capitalize() for word in finding.kind.value.split("-"))


def message_of(finding: Finding) -> str:
    """Write evidence and advice as one message; where that is too long the advice is cut."""
    message = f"{finding.evidence} {finding.advice}"
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…"
