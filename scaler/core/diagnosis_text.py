"""A diagnosis as a whole answer, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap

from scaler.core.decision import Decision
from scaler.core.diagnosis_finding import Diagnosis, Finding, Kind, Severity
from scaler.core.explain import Because, because
from scaler.core.reasons import Reason
from scaler.core.rendering import time_of
from scaler.core.units import Seconds
from scaler.core.workload import WorkloadKey

WORST_HEADER = "Scaler-Worst-Severity"
"""Tells over HTTP, also beside text, how grave the gravest finding is; `none` without any."""

_WIDTH = 90
_UNSEEN = {Reason.SOURCE_SILENT, Reason.SILENT_TOO_LONG, Reason.NOTHING_SERVING}
_NEVER_LOOKED = "nothing has been decided of this workload yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlooked:
    """What could not be looked at, all for one reason."""

    kinds: tuple[Kind, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosed:
    """The diagnosis of one trigger of a ScaledObject, with the answer that it stands beside.

    `cannot` is what of the cluster cannot be read, and what that costs.
    """

    namespace: str
    name: str
    trigger: str
    at: Seconds
    current: int | None
    desired: int | None
    because: Because
    findings: tuple[Finding, ...]
    not_known: tuple[Unlooked, ...]
    cannot: tuple[str, ...] = ()


def diagnosed(
    key: WorkloadKey,
    decision: Decision,
    diagnosis: Diagnosis | None,
    cannot: tuple[str, ...] = (),
) -> Diagnosed:
    """Put a diagnosis beside its decision; without one everything is not known."""
    if diagnosis is None:
        unlooked: tuple[Unlooked, ...] = (Unlooked(kinds=tuple(Kind), why=_NEVER_LOOKED),)
    else:
        reasons: dict[str, list[Kind]] = {}
        for kind, why in diagnosis.not_known:
            reasons.setdefault(why, []).append(kind)
        unlooked = tuple(Unlooked(kinds=tuple(k), why=why) for why, k in reasons.items())
    return Diagnosed(
        namespace=key.namespace,
        name=key.name,
        trigger=key.trigger,
        at=decision.at,
        current=decision.current,
        desired=decision.desired,
        because=because(decision.reason),
        findings=diagnosis.findings if diagnosis is not None else (),
        not_known=unlooked,
        cannot=cannot,
    )


def worst(each: Iterable[Diagnosed]) -> str:
    """Return the gravest severity of several diagnoses, or `none`."""
    found = {finding.severity for diagnosed in each for finding in diagnosed.findings}
    return next((severity.value for severity in Severity if severity in found), "none")


def to_text(diagnosed: Diagnosed) -> str:
    """Write a diagnosis for a person in front of a terminal."""
    return "\n".join(_lines(diagnosed)) + "\n"


def _lines(d: Diagnosed) -> Iterator[str]:
    yield f"{d.namespace}/{d.name}  (trigger {d.trigger}, {time_of(d.at)})"
    current = "an unknown number of" if d.current is None else str(d.current)
    desired = "nothing" if d.desired is None else str(d.desired)
    yield f"  {current} replicas, the scaler answers {desired} ({d.because.reason.value})"
    if not d.findings:
        yield ""
        yield from _nothing(d)
    for finding in d.findings:
        yield ""
        yield f"  {finding.severity.value.upper()}  {finding.kind.value}"
        yield from _wrapped(finding.evidence)
        yield from _wrapped(f"→ {finding.advice}")
    if d.not_known or d.cannot:
        yield ""
        yield "  not known"
    for unlooked in d.not_known:
        yield from _wrapped(f"{', '.join(kind.value for kind in unlooked.kinds)}: {unlooked.why}")
    for sentence in d.cannot:
        yield from _wrapped(sentence)


def _nothing(d: Diagnosed) -> Iterator[str]:
    """Say that nothing was found; where nothing is seen that is no good news."""
    if d.because.reason in _UNSEEN:
        yield "  Nothing found, for nothing is seen of the engines."
        yield from _wrapped(d.because.meaning)
        yield from _wrapped(f"→ {d.because.cure}")
    else:
        yield "  Nothing found."


def _wrapped(text: str) -> Iterator[str]:
    yield from wrap(
        text,
        width=_WIDTH,
        initial_indent="    ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
