"""The diagnosis as a whole: complete, ordered, honest about what it cannot know, and harmless."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.diagnosis import diagnose
from scaler.core.diagnosis_facts import Facts
from scaler.core.diagnosis_finding import ADVICE, Kind, Severity, quoted
from scaler.core.diagnosis_text import diagnosed, to_text
from scaler.core.learned import Learned
from scaler.core.pods import Condition
from scaler.core.reasons import Reason
from scaler.core.rendering import to_plain
from scaler.core.workload import Scale, WorkloadKey
from tests.core.histories import NOW, World, steady, ttft_in, worlds
from tests.core.illness import (
    SITUATION,
    WELL,
    ended,
    facts,
    found,
    pod,
    pods,
    replica,
    replicas,
    unknown,
)

KEY = WorkloadKey(namespace="prod", name="chat", trigger="1f3a")
QUEUE = replace(WELL, waiting=40.0, queued=4, kv_cache=0.8)
LATE = pod("chat-4", ready=False, ready_at=None, created_at=NOW - 541.0)

ILL: dict[Kind, Callable[[], Facts]] = {
    Kind.HOST_OOM_KILL: lambda: facts(pods=pods(last_exit=ended(137, "OOMKilled"))),
    Kind.DEVICE_OOM: lambda: facts(pods=pods(last_exit=ended(1, message="CUDA out of memory."))),
    Kind.KV_CACHE_PRESSURE: lambda: facts(steady(replace(WELL, kv_cache=0.96), 120)),
    Kind.SLOT_LIMITED: lambda: facts(
        steady(replace(QUEUE, saturated=10.0, kv_cache=0.3), 120), learned=Learned()
    ),
    Kind.QUEUE_BOUND: lambda: facts(steady(QUEUE, 120)),
    Kind.PREFILL_BOUND: lambda: facts(steady(replace(WELL, ttft=ttft_in(5)), 120)),
    Kind.STALLED_ENGINE: lambda: facts(steady(replace(WELL, serving=3, stalled=1), 120)),
    Kind.HIDDEN_DEMAND: lambda: facts(steady(replace(WELL, rejection_rate=3.0), 120)),
    Kind.HOT_REPLICA: lambda: facts(steady(replace(WELL, waiting=40.0, queued=1), 120)),
    Kind.SCRAPING_BLOCKED: lambda: facts(heard=frozenset()),
    Kind.SOURCE_SILENT: lambda: facts(trouble="refused"),
    Kind.CRASH_LOOP: lambda: facts(pods=pods(restarts=4, last_exit=ended(1), ready=False)),
    Kind.STUCK_LOADING: lambda: facts(pods=(*pods(), LATE)),
    Kind.PAUSED: lambda: facts(situation=replace(SITUATION, paused=True)),
    Kind.AT_MAX: lambda: facts(steady(QUEUE, 120), scale=Scale(current=4, max_replicas=4)),
    Kind.METRIC_TYPE: lambda: facts(situation=replace(SITUATION, metric_type="Value")),
    Kind.SECOND_OWNER: lambda: facts(situation=replace(SITUATION, other_owners=("argocd",))),
    Kind.HPA_NOT_SCALING: lambda: facts(
        situation=replace(SITUATION, conditions={"AbleToScale": Condition(status=False)})
    ),
    Kind.KEDA_NOT_READY: lambda: facts(
        situation=replace(SITUATION, conditions={"Ready": Condition(status=False)})
    ),
    Kind.NO_WAY_TO_WAKE: lambda: facts(situation=replace(SITUATION, min_replicas=0), wakes=False),
}
"""For each kind a workload that has it."""


def test_a_fleet_that_is_well_has_no_finding() -> None:
    """Where everything is known and nothing is wrong, nothing is said."""
    diagnosis = diagnose(facts())
    assert diagnosis.findings == ()
    assert diagnosis.not_known == ()


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_can_be_found(kind: Kind) -> None:
    """Each kind has a workload that shows it, with evidence and a cure."""
    finding = found(ILL[kind]())[kind]
    assert finding.evidence.endswith((".", "…")) or kind is Kind.DEVICE_OOM
    assert finding.advice
    assert diagnose(ILL[kind]()).verdict(kind) is True


def test_every_kind_has_advice() -> None:
    """No finding leaves a person without something to do."""
    assert ADVICE.keys() == set(Kind)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_found_not_found_or_not_known(kind: Kind) -> None:
    """Each kind is looked at in every workload: also in one of which nothing is known."""
    nothing = Facts(now=NOW, policy=facts().policy, decision=replace(facts().decision, current=4))
    assert diagnose(nothing).verdict(kind) in (None, False)
    assert diagnose(facts()).verdict(kind) is False


def test_what_nobody_knows_is_not_said_to_be_well() -> None:
    """Without a cluster, pods and KEDA are not known, and each of their kinds says why."""
    diagnosis = diagnose(facts(pods=None, situation=None, scale=Scale(current=4)))
    why = unknown(diagnosis)
    assert why.keys() == {
        Kind.HOST_OOM_KILL,
        Kind.DEVICE_OOM,
        Kind.CRASH_LOOP,
        Kind.STUCK_LOADING,
        Kind.SCRAPING_BLOCKED,
        Kind.PAUSED,
        Kind.METRIC_TYPE,
        Kind.SECOND_OWNER,
        Kind.HPA_NOT_SCALING,
        Kind.KEDA_NOT_READY,
        Kind.NO_WAY_TO_WAKE,
        Kind.AT_MAX,
    }
    assert "no cluster" in why[Kind.HOST_OOM_KILL]


def test_the_gravest_finding_comes_first() -> None:
    """Whoever reads one line reads the one that matters."""
    known = facts(
        steady(QUEUE, 120),
        pods=(pod(last_exit=ended(137, "OOMKilled")), LATE),
        situation=replace(SITUATION, paused=True),
    )
    severities = [finding.severity for finding in diagnose(known).findings]
    assert severities == sorted(severities, key=list(Severity).index)
    assert len(set(severities)) == 3


def test_a_diagnosis_is_plain_text_and_plain_data() -> None:
    """Text names severity, kind, evidence and advice; JSON holds the same, and null for unknown."""
    known = facts(pods=pods(last_exit=ended(137, "OOMKilled")), situation=None)
    told = diagnosed(KEY, known.decision, diagnose(known), cannot=("No right to list HPAs.",))
    text = to_text(told)
    for part in ("prod/chat", "CRITICAL  host-oom-kill", "OOMKilled", "→ ", "No right to list"):
        assert part in text
    assert "paused, metric-type" in text
    plain = json.loads(json.dumps(to_plain(told)))
    assert plain["findings"][0]["kind"] == "host-oom-kill"
    assert plain["not_known"][0]["kinds"][0] == "paused"


def test_a_well_fleet_reads_as_such() -> None:
    """Nothing found is said, not left out."""
    assert "Nothing found." in to_text(diagnosed(KEY, facts().decision, diagnose(facts())))


@pytest.mark.parametrize(
    "reason", [Reason.SOURCE_SILENT, Reason.SILENT_TOO_LONG, Reason.NOTHING_SERVING]
)
def test_nothing_found_where_nothing_is_seen_is_no_good_news(reason: Reason) -> None:
    """A trigger that means no engine finds nothing, and has to be looked at."""
    decision = replace(facts().decision, reason=reason)
    text = to_text(diagnosed(KEY, decision, diagnose(facts())))
    assert "nothing is seen of the engines" in text
    assert "modelName" in text


def test_without_a_diagnosis_nothing_is_known() -> None:
    """A workload that was registered a moment ago is not called well."""
    told = diagnosed(KEY, facts().decision, None)
    assert told.not_known[0].kinds == tuple(Kind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\tc", "a b c"),
        ("\x1b[31mred\x00", "[31mred"),
        ("x" * 300, "x" * 240 + "…"),
        ("  ", ""),
    ],
)
def test_what_others_wrote_is_one_short_line(text: str, expected: str) -> None:
    """A message of a container or a condition cannot break the terminal or the page."""
    assert quoted(text) == expected


# --- laws -----------------------------------------------------------------------------------------

_EXITS = st.builds(
    ended,
    st.sampled_from([None, 0, 1, 137, 143, 255]),
    st.sampled_from(["OOMKilled", "Error", "Completed", ""]),
    st.sampled_from([None, -60.0, 0.0, 60.0, 3600.0, 1e9]),
    st.sampled_from(["", "CUDA out of memory", "\x00"]),
)
_PODS = st.lists(
    st.builds(
        pod,
        st.sampled_from(["chat-0", "chat-1", "chat-9"]),
        ready=st.booleans(),
        ready_at=st.sampled_from([None, NOW, NOW - 3600]),
        created_at=st.sampled_from([NOW + 60, NOW, NOW - 1e6]),
        terminating=st.booleans(),
        leader=st.booleans(),
        restarts=st.sampled_from([0, 1, 99]),
        last_exit=st.one_of(st.none(), _EXITS),
        blocked=st.sampled_from([None, "CrashLoopBackOff", "Unschedulable"]),
    ),
    max_size=4,
).map(tuple)


@settings(max_examples=150)
@given(world=worlds(), placed=st.one_of(st.none(), _PODS), silent=st.booleans())
def test_whatever_is_known_a_diagnosis_is_made(
    world: World, placed: tuple[object, ...] | None, *, silent: bool
) -> None:
    """No history, no pods and no gaps make it fail; each kind gets one verdict, all of it JSON."""
    known = Facts(
        now=NOW,
        policy=world.policy,
        decision=world.decided(),
        samples=world.samples,
        scale=world.scale,
        replicas=replicas(world.samples[-1].serving),
        looked_since=NOW - 600,
        trouble="refused" if silent else None,
        targets_silent=silent,
        pods=placed,  # type: ignore[arg-type]
    )
    diagnosis = diagnose(known)
    kinds = [f.kind for f in diagnosis.findings] + [kind for kind, _ in diagnosis.not_known]
    assert len(kinds) == len(set(kinds))
    json.dumps(to_plain(diagnosis), allow_nan=False)
    assert all("nan" not in f.evidence and "\n" not in f.evidence for f in diagnosis.findings)


def test_a_replica_is_named_where_it_is_known() -> None:
    """A person can go to the pod that is meant."""
    stuck = replica("chat-3", token_rate=0.0, running=106.0, waiting=15.0)
    known = facts(steady(replace(WELL, serving=3, stalled=1), 120), replicas=(*replicas(3), stuck))
    evidence = found(known)[Kind.STALLED_ENGINE].evidence
    assert evidence == (
        "1 of 4 replicas hold requests and have produced no token for 2 min: "
        "chat-3 (106 running, 15 waiting)."
    )
