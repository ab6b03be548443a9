"""A resolver of names that a test can make fail: it stands before the machine's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast


class Names:
    """Knows the names ending in `.test`; leaves all others to the machine."""

    def __init__(self) -> None:
        """Know none yet."""
        self.known: dict[str, str] = {}
        self.lost: dict[str, bool] = {}

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Answer in the place of the machine's resolver until left."""
        real = socket.getaddrinfo

        def look_up(host: object, *args: object, **kwargs: object) -> list[object]:
            if isinstance(host, str) and host.endswith(".test"):
                if self.lost.get(host) or host not in self.known:
                    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
                host = self.known[host]
            return cast("list[object]", real(host, *args, **kwargs))  # type: ignore[arg-type]

        socket.getaddrinfo = look_up  # type: ignore[assignment]
        try:
            yield
        finally:
            socket.getaddrinfo = real
            self.known.clear()
            self.lost.clear()


names = Names()
