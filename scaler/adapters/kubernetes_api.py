"""One session with an API server: asks, bounded in time and size, and translates every fault.

aiohttp itself and not the client's blocking reads in threads. Both take some 60 µs of CPU for an
event, and little memory for a watch; but here a read ends when it is told to, at its deadline or
with the process, and nothing that is seen has to cross from one thread to another.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import aiohttp

from scaler.adapters.kubernetes_access import Access, gain_access
from scaler.adapters.kubernetes_errors import (
    ClusterAnswerInvalid,
    ClusterBusy,
    ClusterConflict,
    ClusterError,
    ClusterMissing,
    ClusterUnreachable,
    RightMissing,
    TokenRefused,
    ViewExpired,
)
from scaler.adapters.kubernetes_patience import Recall
from scaler.adapters.kubernetes_settings import KubernetesSettings
from scaler.control.ports import Clock
from scaler.core.units import Seconds

Query = Mapping[str, str]

_CHUNK = 256 * 1024
_LARGEST_LINE = 16 * 2**20
_DEFAULT_PATIENCE: Seconds = 5.0
_LONGEST_PATIENCE: Seconds = 60.0
_UNAUTHORIZED = 401
_REDIRECTED = 300


class KubernetesApi:
    """Asks the API server; enter it before asking. Every method raises ClusterError only."""

    def __init__(self, settings: KubernetesSettings) -> None:
        """Open nothing yet: the first question looks for the way in."""
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._access: Access | None = None
        self._finding = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Open the pool."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            # Compressing costs both sides more than a cluster's network does.
            headers={"User-Agent": "vllm-keda-scaler", "Accept-Encoding": "identity"},
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

    async def get(
        self, path: str, query: Query | None = None, *, accept: str = "application/json"
    ) -> bytes:
        """Return the answer's body."""
        headers = {"Accept": accept}
        async with self._answered("GET", path, query, headers=headers) as response:
            return await self._body(response)

    async def send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = "application/json",
        query: Query | None = None,
    ) -> bytes:
        """Write: POST, PUT or PATCH (whose kind `content_type` names); return the answer's body."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        async with self._answered(method, path, query, headers=headers, body=body) as response:
            return await self._body(response)

    @asynccontextmanager
    async def watching(
        self, path: str, query: Query, *, lasts: Seconds, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; within, its lines come until it ends, is cut, or `lasts` seconds are over.

        The last two raise ClusterUnreachable: the server ends its watches itself before that.
        """
        headers = {"Accept": accept}
        async with self._answered("GET", path, query, headers=headers, within=lasts) as response:
            yield _lines(response.content)

    @asynccontextmanager
    async def _answered(
        self,
        method: str,
        path: str,
        query: Query | None,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        within: Seconds | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask; credentials that are refused are read anew, and tried once more."""
        timeout = aiohttp.ClientTimeout(
            total=within or self._settings.answer_within,
            sock_connect=self._settings.connect_within,
        )
        try:
            for first in (True, False):
                access = await self._way_in()
                async with self._opened().request(
                    method,
                    access.url + path,
                    params=dict(query or {}),
                    headers={**headers, **await access.headers()},
                    data=body,
                    timeout=timeout,
                    allow_redirects=False,
                    ssl=access.tls,
                    proxy=access.proxy,
                    server_hostname=access.server_name,
                ) as response:
                    if response.status == _UNAUTHORIZED and first:
                        self._leave(access)
                        continue
                    if response.status >= _REDIRECTED:
                        raise _refusal(response)
                    yield response
                    return
        except aiohttp.ClientSSLError as error:
            # The CA may have been replaced: it is read anew before the next question.
            self._access = None
            raise _unreachable(error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the session is not open")
        return self._session

    async def _way_in(self) -> Access:
        async with self._finding:
            if self._access is None:
                self._access = await gain_access(self._settings)
            return self._access

    def _leave(self, refused: Access) -> None:
        """Forget a way that was refused, unless somebody found a new one already."""
        if self._access is refused:
            self._access = None

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks, size = [], 0
        async for chunk in response.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if size > self._settings.largest_answer:
                raise ClusterAnswerInvalid(
                    f"the API server answered with more than {self._settings.largest_answer} bytes"
                )
            chunks.append(chunk)
        return b"".join(chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What everybody needs who asks the API server time and again."""

    api: KubernetesApi
    settings: KubernetesSettings
    clock: Clock
    recall: Recall = field(default_factory=Recall)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    parts: list[bytes] = []
    size = 0
    async for chunk in content.iter_any():
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            line = b"".join([*parts, end])
            parts, size = [], 0
            if line:
                yield line
        parts.append(rest)
        size += len(rest)
        if size > _LARGEST_LINE:
            raise ClusterAnswerInvalid(f"a watch sent a line of more than {_LARGEST_LINE} bytes")


def _refusal(response: aiohttp.ClientResponse) -> ClusterError:
    status = response.status
    told = f"the API server answered {status}"
    if status in {429, 503} and (after := response.headers.get("Retry-After", "")).isdecimal():
        return ClusterBusy(f"{told}: it asks for patience", min(float(after), _LONGEST_PATIENCE))
    if status == 429:  # noqa: PLR2004 - HTTP's Too Many Requests
        return ClusterBusy(f"{told}: it asks for patience", _DEFAULT_PATIENCE)
    if status >= 500:  # noqa: PLR2004 - HTTP's server errors
        return ClusterUnreachable(told)
    kinds: dict[int, type[ClusterError]] = {
        _UNAUTHORIZED: TokenRefused,
        403: RightMissing,
        404: ClusterMissing,
        409: ClusterConflict,
        410: ViewExpired,
    }
    return kinds.get(status, ClusterAnswerInvalid)(told)


def _unreachable(error: Exception) -> ClusterUnreachable:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        told = "its certificate is not trusted: check the CA"
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        told = "its name has no address"
    elif isinstance(error, aiohttp.ClientConnectorError):
        told = error.os_error.strerror or "cannot connect"
    elif isinstance(error, TimeoutError):
        told = "no whole answer in time"
    else:
        told = f"the connection was cut ({type(error).__name__})"
    return ClusterUnreachable(f"the API server cannot be reached: {told}")
