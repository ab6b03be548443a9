"""What is wrong with a workload, or worth knowing: which memory ran out, and what to do.

A pure function of what is known at one tick. It explains and never moves the fleet.
"""

from __future__ import annotations

from scaler.core.diagnosis_facts import Facts
from scaler.core.diagnosis_finding import (
    ADVICE,
    Diagnosis,
    Finding,
    Found,
    Kind,
    NotKnown,
    Severity,
)
from scaler.core.diagnosis_keda import keda_verdicts
from scaler.core.diagnosis_load import load_verdicts
from scaler.core.diagnosis_pods import pod_verdicts

_GRAVEST_FIRST = {severity: place for place, severity in enumerate(Severity)}
_KINDS_IN_ORDER = {kind: place for place, kind in enumerate(Kind)}


def diagnose(facts: Facts) -> Diagnosis:
    """Look at everything that is known; findings come the gravest first."""
    verdicts = {**pod_verdicts(facts), **load_verdicts(facts), **keda_verdicts(facts)}
    findings = [
        _finding(kind, verdict) for kind, verdict in verdicts.items() if isinstance(verdict, Found)
    ]
    findings.sort(key=lambda f: (_GRAVEST_FIRST[f.severity], _KINDS_IN_ORDER[f.kind]))
    return Diagnosis(
        at=facts.now,
        findings=tuple(findings),
        not_known=tuple(
            (kind, verdict.why)
            for kind, verdict in verdicts.items()
            if isinstance(verdict, NotKnown)
        ),
    )


def _finding(kind: Kind, found: Found) -> Finding:
    return Finding(
        kind=kind,
        severity=found.severity,
        evidence=found.evidence,
        advice=found.advice or ADVICE[kind],
        occurrence=found.occurrence,
        pods=found.pods,
    )
