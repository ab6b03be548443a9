"""A file that may be replaced while we run: an edit, or a mounted ConfigMap that is swapped."""

from __future__ import annotations

from pathlib import Path

_Signature = tuple[int, int, int, int]


class WatchedFile:
    """Tells when a file's content may have changed since it was last looked at."""

    def __init__(self, path: Path) -> None:
        """Watch `path`, which need not exist yet."""
        self.path = path
        self._seen: _Signature | None = None

    def changed(self) -> bool:
        """Say whether the file is another than at the last call; the first call says yes.

        Links are followed, since Kubernetes swaps a link to update a mounted ConfigMap.
        """
        signature = self._signature()
        if signature == self._seen:
            return False
        self._seen = signature
        return True

    def _signature(self) -> _Signature:
        try:
            found = self.path.stat()
        except OSError:
            return (0, 0, 0, 0)
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
