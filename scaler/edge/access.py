"""Who may read the decisions: a bearer token from a file, loopback, or whom a proxy lets through.

What a browser loads first, the probes and the metrics hold no decision of their own and are read by
the kubelet and by Prometheus, which by convention bring no token.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TypeAlias

import structlog
from aiohttp import web

from scaler.edge.errors import EdgeError

GUARDED = "/api/"
"""What is below this path is guarded."""

_SHORTEST = 16
_LARGEST_FILE = 1 << 16
_SCHEME = "bearer "
_Signature: TypeAlias = "tuple[int, int, int] | None"
_Handler: TypeAlias = "Callable[[web.Request], Awaitable[web.StreamResponse]]"

_log = structlog.get_logger(__name__)


class TokenInvalid(EdgeError):
    """The token file cannot be used; the message names the file, never its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Who may read: whoever brings a token of `token_file`; without one, this machine alone.

    `behind_proxy` says that a proxy, or a network policy, keeps others away.
    """

    token_file: Path | None = None
    behind_proxy: bool = False


class Access:
    """Lets readers in. A token file is read anew when it changes; a bad one changes nothing."""

    def __init__(self, readers: Readers) -> None:
        """Read the tokens. Raises TokenInvalid."""
        self._readers = readers
        self._seen: _Signature = None
        self._tokens: tuple[bytes, ...] = ()
        if readers.token_file is not None:
            self._seen = _signature(readers.token_file)
            self._tokens = _tokens(readers.token_file)

    @web.middleware
    async def guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer 401 to whoever may not read what is guarded."""
        if request.path.startswith(GUARDED):
            self._check(request)
        return await handler(request)

    def _check(self, request: web.Request) -> None:
        if self._readers.token_file is not None:
            self._look_again(self._readers.token_file)
            if not self._knows(request.headers.get("Authorization", "")):
                raise _denied("a valid bearer token is needed: one of http.tokenFile")
        elif not self._readers.behind_proxy and not _is_local(request.remote):
            raise _denied(
                "without a token only this machine may read: use kubectl port-forward, or set "
                "http.tokenFile, or http.behindProxy where a proxy lets only the right ones through"
            )

    def _knows(self, header: str) -> bool:
        given = header[len(_SCHEME) :].strip().encode("utf-8", "surrogateescape")
        known = [hmac.compare_digest(given, token) for token in self._tokens]
        return header[: len(_SCHEME)].lower() == _SCHEME and any(known)

    def _look_again(self, path: Path) -> None:
        signature = _signature(path)
        if signature == self._seen:
            return
        self._seen = signature
        try:
            self._tokens = _tokens(path)
        except TokenInvalid as error:
            _log.warning("token-file-invalid", error=str(error), kept="the tokens in force")


def _signature(path: Path) -> _Signature:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _tokens(path: Path) -> tuple[bytes, ...]:
    """Read one token a line, so that an old and a new one can be valid together."""
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_FILE)
    except OSError as error:
        raise TokenInvalid(f"http.tokenFile {path}: {error.strerror or 'unreadable'}") from error
    tokens = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not tokens or any(len(token) < _SHORTEST for token in tokens):
        raise TokenInvalid(
            f"http.tokenFile {path}: has to hold a token of at least {_SHORTEST} characters on "
            "each line (openssl rand -hex 32 makes one)"
        )
    return tokens


def _denied(message: str) -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(text=message, headers={"WWW-Authenticate": "Bearer"})


def _is_local(remote: str | None) -> bool:
    try:
        address = ip_address((remote or "").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
