"""Asks an OpenAI-compatible server over HTTP, one connection a request.

A connection of its own for each request is what many clients have, and what spreads requests over
the replicas behind a Kubernetes Service, which balances connections.
"""

from __future__ import annotations

import asyncio
import errno
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from scaler.adapters.fates import (
    MALFORMED,
    NO_CONNECTION_LEFT,
    NOT_A_STREAM,
    RESET,
    UNREACHABLE,
    Fate,
    Seen,
    refused,
)
from scaler.adapters.openai_errors import EndpointDenied, EndpointRefused, EndpointUnreachable
from scaler.adapters.openai_stream import AnswerStream, message_of
from scaler.core.units import Seconds

_OK = 200
_DENIED = frozenset({401, 403})
_LARGEST_ERROR = 64 * 1024
_LARGEST_LIST = 4 << 20
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS})
"""Failures to connect that are this machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go. `url` is the part before `/v1`; it holds no credentials.

    `connect_within` bounds the connection, `listed_within` the list of models, and `told_within`
    the body of a refusal, all in seconds. The key is no part of its `repr`.
    """

    url: str
    key: str | None = None
    ca_file: Path | None = None
    connect_within: Seconds = 10.0
    listed_within: Seconds = 30.0
    told_within: Seconds = 1.0

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that the server has; `longest` is prompt and output together, in tokens."""

    name: str
    longest: int | None


class OpenAiClient:
    """Sends bodies and follows the streams that come back; enter it first."""

    def __init__(self, endpoint: Endpoint, now: Callable[[], Seconds]) -> None:
        """Take the clock by which what is seen is timed."""
        self._endpoint = endpoint
        self._now = now
        self._base = endpoint.url.rstrip("/").removesuffix("/v1")
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the session."""
        endpoint = self._endpoint
        headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        connector = aiohttp.TCPConnector(limit=0, force_close=True, ssl=self._tls())
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=endpoint.connect_within),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    async def models(self) -> tuple[Model, ...]:
        """List what the server has. Raises EndpointError."""
        url = f"{self._base}/v1/models"
        try:
            async with (
                asyncio.timeout(self._endpoint.listed_within),
                self._open_session().get(url, allow_redirects=False) as answer,
            ):
                self._check(answer.status, url)
                body = await _body(answer, _LARGEST_LIST)
        except TimeoutError as error:
            raise EndpointUnreachable(f"{url} gave no answer in time: is it up?") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise EndpointDenied(f"{url}: its certificate is not trusted: give the CA") from error
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointUnreachable(
                f"{url} cannot be reached ({_reason(error)}): is the server up, and the URL right?"
            ) from error
        return _models(body, url)

    async def stream(self, path: str, body: bytes, seen: Seen) -> Fate:
        """Post a body and follow its answer to the end; whatever the server does is a fate."""
        stream = AnswerStream(seen, self._hide)
        try:
            async with self._open_session().post(
                f"{self._base}{path}",
                data=body,
                headers={"Content-Type": "application/json", "Accept": "text/event-stream"},
                allow_redirects=False,
            ) as answer:
                if answer.status != _OK:
                    seen.message = await self._told(answer)
                    return refused(answer.status)
                if answer.content_type != "text/event-stream":
                    return NOT_A_STREAM
                await self._follow(answer, stream)
                fate = stream.fate()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            seen.message = _reason(error)
            return NO_CONNECTION_LEFT if error.errno in _OURS else UNREACHABLE
        except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, OSError):
            fate = stream.fate(broken=RESET)
        except aiohttp.ClientError:
            fate = stream.fate(broken=MALFORMED)
        return fate

    async def _follow(self, answer: aiohttp.ClientResponse, stream: AnswerStream) -> None:
        async for piece in answer.content.iter_any():
            stream.feed(piece, self._now())
            if stream.over:
                return

    async def _told(self, answer: aiohttp.ClientResponse) -> str:
        """Return the words of a refusal; its status is what counts, so never wait long for them."""
        try:
            async with asyncio.timeout(self._endpoint.told_within):
                read = json.loads(await _body(answer, _LARGEST_ERROR))
        except (ValueError, aiohttp.ClientError, OSError):  # TimeoutError is an OSError
            return ""
        return message_of(read, self._hide)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the session is not open")
        return self._session

    def _check(self, status: int, url: str) -> None:
        if status == _OK:
            return
        if status in _DENIED:
            raise EndpointDenied(f"{url} answered HTTP {status}: give the server's API key")
        if status >= 500:  # noqa: PLR2004 - HTTP's server errors
            raise EndpointUnreachable(f"{url} answered HTTP {status}: is the server ready?")
        raise EndpointRefused(
            f"{url} answered HTTP {status}: the URL must be an OpenAI-compatible server's, "
            "without /v1, and redirects are not followed"
        )

    def _hide(self, text: str) -> str:
        key = self._endpoint.key
        return text.replace(key, "***") if key else text

    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._endpoint.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise EndpointDenied(
                f"{self._endpoint.ca_file} is no readable file of PEM certificates"
            ) from error


async def _body(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Read a body to its end, or to so many bytes."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) >= most:
            break
    return bytes(body)


def _models(body: bytes, url: str) -> tuple[Model, ...]:
    try:
        read: Any = json.loads(body)
    except ValueError as error:
        raise EndpointRefused(f"{url} did not answer with JSON: is this the server?") from error
    listed = read.get("data") if isinstance(read, dict) else None
    entries = [entry for entry in listed or () if isinstance(entry, dict)]
    found = tuple(
        Model(name=entry["id"], longest=_length(entry.get("max_model_len")))
        for entry in entries
        if isinstance(entry.get("id"), str)
    )
    if not found:
        raise EndpointRefused(f"{url} names no model: is this an OpenAI-compatible server?")
    return found


def _length(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "no such host"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
