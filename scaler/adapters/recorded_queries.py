"""Writes the PromQL of what a replay reads beside the engines' signals."""

from __future__ import annotations

import re
from collections.abc import Collection

from scaler.adapters.prometheus_settings import SeriesLabels
from scaler.adapters.vllm import COUNTERS, GAUGES, Signal, names_of
from scaler.core.workload import Matcher, MatchOp, Selection
from scaler.tuning.ports import Wanted

FROM = "__from__"
"""A label that our queries add: whose count it is."""

OWN, TARGET, HPA = "own", "target", "hpa"
"""Whose counts there may be, the best first: ours, the scale target's, and the HPA's view of it."""

_TARGETS = {
    "Deployment": ("kube_deployment_spec_replicas", "deployment"),
    "StatefulSet": ("kube_statefulset_replicas", "statefulset"),
    "ReplicaSet": ("kube_replicaset_spec_replicas", "replicaset"),
}
"""kube-state-metrics' names for `spec.replicas`, and the label that names the object."""


def counts(wanted: Wanted) -> str:
    """Ask for the replica counts that anybody published, told apart by `FROM`."""
    asked = {OWN: _series("vllm_scaler_current_replicas", wanted, scaled_object=wanted.name)}
    known = _TARGETS.get(wanted.target.kind)
    if known is not None:
        metric, label = known
        asked[TARGET] = _series(metric, wanted, **{label: wanted.target.name})
    asked[HPA] = _series(
        "kube_horizontalpodautoscaler_status_current_replicas",
        wanted,
        horizontalpodautoscaler=wanted.target.hpa,
    )
    return " or ".join(
        f'label_replace(max({series}), "{FROM}", "{whose}", "", "")'
        for whose, series in asked.items()
    )


def _series(metric: str, wanted: Wanted, **labels: str) -> str:
    # A Prometheus that does not honour labels keeps what was published as exported_namespace, and
    # calls the publisher's own namespace namespace.
    told = [str(_equal(label, value)) for label, value in labels.items()]
    exported = ",".join([str(_equal("exported_namespace", wanted.namespace)), *told])
    plain = ",".join(
        [str(_equal("namespace", wanted.namespace)), 'exported_namespace=""', *told],
    )
    return f"{metric}{{{exported}}} or {metric}{{{plain}}}"


def starts(wanted: Wanted, pods: Collection[str]) -> tuple[str, str]:
    """Ask when pods were created and since when they are ready, of those that never restarted."""
    names = "|".join(re.escape(pod).replace(r"\-", "-") for pod in sorted(pods))
    named = Matcher(label="pod", op=MatchOp.REGEX, value=names)
    where = f"{_equal('namespace', wanted.namespace)},{named}"
    restarted = f"kube_pod_container_status_restarts_total{{{where}}} > 0"
    return (
        f"max by (pod) (kube_pod_created{{{where}}})",
        f"max by (pod) (kube_pod_status_ready_time{{{where}}}) unless max by (pod) ({restarted})",
    )


def engines(labels: SeriesLabels, selection: Selection) -> str:
    """List the label matchers of the selection's engines."""
    own = [Matcher(label=labels.namespace, op=MatchOp.EQUAL, value=selection.namespace)]
    if selection.model_name is not None:
        own.append(
            Matcher(label=labels.model_name, op=MatchOp.EQUAL, value=selection.model_name),
        )
    return ",".join(str(matcher) for matcher in [*own, *selection.matchers])


def names(labels: SeriesLabels, selection: Selection) -> str:
    """Ask under which names the engines' metrics are there."""
    signals = (*GAUGES, *COUNTERS, Signal.TTFT_BUCKET)
    every = "|".join(name for signal in signals for name in names_of(signal))
    return f'count by (__name__) ({{__name__=~"{every}",{engines(labels, selection)}}})'


def resets(labels: SeriesLabels, selection: Selection, span: int) -> str:
    """Ask which pods' counters started again within each `span` seconds, asked every so many."""
    # A reset lies between two scrapes, and those may lie in two spans.
    span += 2 * 60
    where = engines(labels, selection)
    each = " or ".join(f"resets({name}{{{where}}}[{span}s])" for name in names_of(Signal.TOKENS))
    return f"max by ({labels.pod}) ({each}) > 0"


def scraped_anything() -> str:
    """Ask whether the server knows of anything at all."""
    return "count(up)"


def _equal(label: str, value: str) -> Matcher:
    return Matcher(label=label, op=MatchOp.EQUAL, value=value)
