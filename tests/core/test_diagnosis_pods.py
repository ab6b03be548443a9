"""Which memory ran out, which pods do not come, and which cannot be scraped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.core.diagnosis import diagnose
from scaler.core.diagnosis_finding import Kind, Severity
from scaler.core.learned import Learned
from scaler.core.pods import Exit, Pod
from scaler.core.workload import Scale
from tests.core.histories import NOW, steady
from tests.core.illness import LEARNED, WELL, ended, facts, found, pod, pods

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
OOMS = {Kind.HOST_OOM_KILL, Kind.DEVICE_OOM}


@pytest.mark.parametrize(
    ("ending", "kind", "severity"),
    [
        (ended(137, "OOMKilled"), Kind.HOST_OOM_KILL, Severity.CRITICAL),
        # A child of the container's first process was killed, and that one then ended by itself.
        (ended(1, "OOMKilled"), Kind.HOST_OOM_KILL, Severity.CRITICAL),
        (ended(0, "OOMKilled"), Kind.HOST_OOM_KILL, Severity.CRITICAL),
        (ended(137, "Error"), Kind.HOST_OOM_KILL, Severity.WARNING),
        (ended(137, "OOMKilled", message=OUT_OF_MEMORY), Kind.HOST_OOM_KILL, Severity.CRITICAL),
        (ended(137, "OOMKilled", ago=None), Kind.HOST_OOM_KILL, Severity.CRITICAL),
        (ended(137, "OOMKilled", ago=3600.0), Kind.HOST_OOM_KILL, Severity.CRITICAL),
        (ended(137, "OOMKilled", ago=3601.0), None, None),
        (ended(1, message=OUT_OF_MEMORY), Kind.DEVICE_OOM, Severity.CRITICAL),
        (
            ended(1, message="No available memory for the cache blocks."),
            Kind.DEVICE_OOM,
            "critical",
        ),
        (ended(1), Kind.DEVICE_OOM, Severity.WARNING),
        (ended(134, "Error"), Kind.DEVICE_OOM, Severity.WARNING),
        (ended(1, message="ValueError: no such model"), None, None),
        (ended(0, "Completed"), None, None),
        (ended(143, "Error"), None, None),
        (ended(None, ""), None, None),
        (ended(1, ago=3601.0), None, None),
    ],
)
def test_which_memory_ran_out(
    ending: Exit, kind: Kind | None, severity: Severity | str | None
) -> None:
    """How a container ended says host, device or neither; an old ending says nothing of today."""
    findings = found(facts(pods=(pod(last_exit=ending),)))
    assert findings.keys() & OOMS == ({kind} if kind is not None else set())
    if kind is not None:
        assert findings[kind].severity == severity


def test_a_host_kill_names_container_pod_and_time() -> None:
    """A person can go there; pods that share the fate are counted in."""
    several = (
        pod("chat-0", last_exit=ended(137, "OOMKilled", ago=700.0)),
        pod("chat-1", last_exit=ended(137, "OOMKilled", ago=180.0), restarts=2),
        pod("chat-2"),
    )
    finding = found(facts(pods=several))[Kind.HOST_OOM_KILL]
    assert finding.evidence == (
        "Killed by the host: container vllm of chat-1 (OOMKilled, exit code 137) 3 min ago, "
        "2 restarts so far; likewise chat-0."
    )
    assert finding.pods == ("chat-1", "chat-0")
    assert "never moves the fleet" in finding.advice
    assert "resources.limits.memory" in finding.advice


def test_a_kill_without_proof_is_not_called_memory() -> None:
    """137 alone may be a failing probe or the node: the advice names what it can be."""
    finding = found(facts(pods=(pod(last_exit=ended(137)),)))[Kind.HOST_OOM_KILL]
    assert "liveness probe" in finding.advice


def test_each_kill_is_an_occurrence_of_its_own() -> None:
    """Two kills in an hour are told apart, the same one seen twice is not."""
    first = facts(pods=(pod(last_exit=ended(137, "OOMKilled", ago=600.0)),))
    second = facts(pods=(pod(last_exit=ended(137, "OOMKilled", ago=60.0)),))
    told = [found(each)[Kind.HOST_OOM_KILL].occurrence for each in (first, first, second)]
    assert told[0] == told[1] != told[2]


def test_last_words_are_quoted() -> None:
    """What the engine said when it ended stands in the evidence."""
    finding = found(facts(pods=(pod(last_exit=ended(1, message=f"a\n{OUT_OF_MEMORY}")),)))
    assert "Tried to allocate 2.00 GiB" in finding[Kind.DEVICE_OOM].evidence


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"restarts": 3, "last_exit": ended(1, ago=600.0)}, True),
        ({"restarts": 3, "last_exit": ended(1, ago=601.0)}, False),
        ({"restarts": 2, "last_exit": ended(1, ago=10.0)}, False),
        ({"restarts": 9, "last_exit": ended(1, ago=None), "ready": False}, True),
        ({"restarts": 9, "last_exit": ended(1, ago=None)}, False),
        ({"restarts": 9}, False),
        ({"blocked": "CrashLoopBackOff", "ready": False}, True),
        ({"blocked": "CrashLoopBackOff", "terminating": True}, False),
    ],
)
def test_a_crash_loop_is_many_restarts_of_late(
    changes: dict[str, object], *, expected: bool
) -> None:
    """Three restarts, the last within ten minutes; or Kubernetes says so itself."""
    changed = replace(pod(), **changes)  # type: ignore[arg-type]
    assert (Kind.CRASH_LOOP in found(facts(pods=(changed,)))) is expected


LOADING = replace(pod("chat-4"), ready=False, ready_at=None, created_at=NOW - 541.0)


@pytest.mark.parametrize(
    ("late", "lead_time", "expected"),
    [
        (LOADING, 180.0, True),
        (replace(LOADING, created_at=NOW - 540.0), 180.0, False),
        (LOADING, 600.0, False),
        (replace(LOADING, ready=True), 180.0, False),
        (replace(LOADING, terminating=True), 180.0, False),
        # It fell out of readiness a while ago, or just now.
        (replace(LOADING, created_at=NOW - 7200.0, unready_at=NOW - 541.0), 180.0, True),
        (replace(LOADING, created_at=NOW - 7200.0, unready_at=NOW - 540.0), 180.0, False),
    ],
)
def test_a_pod_is_stuck_after_three_lead_times(
    late: Pod, lead_time: float, *, expected: bool
) -> None:
    """What usually takes three minutes is late after nine."""
    known = facts(pods=(*pods(1), late), learned=replace(LEARNED, lead_time=lead_time))
    assert (Kind.STUCK_LOADING in found(known)) is expected


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"blocked": "Unschedulable", "ip": None}, "(Unschedulable)"),
        ({"ip": None}, "not scheduled yet"),
        ({}, "for 9 min; usually"),
    ],
)
def test_a_stuck_pod_says_why_where_it_is_known(changes: dict[str, object], part: str) -> None:
    """Kubernetes' own word comes first, a missing address second."""
    stuck = replace(LOADING, **changes)  # type: ignore[arg-type]
    evidence = found(facts(pods=(stuck,)))[Kind.STUCK_LOADING].evidence
    assert part in evidence
    assert "has not been Ready for 9 min" in evidence
    assert "usually it takes 180 s" in evidence


def test_the_lead_time_is_assumed_until_it_is_learned() -> None:
    """At the first start of a fleet nothing has been learned, and a stuck pod is found anyway."""
    known = facts(pods=(LOADING,), learned=Learned())
    assert Kind.STUCK_LOADING in found(known)


# --- scraping -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"ready_at": NOW - 60.0}, True),
        ({"ready_at": NOW - 59.0}, False),
        ({"ready_at": None}, True),
        ({"ready": False}, False),
        ({"terminating": True}, False),
        ({"leader": False}, False),
        ({"replica": "chat-0"}, False),
        ({"name": "chat-0"}, False),
    ],
)
def test_a_ready_pod_that_was_never_heard_cannot_be_scraped(
    changes: dict[str, object], *, expected: bool
) -> None:
    """A minute after it is Ready a pod has been heard, itself or as part of its group."""
    strange = replace(pod("chat-9"), **changes)  # type: ignore[arg-type]
    findings = found(facts(pods=(*pods(3), strange)))
    assert (Kind.SCRAPING_BLOCKED in findings) is expected
    if expected:
        assert findings[Kind.SCRAPING_BLOCKED].severity is Severity.WARNING
        assert "1 of 4 Ready pods have never shown" in findings[Kind.SCRAPING_BLOCKED].evidence


def test_all_pods_unheard_is_grave_and_says_what_the_scraper_met() -> None:
    """A mesh or a NetworkPolicy hides the whole fleet, and the source knows how."""
    known = facts(
        [],
        heard=frozenset(),
        trouble='source "engines": none of 4 targets answered; 10.0.0.1:8000: reset',
        targets_silent=True,
    )
    finding = found(known)[Kind.SCRAPING_BLOCKED]
    assert finding.severity is Severity.CRITICAL
    assert "10.0.0.1:8000: reset" in finding.evidence
    assert "mTLS" in finding.advice


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"trouble": "Prometheus refused"}, "the source is silent"),
        ({"looked_since": NOW - 59.0}, "wait a minute"),
        ({"looked_since": None}, "wait a minute"),
    ],
)
def test_who_has_not_looked_does_not_accuse(changes: dict[str, object], part: str) -> None:
    """An outage of the source, or a scaler that has just begun, is no fault of the pods."""
    known = replace(facts(heard=frozenset()), **changes)  # type: ignore[arg-type]
    diagnosis = diagnose(known)
    assert part in dict(diagnosis.not_known)[Kind.SCRAPING_BLOCKED]


@pytest.mark.parametrize(("ready", "silent"), [(True, True), (False, False)])
def test_a_fleet_that_loads_is_not_a_silent_source(*, ready: bool, silent: bool) -> None:
    """Engines that do not listen yet are no trouble of the source."""
    known = facts([], pods=pods(ready=ready), trouble="refused", targets_silent=True)
    assert (Kind.SOURCE_SILENT in found(known)) is silent
    blind = facts(
        [],
        pods=None,
        scale=Scale(current=4, ready=4 if ready else 0),
        trouble="refused",
        targets_silent=True,
    )
    assert (Kind.SOURCE_SILENT in found(blind)) is silent


def test_a_silence_says_how_long_it_has_lasted_and_whose_it_is() -> None:
    """Counted from the newest sample, or from the first look; engines that refuse are no outage."""
    down = facts(steady(WELL, 120, end=NOW - 60.0), trouble="refused")
    finding = found(down)[Kind.SOURCE_SILENT]
    assert finding.evidence == "The source has said nothing for 60 s: refused."
    assert "Repair the source" in finding.advice
    blocked = found(facts([], pods=None, trouble="reset", targets_silent=True))
    assert blocked[Kind.SOURCE_SILENT].evidence == "The source has said nothing for 60 min: reset."
    assert "mTLS" in blocked[Kind.SOURCE_SILENT].advice


def test_pods_do_not_change_what_is_said_of_load() -> None:
    """The engines' own signals are judged by themselves."""
    assert not found(facts(steady(WELL, 120), pods=()))
