"""The diagnosis beside each decision: what it is told, what it keeps, and that it moves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.control.ports import SourceUnreachable
from scaler.core.decision import Decision
from scaler.core.diagnosis_finding import Diagnosis, Kind
from scaler.core.pods import Exit, Pod
from scaler.core.reading import Reading
from scaler.core.units import TICK
from scaler.core.workload import Scale, Selection
from tests.control.conftest import House, build
from tests.core.illness import SITUATION, pod
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import Script, fleet_reading

FOUR = Scale(current=4, max_replicas=20)


def busy(_: Selection, at: float) -> Reading:
    """Show four replicas with some work."""
    return fleet_reading(at)


def diagnosed(house: House) -> Diagnosis:
    """Return the diagnosis on the board."""
    found = house.posting().diagnosis
    assert found is not None
    return found


def house_with(script: Script = busy, *pods: Pod, remembers: bool = True) -> House:
    """Wire a follower to a cluster with these pods and a situation."""
    cluster = FakeCluster(chat=FOUR)
    cluster.situations["llm", "chat"] = SITUATION
    house = build(script, cluster, remembers=remembers)
    house.ask()
    at = house.clock.now()
    placed = [
        replace(each, created_at=at - 7200, ready_at=at - 3600 if each.ready else None)
        for each in pods
    ]
    cluster.place("chat", *placed)
    return house


def four(**changes: object) -> list[Pod]:
    """Return the pods of the four replicas."""
    plain = [pod(f"pod-{index}") for index in range(4)]
    return [replace(each, **changes) for each in plain]  # type: ignore[arg-type]


async def test_a_posting_carries_its_diagnosis_and_its_replicas() -> None:
    """Whoever shows the board shows what was found with it, from the same tick."""
    house = house_with(busy, *four())
    await house.ticks(10)
    assert diagnosed(house).at == house.posting().decision.at
    assert diagnosed(house).findings == ()
    assert diagnosed(house).verdict(Kind.HOST_OOM_KILL) is False
    assert [replica.name for replica in house.posting().replicas] == [p.name for p in four()]


async def test_without_a_cluster_pods_are_not_known() -> None:
    """The engines' signals are judged all the same."""
    house = build(busy, None)
    house.ask()
    await house.ticks(10)
    assert diagnosed(house).verdict(Kind.HOST_OOM_KILL) is None
    assert diagnosed(house).verdict(Kind.QUEUE_BOUND) is False


async def test_a_pod_that_never_reports_is_found_and_one_that_did_is_not() -> None:
    """Heard once is heard: a replica that falls silent later is another fault."""
    quiet = False

    def three(_: Selection, at: float) -> Reading:
        return fleet_reading(at, replicas=2 if quiet else 3)

    house = house_with(three, *four(), remembers=False)
    await house.ticks(2)
    assert diagnosed(house).verdict(Kind.SCRAPING_BLOCKED) is None
    await house.ticks(4)
    (finding,) = [f for f in diagnosed(house).findings if f.kind is Kind.SCRAPING_BLOCKED]
    assert finding.pods == ("pod-3",)
    quiet = True
    await house.ticks(4)
    (finding,) = [f for f in diagnosed(house).findings if f.kind is Kind.SCRAPING_BLOCKED]
    assert finding.pods == ("pod-3",)


@pytest.mark.parametrize(
    ("engines", "kind"), [(True, Kind.SCRAPING_BLOCKED), (False, Kind.SOURCE_SILENT)]
)
async def test_whose_silence_it_is(*, engines: bool, kind: Kind) -> None:
    """Engines that answer nobody are told from a source that is down."""
    fault = SourceUnreachable("none of 4 targets answered")
    fault.targets_silent = engines
    house = house_with(busy, *four())
    house.source.down = fault
    await house.ticks(8)
    verdict = diagnosed(house).verdict(Kind.SCRAPING_BLOCKED)
    assert verdict is (True if engines else None)
    assert diagnosed(house).verdict(kind) is True
    assert house.posting().replicas == ()


async def test_a_count_that_somebody_moves_twice_has_a_second_owner() -> None:
    """Once is a person, twice in half an hour is an owner."""
    house = house_with(busy, *four())
    assert house.cluster is not None
    for current, expected in [(4, False), (9, False), (4, True)]:
        house.cluster.move("chat", current)
        await house.ticks(15)
        assert diagnosed(house).verdict(Kind.SECOND_OWNER) is expected, current


async def test_a_fault_in_the_diagnosis_costs_the_diagnosis_alone() -> None:
    """Whatever a cluster's view does, the decision is posted."""

    class Broken(FakeCluster):
        def situation(self, namespace: str, name: str) -> None:
            del namespace, name
            raise TypeError("secret-text")

    house = build(busy, Broken(chat=FOUR))
    house.ask()
    await house.ticks(3)
    assert house.posting().decision.desired is not None
    assert house.posting().diagnosis is None


async def test_what_is_no_longer_asked_for_is_forgotten() -> None:
    """A workload that goes leaves nothing behind."""
    house = house_with(busy, *four())
    await house.ticks(1)
    house.clock.set(house.clock.now() + 3600.0)
    house.registry.forget_idle(house.clock.now())
    await house.ticks(1)
    diagnosing = house.follower._diagnosing  # noqa: SLF001 - there is no other sign of it
    assert (diagnosing._heard, diagnosing._moves) == ({}, {})  # noqa: SLF001 - as above


async def test_names_are_not_kept_for_ever() -> None:
    """A fleet whose pods come and go by the hour does not fill the memory."""

    def churning(_: Selection, at: float) -> Reading:
        return fleet_reading(at, replicas=4, prefix=f"pod-{at:.0f}")

    house = house_with(churning, remembers=False)
    for _ in range(30):
        house.clock.set(house.clock.now() + 7200.0)
        house.ask()
        await house.ticks(10)
    (heard,) = house.follower._diagnosing._heard.values()  # noqa: SLF001 - no other sign of it
    assert len(heard.names) <= 4 * 10 * 14


# --- a host OOM kill never moves the fleet --------------------------------------------------------

_LOADS = st.tuples(
    st.sampled_from([0.0, 1.0, 30.0, 64.0]),
    st.sampled_from([0.0, 0.0, 2.0, 8.0]),
    st.sampled_from([0.1, 0.5, 0.97]),
)


def _exits() -> st.SearchStrategy[Exit]:
    return st.builds(
        Exit,
        container=st.sampled_from(["vllm", "istio-proxy"]),
        reason=st.sampled_from(["OOMKilled", "Error"]),
        code=st.just(137),
        at=st.sampled_from([None, 999_999_000.0, 1_000_000_005.0]),
    )


async def _decisions(
    loads: Sequence[tuple[float, float, float]], pods: Sequence[Pod]
) -> tuple[list[Decision], bool]:
    """Let a fleet live through these loads, its Ready pods reporting; was a kill found?"""
    ready = sum(each.ready for each in pods)

    def script(_: Selection, at: float) -> Reading:
        running, waiting, cache = loads[int(at // (4 * TICK)) % len(loads)]
        return fleet_reading(at, ready, running=running, waiting=waiting, kv_cache=cache)

    house = house_with(script, *pods)
    decisions, found = [], False
    for _ in range(12):
        await house.ticks(1)
        decisions.append(house.posting().decision)
        found = found or diagnosed(house).verdict(Kind.HOST_OOM_KILL) is True
    return decisions, found


@settings(max_examples=25)
@given(
    loads=st.lists(_LOADS, min_size=1, max_size=4),
    exits=st.lists(_exits(), min_size=4, max_size=4),
    ready=st.sampled_from([4, 4, 3, 1, 0]),
    blocked=st.sampled_from([None, "CrashLoopBackOff"]),
)
async def test_a_host_kill_by_itself_never_moves_the_fleet(
    loads: list[tuple[float, float, float]], exits: list[Exit], ready: int, blocked: str | None
) -> None:
    """Whatever the load, and whichever pods are back, the answers are those without the kills."""
    unhurt = [
        replace(each, ready=index < ready, blocked=None if index < ready else blocked)
        for index, each in enumerate(four())
    ]
    killed = [
        replace(each, last_exit=ending, restarts=1)
        for each, ending in zip(unhurt, exits, strict=True)
    ]
    told, found = await _decisions(loads, killed)
    plain, quiet = await _decisions(loads, unhurt)
    assert told == plain
    assert (found, quiet) == (True, False)
