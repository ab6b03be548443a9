"""Manifests are checked before they reach a cluster."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scaler.config.findings import Finding, Severity, failed, render_text, to_json
from scaler.config.manifest import check_manifests

GOOD = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat, namespace: prod}
spec:
  scaleTargetRef: {name: chat}
  minReplicaCount: 1
  fallback: {failureThreshold: 3, replicas: 2}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp: {tolerance: 0}
        scaleDown: {tolerance: "0", stabilizationWindowSeconds: 60}
  triggers:
    - type: external
      metadata:
        scalerAddress: scaler.keda:50051
        modelName: llama
"""
TRIGGER = "        modelName: llama\n"


def _changed(*changes: tuple[str, str]) -> list[Finding]:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return check_manifests(text, "chat.yaml")


def test_a_good_manifest_has_no_findings() -> None:
    """The example of the documentation is such a one."""
    assert _changed() == []


def _add(key: str, value: str) -> tuple[str, str]:
    return TRIGGER, f"{TRIGGER}        {key}: {value}\n"


@pytest.mark.parametrize(
    ("change", "rule", "severity", "line"),
    [
        (_add("kvCacheHigh", '"85"'), "metadata", "error", 18),
        (_add("wiatingHigh", '"8"'), "metadata", "error", 18),
        (_add("gpuUtilization", '"8"'), "metadata", "error", 18),
        (_add("waitingLow", '"8"'), "metadata", "error", 18),
        (_add("waitingHigh", "8"), "not-text", "error", 18),
        (_add("wiatingHighFromEnv", "X"), "metadata", "error", 18),
        (_add("modelNameFromEnv", "X"), "metadata", "error", 18),
        (("type: external", "type: external\n      metricType: Value"), "metric-type", "error", 15),
        (
            ("type: external", "type: external\n      metricType: Utilization"),
            "metric-type",
            "error",
            15,
        ),
        (("        scalerAddress: scaler.keda:50051\n", ""), "no-address", "error", 14),
        (("ScaledObject", "ScaledJob"), "scaled-job", "error", 2),
        (("minReplicaCount: 1", "minReplicaCount: 0"), "zero-without-wake", "error", 6),
        (("  minReplicaCount: 1\n", ""), "zero-without-wake", "error", 4),
        (
            ("minReplicaCount: 1", "minReplicaCount: 2\n  idleReplicaCount: 0"),
            "zero-without-wake",
            "error",
            6,
        ),
        (_add("caCert", "x"), "tls-in-metadata", "warning", 18),
        (_add("tlsClientKeyFromEnv", "x"), "tls-in-metadata", "warning", 18),
        (_add("ttftP95High", "2s"), "between-buckets", "warning", 18),
        (_add("ttftP95Low", "600ms"), "between-buckets", "warning", 18),
        (_add("scaleOutWindow", "44s"), "short-window", "warning", 18),
        (
            ("type: external", "type: external\n      useCachedMetrics: true"),
            "cached-metrics",
            "warning",
            15,
        ),
        (("  fallback: {failureThreshold: 3, replicas: 2}\n", ""), "no-fallback", "warning", 4),
        (("scaleUp: {tolerance: 0}", "scaleUp: {}"), "tolerance", "warning", 11),
        (('tolerance: "0", ', 'tolerance: "0.1", '), "tolerance", "warning", 12),
        (('tolerance: "0", ', 'tolerance: "-", '), "tolerance", "warning", 12),
        (("Seconds: 60", "Seconds: 61"), "doubled-window", "warning", 12),
        ((", stabilizationWindowSeconds: 60", ""), "doubled-window", "warning", 12),
        (
            ("{tolerance: 0}", "{tolerance: 0, stabilizationWindowSeconds: 1}"),
            "doubled-window",
            "warning",
            11,
        ),
        (
            ("  triggers:\n", "  triggers:\n    - type: cpu\n      metadata: {value: '80'}\n"),
            "hardware-trigger",
            "warning",
            14,
        ),
        (
            ("  triggers:\n", "  triggers:\n    - type: memory\n"),
            "hardware-trigger",
            "warning",
            14,
        ),
        (
            (
                "  triggers:\n",
                (
                    "  triggers:\n    - type: prometheus\n"
                    "      metadata: {query: avg(DCGM_FI_PROF_SM_ACTIVE)}\n"
                ),
            ),
            "hardware-trigger",
            "warning",
            14,
        ),
    ],
)
def test_each_rule(change: tuple[str, str], rule: str, severity: str, line: int) -> None:
    """One change to the good manifest gives exactly one finding, at its line."""
    (finding,) = _changed(change)
    assert (finding.rule, finding.severity, finding.line) == (rule, severity, line)
    assert finding.object.endswith("prod/chat")
    assert finding.message
    assert finding.cure


@pytest.mark.parametrize(
    "change",
    [
        _add("ttftP95High", "5s"),
        _add("ttftP95Low", "750ms"),
        _add("scaleOutWindow", "45s"),
        _add("waitingHighFromEnv", "VARIABLE"),
        ("Seconds: 60", "Seconds: 0"),
        ("type: external", "type: external\n      metricType: AverageValue"),
        ("type: external", "type: external-push"),
        (
            "  triggers:\n",
            "  triggers:\n    - type: prometheus\n      metadata: {query: 'sum(q{a=\"cpu\"})'}\n",
        ),
        ("  triggers:\n", "  triggers:\n    - type: cron\n"),
    ],
)
def test_what_is_fine(change: tuple[str, str]) -> None:
    """Exactly on the edge, or none of our business."""
    assert _changed(change) == []


def test_the_edges_near_a_threshold_are_named() -> None:
    """The histogram cannot tell what lies between."""
    (finding,) = _changed(_add("ttftP95High", "2s"))
    assert finding.cure == "the edges near it are 1s and 2.5s"
    (finding,) = _changed(_add("ttftP95High", "1h"))
    assert finding.cure == "the edges near it are 42m40s"


def test_a_value_from_the_environment_leaves_its_pair_open() -> None:
    """Only the cluster knows it."""
    assert _changed(_add("waitingHighFromEnv", "X"), ("X\n", "X\n        waitingLow: '8'\n")) == []


ZERO = ("minReplicaCount: 1", "minReplicaCount: 0")


def test_ways_to_wake() -> None:
    """A query, another trigger, perhaps a profile."""
    query = _add("activationQuery", "sum(queue)")
    assert _changed(ZERO, query, ("type: external", "type: external-push")) == []
    (finding,) = _changed(ZERO, query)
    assert (finding.rule, finding.severity) == ("woken-by-poll", Severity.WARNING)
    assert "misses" not in finding.message
    (finding,) = _changed(ZERO, query, ("spec:\n", "spec:\n  pollingInterval: 90\n"))
    assert finding.message.endswith("up to 90s later, and misses who has left by then")
    assert _changed(ZERO, ("  triggers:\n", "  triggers:\n    - type: cron\n")) == []
    (finding,) = _changed(ZERO, _add("profile", "slow"))
    assert (finding.rule, finding.severity) == ("zero-without-wake", Severity.WARNING)
    rules = {f.rule for f in _changed(ZERO, ("  triggers:\n", "  triggers:\n    - type: cpu\n"))}
    assert rules == {"zero-without-wake", "hardware-trigger"}


@pytest.mark.parametrize(
    ("query", "rules"),
    [
        ("sum(queue)", []),
        ("name:gateway-queue", []),
        ('sum(queue{namespace="prod"})', []),
        ('sum(queue{namespace="other"})', ["foreign-namespace"]),
        ('sum(queue{namespace=~".*"})', ["foreign-namespace"]),
        ("sum(queue", ["metadata"]),
    ],
)
@pytest.mark.parametrize("key", ["activationQuery", "rejectionQuery"])
def test_a_query_of_another_namespace_is_warned_of(key: str, query: str, rules: list[str]) -> None:
    """The scaler refuses it, unless its source calls the namespace by another label."""
    assert [finding.rule for finding in _changed(_add(key, query))] == rules


def test_a_fallback_of_zero_takes_the_fleet_down() -> None:
    """Only where the minimum is zero too."""
    fallback = ("replicas: 2", "replicas: 0")
    assert _changed(fallback) == []
    rules = {finding.rule for finding in _changed(fallback, ZERO)}
    assert rules == {"fallback-to-zero", "zero-without-wake"}


def test_advice_beside_other_triggers_keeps_them_from_shrinking() -> None:
    """The HPA follows the larger answer."""
    advise = _add("mode", "advise")
    assert _changed(advise) == []
    (finding,) = _changed(advise, ("  triggers:\n", "  triggers:\n    - type: cron\n"))
    assert finding.rule == "advise-beside-others"


def test_other_objects_and_other_scalers_are_ignored() -> None:
    """Whatever holds no trigger of ours."""
    others = [
        "kind: ConfigMap",
        "just text",
        "- a list",
        GOOD.replace(TRIGGER, "        metricThreshold: '5'\n").replace("Count: 1", "Count: 0"),
        GOOD.replace("keda.sh/v1alpha1", "example.com/v1").replace("modelName", "modlName"),
        GOOD.replace("type: external", "type: prometheus"),
    ]
    assert check_manifests("\n---\n".join(others), "x.yaml") == []


def test_ours_by_address() -> None:
    """A pattern decides where it is given; this project's name in the address is known."""
    text = GOOD.replace(TRIGGER, "        modlName: llama\n")
    assert check_manifests(text, "x.yaml") == []
    ours = check_manifests(text, "x.yaml", re.compile(r"^scaler\.keda"))
    assert [finding.rule for finding in ours] == ["metadata"]
    named = text.replace("scaler.keda", "vllm-keda-scaler.keda")
    assert [finding.rule for finding in check_manifests(named, "x.yaml")] == ["metadata"]
    assert check_manifests(GOOD + "        x: y\n", "x.yaml", re.compile("other")) == []


def test_several_documents_and_lists() -> None:
    """Lines are the file's, whatever stands before."""
    bad = GOOD.replace(TRIGGER, f"{TRIGGER}        kvCacheHigh: '85'\n")
    two = f"kind: Secret\n---\n{GOOD}---\n{bad}"
    (finding,) = check_manifests(two, "x.yaml")
    assert (finding.document, finding.line) == (2, 2 + 17 + 1 + 18)
    indented = "\n".join(f"    {line}" for line in bad.splitlines())
    (finding,) = check_manifests(f"kind: List\nitems:\n  -\n{indented}\n", "x.yaml")
    assert (finding.rule, finding.line) == ("metadata", 3 + 18)


@pytest.mark.parametrize(
    ("text", "line", "cure"),
    [
        ("a: [", 1, "not checked"),
        ("a: {{ .Values.x }}\n", 1, "render the template"),
        ("a: 1\na: 2", 2, "not checked"),
        ("a: " + "[" * 5000, None, "not checked"),
    ],
)
def test_what_is_no_yaml(text: str, line: int | None, cure: str) -> None:
    """An error with its line; what stood before it is checked."""
    (finding,) = check_manifests(text, "x.yaml")
    assert (finding.rule, finding.severity, finding.line) == ("invalid-yaml", "error", line)
    assert cure in finding.cure
    bad = GOOD.replace(TRIGGER, f"{TRIGGER}        kvCacheHigh: '85'\n")
    before = check_manifests(f"{bad}---\n{text}", "x.yaml")
    assert {finding.rule for finding in before} == {"metadata", "invalid-yaml"}


def test_renderings() -> None:
    """Text as compilers write it, and JSON with every field."""
    findings = _changed(_add("kvCacheHigh", '"85"'), ("scaleUp: {tolerance: 0}", "scaleUp: {}"))
    assert render_text(findings).splitlines()[1:] == [
        (
            'chat.yaml:18: error: ScaledObject prod/chat: kvCacheHigh: "85" is a percentage, not a '
            "fraction from 0 to 1 (write 0.85) [metadata]"
        ),
        "1 error, 1 warning",
    ]
    assert [item["rule"] for item in json.loads(to_json(findings))] == ["tolerance", "metadata"]
    assert json.loads(to_json([])) == []
    assert render_text([]) == "0 errors, 0 warnings\n"


def test_when_a_check_fails() -> None:
    """At an error; at a warning only when strict."""
    warnings = _changed(("scaleUp: {tolerance: 0}", "scaleUp: {}"))
    assert not failed(warnings, strict=False)
    assert failed(warnings, strict=True)
    assert failed(_changed(_add("kvCacheHigh", '"85"')), strict=False)
    assert not failed([], strict=True)


@pytest.mark.parametrize("odd", ["[external]", "{a: b}", "null", "1.5", "true", "2020-01-01"])
@pytest.mark.parametrize(
    "place",
    [
        "ScaledObject",
        "external",
        "keda.sh/v1alpha1",
        "{name: chat, namespace: prod}",
        "{failureThreshold: 3, replicas: 2}",
        "{tolerance: 0}",
        "llama",
        "scaler.keda:50051",
    ],
)
def test_odd_shapes(place: str, odd: str) -> None:
    """What the API server would refuse anyway crashes nothing, beside a trigger that is ours."""
    second = "    - type: external\n      metadata: {scalerAddress: x, modelName: y}\n"
    for finding in check_manifests(GOOD.replace(place, odd) + second, "x.yaml"):
        assert finding.line is not None


_plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("external")
)
_any = st.recursive(
    _plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(data=st.data())
def test_any_shape_is_checked_without_a_crash(data: st.DataObject) -> None:
    """Some part of a good manifest is anything at all."""
    body = yaml.safe_load(GOOD)
    places: list[tuple[dict[str, object], str]] = []

    def collect(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                places.append((value, key))
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    collect(body)
    parent, key = data.draw(st.sampled_from(places))
    parent[key] = data.draw(_any)
    for finding in check_manifests(yaml.safe_dump(body, allow_unicode=True), "x.yaml"):
        assert finding.line is not None
