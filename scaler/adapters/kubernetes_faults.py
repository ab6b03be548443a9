"""What of the cluster cannot be read, and what that costs, in a sentence each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scaler.adapters.kubernetes_errors import ClusterMissing, RightMissing
from scaler.adapters.kubernetes_reflector import Reflector
from scaler.adapters.kubernetes_settings import KubernetesSettings
from scaler.adapters.kubernetes_targets import TargetKind
from scaler.core.units import Seconds

_MOST_TOLD = 20
_COSTS = {
    "horizontalpodautoscalers": (
        "bounds and tolerance are taken from the ScaledObjects, and nothing shows whether the HPA "
        "acts"
    ),
    "scaledobjects": (
        "pauses, fallback, zero and other triggers are not known, and only targets that have an "
        "HPA are found"
    ),
    "pods": "a replica that loads cannot be told from one that is lost, and no exit is seen",
}


def faults_of(
    mirrors: Iterable[Reflector[Any]],
    kinds: Iterable[TargetKind],
    settings: KubernetesSettings,
    now: Seconds,
) -> tuple[str, ...]:
    """Return the sentences, each once."""
    said: dict[str, None] = {}
    for mirror in mirrors:
        for sentence in _of_mirror(mirror, settings, now):
            said[sentence] = None
    for kind in kinds:
        for sentence in _of_kind(kind, settings, now):
            said[sentence] = None
    return tuple(said)[:_MOST_TOLD]


def _of_mirror(mirror: Reflector[Any], settings: KubernetesSettings, now: Seconds) -> Iterable[str]:
    resource, where = mirror.kind.resource, _where(mirror.namespace)
    polled = f"they are read every {settings.poll_every:g} s instead"
    cost = _COSTS.get(resource, f"counts are read one by one every {settings.poll_every:g} s")
    if mirror.denied:
        cure = "" if mirror.namespace else ", or name the namespaces"
        told = _refused(now, mirror.refused_at, settings.denied_every)
        yield f"may not list {resource} {where}: {cost} ({told}: grant list and watch{cure})"
    elif isinstance(mirror.fault, ClusterMissing):
        yield f"{resource} are unknown to the API server: {cost} (is KEDA, or the CRD, installed?)"
    elif mirror.unwatchable and not mirror.trouble:
        told = _refused(now, mirror.refused_at, settings.poll_every)
        yield f"may not watch {resource} {where}: {polled} ({told}: grant watch)"
    if mirror.odd:
        namespace, name = min(mirror.odd)
        yield (
            f"{len(mirror.odd)} {resource} {where} cannot be decoded, such as {namespace}/{name}: "
            "each counts as it was last understood, or not at all (the log says what is odd)"
        )
    trouble = mirror.trouble
    if trouble and not isinstance(mirror.fault, RightMissing | ClusterMissing):
        age = "never" if mirror.seen_at is None else f"{max(0.0, now - mirror.seen_at):.0f} s ago"
        yield f"{trouble} ({resource} {where} were last seen {age})"


def _of_kind(kind: TargetKind, settings: KubernetesSettings, now: Seconds) -> Iterable[str]:
    version, name = kind.name
    if kind.plural is None and kind.fault is not None:
        yield f"scale targets of kind {name} ({version}) cannot be found: {kind.fault}"
    for namespace, (error, tried_at) in kind.scale_faults.items():
        where = _where(namespace if settings.namespaces else None)
        if isinstance(error, RightMissing):
            yield (
                f"may not read {kind.plural}/scale {where}: current is the HPA's, late by up to "
                "half a minute, and pods are not known "
                f"({_refused(now, tried_at, settings.denied_every)}: grant get)"
            )
        elif isinstance(error, ClusterMissing):
            yield f"{kind.plural} have no /scale, so that neither KEDA nor we can read a count"
        else:
            yield f"{kind.plural}/scale cannot be read {where}: {error}"


def _refused(now: Seconds, at: Seconds | None, every: Seconds) -> str:
    """Say how old the refusal is: the right may have been granted since."""
    return (
        f"refused {max(0.0, now - (now if at is None else at)):.0f} s ago, tried every {every:g} s"
    )


def _where(namespace: str | None) -> str:
    return "in all namespaces" if namespace is None else f"in {namespace}"
