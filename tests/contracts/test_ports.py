"""What the loop may rely on: the fakes of the tests and the real adapters keep one promise."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from scaler.adapters.clock import WallClock
from scaler.adapters.cluster_file import FileCluster
from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.control.ports import Clock, Cluster, Source, SourceError
from scaler.core.pods import Pod, Situation
from scaler.core.reading import Reading
from scaler.core.units import TICK, tick_at
from scaler.core.workload import Scale, Selection
from scaler.demo.clock import FastClock
from tests.adapters.kubernetes.following import following, kubeconfig, until
from tests.app.process import engines
from tests.fakes.clock import FakeClock, settle
from tests.fakes.cluster import FakeCluster
from tests.fakes.source import FakeSource, fleet_reading
from tests.kubernetes_server.objects import deployment, hpa, pod, scaled_object
from tests.kubernetes_server.resources import SCALED_OBJECTS
from tests.kubernetes_server.server import api_server
from tests.prometheus_server import Past, prometheus

PAGE = (Path(__file__).parents[1] / "data" / "captures" / "saturated-waiting.txt").read_bytes()
THERE = Selection(source="s", namespace="prod", model_name="tiny")
ABSENT = Selection(source="s", namespace="prod", model_name="no-such-model")


# --- sources --------------------------------------------------------------------------------------


def _fake(selection: Selection, at: float) -> Reading:
    if selection == THERE:
        return fleet_reading(at, replicas=1, running=4.0, waiting=20.0, prefix="pod")
    return Reading(at=at, scraped_at=at)


@contextmanager
def _prometheus(directory: Path, at: float) -> Iterator[PrometheusSource]:
    past = Past()
    labels = {"namespace": "prod", "pod": "pod-0"}
    past.add_page(PAGE.decode(), labels, [at - 15.0 * back for back in range(40)])
    with prometheus(directory, past) as url:
        yield PrometheusSource(PrometheusSettings(url=url, name="s", settle=0.0))


@pytest.fixture(params=["fake", "scrape", pytest.param("prometheus", marks=pytest.mark.prometheus)])
async def source(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Source, float]]:
    """Give each source, and a tick at which it sees one replica of `THERE`."""
    at = tick_at(time.time() - 3600.0)
    if request.param == "fake":
        yield FakeSource(_fake, "s"), at
    elif request.param == "prometheus":
        with _prometheus(tmp_path, at) as real:
            yield real, at
    else:
        async with engines(tmp_path, {"pod-0": PAGE}) as served:
            clock = FakeClock(at)
            scrape = ScrapeSource(ScrapeSettings(targets=served.targets, name="s"), clock)
            await scrape.scrape_once()
            yield scrape, at


async def test_a_source_answers_for_each_selection(source: tuple[Source, float]) -> None:
    """Never an exception, never one left out; what matches nothing is an empty reading."""
    asked, at = source
    found = await asked.read([THERE, ABSENT], at)
    assert set(found) == {THERE, ABSENT}
    there, absent = found[THERE], found[ABSENT]
    assert isinstance(there, Reading)
    assert isinstance(absent, Reading)
    assert [(r.name, r.running, r.waiting) for r in there.replicas] == [("pod-0", 4.0, 20.0)]
    assert (absent.replicas, absent.unseen) == ((), 0)
    assert there.at == absent.at == at
    assert there.scrapes >= 1


async def test_a_source_is_asked_for_nothing(source: tuple[Source, float]) -> None:
    """No selections, no answers, no fault."""
    asked, at = source
    assert await asked.read([], at) == {}


async def test_what_is_recalled_lies_on_the_grid(source: tuple[Source, float]) -> None:
    """History is at multiples of the step, ascending, within the range; or there is none."""
    asked, at = source
    readings = await asked.recall(THERE, at - 4 * TICK + 1.0, at, TICK)
    assert [r.at for r in readings] in ([], [at - back * TICK for back in (3, 2, 1, 0)])


async def test_errors_of_a_source_are_of_the_port(source: tuple[Source, float]) -> None:
    """A selection that cannot be read gives a SourceError of its own, and the other its reading."""
    asked, at = source
    bad = Selection(
        source="s", namespace="prod", model_name="tiny", activation_query="name:nowhere"
    )
    found = await asked.read([bad, THERE], at)
    assert isinstance(found[THERE], Reading)
    assert isinstance(found[bad], Reading | SourceError)


# --- clusters -------------------------------------------------------------------------------------


@dataclass
class Counts:
    """A cluster with `chat` at 4 replicas in `llm`, and what a test can do to it.

    `move` changes the count and returns when the cluster shows it; `place` gives the scale target
    that many Ready pods, and `delete` deletes the ScaledObject, where the cluster knows of those.
    """

    cluster: Cluster
    move: Callable[[int], Awaitable[None]]
    place: Callable[[int], Awaitable[None]] | None = None
    delete: Callable[[], None] | None = None


@asynccontextmanager
async def _fake_cluster() -> AsyncIterator[Counts]:
    fake = FakeCluster(chat=Scale(current=4, max_replicas=20))
    fake.situations["llm", "chat"] = Situation(target_kind="Deployment", target_name="chat")

    async def move(count: int) -> None:
        fake.move("chat", count)

    async def place(count: int) -> None:
        names = [f"chat-{number}" for number in range(count)]
        fake.place(
            "chat", *(Pod(name=name, replica=name, created_at=1e9, ready=True) for name in names)
        )

    yield Counts(fake, move, place, lambda: fake.delete("chat"))


@asynccontextmanager
async def _file_cluster(directory: Path) -> AsyncIterator[Counts]:
    path = directory / "counts.yaml"

    def write(count: int) -> None:
        row = {"namespace": "llm", "name": "chat", "replicas": count, "maxReplicas": 20}
        path.write_text(yaml.safe_dump([row]), encoding="utf-8")

    write(4)
    clock = FakeClock()
    real = FileCluster(path, clock)
    running = asyncio.create_task(real.run())

    async def move(count: int) -> None:
        write(count)
        await until(lambda: _current(real) == count, lambda: clock.advance(1.0))

    yield Counts(real, move)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def _kubernetes_cluster(directory: Path) -> AsyncIterator[Counts]:
    async with api_server() as server:
        store = server.store

        async def move(count: int) -> None:
            store.put(deployment("chat", replicas=count))
            await until(lambda: _current(real) == count)

        async def place(count: int) -> None:
            for number in range(count):
                store.put(pod(f"chat-{number}", of="chat"))
            await until(lambda: len(real.pods("llm", "chat") or ()) == count)

        store.put(scaled_object("chat"))
        store.put(hpa("chat", most=20))
        store.put(deployment("chat", replicas=4))
        async with following(kubeconfig(directory, server)) as real:
            await until(lambda: real.pods("llm", "chat") is not None)
            await until(lambda: (real.scale("llm", "chat") or Scale(current=0)).max_replicas == 20)
            yield Counts(real, move, place, lambda: store.delete(SCALED_OBJECTS, "chat"))


def _current(cluster: Cluster) -> int | None:
    found = cluster.scale("llm", "chat")
    return found.current if found is not None else None


@pytest.fixture(params=["fake", "file", "kubernetes"])
async def counts(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Counts]:
    """Give each cluster."""
    makers: dict[str, Callable[[], AbstractAsyncContextManager[Counts]]] = {
        "fake": _fake_cluster,
        "file": lambda: _file_cluster(tmp_path),
        "kubernetes": lambda: _kubernetes_cluster(tmp_path),
    }
    async with makers[request.param]() as made:
        yield made


async def test_a_cluster_knows_counts(counts: Counts) -> None:
    """A count that is moved is the count; what nobody knows is None, never zero."""
    known = counts.cluster
    found = known.scale("llm", "chat")
    assert found is not None
    assert (found.current, found.max_replicas) == (4, 20)
    assert known.scale("llm", "other") is None
    assert known.scale("other", "chat") is None
    await counts.move(7)
    moved = known.scale("llm", "chat")
    assert moved is not None
    assert (moved.current, moved.max_replicas) == (7, 20)


async def test_a_count_of_zero_is_a_count(counts: Counts) -> None:
    """A fleet at zero is known to be there, unlike one that nobody knows."""
    await counts.move(0)
    found = counts.cluster.scale("llm", "chat")
    assert found is not None
    assert found.current == 0


async def test_a_cluster_knows_pods_or_says_that_it_does_not(counts: Counts) -> None:
    """Pods come as a tuple of their own workload's; an unknown workload has None, not none."""
    assert counts.cluster.pods("llm", "other") is None
    if counts.place is None:
        assert counts.cluster.pods("llm", "chat") is None
        return
    await counts.place(3)
    found = counts.cluster.pods("llm", "chat")
    assert found is not None
    assert [(pod.name, pod.replica, pod.ready) for pod in found] == [
        (name, name, True) for name in ("chat-0", "chat-1", "chat-2")
    ]


async def test_a_cluster_knows_the_situation_or_says_that_it_does_not(counts: Counts) -> None:
    """Where KEDA's object is known, so is its scale target; elsewhere there is None."""
    assert counts.cluster.situation("llm", "other") is None
    found = counts.cluster.situation("llm", "chat")
    if counts.place is None:
        assert found is None
        return
    assert found is not None
    assert (found.target_kind, found.target_name, found.paused) == ("Deployment", "chat", False)


async def test_a_cluster_knows_what_is_gone_or_says_that_it_does_not(counts: Counts) -> None:
    """What is there is not gone, and a deleted ScaledObject is; who does not know says no."""
    assert not counts.cluster.is_gone("llm", "chat")
    if counts.delete is None:
        assert not counts.cluster.is_gone("llm", "other")
        return
    counts.delete()
    await until(lambda: counts.cluster.is_gone("llm", "chat"))


async def test_a_cluster_tells_of_a_moved_count(counts: Counts) -> None:
    """Whoever asked to be told hears of a move, in the loop's own thread."""
    told: list[int] = []
    counts.cluster.on_change(lambda: told.append(threading.get_ident()))
    await counts.move(5)
    await until(lambda: told)
    assert set(told) == {threading.get_ident()}


async def test_a_cluster_that_is_well_has_no_faults(counts: Counts) -> None:
    """Faults are for what cannot be read."""
    assert counts.cluster.faults == ()


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param("- {namespace: llm, name: 2024-99-99, replicas: 5}", id="no-such-date"),
        pytest.param("[" * 5000, id="brackets"),
        pytest.param("- {namespace: llm, name: chat, replicas: 0x_}", id="no-number"),
        pytest.param("- {namespace: llm, name: chat, replicas: " + "9" * 5000 + "}", id="digits"),
        pytest.param("- {namespace: llm, name: chat, replicas: 1000000}", id="absurd"),
        pytest.param(
            "- {namespace: llm, name: chat, replicas: 5, minReplicas: 1000000}", id="absurd-minimum"
        ),
        pytest.param("", id="emptied"),
    ],
)
def test_a_faulty_edit_of_the_counts_is_told_and_changes_nothing(tmp_path: Path, edit: str) -> None:
    """Whatever somebody writes into the file, the last valid counts stay and nothing ends."""
    path = tmp_path / "counts.yaml"
    path.write_text("- {namespace: llm, name: chat, replicas: 4}\n", encoding="utf-8")
    real = FileCluster(path, FakeClock())
    path.write_text(edit, encoding="utf-8")
    assert not real.look()
    assert real.fault is not None
    known = real.scale("llm", "chat")
    assert known is not None
    assert known.current == 4


# --- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", [FakeClock(time.time()), WallClock(), FastClock(30.0)])
async def test_a_clock_returns_at_once_for_what_is_past(clock: Clock) -> None:
    """Sleeping until an instant that has gone by does not wait."""
    now = clock.now()
    async with asyncio.timeout(5):
        await clock.sleep_until(now - 10.0)
    assert clock.now() >= now


@pytest.mark.parametrize("real", [True, False])
async def test_a_clock_that_is_set_back_wakes_who_waits(
    monkeypatch: pytest.MonkeyPatch,
    *,
    real: bool,
) -> None:
    """What was a tick away is an hour away now, and nobody is to sleep through that hour."""
    fake = FakeClock(time.time())
    clock: Clock = WallClock() if real else fake
    sleeping = asyncio.create_task(clock.sleep_until(clock.now() + 15.0))
    await settle()
    if real:
        set_back = time.time() - 3600.0
        monkeypatch.setattr("scaler.adapters.clock.time.time", lambda: set_back)
    else:
        fake.set(fake.now() - 3600.0)
    async with asyncio.timeout(10):
        await sleeping


@pytest.mark.parametrize("clock", [WallClock(), FastClock(30.0)])
async def test_a_clock_never_wakes_too_early(clock: Clock) -> None:
    """Whoever sleeps until a tick sees that tick."""
    wanted = clock.now() + 0.05
    async with asyncio.timeout(5):
        await clock.sleep_until(wanted)
    assert clock.now() >= wanted
