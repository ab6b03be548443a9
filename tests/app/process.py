"""Runs the real command in a process of its own, beside engines that a test serves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web


def free_port() -> int:
    """Find a port that is free at the moment."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Engines:
    """Engines that serve a page each; a test may change a page at any time."""

    port: int
    pages: dict[str, bytes]
    targets: Path

    def write_targets(self) -> None:
        """Write the file_sd file for the pages that there are."""
        groups = [
            {
                "targets": [f"127.0.0.1:{self.port}"],
                "labels": {"namespace": "prod", "pod": pod, "__metrics_path__": f"/{pod}"},
            }
            for pod in sorted(self.pages)
        ]
        self.targets.write_text(json.dumps(groups), encoding="utf-8")


@asynccontextmanager
async def engines(directory: Path, pages: dict[str, bytes]) -> AsyncIterator[Engines]:
    """Serve one page per pod on one port of this machine."""

    async def page(request: web.Request) -> web.Response:
        body = served.pages.get(request.match_info["pod"])
        if body is None:
            raise web.HTTPNotFound
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=1.0.0"})

    app = web.Application()
    app.router.add_get("/{pod}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served = Engines(int(runner.addresses[0][1]), pages, directory / "targets.json")
    served.write_targets()
    try:
        yield served
    finally:
        await runner.cleanup()


@dataclass
class Process:
    """A running scaler: its process, its ports, and where its log goes."""

    process: asyncio.subprocess.Process
    grpc: int
    http: int
    log: Path

    async def get(self, path: str) -> tuple[int, str]:
        """Ask over HTTP."""
        url = f"http://127.0.0.1:{self.http}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.text()

    async def terminate(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()

    def logged(self) -> str:
        """Return all that was logged."""
        return self.log.read_text(encoding="utf-8")


@asynccontextmanager
async def scaler(directory: Path, arguments: Sequence[str]) -> AsyncIterator[Process]:
    """Start `scaler serve` and wait until it answers."""
    grpc, http = free_port(), free_port()
    log = directory / f"scaler-{grpc}.log"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SCALER_")}
    with log.open("wb") as to:
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "scaler", "serve"],
            *["--grpc-listen", f"127.0.0.1:{grpc}", "--http-listen", f"127.0.0.1:{http}"],
            *arguments,
            stdout=to,
            stderr=to,
            env=environment,
        )
    running = Process(process, grpc, http, log)
    try:
        await until_ready(running)
        yield running
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until_ready(running: Process) -> None:
    """Return once the scaler says that it answers KEDA."""
    while True:
        if running.process.returncode is not None:
            raise AssertionError(f"the scaler ended:\n{running.logged()}")
        try:
            if (await running.get("/readyz"))[0] == 200:
                return
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(0.05)
