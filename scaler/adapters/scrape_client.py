"""Fetches one page within a deadline and a size, or says in our words why not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from scaler.control.ports import (
    SourceAnswerInvalid,
    SourceBusy,
    SourceDenied,
    SourceError,
    SourceUnreachable,
)
from scaler.core.units import Seconds

_CHUNK = 64 * 1024
_AT_ONCE = 500
_CONNECTED_WITHIN: Seconds = 1.5
"""Pods that are gone but still listed swallow packets, and many of them must not keep the pool; a
lost first packet is sent again after a second."""
_DENIED = frozenset({401, 403})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeSettings:
    """How pages are read. Files are read anew at each round, so a rotated secret is used at once.

    `targets` is a file of targets; without it pods are scraped. `interval` is between two scrapes
    of a page, `timeout` for one page in all (seconds), `largest_answer` in bytes after
    decompression. `server_name` is what certificates are checked against instead of the address.
    """

    targets: Path | None = None
    name: str = "scrape"
    interval: Seconds = 5.0
    timeout: Seconds = 3.0
    largest_answer: int = 16 * 2**20
    headers: Mapping[str, str] = field(default_factory=dict)
    bearer_token_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    server_name: str | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None


class PageClient:
    """One connection pool for all pages; enter it before fetching."""

    def __init__(self, settings: ScrapeSettings) -> None:
        """Keep the settings; nothing is opened yet."""
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._headers: dict[str, str] = {}
        self.received = 0

    async def __aenter__(self) -> Self:
        """Open the pool."""
        connector = aiohttp.TCPConnector(limit=_AT_ONCE, ssl=self._tls(), ttl_dns_cache=30)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(
                total=self._settings.timeout, sock_connect=_CONNECTED_WITHIN
            ),
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
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    def read_secrets(self) -> None:
        """Read token and password from their files. Raises SourceDenied."""
        settings = self._settings
        headers = dict(settings.headers)
        if settings.bearer_token_file is not None:
            headers["Authorization"] = f"Bearer {_secret(settings.bearer_token_file)}"
        if settings.username is not None and settings.password_file is not None:
            password = _secret(settings.password_file)
            headers["Authorization"] = aiohttp.encode_basic_auth(settings.username, password)
        self._headers = headers

    async def fetch(self, url: str) -> bytes:
        """Return the page. Raises SourceError."""
        if self._session is None:
            raise RuntimeError("the pool is not open")
        try:
            async with self._session.get(
                url,
                headers=self._headers,
                allow_redirects=False,
                server_hostname=self._settings.server_name,
            ) as response:
                _refuse(response.status)
                return await self._body(response)
        except aiohttp.ConnectionTimeoutError as error:
            raise SourceUnreachable(f"no connection within {_CONNECTED_WITHIN:g} s") from error
        except TimeoutError as error:
            raise SourceUnreachable(
                f"no whole answer within {self._settings.timeout:g} s"
            ) from error
        except aiohttp.ClientPayloadError as error:
            raise SourceAnswerInvalid("the answer was cut off or badly encoded") from error
        except aiohttp.ClientError as error:
            raise SourceUnreachable(_told(error)) from error

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks, size = [], 0
        async for chunk in response.content.iter_chunked(_CHUNK):
            size += len(chunk)
            self.received += len(chunk)
            if size > self._settings.largest_answer:
                raise SourceAnswerInvalid(
                    f"the page is larger than {self._settings.largest_answer} bytes"
                )
            chunks.append(chunk)
            # One large page must not keep the event loop from everybody else.
            await asyncio.sleep(0)
        return b"".join(chunks)

    def _tls(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.client_certificate_file is not None:
            context.load_cert_chain(settings.client_certificate_file, settings.client_key_file)
        return context


def _refuse(status: int) -> None:
    if status == 200:  # noqa: PLR2004 - HTTP's OK
        return
    told = f"HTTP {status}"
    if status in _DENIED:
        raise SourceDenied(f"{told}: check the source's token or certificate")
    if status == 429:  # noqa: PLR2004 - HTTP's Too Many Requests
        raise SourceBusy(told)
    if 300 <= status < 400:  # noqa: PLR2004 - HTTP's redirections
        raise SourceAnswerInvalid(f"{told}: redirects are not followed; correct the target")
    if status >= 500:  # noqa: PLR2004 - HTTP's server errors
        raise SourceUnreachable(told)
    raise SourceAnswerInvalid(f"{told}: is this the metrics path?")


def _told(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "no such host"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted: set caFile"
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or "cannot connect"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed without an answer"
    return type(error).__name__


def _secret(path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SourceDenied(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceDenied(f"{path} holds what is no text: mount the secret itself") from error
    if not secret.isprintable() or not secret:
        raise SourceDenied(f"{path} is empty or holds more than one line of text")
    return secret


def renamed(error: SourceError, place: str) -> SourceError:
    """Return the error with its place named."""
    return type(error)(f"{place}: {error}")
