"""One HTTP session with a Prometheus: asks, bounded in time and size, and translates every fault.

prometheus-api-client keeps the session; the form is posted here, because the client drops the
answer's `warnings` (a partial answer would look complete) and has no bound on time or size.
"""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Mapping

import requests
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, _basic_auth_str
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from scaler.adapters.prometheus_answer import (
    Answer,
    NotAnAnswer,
    parse_answer,
    stated_error,
    stated_kind,
)
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.control.ports import (
    SelectionInvalid,
    SourceAnswerInvalid,
    SourceBusy,
    SourceDenied,
    SourceError,
    SourceUnreachable,
)
from scaler.core.units import Seconds

PARALLEL = 8
_CONNECT_TIMEOUT: Seconds = 3.0
_CHUNK = 256 * 1024
_LONGEST_PATIENCE: Seconds = 300.0
_DEFAULT_PATIENCE: Seconds = 15.0
_MOST_READ, _MOST_TOLD = 3000, 300
"""Characters of what the other side says that are looked at, and that are told."""


class PassingFault(SourceUnreachable):
    """A fault that may be over in a moment: asking again is worth it."""


class Busy(SourceBusy):
    """Asked for patience, and for how long."""

    def __init__(self, message: str, patience: Seconds) -> None:
        """Keep the patience, in seconds."""
        super().__init__(message)
        self.patience = patience


class _Credentials(AuthBase):
    """Puts the secret on each request, out of its file; also keeps ~/.netrc out of it."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self.secrets: set[str] = set()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        settings = self._settings
        if settings.bearer_token_file is not None:
            token = self._read(str(settings.bearer_token_file))
            request.headers["Authorization"] = f"Bearer {token}"
        elif settings.username is not None:
            password = self._read(str(settings.password_file))
            sent = _basic_auth_str(settings.username, password)
            request.headers["Authorization"] = sent
            self.secrets = {password, sent.removeprefix("Basic ")}
        return request

    def _read(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 - one call, each query
                secret = file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SourceDenied(f"cannot read the credentials in {path}: mount the file") from error
        if not secret.isprintable() or not secret:
            raise SourceDenied(f"the credentials in {path} are empty or more than one line")
        self.secrets = {secret}
        return secret


class PrometheusSession(PrometheusConnect):
    """Asks one API; blocking, safe to use from several threads."""

    def __init__(self, settings: PrometheusSettings) -> None:
        """Open nothing yet: the first query connects."""
        session = requests.Session()
        session.verify = str(settings.ca_file) if settings.ca_file is not None else True
        if settings.client_certificate_file is not None:
            certificate = str(settings.client_certificate_file)
            key = settings.client_key_file
            session.cert = (certificate, str(key)) if key is not None else certificate
        self._credentials = _Credentials(settings)
        once = Retry(total=0, redirect=False, raise_on_status=False)
        super().__init__(
            url=settings.url.rstrip("/"),
            session=session,
            retry=once,
            headers=dict(settings.headers),
            auth=self._credentials,  # type: ignore[arg-type] # requests takes any AuthBase
        )
        # The client's constructor mounts an adapter of its own over any that was there.
        session.mount(self.url, HTTPAdapter(max_retries=once, pool_maxsize=PARALLEL))
        self._settings = settings
        self._counting = threading.Lock()
        self.received = 0

    def ask(self, endpoint: str, form: Mapping[str, str], deadline: Seconds) -> Answer:
        """Post the form to /api/v1/`endpoint` and read the answer until the monotonic deadline.

        Raises the port's SourceError subclasses, never anything else.
        """
        try:
            with self._post(endpoint, form, deadline) as response:
                body = self._body(response, deadline)
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            raise self._unreachable(error) from _root(error)
        return self._understood(response, body)

    def _post(self, endpoint: str, form: Mapping[str, str], deadline: Seconds) -> requests.Response:
        left = max(0.05, deadline - time.monotonic())
        return self._session.post(
            f"{self.url}/api/v1/{endpoint}",
            data={**form, "timeout": f"{left:.3f}"},
            params=dict(self._settings.parameters),
            headers=self.headers,
            auth=self.auth,
            timeout=(min(left, _CONNECT_TIMEOUT), left),
            allow_redirects=False,
            # Said at each call, or REQUESTS_CA_BUNDLE in the environment wins over the setting.
            verify=self._session.verify,
            stream=True,
        )

    def _body(self, response: requests.Response, deadline: Seconds) -> bytes:
        """Read chunk by chunk: a timeout of the socket alone outlives any trickle."""
        parts: list[bytes] = []
        size = 0
        while chunk := response.raw.read1(_CHUNK, decode_content=True):
            parts.append(chunk)
            size += len(chunk)
            with self._counting:
                self.received += len(chunk)
            if size > self._settings.largest_answer:
                raise AnswerTooLarge(
                    f"{self._where} answered with more than {self._settings.largest_answer} bytes: "
                    "select fewer series, or raise the largest answer"
                )
            if time.monotonic() > deadline:
                raise requests.Timeout
        return b"".join(parts)

    def _understood(self, response: requests.Response, body: bytes) -> Answer:
        if response.status_code != requests.codes.ok:
            raise self._refusal(response, body)
        try:
            return parse_answer(body)
        except NotAnAnswer as error:
            content = response.headers.get("Content-Type", "no content type").split(";")[0]
            raise SourceAnswerInvalid(
                f"{self._where} answered 200 with {self._told(content)} that is no answer to a "
                f"query ({self._told(str(error))}): check the url, and whether a login page or a "
                "proxy stands before it"
            ) from error

    def _refusal(self, response: requests.Response, body: bytes) -> SourceError:
        status = response.status_code
        said = self._told(stated_error(body))
        detail = f"{status}: {said}" if said else str(status)
        patience = _patience(response.headers.get("Retry-After"))
        if status in {401, 403}:
            return SourceDenied(
                f"{self._where} refuses us ({status}): check the token, the password, the client "
                "certificate and the tenant's header"
            )
        if status == 429 or (status == 503 and patience is not None):  # noqa: PLR2004
            seconds = patience if patience is not None else _DEFAULT_PATIENCE
            return Busy(f"{self._where} asks for {seconds:.0f} s of patience ({status})", seconds)
        if status in {400, 422}:
            return SelectionInvalid(f"{self._where} rejects the query ({detail})")
        if status in {408, 500, 502, 503, 504}:
            # A query that ran out of time would do so again, and load the server once more.
            again = stated_kind(body) not in {"timeout", "canceled"}
            fault = PassingFault if again else SourceUnreachable
            return fault(f"{self._where} failed ({detail}): look at it, or at the proxy before it")
        if 300 <= status < 400:  # noqa: PLR2004
            return SourceAnswerInvalid(
                f"{self._where} sends us elsewhere ({status}), which is not followed: "
                "set the url to the API itself"
            )
        return SourceAnswerInvalid(
            f"{self._where} answered {detail}: check that the url is that of a Prometheus API"
        )

    def _unreachable(self, error: Exception) -> SourceUnreachable:
        what = _fault(error)
        fault = PassingFault if what in _PASSING else SourceUnreachable
        return fault(f"{self._where} {what}: {_CURES.get(what, 'look at it, or at the network')}")

    @property
    def _where(self) -> str:
        return f'source "{self._settings.name}" ({self._settings.place})'

    def _told(self, text: str) -> str:
        """Make what the other side said fit to be told: our secrets blanked, plain, and short.

        In this order: half of a secret that was cut first would not be known for one.
        """
        hidden = self._hide(text)
        plain = "".join(each if each.isprintable() else " " for each in hidden[:_MOST_READ])
        return " ".join(plain.split())[:_MOST_TOLD]

    def _hide(self, text: str) -> str:
        """Blank our own secrets in what the other side said."""
        values = [*self._settings.headers.values(), *self._settings.parameters.values()]
        for secret in sorted({*self._credentials.secrets, *values}, key=len, reverse=True):
            if secret:
                text = text.replace(secret, "***")
        return text


class AnswerTooLarge(SourceAnswerInvalid):
    """The answer is larger than we are willing to hold."""


_REFUSED, _DROPPED, _SLOW = "refuses the connection", "dropped the connection", "did not answer"
_NO_NAME, _TLS, _UNREADABLE = "has no address", "fails the TLS handshake", "cannot be reached"
_PASSING = {_REFUSED, _DROPPED}
_CURES = {
    _REFUSED: "is it running, and is the port right?",
    _SLOW: "look at its load, or raise the timeout",
    _NO_NAME: "check the host's name and DNS",
    _TLS: "check the CA file, the client certificate and the host's name",
}


def _fault(error: Exception) -> str:
    """Say in our own words what happened: the libraries' texts hold the address with its query."""
    if isinstance(error, requests.exceptions.SSLError):
        return _TLS
    if isinstance(error, requests.Timeout | TimeoutError):
        return _SLOW
    names = {type(cause).__name__ for cause in _causes(error)}
    if "NameResolutionError" in names or "gaierror" in names:
        return _NO_NAME
    if names & {"SSLError", "SSLCertVerificationError"}:
        return _TLS
    if names & {"ReadTimeoutError", "ConnectTimeoutError", "TimeoutError", "timeout"}:
        return _SLOW
    if "ConnectionRefusedError" in names:
        return _REFUSED
    if names & {"ConnectionResetError", "RemoteDisconnected", "IncompleteRead", "BrokenPipeError"}:
        return _DROPPED
    return _UNREADABLE


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    pending: list[object] = [error]
    while pending:
        cause = pending.pop()
        if isinstance(cause, BaseException) and cause not in found:
            found.append(cause)
            pending += [cause.__cause__, cause.__context__, getattr(cause, "reason", None)]
            pending += list(cause.args)
    return found


def _root(error: Exception) -> BaseException | None:
    """Return the operating system's own error, which names no address; None where there is none."""
    roots = [cause for cause in _causes(error) if type(cause).__module__ in {"builtins", "socket"}]
    return next((root for root in roots if isinstance(root, OSError) and not root.__cause__), None)


def _patience(header: str | None) -> Seconds | None:
    """Read Retry-After, seconds or a date; None where there is none that can be read."""
    if header is None:
        return None
    if header.strip().isdecimal():  # a "²" is a digit, too, and no number
        return min(float(header), _LONGEST_PATIENCE)
    try:
        instant = email.utils.parsedate_to_datetime(header).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, instant - time.time()), _LONGEST_PATIENCE)
