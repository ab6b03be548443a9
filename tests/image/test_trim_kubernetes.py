"""The image's kubernetes client: smaller by most of itself, and it still finds the API server."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manifests.image.trim_kubernetes import trim

WAY_IN = """
import asyncio, pathlib, sys
import kubernetes
assert pathlib.Path(kubernetes.__file__).is_relative_to(sys.argv[1]), kubernetes.__file__
from scaler.adapters.kubernetes_access import gain_access
from scaler.adapters.kubernetes_settings import KubernetesSettings
found = asyncio.run(gain_access(KubernetesSettings(kubeconfig=pathlib.Path(sys.argv[2]))))
print(found.url)
"""

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:6443"}}]
users: [{name: me, user: {token: secret}}]
"""


def installed() -> Path:
    """Return where the client is."""
    spec = importlib.util.find_spec("kubernetes")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def size(folder: Path) -> int:
    """Add up the files of a folder, without bytecode."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc")


def test_a_trimmed_client_still_finds_the_way_in(tmp_path: Path) -> None:
    """Nine tenths of it go, and a kubeconfig is read as before."""
    shutil.copytree(
        installed(), tmp_path / "kubernetes", ignore=shutil.ignore_patterns("__pycache__")
    )
    before = size(tmp_path / "kubernetes")
    saved = trim(tmp_path / "kubernetes")
    assert saved > 0.85 * before
    assert size(tmp_path / "kubernetes") == before - saved
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG, encoding="utf-8")
    answer = subprocess.run(
        [sys.executable, "-c", WAY_IN, str(tmp_path), str(kubeconfig)],
        env={"PYTHONPATH": f"{tmp_path}:.", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (0, "http://127.0.0.1:6443\n"), answer.stderr


def test_another_layout_is_refused(tmp_path: Path) -> None:
    """A newer client may be laid out otherwise, and then the image is not built."""
    with pytest.raises(FileNotFoundError, match="another kubernetes client"):
        trim(tmp_path)


def test_the_image_is_built_with_it() -> None:
    """The build stage trims after it installs."""
    text = Path("Dockerfile").read_text(encoding="utf-8")
    build = text.split("\nFROM ")[1]
    assert build.index("-r requirements.lock") < build.index("trim_kubernetes.py /opt/scaler")
