"""The fleet of emulated engines: pages, ports and files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from scaler.adapters.cluster_file import read_scales
from scaler.core.workload import Scale
from scaler.demo.files import FleetFiles
from scaler.demo.fleet_server import FleetServer
from scaler.demo.load import Load
from scaler.demo.scene import Scene
from scaler.simulation.requests import Ending
from tests.fakes.clock import FakeClock

START = 1_800_000_000.0
SCENE = Scene(replicas=2, start_up=180.0, drain=60.0)


def fleet(clock: FakeClock, directory: Path) -> FleetServer:
    """Make a fleet whose load begins now."""
    return FleetServer(
        clock=clock, load=Load(started=clock.now()), directory=directory, scene=SCENE
    )


def targets(server: FleetServer) -> dict[str, str]:
    """Read the address of each pod from the targets file."""
    groups = json.loads(server.targets_file.read_text())
    assert all(group["labels"]["namespace"] == "demo" for group in groups)
    return {group["labels"]["pod"]: group["targets"][0] for group in groups}


def current(server: FleetServer) -> Scale:
    """Read the count as the scaler does."""
    return read_scales(server.cluster_file)["demo", "chat"]


async def values(address: str) -> Mapping[str, float]:
    """Scrape a page and return its values by name; several series of a name are added."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}/metrics") as page:
        assert page.status == 200
        assert page.headers["Content-Type"].startswith("text/plain; version=")
        text = await page.text()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.get("model_name", SCENE.model_name) == SCENE.model_name
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


async def refuses(address: str) -> bool:
    """Say whether nobody accepts connections there."""
    try:
        await values(address)
    except aiohttp.ClientConnectorError:
        return True
    return False


async def test_a_page_reads_as_vllm_s(tmp_path: Path) -> None:
    """Prometheus' own parser finds the signals, under load and within their bounds."""
    clock = FakeClock(START)
    async with fleet(clock, tmp_path) as server:
        clock.set(START + 120.0)
        pages = [await values(address) for address in targets(server).values()]
    assert len(pages) == 2
    for page in pages:
        assert {"vllm:num_requests_running", "vllm:num_requests_waiting"} <= page.keys()
        assert 0.0 <= page["vllm:kv_cache_usage_perc"] <= 1.0
        assert page["vllm:time_to_first_token_seconds_count"] > 100
        assert page["vllm:generation_tokens_total"] > 10_000


async def test_a_scrape_shows_its_own_instant_however_late_it_comes(tmp_path: Path) -> None:
    """A fleet that was looked at every second and one that was not show the same requests."""
    clock = FakeClock(START)
    for name in ("often", "once"):
        (tmp_path / name).mkdir()
    async with fleet(clock, tmp_path / "often") as often, fleet(clock, tmp_path / "once") as once:
        for second in range(60):
            clock.set(START + second)
            await often.catch_up()
        pages = [await values(targets(each)["vllm-0001"]) for each in (often, once)]
    assert pages[0] == pytest.approx(pages[1], rel=1e-4)
    assert pages[0]["vllm:request_success_total"] > 0


async def test_a_loading_replica_is_a_target_that_refuses(tmp_path: Path) -> None:
    """It stands in the file at once and answers when its start-up is over, not a second before."""
    clock = FakeClock(START)
    async with fleet(clock, tmp_path) as server:
        await server.scale(3)
        assert current(server) == Scale(current=3, min_replicas=1, max_replicas=12)
        newest = targets(server)["vllm-0002"]
        clock.set(START + 179.0)
        await server.catch_up()
        assert await refuses(newest)
        assert server.census().loading == 1
        clock.set(START + 180.0)
        await server.catch_up()
        assert (await values(newest))["vllm:request_success_total"] == 0.0
        clock.set(START + 240.0)
        assert (await values(newest))["vllm:time_to_first_token_seconds_count"] > 0


async def test_a_draining_replica_is_no_target_and_finishes_its_requests(tmp_path: Path) -> None:
    """It leaves the file at once, goes on until nothing runs, and then gives its port back."""
    clock = FakeClock(START)
    async with fleet(clock, tmp_path) as server:
        clock.set(START + 100.0)
        await server.catch_up()
        before = targets(server)
        await server.scale(1)
        (leaving,) = set(before) - set(targets(server))
        assert current(server).current == 1
        page = await values(before[leaving])
        running = page["vllm:num_requests_running"]
        assert running > 0
        clock.set(START + 101.0)
        assert (await values(before[leaving]))["vllm:num_requests_running"] <= running
        clock.set(START + 161.0)
        await server.catch_up()
        assert server.census().draining == 0
        assert await refuses(before[leaving])
        assert server.outcomes.ended[Ending.CUT_OFF] == 0


async def test_a_replica_that_never_served_goes_without_a_trace(tmp_path: Path) -> None:
    """Taken back while it loads, it leaves the files and its port at once."""
    clock = FakeClock(START)
    async with fleet(clock, tmp_path) as server:
        await server.scale(5)
        await server.scale(2)
        assert set(targets(server)) == {"vllm-0000", "vllm-0001"}
        assert current(server).current == 2


async def test_the_run_attends_to_replicas_by_itself(tmp_path: Path) -> None:
    """Nobody needs to look for a new replica to begin to serve."""
    clock = FakeClock(START)
    async with fleet(clock, tmp_path) as server:
        await server.scale(3)
        newest = targets(server)["vllm-0002"]
        running = asyncio.create_task(server.run())
        await clock.advance(181.0)
        await clock.advance(1.0)
        assert not await refuses(newest)
        running.cancel()


async def test_after_the_end_every_port_refuses(tmp_path: Path) -> None:
    """Nothing listens once the fleet was left."""
    clock = FakeClock(START)
    async with fleet(clock, tmp_path) as server:
        addresses = list(targets(server).values())
    assert [await refuses(address) for address in addresses] == [True, True]


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    """Whoever has an old file open reads all of the old one, and no draft stays behind."""
    files = FleetFiles(tmp_path, SCENE)
    files.write({"pod-a": "127.0.0.1:1"}, 1)
    with files.targets.open() as old, files.cluster.open() as old_counts:
        files.write({f"pod-{index}": f"127.0.0.1:{index}" for index in range(50)}, 50)
        assert len(json.load(old)) == 1
        assert "replicas: 1\n" in old_counts.read()
    assert len(json.loads(files.targets.read_text())) == 50
    assert {path.name for path in tmp_path.iterdir()} == {"targets.json", "cluster.yaml"}


def test_files_that_would_say_the_same_are_left_alone(tmp_path: Path) -> None:
    """Without a change nobody who watches the files is woken."""
    files = FleetFiles(tmp_path, SCENE)
    files.write({"b": "127.0.0.1:2", "a": "127.0.0.1:1"}, 2)
    before = [path.stat().st_ino for path in (files.targets, files.cluster)]
    files.write({"a": "127.0.0.1:1", "b": "127.0.0.1:2"}, 2)
    assert [path.stat().st_ino for path in (files.targets, files.cluster)] == before
