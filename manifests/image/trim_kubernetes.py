"""Takes out of an installed kubernetes client what the scaler never loads: its typed API.

Run in the image's build stage as `python trim_kubernetes.py SITE_PACKAGES`. Of the client only the
way to the API server is used (kubeconfig, in-cluster credentials); the classes for every kind and
API group are nine tenths of its size, and nothing imports them until somebody asks for one.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

TYPED = tuple(
    f"{client}/{part}" for client in ("client", "aio/client") for part in ("api", "models")
)


def trim(package: Path) -> int:
    """Empty the folders of typed classes, up to their `__init__.py`; return the bytes saved.

    Raises FileNotFoundError where the client is laid out otherwise: then look at it anew.
    """
    saved = 0
    for folder in (package / part for part in TYPED):
        if not (folder / "__init__.py").is_file():
            raise FileNotFoundError(f"{folder} is no package: is this another kubernetes client?")
        for path in folder.iterdir():
            if path.name == "__init__.py":
                continue
            saved += sum(f.stat().st_size for f in (path, *path.rglob("*")) if f.is_file())
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return saved


if __name__ == "__main__":
    print(f"{trim(Path(sys.argv[1]) / 'kubernetes') / 2**20:.0f} MiB less")  # noqa: T201
