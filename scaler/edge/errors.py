"""What can go wrong at the edge."""

from __future__ import annotations

import grpc


class EdgeError(Exception):
    """The root of this room's errors."""


class ListenFailed(EdgeError):
    """An address cannot be listened on; the message names it and the cure."""


class CertificateInvalid(EdgeError):
    """Certificate, key or CA cannot be used; the message names the file, never its content."""


class Refusal(EdgeError):
    """A call that is answered with a status other than OK; the message is for KEDA's events."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        """Cut the message to what fits into HTTP/2 trailers: longer ones lose the whole status.

        What is no Unicode text is replaced: gRPC cannot send it, and the call would never end.
        """
        text = message.encode("utf-8", "replace").decode("utf-8")
        super().__init__(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
        self.code = code


_LONGEST = 1500
