"""The past read back from a real Prometheus, and a plain sentence for whatever is odd in it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.recorded_prometheus import RecordedPrometheus
from scaler.config.trigger import Resolved
from scaler.control.board import Board
from scaler.control.follower import Follower
from scaler.control.registry import Registry
from scaler.core.history import span_needed
from scaler.core.learned import Learned
from scaler.core.policy import Policy
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Scale, Selection
from scaler.tuning.gaps import oddities
from scaler.tuning.ports import PastUnreadable, Target, Wanted
from scaler.tuning.record import Moment, Record
from scaler.tuning.replay import replay
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.prometheus_server import Past, prometheus

pytestmark = pytest.mark.prometheus

END = tick_at(time.time()) // 60 * 60 - 3600.0
START = END - 3600.0
HALF = END - 1800.0
SCRAPES = [START - 1800.0 + at * 15.0 - 7.0 for at in range(361)]
"""From half an hour before the range to its end, each 7 s before a tick."""

BOUNDS = Scale(current=0, min_replicas=1, max_replicas=9)


def engine(past: Past, namespace: str, pod: str, times: list[float], **more: float) -> None:
    """Let a pod be scraped at these times; its counters count from the first of them."""
    labels = {"namespace": namespace, "pod": pod, "model_name": "llama", "engine": "0"}
    for name, value in (("num_requests_running", 6.0), ("num_requests_waiting", 0.0)):
        past.add(f"vllm:{name}", labels, dict.fromkeys(times, value))
    for name, value in {"kv_cache_usage_perc": 0.25, **more}.items():
        past.add(f"vllm:{name}", labels, dict.fromkeys(times, value))
    grown = {at: (at - times[0]) * 100.0 for at in times}
    past.add("vllm:generation_tokens_total", labels, grown)


def counted(past: Past, metric: str, labels: Mapping[str, str], *, first: int, then: int) -> None:
    """Let a count change in the middle of the range."""
    past.add(metric, labels, {at: float(first if at < HALF else then) for at in SCRAPES})


def write_past() -> Past:
    """Write one namespace a case."""
    past = Past()
    past.add("up", {"job": "node"}, dict.fromkeys(SCRAPES[40:], 1.0))
    for case in ("own", "target", "hpa", "engines", "exported"):
        engine(past, case, "chat-6d5f-x2x4z", SCRAPES)
    own = {"scaled_object": "chat", "trigger": "ab"}
    metric = "vllm_scaler_current_replicas"
    counted(past, metric, {"namespace": "own", **own}, first=1, then=2)
    counted(past, metric, {"namespace": "keda", "exported_namespace": "exported", **own},
            first=3, then=4)  # fmt: skip
    counted(past, metric, {"namespace": "exported", "exported_namespace": "x", **own},
            first=8, then=8)  # fmt: skip
    for case in ("own", "target"):
        where = {"namespace": case, "deployment": "chat"}
        counted(past, "kube_deployment_spec_replicas", where, first=5, then=6)
    where = {"namespace": "hpa", "horizontalpodautoscaler": "keda-hpa-chat"}
    name = "kube_horizontalpodautoscaler_status_current_replicas"
    counted(past, name, where, first=7, then=8)
    pods = {"chat-6d5f-x2x4z": (90.0, 0.0), "chat-6d5f-other": (30.0, 1.0)}
    for pod, (took, restarts) in pods.items():
        here = {"namespace": "target", "pod": pod}
        past.add("kube_pod_created", here, dict.fromkeys(SCRAPES, START - 900.0))
        ready = [at for at in SCRAPES if at >= START - 900.0 + took]
        past.add("kube_pod_status_ready_time", here, dict.fromkeys(ready, START - 900.0 + took))
        told = {**here, "container": "vllm"}
        name = "kube_pod_container_status_restarts_total"
        past.add(name, told, dict.fromkeys(SCRAPES, restarts))
    engine(past, "target", "chat-6d5f-other", SCRAPES)
    heard = [at for at in SCRAPES if not HALF < at <= HALF + 600.0]
    engine(past, "gap", "chat-6d5f-x2x4z", heard)
    engine(past, "reset", "chat-6d5f-x2x4z", [at for at in SCRAPES if at < HALF])
    engine(past, "reset", "chat-6d5f-x2x4z", [at for at in SCRAPES if at >= HALF])
    old = {"namespace": "renamed", "pod": "a", "model_name": "llama", "engine": "0"}
    for name, value in (("num_requests_running", 6.0), ("num_requests_waiting", 0.0)):
        past.add(f"vllm:{name}", old, dict.fromkeys(SCRAPES, value))
    for name, times in (
        ("gpu_cache_usage_perc", [at for at in SCRAPES if at < HALF]),
        ("kv_cache_usage_perc", [at for at in SCRAPES if at >= HALF]),
    ):
        past.add(f"vllm:{name}", old, dict.fromkeys(times, 0.5))
    engine(past, "two", "chat-6d5f-x2x4z", SCRAPES)
    engine(past, "two", "chat-long-77aa-b3b3c", [at for at in SCRAPES if at >= HALF])
    for pod in ("chat-6d5f-x2x4z", "chat-6d5f-k7k8q"):
        engine(past, "busy", pod, SCRAPES)
        labels = {"namespace": "busy", "pod": pod, "model_name": "llama", "engine": "0"}
        queue = [at for at in SCRAPES if HALF - 600.0 <= at < HALF]
        past.add("vllm:num_requests_waiting", labels, dict.fromkeys(queue, 40.0))
    where = {"namespace": "busy", "deployment": "chat"}
    counted(past, "kube_deployment_spec_replicas", where, first=2, then=5)
    engine(past, "young", "chat-6d5f-x2x4z", [at for at in SCRAPES if at >= HALF])
    return past


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one server for all tests of this file."""
    with prometheus(tmp_path_factory.mktemp("prometheus"), write_past()) as address:
        yield address


def wanted(
    namespace: str, start: float = START, end: float = END, kind: str = "Deployment"
) -> Wanted:
    """Want the past of the model in a namespace."""
    return Wanted(
        namespace=namespace,
        name="chat",
        selection=Selection(source="prometheus", namespace=namespace, model_name="llama"),
        target=Target(kind=kind, name="chat", hpa="keda-hpa-chat"),
        bounds=BOUNDS,
        start=start,
        end=end,
        lead_in=900.0,
    )


async def read(url: str, what: Wanted) -> tuple[list[Moment], str]:
    """Read everything; return the moments and the notes."""
    past = RecordedPrometheus(PrometheusSettings(url=url))
    moments: list[Moment] = []
    notes: list[str] = []
    shares: list[float] = []
    try:
        async for page in past.pages(what):
            moments += page.moments
            notes += page.notes
            shares.append(page.share)
    finally:
        past.close()
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    record = Record(namespace="n", name="m", moments=tuple(moments))
    return moments, "\n".join([*notes, *oddities(record.between(what.start, what.end))])


async def test_ticks_of_the_range_follow_minutes_of_the_day_before(url: str) -> None:
    """Every tick from before the windows on, minutes of what lies before that; nothing else."""
    moments, notes = await read(url, wanted("own"))
    fine = [moment.at for moment in moments if moment.step == TICK]
    assert fine == [START - 900.0 + TICK * n for n in range(1, 301)]
    coarse = [moment.at for moment in moments if moment.step == 60.0]
    assert coarse == [START - 86_400.0 + 60.0 * n for n in range(1426)]
    samples = [m.sample for m in moments if m.at >= START and m.sample is not None]
    assert {(s.serving, s.running, s.kv_cache) for s in samples} == {(1, 6.0, 0.25)}
    assert all(s.token_rate == pytest.approx(100.0) for s in samples)
    assert notes.splitlines() == [
        "replica counts are from the scaler's own metric vllm_scaler_current_replicas"
    ]


@pytest.mark.parametrize(
    ("case", "counts", "whose"),
    [
        ("own", [1, 2], "the scaler's own metric"),
        ("exported", [3, 4], "the scaler's own metric"),
        ("target", [5, 6], "spec.replicas of the scale target"),
        ("hpa", [7, 8], "what the HPA saw"),
        ("engines", [1, 1], "the number of engines that reported"),
    ],
)
async def test_counts_are_the_best_that_anybody_published(
    url: str, case: str, counts: list[int], whose: str
) -> None:
    """The scaler's own before kube-state-metrics', and engines where there is neither."""
    moments, notes = await read(url, wanted(case))
    known = {m.at: m.scale for m in moments if m.at >= START}
    assert [known[at] for at in (START, END)] == [
        Scale(current=count, min_replicas=1, max_replicas=9) for count in counts
    ]
    assert f"replica counts are from {whose}" in notes.replace("kube-state-metrics (", "")


async def test_the_lead_time_is_that_of_pods_that_never_restarted(url: str) -> None:
    """Creation to Ready, from when that is known; without kube-state-metrics it is not known."""
    moments, _ = await read(url, wanted("target"))
    known = {m.at: m.lead_time for m in moments}
    assert (known[START - 885.0], known[START], known[END]) == (None, 90.0, 90.0)
    others, _ = await read(url, wanted("own"))
    assert {m.lead_time for m in others} == {None}


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("gap", "the range has gaps, 570 s in all: no engine was heard from "),
        ("reset", "counters began anew in the middle of the range: chat-6d5f-x2x4z at about"),
        ("renamed", "vllm:gpu_cache_usage_perc became vllm:kv_cache_usage_perc at about"),
        ("two", "beside the pods of Deployment chat it matches chat-long-77aa-b3b3c (first at"),
        ("young", "others were scraped before, but no engine of this workload"),
    ],
)
async def test_what_is_odd_is_said_in_a_sentence(url: str, case: str, said: str) -> None:
    """And of the ordinary workload nothing of it is said."""
    _, notes = await read(url, wanted(case))
    assert said in notes
    _, plain = await read(url, wanted("target"))
    assert said not in plain


async def test_a_renamed_signal_is_read_as_one(url: str) -> None:
    """No moment of the range lacks the cache's usage."""
    moments, _ = await read(url, wanted("renamed"))
    samples = [m.sample for m in moments if m.at >= START]
    assert {s.kv_cache for s in samples if s is not None} == {0.5}


async def test_a_range_beyond_retention_is_told(url: str) -> None:
    """Where part of it is there, and where nothing is."""
    _, notes = await read(url, wanted("target", start=START - 7200.0))
    assert "may be beyond the retention of this Prometheus" in notes
    with pytest.raises(PastUnreadable, match="may lie beyond its retention"):
        await read(url, wanted("target", START - 500_000.0, START - 496_400.0))


async def test_no_data_at_all_is_refused(url: str) -> None:
    """With the selection that found nothing."""
    with pytest.raises(PastUnreadable, match='no series of a vLLM engine with namespace="nobody"'):
        await read(url, wanted("nobody"))


async def test_a_server_that_is_not_there_is_named() -> None:
    """The source's own words, as the port promises."""
    with pytest.raises(PastUnreadable, match=r"127\.0\.0\.1:9"):
        await read("http://127.0.0.1:9", wanted("own"))


async def test_a_replay_is_what_the_live_scaler_decided(url: str) -> None:
    """Tick for tick on one Prometheus: the live follower, stepped, and the rehearsal."""
    what = wanted("busy")
    policy = Policy()
    moments, _ = await read(url, replace(what, lead_in=span_needed(policy, Learned())))
    clock, board, cluster = FakeClock(START), Board(), FakeCluster()
    registry = Registry(lambda _: Resolved(policy=policy, selection=what.selection), clock.now)
    source = PrometheusSource(PrometheusSettings(url=url))
    follower = Follower(source, registry, board, cluster)
    registry.ask("busy", "chat", {"modelName": "llama"})
    lived = []
    for moment in (moment for moment in moments if moment.at >= START):
        clock.set(moment.at)
        assert moment.scale is not None
        cluster.scales["busy", "chat"] = moment.scale
        await follower.tick(moment.at)
        while await follower.admit(moment.at):
            pass
        await follower.recall_a_day(moment.at)
        decision = board.snapshot.of("busy", "chat")[0].decision
        lived.append((decision.at, decision.desired, decision.reason, decision.active))
    source.close()
    record = Record(namespace="busy", name="chat", moments=tuple(moments))
    replayed = [
        (d.at, d.desired, d.reason, d.active)
        for d in (step.decision for step in replay(record, policy, START).steps)
    ]
    assert len(lived) == 241
    assert len({(desired, reason) for _, desired, reason, _ in lived}) > 3
    assert replayed == lived
