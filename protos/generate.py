"""Writes the Python code of the protobuf contracts into `scaler/wire`, or compares it.

python protos/generate.py          writes the files
python protos/generate.py --check  exits 1 and names each file that differs from a fresh run
"""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
ROOM = Path("scaler") / "wire"
HAND_WRITTEN = frozenset({"__init__.py"})


class GenerationFailed(Exception):
    """protoc refused a contract; what it printed says why."""


def generate(out: Path) -> None:
    """Write modules and type stubs of every contract below `out`, as `scaler/wire/NAME_pb2*`."""
    # protoc finds its mypy plugins on PATH; the environment need not be activated.
    scripts = sysconfig.get_path("scripts")
    os.environ["PATH"] = os.pathsep.join((scripts, os.environ.get("PATH", os.defpath)))
    contracts = sorted(path.name for path in (ROOT / "protos").glob("*.proto"))
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    arguments = [
        "protoc",
        # Mounting the folder under the package's path makes protoc emit absolute imports.
        f"-I{ROOM.as_posix()}={ROOT / 'protos'}",
        f"-I{well_known}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
        *(f"{ROOM.as_posix()}/{name}" for name in contracts),
    ]
    if status := protoc.main(arguments):
        raise GenerationFailed(f"protoc ended with status {status} on {', '.join(contracts)}")


def differences(expected: Path, actual: Path) -> list[str]:
    """Name the generated files that are missing, left over or changed in `actual`, sorted."""
    names = {path.name for folder in (expected, actual) for path in folder.glob("*.py*")}
    return sorted(
        name
        for name in names - HAND_WRITTEN
        if _content(expected / name) != _content(actual / name)
    )


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def main() -> int:
    """Write or compare; give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if not parser.parse_args().check:
        generate(ROOT)
        return 0
    with tempfile.TemporaryDirectory() as fresh:
        generate(Path(fresh))
        stale = differences(Path(fresh) / ROOM, ROOT / ROOM)
    for name in stale:
        sys.stderr.write(f"{ROOM / name} is not what protos/ gives: run `make protos`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
