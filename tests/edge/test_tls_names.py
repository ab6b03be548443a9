"""Mutual TLS with names: who of a CA's clients may ask, and for which namespaces."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]
    reflection_pb2,
    reflection_pb2_grpc,
)

from scaler.edge.callers import AllowedName
from scaler.edge.tls import TlsFiles
from tests.edge.certificates import Authority, Pair
from tests.edge.world import World, decided
from tests.keda_client import Keda, scaled_object

pytestmark = pytest.mark.timeout(60)

KEDA_NAME = "keda-operator.keda.svc"
SPIFFE = "spiffe://cluster.local/ns/keda/sa/keda-operator"
LONG = "spiffe://cluster.local/" + "x" * 300


@dataclass
class Served:
    """A server with its CA, the CA of its clients, and the files of both."""

    port: int
    world: World
    server_ca: Authority
    client_ca: Authority
    folder: Path

    def keda(self, client: Pair) -> Keda:
        """Connect with a client's certificate."""
        credentials = grpc.ssl_channel_credentials(
            self.server_ca.certificate, client.key, client.certificate
        )
        return Keda(self.port, credentials=credentials)

    async def code(self, client: Pair, namespace: str = "prod") -> grpc.StatusCode:
        """Say how GetMetrics ends for a client."""
        async with self.keda(client) as keda:
            return await ended(keda, namespace)


async def ended(keda: Keda, namespace: str = "prod") -> grpc.StatusCode:
    """Say how a poll ends."""
    try:
        await keda.poll(scaled_object(namespace))
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@asynccontextmanager
async def served(tmp_path: Path, *allowed: AllowedName) -> AsyncIterator[Served]:
    """Serve, with a decision for prod/chat and for dev/chat, to the clients with these names."""
    server_ca, client_ca = Authority("servers"), Authority("clients")
    server_ca.issue("server").write(tmp_path)
    (tmp_path / "ca.crt").write_bytes(client_ca.certificate)
    world = World()
    world.post(decided(desired=3), scaled_object("dev"))
    world.post(decided(desired=3))
    server = world.server(
        tls=TlsFiles(
            certificate=tmp_path / "tls.crt",
            key=tmp_path / "tls.key",
            client_ca=tmp_path / "ca.crt",
            allowed=allowed,
        )
    )
    port = await server.serve("127.0.0.1:0")
    try:
        yield Served(port, world, server_ca, client_ca, tmp_path)
    finally:
        await server.drain(within=1.0)


DNS, URI = x509.DNSName, x509.UniformResourceIdentifier


@pytest.mark.parametrize(
    ("names", "let_in"),
    [
        pytest.param([DNS(KEDA_NAME)], True, id="dns"),
        pytest.param([DNS("KEDA-Operator.keda.SVC")], True, id="dns-case"),
        pytest.param([URI(SPIFFE)], True, id="uri"),
        pytest.param([DNS("other.svc"), URI(SPIFFE)], True, id="one-of-several"),
        pytest.param([URI(LONG)], True, id="long-uri"),
        pytest.param([URI(SPIFFE.upper())], False, id="uri-case"),
        pytest.param([URI(SPIFFE + "/x")], False, id="uri-longer"),
        pytest.param([URI(SPIFFE[:-1])], False, id="uri-shorter"),
        pytest.param([DNS("*.keda.svc")], False, id="wildcard"),
        pytest.param([DNS("*")], False, id="star"),
        pytest.param([DNS(KEDA_NAME + ".evil.example")], False, id="dns-longer"),
        pytest.param([DNS("x." + KEDA_NAME)], False, id="dns-below"),
        pytest.param([DNS(KEDA_NAME + ".")], False, id="dns-with-a-dot"),
        pytest.param([DNS(KEDA_NAME + "\x00.evil.example")], False, id="nul"),
        pytest.param([DNS(SPIFFE)], False, id="uri-as-dns"),
        pytest.param([URI(KEDA_NAME)], False, id="dns-as-uri"),
        pytest.param([x509.RFC822Name(KEDA_NAME)], False, id="dns-as-email"),
        pytest.param([x509.RegisteredID(x509.ObjectIdentifier("1.2.3"))], False, id="other-kind"),
        pytest.param([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))], False, id="ip"),
        pytest.param([DNS("localhost")], False, id="stranger"),
        pytest.param([], False, id="common-name-only"),
    ],
)
async def test_only_an_allowed_name_is_let_in(
    tmp_path: Path, names: Sequence[x509.GeneralName], *, let_in: bool
) -> None:
    """Whole names of the right kind, whatever else the CA has signed; never the common name."""
    allowed = [AllowedName(name=name) for name in (KEDA_NAME, SPIFFE, LONG)]
    async with served(tmp_path, *allowed) as scaler:
        code = await scaler.code(scaler.client_ca.issue(KEDA_NAME, names))
    assert code is (grpc.StatusCode.OK if let_in else grpc.StatusCode.PERMISSION_DENIED)


async def test_the_refusal_names_the_stranger_and_the_cure(tmp_path: Path) -> None:
    """It tells who asked and where to add the name, and not who else may."""
    async with served(tmp_path, AllowedName(name=KEDA_NAME)) as scaler:
        stranger = scaler.client_ca.issue("x", [DNS(f"pod-{n}.svc") for n in range(5)])
        async with scaler.keda(stranger) as keda:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await keda.specs(scaled_object())
        counted = scaler.world.measures.calls.labels("GetMetricSpec", "PERMISSION_DENIED")
    told = caught.value.details() or ""
    assert "pod-0.svc, pod-1.svc, pod-2.svc, and 2 more" in told
    assert "grpc.tls.allowedNames" in told
    assert KEDA_NAME not in told
    assert counted._sum.get() == 0.0  # noqa: SLF001
    assert sum(bucket.get() for bucket in counted._buckets) == 2  # noqa: SLF001 - KEDA asks twice


async def test_every_service_is_behind_the_names(tmp_path: Path) -> None:
    """Streams, health and reflection are answered to an allowed client, and to no other."""
    async with served(tmp_path, AllowedName(name=KEDA_NAME)) as scaler:

        async def answered(client: Pair) -> list[grpc.StatusCode]:
            async with scaler.keda(client) as keda:
                health = health_pb2_grpc.HealthStub(keda.channel)
                info = reflection_pb2_grpc.ServerReflectionStub(keda.channel)
                asked = reflection_pb2.ServerReflectionRequest(list_services="")
                unknown: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = keda.channel.unary_unary(
                    "/no.Such/Method"
                )
                calls = [
                    anext(aiter(keda.stub.StreamMetricSpec(scaled_object()))),
                    health.Check(health_pb2.HealthCheckRequest()),
                    anext(aiter(health.Watch(health_pb2.HealthCheckRequest()))),
                    anext(aiter(info.ServerReflectionInfo(iter([asked])))),
                    unknown(b""),
                ]
                return [await how_it_ended(call) for call in calls]

        known = await answered(scaler.client_ca.issue("x", [DNS(KEDA_NAME)]))
        stranger = await answered(scaler.client_ca.issue("x", [DNS("stranger")]))
    ok, denied, missing = (
        grpc.StatusCode.OK,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
    )
    assert known == [ok, ok, ok, ok, missing]
    assert stranger == [denied, denied, denied, denied, missing]


async def how_it_ended(call: object) -> grpc.StatusCode:
    """Wait for one message or the refusal."""
    try:
        await call  # type: ignore[misc]
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_a_name_may_be_bound_to_namespaces(tmp_path: Path) -> None:
    """Whoever holds a team's key can ask without KEDA, but for no other team's fleet."""
    team = AllowedName(name="keda.dev.svc", namespaces=frozenset({"dev"}))
    both = AllowedName(name="keda.svc", namespaces=frozenset({"dev", "prod"}))
    async with served(tmp_path, team, both) as scaler:
        bound = scaler.client_ca.issue("x", [DNS("keda.dev.svc")])
        wide = scaler.client_ca.issue("x", [DNS("keda.dev.svc"), DNS("keda.svc")])
        found = [
            await scaler.code(client, namespace)
            for client in (bound, wide)
            for namespace in ("dev", "prod", "", "dev\x00", "DEV")
        ]
        async with scaler.keda(bound) as keda:
            health = health_pb2_grpc.HealthStub(keda.channel)
            assert (await health.Check(health_pb2.HealthCheckRequest())).status
            stream = keda.stub.StreamIsActive(scaled_object("prod"))
            with pytest.raises(grpc.aio.AioRpcError, match='namespace "prod"'):
                await anext(aiter(stream))
        registered = {entry.key.namespace for entry in scaler.world.registry}
    ok, denied = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
    assert found == [ok, denied, denied, denied, denied, ok, ok, denied, denied, denied]
    assert registered == {"dev", "prod"}


async def test_rotation_of_everything_cuts_no_call(tmp_path: Path) -> None:
    """Certificate, key and client CA change; streams and calls go on, new clients need the new CA.

    The connection that stands was let in under the old CA and is not looked at again.
    """
    async with served(tmp_path, AllowedName(name=KEDA_NAME)) as scaler:
        old = scaler.client_ca.issue("x", [DNS(KEDA_NAME)])
        async with scaler.keda(old) as keda:
            activity, specs = keda.push(scaled_object())
            await asyncio.wait_for(specs.until(lambda: bool(specs.specs)), 10)
            assert await ended(keda) is grpc.StatusCode.OK
            new_server_ca, new_client_ca = Authority("servers-2"), Authority("clients-2")
            new_server_ca.issue("server").write(scaler.folder)
            (scaler.folder / "ca.crt").write_bytes(new_client_ca.certificate)
            new = new_client_ca.issue("x", [DNS(KEDA_NAME)])
            rotated = Served(scaler.port, scaler.world, new_server_ca, new_client_ca, tmp_path)
            # The old certificate is of no use for a new connection, the new one is.
            assert await rotated.code(new) is grpc.StatusCode.OK
            assert await rotated.code(old) is grpc.StatusCode.UNAVAILABLE
            assert await ended(keda) is grpc.StatusCode.OK
            scaler.world.post(decided(desired=3, active=True))
            await asyncio.wait_for(activity.until(lambda: activity.activations == 1), 10)
            assert (activity.endings, specs.endings) == ([], [])


async def test_a_rotation_in_the_midst_of_calls_fails_none(tmp_path: Path) -> None:
    """Both CAs are trusted while clients are being given new certificates: nobody is refused."""
    async with served(tmp_path, AllowedName(name=KEDA_NAME)) as scaler:
        new_ca = Authority("clients-2")
        old, new = (ca.issue("x", [DNS(KEDA_NAME)]) for ca in (scaler.client_ca, new_ca))
        bundle = scaler.client_ca.certificate + new_ca.certificate
        codes: set[grpc.StatusCode] = set()
        async with scaler.keda(old) as standing:
            for step in range(12):
                if step == 4:
                    (tmp_path / "ca.crt").write_bytes(bundle)
                elif step == 6:
                    scaler.server_ca.issue("server-2").write(tmp_path)
                client = old if step < 8 else new
                codes |= {await ended(standing), await scaler.code(client)}
    assert codes == {grpc.StatusCode.OK}


def test_names_without_a_client_ca_are_refused(tmp_path: Path) -> None:
    """Anybody can write any name into a certificate that nobody checks."""
    with pytest.raises(ValueError, match="need a client CA"):
        TlsFiles(
            certificate=tmp_path / "c", key=tmp_path / "k", allowed=(AllowedName(name="keda"),)
        )
