"""The autoscaler model against recorded answers of the real controller, step by step."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from scaler.simulation.hpa import Hpa
from scaler.simulation.hpa_metrics import propose
from scaler.simulation.hpa_types import (
    Behavior,
    Condition,
    HpaSpec,
    MetricTarget,
    MetricType,
    MetricValue,
    PodCount,
    Policy,
    PolicyType,
    Reconciled,
    Rules,
    SelectPolicy,
    TargetScale,
)
from scaler.simulation.quantity import approximate, milli

GOLDEN: Final = Path(__file__).parent.parent / "data" / "golden"
SCENARIOS: Final = 276
STEPS: Final = 10_319
DECISIONS: Final = 11_160
# Past 64 bits in thousandths the controller wraps around; these texts are the recorded cases.
WRAPPED: Final = frozenset({"1e19", "1e30"})
WRAPPED_STEPS: Final = 5


class Record(BaseModel):
    """A part of the recording, read strictly."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, extra="forbid", frozen=True
    )


class RecordedPolicy(Record):
    """A policy of a block."""

    type: PolicyType
    value: int
    period_seconds: int


class RecordedRules(Record):
    """One direction of a block."""

    stabilization_window_seconds: int | None = None
    select_policy: SelectPolicy | None = None
    policies: list[RecordedPolicy] | None = None
    tolerance: str | None = None

    def rules(self) -> Rules:
        """Return what the model takes."""
        return Rules(
            window=self.stabilization_window_seconds,
            select=self.select_policy,
            policies=None
            if self.policies is None
            else tuple(
                Policy(type=each.type, value=each.value, period=each.period_seconds)
                for each in self.policies
            ),
            tolerance=None if self.tolerance is None else approximate(self.tolerance),
        )


class RecordedBehavior(Record):
    """A block."""

    scale_up: RecordedRules = RecordedRules()
    scale_down: RecordedRules = RecordedRules()

    def behavior(self) -> Behavior:
        """Return what the model takes."""
        return Behavior(scale_up=self.scale_up.rules(), scale_down=self.scale_down.rules())


class RecordedMetric(Record):
    """A metric's target."""

    type: MetricType
    target: str


class Step(Record):
    """What one reconcile saw and what it answered."""

    t: float
    values: list[str | list[str] | None]
    set_spec: int | None = None
    spec: int
    status: int
    pods: int
    ready: int
    proposal: int | None
    desired: int
    rescaled: bool
    current: list[str] | None = None
    able: str
    active: str
    limited: str
    scaled_to_zero: str | None = None
    err: str | None = None

    @property
    def wrapped(self) -> bool:
        """Say whether a value does not fit 64 bits."""
        items = [v if isinstance(v, list) else [v] for v in self.values]
        return any(text in WRAPPED for each in items for text in each)


class Scenario(Record):
    """One recorded run."""

    name: str
    group: str
    note: str = ""
    min: int
    max: int
    initial: int
    metrics: list[RecordedMetric]
    behavior: RecordedBehavior | None
    effective_behavior: RecordedBehavior | None
    global_tolerance: float
    global_downscale_stabilization: float
    scale_to_zero_gate: bool
    lag: int
    steps: list[Step] = Field(min_length=1)

    def hpa(self) -> Hpa:
        """Return the autoscaler that the run had."""
        spec = HpaSpec(
            min_replicas=self.min,
            max_replicas=self.max,
            metrics=tuple(
                MetricTarget(type=each.type, milli=milli(each.target)) for each in self.metrics
            ),
            behavior=None if self.behavior is None else self.behavior.behavior(),
            tolerance=self.global_tolerance,
            downscale_stabilization=self.global_downscale_stabilization,
            scale_to_zero=self.scale_to_zero_gate,
        )
        return Hpa(spec)


@dataclass(frozen=True)
class Answer:
    """What is compared of a step."""

    desired: int
    rescaled: bool
    proposal: int | None
    current: tuple[int | None, ...]
    conditions: tuple[str, str, str, str]
    failed: bool


def scenarios() -> Iterator[Scenario]:
    """Read the recorded runs one by one."""
    with gzip.open(GOLDEN / "hpa-trajectories.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield Scenario.model_validate(json.loads(line))


def decisions() -> Iterator[Mapping[str, str]]:
    """Read the recorded calls of the metric arithmetic."""
    with gzip.open(GOLDEN / "hpa-decisions.csv.gz", "rt", encoding="utf-8", newline="") as rows:
        yield from csv.DictReader(rows)


def value(recorded: str | list[str] | None) -> MetricValue | None:
    """Return a recorded value; a wrapped one is 0, as in the recording."""
    if recorded is None:
        return None
    texts = recorded if isinstance(recorded, list) else [recorded]
    return MetricValue.of(*("0" if text in WRAPPED else text for text in texts))


def answered(seen: Reconciled) -> Answer:
    """Return the model's answer in the recording's words."""

    def words(condition: Condition | None) -> str:
        return "" if condition is None else str(condition)

    conditions = (
        words(seen.able),
        words(seen.active),
        words(seen.limited),
        words(seen.scaled_to_zero),
    )
    return Answer(
        seen.desired,
        seen.rescaled,
        seen.proposal,
        tuple(seen.current),
        conditions,
        seen.failed > 0,
    )


def recorded(step: Step) -> Answer:
    """Return the controller's answer."""
    return Answer(
        step.desired,
        step.rescaled,
        step.proposal,
        tuple(milli(text) if text else None for text in step.current or ()),
        (step.able, step.active, step.limited, step.scaled_to_zero or ""),
        step.err is not None,
    )


def test_every_recorded_step_is_reproduced() -> None:
    """Answer, proposal, shown values and conditions agree with the controller in every step."""
    wrong, steps, runs, wrapped = [], 0, 0, 0
    for scenario in scenarios():
        runs += 1
        hpa = scenario.hpa()
        for step in scenario.steps:
            steps += 1
            wrapped += step.wrapped
            seen = hpa.reconcile(
                step.t,
                TargetScale(spec=step.spec, status=step.status),
                [value(each) for each in step.values],
                PodCount(matching=step.pods, ready=step.ready),
            )
            if answered(seen) != recorded(step):
                wrong.append((scenario.name, step.t, answered(seen), recorded(step)))
    assert not wrong, f"{len(wrong)} of {steps} steps differ, the first: {wrong[0]}"
    assert (runs, steps, wrapped) == (SCENARIOS, STEPS, WRAPPED_STEPS)


def test_every_recorded_decision_is_reproduced() -> None:
    """The arithmetic of one metric agrees with the controller in every row."""
    wrong, rows = [], 0
    for row in decisions():
        rows += 1
        tolerances = (
            approximate(row["tolUp"] or "0.1"),
            approximate(row["tolDown"] or "0.1"),
        )
        got = propose(
            MetricTarget(type=MetricType(row["metricType"]), milli=milli(row["target"])),
            value(row["value"] or None),
            scale=TargetScale(spec=int(row["specReplicas"]), status=int(row["statusReplicas"])),
            pods=PodCount(matching=int(row["pods"]), ready=int(row["readyPods"])),
            tolerances=tolerances,
        )
        expected = (
            None
            if row["error"] == "False:FailedGetExternalMetric"
            else (int(row["replicas"]), milli(row["current"]))
        )
        if (None if got is None else (got.replicas, got.current)) != expected:
            wrong.append((row, got))
    assert not wrong, f"{len(wrong)} of {rows} rows differ, the first: {wrong[0]}"
    assert rows == DECISIONS


def test_every_recorded_block_is_defaulted_as_the_api_does() -> None:
    """What the API stores for a block is what the model fills in."""
    for scenario in scenarios():
        if scenario.behavior is None:
            assert scenario.effective_behavior is None
            continue
        assert scenario.effective_behavior is not None
        assert scenario.behavior.behavior().defaulted() == scenario.effective_behavior.behavior()
