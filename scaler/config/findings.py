"""What a check of manifests finds, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from scaler.config.documents import Document


class Severity(StrEnum):
    """An error will not work; a warning works otherwise than most people want."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found. `document` counts from 0, `line` from 1 within the file."""

    file: str
    document: int
    line: int | None
    object: str
    severity: Severity
    rule: str
    message: str
    cure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object of a file, and where in its document it stands."""

    file: str
    document: Document
    place: tuple[str | int, ...]
    kind: str
    namespace: str
    name: str
    spec: Mapping[str, object]

    def error(self, rule: str, message: str, cure: str, *path: str | int) -> Finding:
        """Return an error at a path below the object."""
        return self._finding(Severity.ERROR, rule, message, cure, path)

    def warning(self, rule: str, message: str, cure: str, *path: str | int) -> Finding:
        """Return a warning at a path below the object."""
        return self._finding(Severity.WARNING, rule, message, cure, path)

    def _finding(
        self, severity: Severity, rule: str, message: str, cure: str, path: Sequence[str | int]
    ) -> Finding:
        return Finding(
            file=self.file,
            document=self.document.index,
            line=self.document.line(*self.place, *path),
            object=f"{self.kind} {self.namespace}/{self.name}",
            severity=severity,
            rule=rule,
            message=message,
            cure=cure,
        )


def mapping(value: object) -> Mapping[str, object]:
    """Return a mapping with text keys; an empty one for anything else."""
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(key, str)}


def listed(value: object) -> Sequence[object]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def integer(value: object, default: int) -> int:
    """Return a whole number; the default for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def failed(findings: Iterable[Finding], *, strict: bool) -> bool:
    """Say whether a check fails: at an error, and when strict at a warning."""
    return any(strict or finding.severity is Severity.ERROR for finding in findings)


def render_text(findings: Sequence[Finding]) -> str:
    """Write one line for each finding, as compilers do, and a last line that counts."""
    lines = []
    for finding in findings:
        place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
        subject = f" {finding.object}:" if finding.object else ""
        lines.append(
            f"{place}: {finding.severity}:{subject} {finding.message} ({finding.cure}) "
            f"[{finding.rule}]"
        )
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    lines.append(f"{_counted(errors, 'error')}, {_counted(len(findings) - errors, 'warning')}")
    return "\n".join(lines) + "\n"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def to_json(findings: Sequence[Finding]) -> str:
    """Write the findings as a JSON list of objects."""
    return json.dumps([asdict(finding) for finding in findings], indent=2) + "\n"
