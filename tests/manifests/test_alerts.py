"""Each alert fires when it should, is quiet when it should be, and has a runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from scaler.core.diagnosis_finding import Kind
from scaler.core.reasons import Reason
from scaler.edge.families import COUNTED, READ
from scaler.edge.gauges import WORKLOAD_GAUGES
from tests.manifests.built import ROOT, Json, compose, mapping, objects_of, of_kind, only, rows
from tests.manifests.exported import BEGIN, END, ask

RUNBOOKS = (ROOT / "docs" / "how-to" / "runbooks.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "how-to" / "grafana.md").read_text(encoding="utf-8")
WORKLOAD = {"namespace": "llm", "scaled_object": "chat"}

Series = Mapping[str, str]
"""Values in promtool's notation, one every 30 s, by series."""


def rules() -> list[Json]:
    """Return all rules."""
    groups = rows(only(objects_of("prometheus"), "PrometheusRule"), "spec", "groups")
    return [rule for group in groups for rule in rows(group, "rules")]


ALERTS = {str(rule["alert"]): rule for rule in rules() if "alert" in rule}


def of(metric: str, values: str, scaler: str = "a", **labels: str) -> dict[str, str]:
    """Name a workload's series as Prometheus stores it from one scaler."""
    told = {**WORKLOAD, "trigger": "1f", "instance": scaler, **labels}
    written = ",".join(f'{name}="{value}"' for name, value in told.items())
    return {f"vllm_scaler_{metric}{{{written}}}": values}


def finding(kind: Kind, values: str) -> dict[str, str]:
    """Name the series of a finding."""
    return of("finding", values, kind=kind.value)


def reason(told: Reason, values: str) -> dict[str, str]:
    """Name the series of a reason."""
    return of("reason", values, reason=told.value)


def ttft(values: str) -> dict[str, str]:
    """Name TTFT p95 beside a threshold of 2.5 s."""
    return {**of("ttft_p95_seconds", values), **of("ttft_p95_high_seconds", "2.5+0x800")}


@dataclass(frozen=True, slots=True)
class Case:
    """What an alert does at a minute; `value` is what its text says, None where it is quiet."""

    alert: str
    about: str
    series: Series
    minute: int
    value: str | None = None
    labels: Mapping[str, str] | None = None

    @property
    def test(self) -> Json:
        """Write it for promtool."""
        labels = WORKLOAD if self.labels is None else self.labels
        firing = [] if self.value is None else [_expected(self.alert, labels, self.value)]
        return {
            "interval": "30s",
            "input_series": [{"series": s, "values": v} for s, v in self.series.items()],
            "alert_rule_test": [
                {"eval_time": f"{self.minute}m", "alertname": self.alert, "exp_alerts": firing}
            ],
        }


def _expected(alert: str, labels: Mapping[str, str], value: str) -> Json:
    """Fill the alert's texts in as Prometheus should."""

    def filled(text: object) -> str:
        told = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels[found[1]], str(text))
        return re.sub(r"{{ \$value[^}]*}}", value, told)

    annotations = mapping(ALERTS[alert], "annotations")
    return {
        "exp_labels": {**labels, **mapping(ALERTS[alert], "labels")},
        "exp_annotations": {name: filled(text) for name, text in annotations.items()},
    }


UP = {'vllm_scaler_build_info{instance="a",version="1"}': "1x10"}
CALM_THEN_SLOW = "1+0x239 4+0x19 1+0x100"
"""Two hours well, ten minutes slow, well again."""

CASES = [
    Case("VllmScalerAbsent", "gone for three minutes", UP, 14, "1", labels={}),
    Case("VllmScalerAbsent", "gone for a moment", UP, 11),
    Case(
        "VllmScalerAbsent",
        "one of two is left",
        {**UP, 'vllm_scaler_build_info{instance="b",version="1"}': "1x60"},
        20,
    ),
    Case(
        "VllmScalerStandsStill",
        "one of two stands",
        {**of("decision_age_seconds", "0+30x20"), **of("decision_age_seconds", "5x20", "b")},
        4,
        "240",
    ),
    Case(
        "VllmScalerStandsStill",
        "two ticks late",
        of("decision_age_seconds", "45x20"),
        4,
    ),
    Case("VllmSourceStale", "trouble", of("source_trouble", "0 1x20"), 4, "1"),
    Case(
        "VllmSourceStale",
        "series ended",
        {**of("source_trouble", "0x20"), **reason(Reason.SOURCE_SILENT, "_ 1x20")},
        4,
        "1",
    ),
    Case("VllmSourceStale", "one tick", of("source_trouble", "0 1 0 0 1 0 0 0 0 0"), 4),
    Case("VllmScalerUnavailable", "too long", reason(Reason.SILENT_TOO_LONG, "1x20"), 2, "1"),
    Case("VllmScalerUnavailable", "still held", reason(Reason.SOURCE_SILENT, "1x20"), 8),
    Case("VllmTriggerQueryFails", "ten minutes", of("query_trouble", "0x4 1x20"), 10, "1"),
    Case(
        "VllmTriggerQueryFails",
        "one of two scalers",
        {**of("query_trouble", "0x20"), **of("query_trouble", "1x20", "b")},
        6,
        "1",
    ),
    Case("VllmTriggerQueryFails", "four minutes", of("query_trouble", "1x8 0x20"), 6),
    Case("VllmReplicasUnseen", "two are silent", of("unseen_replicas", "2x20"), 6, "2"),
    Case("VllmReplicasUnseen", "back in time", of("unseen_replicas", "2x8 0x20"), 6),
    Case("VllmReplicasStalled", "one hangs", of("stalled_replicas", "0x4 1x20"), 5, "1"),
    Case("VllmReplicasStalled", "none hangs", of("stalled_replicas", "0x20"), 5),
    Case("VllmWorkloadAtMax", "ten minutes", finding(Kind.AT_MAX, "1x40"), 11, "1"),
    Case("VllmWorkloadAtMax", "nine minutes", finding(Kind.AT_MAX, "1x40"), 9),
    Case("VllmWorkloadAtMax", "another finding", finding(Kind.SLOT_LIMITED, "1x40"), 11),
    Case(
        "VllmWorkloadFlapping",
        "up and down",
        of("desired_replicas", "2x9 4x9 2x9 4x9 2x9 4x9 2x40"),
        35,
        "3",
    ),
    Case(
        "VllmWorkloadFlapping",
        "a long way down",
        of("desired_replicas", "9x9 8x9 7x9 6x9 5x9 4x9 3x40"),
        35,
    ),
    Case(
        "VllmWorkloadFlapping",
        "a long way up",
        of("desired_replicas", "3x9 4x9 5x9 6x9 7x9 8x9 9x40"),
        35,
    ),
    Case("VllmWorkloadFlapping", "one peak", of("desired_replicas", "2x9 6x9 9x9 4x9 2x40"), 35),
    Case("VllmHostOutOfMemory", "a kill", finding(Kind.HOST_OOM_KILL, "0x4 1x20"), 4, "1"),
    Case("VllmHostOutOfMemory", "no kill", finding(Kind.HOST_OOM_KILL, "0x20"), 4),
    Case(
        "VllmPreemptionStorm",
        "one in five",
        {**of("preemptions_per_second", "1x20"), **of("first_tokens_per_second", "5x20")},
        6,
        "1",
    ),
    Case(
        "VllmPreemptionStorm",
        "nothing served",
        {**of("preemptions_per_second", "1x20"), **of("first_tokens_per_second", "0x20")},
        6,
        "1",
    ),
    Case(
        "VllmPreemptionStorm",
        "one in a hundred",
        {**of("preemptions_per_second", "0.05x20"), **of("first_tokens_per_second", "5x20")},
        6,
    ),
    Case(
        "VllmPreemptionStorm",
        "few at all",
        {**of("preemptions_per_second", "0.02x20"), **of("first_tokens_per_second", "0.1x20")},
        6,
    ),
    Case("VllmTtftBudgetBurnsFast", "ten minutes slow", ttft(CALM_THEN_SLOW), 130, "16.67%"),
    Case("VllmTtftBudgetBurnsFast", "over since long", ttft(CALM_THEN_SLOW), 140),
    Case("VllmTtftBudgetBurnsFast", "eight minutes slow", ttft("1+0x239 4+0x16 1+0x100"), 128),
    Case("VllmTtftBudgetBurnsFast", "the first minutes ever", ttft("4+0x6"), 3),
    Case("VllmTtftBudgetBurnsFast", "no requests", ttft("_x260"), 125),
    Case(
        "VllmTtftBudgetBurnsSlowly",
        "a tenth of six hours",
        ttft("1+0x44 4+0x4 " * 15),
        370,
        "9.722%",
    ),
    Case("VllmTtftBudgetBurnsSlowly", "a minute an hour", ttft("1+0x117 4+0x1 " * 6), 358),
    Case("VllmTtftBudgetBurnsSlowly", "20 minutes slow", ttft("1+0x719 4+0x40 1+0x9"), 380),
    Case(
        "VllmTtftBudgetBurnsSlowly", "over since long", ttft("1+0x44 4+0x4 " * 14 + "1+0x99"), 395
    ),
]


@pytest.mark.prometheus
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.about}")
def test_an_alert_fires_when_it_should(case: Case, tmp_path: Path) -> None:
    """Promtool agrees, down to the labels and the text that a person on call reads."""
    spec = mapping(only(objects_of("prometheus"), "PrometheusRule"), "spec")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    test = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": [case.test]}
    (tmp_path / "test.yaml").write_text(json.dumps(test), encoding="utf-8")
    ran = subprocess.run(
        [shutil.which("promtool") or "promtool", "test", "rules", "test.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.prometheus
def test_the_rules_understand_what_a_scaler_exports(scraped_hour: str) -> None:
    """Over an hour with overload, an outage and a kill these would speak, and no others."""
    hour = {"start": BEGIN + 60, "end": END, "step": 15}
    speaking = {
        str(rule.get("alert", rule.get("record")))
        for rule in rules()
        if rows(ask(scraped_hour, "query_range", query=str(rule["expr"]), **hour), "result")
    }
    assert speaking == {
        "VllmSourceStale",
        "VllmHostOutOfMemory",
        "VllmWorkloadAtMax",
        "workload:vllm_scaler_ttft_p95_slow:bool",
    }


def test_every_alert_is_tried_both_ways() -> None:
    """No alert without a case in which it fires and one in which it is quiet."""
    assert {case.alert for case in CASES if case.value is not None} == ALERTS.keys()
    assert {case.alert for case in CASES if case.value is None} == ALERTS.keys()


def published() -> Iterator[str]:
    """Name all series that a scaler exports."""
    for family in [*READ, *COUNTED, *(gauge.family for gauge in WORKLOAD_GAUGES)]:
        ends = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
        yield from (family.name + end for end in ends.get(family.kind, [""]))


def test_rules_ask_for_what_is_exported() -> None:
    """Each metric, each reason and each kind of finding in a rule exists."""
    asked = " ".join(str(rule["expr"]) for rule in rules())
    recorded = {str(rule["record"]) for rule in rules() if "record" in rule}
    for name in recorded:
        asked = asked.replace(name, "")
    assert set(re.findall(r"vllm_scaler_\w+", asked)) <= set(published())
    reasons = "|".join(re.findall(r'reason=~?"([^"]+)"', asked)).split("|")
    assert set(reasons) <= {each.value for each in Reason}
    assert set(re.findall(r'kind="([^"]+)"', asked)) <= {each.value for each in Kind}


def test_every_alert_has_its_runbook_and_no_other() -> None:
    """Each runbook_url ends in the heading of a section, in the order of the rules."""
    headings = re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE)
    assert headings == list(ALERTS)
    for name, rule in ALERTS.items():
        url = str(mapping(rule, "annotations")["runbook_url"])
        assert url.endswith(f"/docs/how-to/runbooks.md#{name.lower()}")
        assert mapping(rule, "labels")["severity"] in {"critical", "warning"}
    for section in re.split(r"^## \w+$", RUNBOOKS, flags=re.MULTILINE)[1:]:
        assert all(part in section for part in ("**It means.**", "**Look.**", "**Do.**"))


def test_the_page_lists_every_alert() -> None:
    """Name and severity of each alert stand in the table, in the order of the rules."""
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    assert listed == [(name, mapping(rule, "labels")["severity"]) for name, rule in ALERTS.items()]


def test_the_component_brings_the_alerts_along(tmp_path: Path) -> None:
    """Beside the scaler they are the same rules."""
    together = objects_of(compose(tmp_path / "both", "cluster-wide", "alerts"))
    assert of_kind(together, "PrometheusRule") == objects_of("prometheus")
