"""What a scaler takes before it does anything: tree, imports, start, memory a workload."""

from __future__ import annotations

import asyncio
import importlib.metadata
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import grpc

from benchmarks._fleet import ref
from benchmarks._measure import resident_mib, told
from benchmarks._results import Line, Section
from benchmarks.rpc import Served
from manifests.image.trim_kubernetes import trim
from scaler.wire.externalscaler_pb2_grpc import ExternalScalerStub

LOCK = Path("requirements.lock")


def installed() -> Path:
    """Return where the packages are."""
    return Path(str(importlib.metadata.distribution("kubernetes").locate_file("")))


def runtime_files() -> Iterator[Path]:
    """Go over all files that a user's installation has, bytecode included; not our own."""
    names = re.findall(r"^([A-Za-z0-9._-]+)==", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    for name in names:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        for file in files:
            path = Path(str(file.locate()))
            if path.is_file():
                yield path
                if path.suffix == ".py":
                    yield from (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc")


def tree() -> Line:
    """Compare the image's tree with what pip installs."""
    files = {path for path in runtime_files() if "__pycache__" not in path.parts}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for path in files:
            target = root / path.relative_to(Path(sys.prefix).resolve().anchor)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        compile_all = [sys.executable, "-m", "compileall", "-q", directory]
        subprocess.run(compile_all, check=False, stdout=subprocess.DEVNULL)
        whole = size_of(root)
        client = next(root.rglob("kubernetes/aio")).parent
        own = size_of(client)
        trim(client)
        trimmed, left = size_of(root), size_of(client)
    return Line(
        key="footprint.tree",
        what="installed packages with bytecode, as in the image",
        ours=f"{trimmed:.0f} MiB, of which the kubernetes client is {left:.0f}",
        yardstick=f"{whole:.0f} MiB as pip installs them, of which the kubernetes client is "
        f"{own:.0f}",
        ratio=trimmed / whole,
        tolerance=1.1,
    )


def size_of(folder: Path) -> float:
    """Add up a folder, in MiB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def seconds_of(program: str, rounds: int) -> list[float]:
    """Return how long a new Python takes to run a program."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        taken.append(time.perf_counter() - began)
    return taken


def imports(rounds: int) -> Line:
    """Compare importing the scaler with importing what it cannot do without."""
    own = seconds_of("import scaler.app", rounds)
    least = seconds_of(
        "import grpc.aio, aiohttp.web, pydantic, requests, prometheus_client", rounds
    )
    return Line(
        key="footprint.import",
        what="import of the whole scaler, without the kubernetes client",
        ours=told(own, " s"),
        yardstick=f"{told(least, ' s')}, its libraries alone",
        ratio=statistics.median(own) / statistics.median(least),
        tolerance=1.3,
    )


def first_answer(rounds: int) -> Line:
    """Time from the command to the first answer over gRPC, without a cluster."""
    taken = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            targets = Path(directory) / "targets.json"
            targets.write_text("[]", encoding="utf-8")
            began = time.perf_counter()
            command = [
                *(sys.executable, "-m", "scaler", "serve", "--source", "scrape"),
                *("--targets", str(targets), "--grpc-listen", "127.0.0.1:18439"),
                *("--http-listen", "127.0.0.1:0", "--log-level", "error"),
            ]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                asyncio.run(_answered(18_439))
                taken.append(time.perf_counter() - began)
            finally:
                process.kill()
                process.wait()
    limit = 1.5
    return Line(
        key="footprint.start",
        what="start of the process to its first answer, without a cluster",
        ours=told(taken, " s"),
        yardstick=f"{limit:g} s, the aim",
        ratio=statistics.median(taken) / limit,
        aim=1.0,
        tolerance=1.5,
    )


async def _answered(port: int) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        while True:
            try:
                await ExternalScalerStub(channel).GetMetricSpec(ref(0), timeout=1.0)
            except grpc.aio.AioRpcError:
                await channel.close()
                await asyncio.sleep(0.02)
                channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")  # noqa: PLW2901
            else:
                await channel.close()
                return


def memory() -> Iterator[Line]:
    """Compare a scaler with many workloads, or many pods, with one that has few."""
    held = {}
    for workloads, pods in ((10, 5), (1000, 5), (1000, 20)):
        server = Served("ticking", str(workloads), "15", str(pods))
        time.sleep(10.0)  # ten ticks
        held[workloads, pods] = resident_mib(server.process.pid)
        server.end()
    few, many, crowded = held[10, 5], held[1000, 5], held[1000, 20]
    workload = (many - few) * 1024 / 990
    replica = (crowded - many) * 1024 / 15_000
    yield Line(
        key="footprint.memory",
        what="memory with 1,000 workloads, 5 pods each, windows full",
        ours=f"{many:.0f} MiB: {workload:.0f} KiB a workload, {replica:.1f} KiB for each further "
        "pod",
        yardstick=f"{few:.0f} MiB with 10 workloads",
        ratio=many / few,
        tolerance=1.3,
    )


def measure(*, quick: bool = False) -> Section:
    """Measure all of it."""
    rounds = 3 if quick else 7
    lines = [tree(), imports(rounds), first_answer(rounds), *memory()]
    return Section(title="Size, start and memory", lines=lines)


if __name__ == "__main__":
    print(measure(quick="--quick" in sys.argv).told())
