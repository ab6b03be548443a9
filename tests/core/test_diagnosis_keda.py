"""What KEDA, the HPA and the bounds say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.diagnosis import diagnose
from scaler.core.diagnosis_finding import Kind, Severity
from scaler.core.pods import Condition
from scaler.core.workload import Scale
from tests.core.histories import NOW, steady
from tests.core.illness import SITUATION, WELL, facts, found

QUEUE = replace(WELL, waiting=40.0, queued=4, kv_cache=0.8)


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({}, "The ScaledObject is paused."),
        ({"paused_replicas": 3}, "The ScaledObject is paused at 3 replicas."),
        ({"paused_replicas": 1}, "The ScaledObject is paused at 1 replica."),
        ({"in_paused": True}, "Scale-in of the ScaledObject is paused."),
        ({"out_paused": True}, "Scale-out of the ScaledObject is paused."),
        ({"in_paused": True, "out_paused": True}, "The ScaledObject is paused."),
    ],
)
def test_a_pause_says_of_what(changes: dict[str, object], evidence: str) -> None:
    """Somebody paused it on purpose: a note, in the words of what is paused."""
    situation = replace(SITUATION, paused=True, **changes)  # type: ignore[arg-type]
    finding = found(facts(situation=situation))[Kind.PAUSED]
    assert (finding.evidence, finding.severity) == (evidence, Severity.NOTE)


@pytest.mark.parametrize(
    ("current", "most", "expected"), [(4, 4, True), (5, 4, True), (4, 5, False), (4, 20, False)]
)
def test_the_maximum_is_reached_when_demand_needs_more(
    current: int, most: int, *, expected: bool
) -> None:
    """A fleet at its maximum without need of more is well; one still growing is, too."""
    known = facts(steady(QUEUE, 120), scale=Scale(current=current, max_replicas=most))
    assert (Kind.AT_MAX in found(known)) is expected
    calm = facts(scale=Scale(current=current, max_replicas=current))
    assert Kind.AT_MAX not in found(calm)


def test_a_maximum_that_nobody_knows_is_not_reached() -> None:
    """Without bounds nobody can say."""
    assert diagnose(facts(scale=Scale(current=4))).verdict(Kind.AT_MAX) is None


@pytest.mark.parametrize(
    ("metric_type", "verdict"),
    [("AverageValue", False), ("Value", True), ("Utilization", True), (None, None)],
)
def test_only_the_average_value_works(metric_type: str | None, *, verdict: bool | None) -> None:
    """Any other type multiplies or refuses what we send; an HPA that nobody sees is not known."""
    diagnosis = diagnose(facts(situation=replace(SITUATION, metric_type=metric_type)))
    assert diagnosis.verdict(Kind.METRIC_TYPE) is verdict


@pytest.mark.parametrize(
    ("ago", "owners", "expected"),
    [
        ((), (), None),
        ((60.0,), (), None),
        (
            (60.0, 1800.0),
            (),
            "The count has gone 2 times in 30 min where the scaler had not asked it to go.",
        ),
        ((60.0, 1801.0), (), None),
        ((), ("HPA chat-cpu",), "The count is also written by HPA chat-cpu."),
        (
            (1.0, 2.0),
            ("argocd",),
            (
                "The count is also written by argocd and has gone 2 times in 30 min where the "
                "scaler had not asked it to go."
            ),
        ),
    ],
)
def test_a_second_owner_is_seen_or_felt(
    ago: tuple[float, ...], owners: tuple[str, ...], expected: str | None
) -> None:
    """One move by a person is nothing; two in half an hour, or a name, is an owner."""
    known = facts(
        situation=replace(SITUATION, other_owners=owners), moves=tuple(NOW - a for a in ago)
    )
    finding = found(known).get(Kind.SECOND_OWNER)
    assert (finding.evidence if finding is not None else None) == expected


BAD = Condition(status=False, reason="FailedGetExternalMetric", message="no\nanswer")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, None),
        ({"ScalingActive": Condition(status=True)}, None),
        ({"ScalingActive": Condition(status=None)}, None),
        ({"ScalingLimited": Condition(status=True, reason="TooManyReplicas")}, None),
        (
            {"ScalingActive": BAD},
            "The HPA keda-hpa-chat says ScalingActive=False (FailedGetExternalMetric): no answer.",
        ),
        (
            {"AbleToScale": Condition(status=False)},
            "The HPA keda-hpa-chat says AbleToScale=False.",
        ),
    ],
)
def test_the_hpa_s_own_words_are_told(
    conditions: dict[str, Condition], expected: str | None
) -> None:
    """A condition that is False is quoted; one that is not known is no fault."""
    finding = found(facts(situation=replace(SITUATION, conditions=conditions))).get(
        Kind.HPA_NOT_SCALING
    )
    assert (finding.evidence if finding is not None else None) == expected


def test_at_zero_the_hpa_is_off_by_design() -> None:
    """KEDA wakes a fleet of zero, not the HPA."""
    situation = replace(SITUATION, conditions={"ScalingActive": BAD})
    assert Kind.HPA_NOT_SCALING not in found(facts([], scale=Scale(current=0), situation=situation))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"Ready": Condition(status=True), "Fallback": Condition(status=False)}, None),
        ({"Ready": Condition(status=False)}, "KEDA says Ready=False."),
        (
            {"Fallback": Condition(status=True, reason="FallbackExists")},
            "KEDA says Fallback=True (FallbackExists).",
        ),
    ],
)
def test_keda_s_own_words_are_told(conditions: dict[str, Condition], expected: str | None) -> None:
    """Not ready, or on its fallback: the count is not ours then."""
    finding = found(facts(situation=replace(SITUATION, conditions=conditions))).get(
        Kind.KEDA_NOT_READY
    )
    assert (finding.evidence if finding is not None else None) == expected


@pytest.mark.parametrize(
    ("changes", "wakes", "expected"),
    [
        ({"min_replicas": 1}, False, False),
        ({"min_replicas": 0}, False, True),
        ({"min_replicas": 0}, True, False),
        ({"idle_replicas": 0}, False, True),
        ({"min_replicas": 0, "other_triggers": ("cpu", "memory")}, False, True),
        ({"min_replicas": 0, "other_triggers": ("cron",)}, False, False),
    ],
)
def test_zero_needs_a_way_to_wake(
    changes: dict[str, object], *, wakes: bool, expected: bool
) -> None:
    """An activationQuery or another trigger wakes a fleet; CPU and memory of no pod do not."""
    situation = replace(SITUATION, **changes)  # type: ignore[arg-type]
    known = facts(situation=situation, wakes=wakes)
    assert (Kind.NO_WAY_TO_WAKE in found(known)) is expected


@pytest.mark.parametrize(("current", "severity"), [(4, Severity.WARNING), (0, Severity.CRITICAL)])
def test_a_fleet_that_sleeps_for_ever_is_grave(current: int, severity: Severity) -> None:
    """At zero without a way back nothing will ever happen by itself."""
    known = facts(
        [] if current == 0 else None,
        scale=Scale(current=current, max_replicas=20),
        situation=replace(SITUATION, min_replicas=0),
        wakes=False,
    )
    assert found(known)[Kind.NO_WAY_TO_WAKE].severity is severity
