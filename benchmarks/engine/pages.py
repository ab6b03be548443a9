"""The model's `/metrics` page against a real one: families, labels, buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

READ = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_requests_waiting_by_reason",
    "vllm:kv_cache_usage_perc",
    "vllm:engine_sleep_state",
    "vllm:generation_tokens",
    "vllm:prompt_tokens",
    "vllm:num_preemptions",
    "vllm:admission_rejections",
    "vllm:time_to_first_token_seconds",
)
"""The families that the scaler reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family's type, the names of its samples and labels, and its buckets' and parts' values."""

    kind: str
    samples: frozenset[str]
    labels: frozenset[str]
    parts: frozenset[tuple[str, str]]


MOST = 3
"""Names to tell before only counting them."""

PARTS = ("le", "reason", "sleep_state", "finished_reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs between a real page and the model's."""

    alike: list[str]
    different: dict[str, str]
    only_model: list[str]
    only_real: list[str]


def families(page: str) -> Mapping[str, Family]:
    """Read the families of vLLM on a page, without the times at which its series began."""
    found = {}
    for family in text_string_to_metric_families(page):
        if family.name.startswith("vllm:") and not family.name.endswith("_created"):
            pairs = [pair for s in family.samples for pair in s.labels.items()]
            found[family.name] = Family(
                kind=family.type,
                samples=frozenset(
                    s.name for s in family.samples if not s.name.endswith("_created")
                ),
                labels=frozenset(name for name, _ in pairs),
                parts=frozenset((name, value) for name, value in pairs if name in PARTS),
            )
    return found


def difference(real: str, model: str) -> Difference:
    """Compare two pages."""
    theirs, ours = families(real), families(model)
    both = sorted(theirs.keys() & ours.keys())
    different = {name: _told(theirs[name], ours[name]) for name in both}
    return Difference(
        alike=[name for name in both if not different[name]],
        different={name: told for name, told in different.items() if told},
        only_model=sorted(ours.keys() - theirs.keys()),
        only_real=sorted(theirs.keys() - ours.keys()),
    )


def _told(real: Family, model: Family) -> str:
    faults = []
    if real.kind != model.kind:
        faults.append(f"type {real.kind} against {model.kind}")
    for what, theirs, ours in (
        ("samples", real.samples, model.samples),
        ("labels", real.labels, model.labels),
        ("values of labels", _values(real), _values(model)),
    ):
        if missing := sorted(theirs - ours):
            faults.append(f"{_listed(missing)} among the {what} only on the real page")
        if added := sorted(ours - theirs):
            faults.append(f"{_listed(added)} among the {what} only on the model's")
    return "; ".join(faults)


def _listed(names: list[str]) -> str:
    told = ", ".join(names[:MOST])
    return told if len(names) <= MOST else f"{told} and {len(names) - MOST} more"


def _values(family: Family) -> frozenset[str]:
    return frozenset(f"{name}={value}" for name, value in family.parts)
