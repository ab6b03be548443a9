"""TLS for the gRPC server, with certificates that are read anew when they change on disk."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from scaler.edge.callers import AllowedName
from scaler.edge.errors import CertificateInvalid

_log = structlog.get_logger(__name__)

_Signature = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files: the server's certificate chain and key, and whose clients are let in.

    With `client_ca` only clients that show a certificate of that CA are served (mutual TLS), with
    `allowed` only those of them whose certificate has one of the names.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    allowed: tuple[AllowedName, ...] = ()

    def __post_init__(self) -> None:
        """Refuse names that anybody could write into a certificate."""
        if self.allowed and self.client_ca is None:
            raise ValueError("allowed names need a client CA")


class Certificates:
    """The newest valid certificates; faulty ones on disk are reported and change nothing.

    `current` is called by gRPC in threads of its own, at every handshake.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Read the files. Raises CertificateInvalid."""
        self._files = files
        self._seen = self._signature()
        self._configuration = _load(files)

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials that follow the files."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration,
            self.current,
            require_client_authentication=self._files.client_ca is not None,
        )

    def current(self) -> grpc.ServerCertificateConfiguration:
        """Return the configuration for the next handshake; never raises."""
        signature = self._signature()
        if signature == self._seen:
            return self._configuration
        try:
            self._configuration = _load(self._files)
        except CertificateInvalid as error:
            _log.warning("certificate-kept", error=str(error))
        else:
            _log.info("certificate-changed", path=str(self._files.certificate))
        self._seen = signature
        return self._configuration

    def _signature(self) -> _Signature:
        """Follow links, since Kubernetes swaps a link to update a mounted Secret."""
        files = self._files
        paths = [files.certificate, files.key, *([files.client_ca] if files.client_ca else [])]
        return tuple(_stat(path) for path in paths)


def _stat(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _load(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    """Read and check the files. gRPC itself says of a bad pair only that some handshake failed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise CertificateInvalid(
            f"certificate {files.certificate} and key {files.key} cannot be used together: "
            f"{_fault(error)}; both must be PEM, belong together and be readable"
        ) from error
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as error:
            raise CertificateInvalid(
                f"client CA {files.client_ca} cannot be used: {_fault(error)}; it must be PEM"
            ) from error
    roots = files.client_ca.read_bytes() if files.client_ca is not None else None
    pair = (files.key.read_bytes(), files.certificate.read_bytes())
    return grpc.ssl_server_certificate_configuration([pair], roots)


def _fault(error: Exception) -> str:
    """Say what is wrong without the content of any file."""
    if isinstance(error, ssl.SSLError):
        return error.reason or "not valid PEM"
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


def _no_password() -> str:
    """Refuse an encrypted key instead of asking on the terminal."""
    raise ValueError("the key is encrypted")
