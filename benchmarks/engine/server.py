"""A real vLLM on the CPU, in processes of its own, started and ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.engine.scenarios import MAX_MODEL_LEN, Scenario

MODEL_NAME = "tiny"
BLOCK_SIZE = 128
PATIENCE = 600.0

QUIET = {
    # It asks no hub and tells nobody that it runs.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # One core for the arithmetic, wherever it is free; 1 GiB for the cache.
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


class EngineFailed(Exception):
    """The real engine did not start or did not answer; the message says where its log is."""


@contextmanager
def serving(engine: Path, model: Path, scenario: Scenario, log: Path) -> Iterator[str]:
    """Run `vllm serve` from the virtual environment `engine`; yield its address.

    Raises EngineFailed.
    """
    port = _free_port()
    with log.open("wb") as out:
        process = subprocess.Popen(
            _command(engine, model, scenario, port),
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **QUIET},
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(process, address, log)
        yield address
    finally:
        # With open streams a polite end can hang: the whole group goes at once.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _command(engine: Path, model: Path, scenario: Scenario, port: int) -> list[str]:
    flags = {
        "--served-model-name": MODEL_NAME,
        "--load-format": "dummy",
        "--host": "127.0.0.1",
        "--port": port,
        "--max-model-len": MAX_MODEL_LEN,
        "--max-num-seqs": scenario.seqs,
        "--max-num-batched-tokens": scenario.batched,
        "--block-size": BLOCK_SIZE,
        # Fewer events to write and to read; the first token still goes out at once.
        "--stream-interval": 20,
    }
    if scenario.blocks is not None:
        # vLLM keeps one block to itself.
        flags["--num-gpu-blocks-override"] = scenario.blocks + 1
    told = [str(part) for flag in flags.items() for part in flag]
    return [str(engine / "bin" / "vllm"), "serve", str(model), *told, "--enforce-eager"]


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise EngineFailed(f"the engine ended while starting: its log is {log}")
        try:
            with urlopen(f"{address}/health", timeout=2.0):  # noqa: S310 - our own address
                return
        except (URLError, OSError):
            time.sleep(0.3)
    raise EngineFailed(f"the engine was not healthy within {PATIENCE:.0f} s: its log is {log}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
