"""TLS and mutual TLS, with certificates that change on disk."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from pathlib import Path

import grpc
import pytest
from cryptography import x509

from scaler.edge.errors import CertificateInvalid
from scaler.edge.tls import Certificates, TlsFiles
from tests.edge.certificates import Authority, Pair
from tests.edge.world import World, decided
from tests.keda_client import Keda, scaled_object

pytestmark = pytest.mark.timeout(30)


async def shown(port: int, ca: bytes) -> str:
    """Return the common name of the certificate that a server shows."""

    def ask() -> str:
        context = ssl.create_default_context(cadata=ca.decode())
        context.set_alpn_protocols(["h2"])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            der = secure.getpeercert(binary_form=True)
            assert der is not None
            return x509.load_der_x509_certificate(der).subject.rfc4514_string()

    return await asyncio.to_thread(ask)


def files(folder: Path, *, client_ca: bool = False) -> TlsFiles:
    """Name the files of a folder as a mounted Secret has them."""
    return TlsFiles(
        certificate=folder / "tls.crt",
        key=folder / "tls.key",
        client_ca=folder / "ca.crt" if client_ca else None,
    )


async def test_a_certificate_that_changes_on_disk_is_shown_next(tmp_path: Path) -> None:
    """A rotated certificate needs no restart, a broken one changes nothing, its repair does."""
    ca = Authority("ca")
    ca.issue("one").write(tmp_path)
    world = World()
    world.post(decided(desired=3))
    server = world.server(tls=files(tmp_path))
    port = await server.serve("127.0.0.1:0")
    trusted = grpc.ssl_channel_credentials(ca.certificate)
    async with Keda(port, credentials=trusted) as keda:
        assert (await keda.poll(scaled_object())).replicas == 3.0
        assert await shown(port, ca.certificate) == "CN=one"
        ca.issue("two").write(tmp_path)
        assert await shown(port, ca.certificate) == "CN=two"
        (tmp_path / "tls.crt").write_bytes(b"-----BEGIN CERTIFICATE-----\nbroken")
        assert await shown(port, ca.certificate) == "CN=two"
        (tmp_path / "tls.key").unlink()
        assert await shown(port, ca.certificate) == "CN=two"
        ca.issue("three").write(tmp_path)
        assert await shown(port, ca.certificate) == "CN=three"
        # The connection that was there before all of this still stands.
        assert (await keda.poll(scaled_object())).replicas == 3.0
    await server.drain(within=1.0)


async def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    """Kubernetes updates a mounted Secret by pointing a link elsewhere."""
    ca = Authority("ca")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        ca.issue(name).write(tmp_path / name)
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "one")
    server = World().server(tls=files(link))
    port = await server.serve("127.0.0.1:0")
    assert await shown(port, ca.certificate) == "CN=one"
    (tmp_path / "next").symlink_to(tmp_path / "two")
    (tmp_path / "next").rename(link)
    assert await shown(port, ca.certificate) == "CN=two"
    await server.drain(within=1.0)


def mutual(ca: bytes, client: Pair | None) -> grpc.ChannelCredentials:
    """Trust a CA and show a client's certificate, or none."""
    if client is None:
        return grpc.ssl_channel_credentials(ca)
    return grpc.ssl_channel_credentials(ca, client.key, client.certificate)


async def test_with_a_client_ca_only_its_clients_are_served(tmp_path: Path) -> None:
    """No certificate and a stranger's are turned away; after the CA changed, so is the old one."""
    ca, clients, others = Authority("ca"), Authority("clients"), Authority("others")
    ca.issue("server").write(tmp_path)
    (tmp_path / "ca.crt").write_bytes(clients.certificate)
    world = World()
    world.post(decided(desired=3))
    server = world.server(tls=files(tmp_path, client_ca=True))
    port = await server.serve("127.0.0.1:0")

    async def served(client: Pair | None) -> bool:
        async with Keda(port, credentials=mutual(ca.certificate, client)) as keda:
            try:
                await keda.poll(scaled_object())
            except grpc.aio.AioRpcError as error:
                return error.code() is not grpc.StatusCode.UNAVAILABLE
            return True

    known, stranger = clients.issue("keda"), others.issue("keda")
    assert [await served(c) for c in (known, stranger, None)] == [True, False, False]
    (tmp_path / "ca.crt").write_bytes(others.certificate)
    assert [await served(c) for c in (known, stranger, None)] == [False, True, False]
    await server.drain(within=1.0)


async def test_a_plain_client_is_not_served_over_tls(tmp_path: Path) -> None:
    """Whoever forgets enableTLS gets UNAVAILABLE, and the server goes on."""
    ca = Authority("ca")
    ca.issue("one").write(tmp_path)
    server = World().server(tls=files(tmp_path))
    port = await server.serve("127.0.0.1:0")
    async with Keda(port) as keda:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await keda.specs(scaled_object())
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert await shown(port, ca.certificate) == "CN=one"
    await server.drain(within=1.0)


@pytest.mark.parametrize("fault", ["missing", "mismatched", "encrypted", "empty", "bad-ca"])
def test_files_that_cannot_be_used_are_named(tmp_path: Path, fault: str) -> None:
    """The message names the file and the fault, and holds nothing of any file's content."""
    ca = Authority("ca")
    pair = ca.issue("one")
    pair.write(tmp_path)
    (tmp_path / "ca.crt").write_bytes(ca.certificate)
    key, expected = tmp_path / "tls.key", "tls.key"
    if fault == "missing":
        key.unlink()
    elif fault == "mismatched":
        key.write_bytes(ca.issue("two").key)
    elif fault == "encrypted":
        key.write_bytes(_encrypted(pair.key))
    elif fault == "empty":
        key.write_bytes(b"")
    else:
        (tmp_path / "ca.crt").write_bytes(b"secret-canary")
        expected = "ca.crt"
    with pytest.raises(CertificateInvalid, match=expected) as caught:
        Certificates(files(tmp_path, client_ca=True))
    assert "canary" not in str(caught.value)
    assert os.linesep not in str(caught.value)


def _encrypted(key: bytes) -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only here

    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret-canary"),
    )
