"""KEDA's bad days on end: does a scaler leak memory, file descriptors, threads, streams, workloads?

One scaler with its loop, 200 ScaledObjects and these days: storms of clients that reconnect with
all their streams, clients that vanish without a word, cancelled calls, metadata edited while its
stream is open, ScaledObjects deleted and made anew, connections that say nothing or nonsense. Run
by `make soak` for an hour (`ARGS=SECONDS`); ends with an error where something has grown.
"""

from __future__ import annotations

import asyncio
import random
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from benchmarks._fleet import NAMESPACE
from benchmarks._measure import cpu_seconds, resident_mib
from benchmarks._results import Section
from scaler.edge.answers import METRIC
from scaler.wire.externalscaler_pb2 import GetMetricsRequest, ScaledObjectRef
from scaler.wire.externalscaler_pb2_grpc import ExternalScalerStub

SECONDS, WORKLOADS, STORM = 3600.0, 200, 1000
LOOKED_EVERY = 5.0
MEMORY_MAY_GROW, FILES_MAY_GROW, THREADS_MAY_GROW = 1.10, 12, 4
IN_A_MINUTE = 1.5

Day = Callable[["Soak"], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the scaler holds at one moment: memory in MiB, open files, threads."""

    at: float
    memory: float
    files: int
    threads: int


@dataclass(slots=True, kw_only=True)
class Soak:
    """One run against a port: what was done, what was looked at, what answers came."""

    port: int
    pid: int
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311
    done: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    looks: list[Look] = field(default_factory=list)

    def look(self) -> None:
        """Look at the scaler from outside."""
        process = Path(f"/proc/{self.pid}")
        self.looks.append(
            Look(
                at=time.monotonic(),
                memory=resident_mib(self.pid),
                files=len(list((process / "fd").iterdir())),
                threads=len(list((process / "task").iterdir())),
            )
        )

    def channel(self) -> grpc.aio.Channel:
        """Open a connection of its own."""
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.keepalive_time_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
        ]
        return grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options=options)

    def anyone(self) -> ScaledObjectRef:
        """Name one of the ScaledObjects."""
        return ref(self.chance.randrange(WORKLOADS))


def ref(number: int, **edited: str) -> ScaledObjectRef:
    """Name a ScaledObject; `edited` is metadata that somebody has changed."""
    metadata = {"modelName": f"m{number}", **edited}
    return ScaledObjectRef(namespace=NAMESPACE, name=f"chat-{number}", scalerMetadata=metadata)


async def polls(soak: Soak) -> None:
    """Ask for everything once, as KEDA and the HPA do."""
    async with soak.channel() as channel:
        stub = ExternalScalerStub(channel)
        for number in range(WORKLOADS):
            request = GetMetricsRequest(scaledObjectRef=ref(number), metricName=METRIC)
            for call in (stub.GetMetrics(request), stub.IsActive(ref(number))):
                try:
                    await call
                    soak.codes["OK"] += 1
                except grpc.aio.AioRpcError as error:
                    soak.codes[error.code().name] += 1


async def storm(soak: Soak) -> None:
    """Open a thousand streams at once, hear them, and leave without a word."""
    async with soak.channel() as channel:
        stub = ExternalScalerStub(channel)
        streams = [stub.StreamIsActive(ref(n % WORKLOADS)) for n in range(STORM)]

        async def hear(stream: grpc.aio.UnaryStreamCall[object, object]) -> None:
            with suppress(asyncio.TimeoutError, grpc.aio.AioRpcError):
                await asyncio.wait_for(stream.read(), 5.0)
                soak.codes["stream"] += 1

        await asyncio.gather(*(hear(stream) for stream in streams))


async def cancelled(soak: Soak) -> None:
    """Cancel calls and streams before they are answered."""
    async with soak.channel() as channel:
        stub = ExternalScalerStub(channel)
        for _ in range(200):
            for call in (stub.IsActive(soak.anyone()), stub.StreamIsActive(soak.anyone())):
                await asyncio.sleep(0)
                call.cancel()


async def edited(soak: Soak) -> None:
    """Edit metadata under an open stream: the old trigger's stream stays, a new one comes."""
    async with soak.channel() as channel:
        stub = ExternalScalerStub(channel)
        for _ in range(20):
            number = soak.chance.randrange(WORKLOADS)
            before = stub.StreamIsActive(ref(number))
            after = stub.StreamIsActive(ref(number, waitingHigh=str(soak.chance.randint(3, 9))))
            await asyncio.sleep(0.01)
            before.cancel()
            after.cancel()


async def recreated(soak: Soak) -> None:
    """Ask for ScaledObjects with names that were never seen and never come again."""
    async with soak.channel() as channel:
        stub = ExternalScalerStub(channel)
        for _ in range(5):
            number = soak.chance.randrange(WORKLOADS)
            gone = ScaledObjectRef(
                namespace=NAMESPACE,
                name=f"chat-{number}",
                scalerMetadata={"modelName": f"m{number}", "leadTime": f"{60 + number}s"},
            )
            with suppress(grpc.aio.AioRpcError):
                await stub.GetMetricSpec(gone)


async def half_closed(soak: Soak) -> None:
    """Connect and say nothing, or nonsense, or half a greeting, and close one way only."""
    for word in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 64):
        _, writer = await asyncio.open_connection("127.0.0.1", soak.port)
        writer.write(word)
        writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
        await asyncio.sleep(0.05)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


DAYS: tuple[Day, ...] = (polls, storm, cancelled, edited, recreated, half_closed)


async def run(soak: Soak, seconds: float) -> None:
    """Let one day follow the other, two at a time, and look at the scaler between them."""
    end = time.monotonic() + seconds
    looked = 0.0
    while time.monotonic() < end:
        days = soak.chance.sample(DAYS, 2)
        await asyncio.gather(*(day(soak) for day in days))
        soak.done.update(day.__name__ for day in days)
        if time.monotonic() - looked > LOOKED_EVERY:
            await asyncio.sleep(1.0)  # what has just ended is let go of
            soak.look()
            looked = time.monotonic()


def grown(looks: list[Look], memory: float = MEMORY_MAY_GROW) -> list[str]:
    """Compare the third quarter's looks with the last quarter's; say what has grown.

    The first half fills what is bounded: histories, caches, pools.
    """
    if len(looks) < 4:  # noqa: PLR2004 - a quarter needs one
        return ["too few looks: run it longer"]
    half, quarter = looks[len(looks) // 2 : -len(looks) // 4], looks[-(len(looks) // 4) :]
    faults = []
    for what, allowed in (
        ("memory", lambda before: before * memory),
        ("files", lambda before: before + FILES_MAY_GROW),
        ("threads", lambda before: before + THREADS_MAY_GROW),
    ):
        before = statistics.median(getattr(look, what) for look in half)
        after = statistics.median(getattr(look, what) for look in quarter)
        if after > allowed(before):
            faults.append(f"{what} grew from {before:.0f} to {after:.0f}")
    return faults


def measure(*, quick: bool = False, seconds: float | None = None) -> Section:
    """Soak a scaler, and say what it held at the quarters. Exits where something has grown."""
    length = seconds or (60.0 if quick else SECONDS)
    command = [sys.executable, "-m", "benchmarks._serving", "ticking", str(WORKLOADS), "15", "5"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        line = "tick"
        while line.startswith("tick"):
            line = process.stdout.readline() if process.stdout else ""
        soak = Soak(port=int(line), pid=process.pid)
        drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)  # noqa: S607
        asyncio.run(run(soak, length))
        used = cpu_seconds(process.pid)
    finally:
        process.kill()
        process.wait()
    drain.wait()
    notes = list(_told(soak, length, used))
    # A minute only fills what is bounded.
    faults = grown(soak.looks, IN_A_MINUTE if quick else MEMORY_MAY_GROW)
    if faults:
        sys.exit("\n".join([*notes, *faults]))
    return Section(title="KEDA's bad days", notes=notes)


def _told(soak: Soak, seconds: float, used: float) -> list[str]:
    looks = soak.looks
    picked = [looks[(len(looks) - 1) * part // 4] for part in range(5)]
    days = ", ".join(f"{count} × {name}" for name, count in sorted(soak.done.items()))
    codes = ", ".join(f"{count:,} {code}" for code, count in soak.codes.most_common())
    told = (
        f"{seconds / 60:.0f} minutes, ticks every second, {WORKLOADS} workloads: {days}; a storm "
        f"has {STORM:,} streams. Answers: {codes}. CPU: {100 * used / seconds:.0f} % of a core."
    )
    held = (
        "At the start and after each quarter: memory "
        f"{_row([f'{look.memory:.0f}' for look in picked])} MiB; open files "
        f"{_row([str(look.files) for look in picked])}; threads "
        f"{_row([str(look.threads) for look in picked])}."
    )
    return [told, held]


def _row(values: list[str]) -> str:
    return " → ".join(values)


if __name__ == "__main__":
    print(measure(seconds=float(sys.argv[1]) if len(sys.argv) > 1 else None).told())
