"""Two fleets of one model in a real Prometheus: each sees its own pods, now and in the past."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.core.kin import kin_of, narrow_by_name
from scaler.core.pods import Pod
from scaler.core.quantile import percentile
from scaler.core.reading import Reading
from scaler.core.states import narrow
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Selection
from tests.prometheus_server import Past, prometheus

pytestmark = pytest.mark.prometheus

NOW = tick_at(time.time() - 3600.0)
SCRAPES = [NOW - back * 15.0 - 7.0 for back in range(60)]
SELECTION = Selection(source="prometheus", namespace="prod", model_name="llama")

CHAT = ("chat-6b4d9c7f5d-x2x9z", "chat-6b4d9c7f5d-bbbbb")
GONE = "chat-7c8f6d5b94-kq7wv"
BATCH = "batch-5f6d7c8b9f-zzzzz"


def pod(name: str) -> Pod:
    """Return a Ready pod."""
    revision = name.split("-")[1]
    return Pod(name=name, replica=name, created_at=0.0, ready=True, ready_at=1.0, revision=revision)


def engine(past: Past, name: str, running: float, slow: float, until: float = NOW) -> None:
    """Write an engine: one first token a second, of which a share takes between 1 s and 5 s."""
    base = {"namespace": "prod", "pod": name, "model_name": "llama", "engine": "0"}
    alive = [at for at in SCRAPES if at <= until]
    for gauge, value in (("running", running), ("waiting", 0.0)):
        past.add(f"vllm:num_requests_{gauge}", base, dict.fromkeys(alive, value))
    grown = {at: at - SCRAPES[-1] for at in alive}
    past.add("vllm:time_to_first_token_seconds_count", base, grown)
    past.add("vllm:generation_tokens_total", base, grown)
    for le, share in (("1.0", 1.0 - slow), ("5.0", 1.0), ("+Inf", 1.0)):
        bucket = {at: value * share for at, value in grown.items()}
        past.add("vllm:time_to_first_token_seconds_bucket", {**base, "le": le}, bucket)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the history of both fleets, and of a ReplicaSet that has gone."""
    past = Past()
    for name in CHAT:
        engine(past, name, 4.0, slow=0.0)
    engine(past, GONE, 6.0, slow=0.0, until=NOW - 420.0)
    engine(past, BATCH, 90.0, slow=1.0)
    with prometheus(tmp_path_factory.mktemp("prometheus"), past) as address:
        yield address


@pytest.fixture
def source(url: str) -> PrometheusSource:
    """Make a source on it."""
    return PrometheusSource(PrometheusSettings(url=url, settle=0.0))


async def test_the_present_is_narrowed_to_the_pods(source: PrometheusSource) -> None:
    """Requests and latencies are those of the own pods; together they are the whole."""
    reading = (await source.read([SELECTION], NOW))[SELECTION]
    assert isinstance(reading, Reading)
    assert reading.latencies.keys() == {"chat-6b4d9c7f5d-", "batch-5f6d7c8b9f-"}
    chat = narrow(reading, [pod(name) for name in CHAT], 180.0)
    batch = narrow(reading, [pod(BATCH)], 180.0)
    assert {r.name: r.running for r in chat.replicas} == dict.fromkeys(CHAT, 4.0)
    assert {r.name: r.running for r in batch.replicas} == {BATCH: 90.0}
    assert chat.ttft is not None
    assert batch.ttft is not None
    fast, slow = percentile(chat.ttft), percentile(batch.ttft)
    assert fast is not None
    assert slow is not None
    assert (fast.upper, slow.lower) == (1.0, 1.0)
    assert fast.observations == pytest.approx(2 * slow.observations)


async def test_the_past_is_narrowed_by_names(source: PrometheusSource) -> None:
    """The pod of the old ReplicaSet was a replica while it was there; nobody else's was."""
    kin = kin_of([pod(name) for name in CHAT])
    past = [
        narrow_by_name(reading, kin)
        for reading in await source.recall(SELECTION, NOW - 600.0, NOW, TICK)
    ]
    running = [sorted(r.running for r in reading.replicas) for reading in past]
    assert running[0] == [4.0, 4.0, 6.0]
    assert running[-1] == [4.0, 4.0]
    assert all(90.0 not in each for each in running)
    assert all(p.upper <= 1.0 for r in past if r.ttft and (p := percentile(r.ttft)) is not None)


async def test_what_fell_silent_is_named(source: PrometheusSource) -> None:
    """A pod whose series ended within five minutes is unseen to its own workload alone."""
    reading = (await source.read([SELECTION], NOW - 300.0))[SELECTION]
    assert isinstance(reading, Reading)
    assert reading.silent == {GONE}
    batch = narrow_by_name(reading, kin_of([pod(BATCH)]))
    chat = narrow_by_name(reading, kin_of([pod(name) for name in CHAT]))
    assert (chat.unseen, batch.unseen) == (1, 0)
    # Kubernetes knows better: it has gone.
    assert narrow(reading, [pod(name) for name in CHAT], 180.0).unseen == 0
