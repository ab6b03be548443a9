"""The two push streams, bursts, and an end that KEDA does not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]
    reflection_pb2,
    reflection_pb2_grpc,
)

from scaler.edge.answers import METRIC
from scaler.edge.errors import ListenFailed
from scaler.edge.grpc_server import SERVICE
from scaler.wire.externalscaler_pb2 import GetMetricsRequest
from scaler.wire.externalscaler_pb2_grpc import ExternalScalerStub
from tests.edge.world import NOON, World, decided
from tests.keda_client import Keda, scaled_object

pytestmark = pytest.mark.timeout(60)


async def no_pause(seconds: float) -> None:
    """Reopen a stream at once, however long KEDA would wait."""
    assert seconds > 0
    await asyncio.sleep(0.01)


async def never_again(seconds: float) -> None:
    """Do not reopen a stream within the test."""
    await asyncio.sleep(3600 * seconds)


async def eventually(holds: Callable[[], bool]) -> None:
    """Return once something holds that the server does a moment after its client."""
    while not holds():  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.01)


async def test_a_stream_says_true_once_and_again_only_after_idleness() -> None:
    """Each true starts KEDA's cooldown anew, so it comes on the edges and never twice."""
    world = World()
    world.post(decided(active=True))
    server = world.server()
    port = await server.serve("127.0.0.1:0")
    async with Keda(port, pause=never_again) as keda:
        activity, _ = keda.push(scaled_object())
        await activity.until(lambda: activity.activations == 1)
        for later, active in enumerate([True, None, True, False, None, True], start=1):
            world.post(decided(at=NOON + 15 * later, active=active))
            await asyncio.sleep(0.02)
        await activity.until(lambda: activity.activations == 2)
        await server.drain(within=2.0)
        await activity.until(lambda: bool(activity.endings))
    assert (activity.activations, activity.endings) == (2, [grpc.StatusCode.OK])


async def test_an_idle_or_unknown_workload_is_silent_on_open() -> None:
    """A false acts on nothing, so none is ever sent."""
    world = World()
    world.post(decided(active=False))
    server = world.server()
    port = await server.serve("127.0.0.1:0")
    async with Keda(port, pause=never_again) as keda:
        idle, _ = keda.push(scaled_object())
        unknown, specs = keda.push(scaled_object(name="new"))
        await specs.until(lambda: bool(specs.specs))
        world.post(decided(at=NOON + 15, active=True))
        await idle.until(lambda: idle.activations == 1)
        await server.drain(within=2.0)
    assert unknown.activations == 0


async def test_the_spec_stream_sends_once_and_stays_open() -> None:
    """The spec never changes: one message, the same as GetMetricSpec gives, and then patience."""
    world = World()
    server = world.server()
    port = await server.serve("127.0.0.1:0")
    async with Keda(port, pause=never_again) as keda:
        _, specs = keda.push(scaled_object())
        await specs.until(lambda: bool(specs.specs))
        await keda.specs(scaled_object())
        assert specs.endings == []
        assert specs.specs[0].metricSpecs == await keda.specs(scaled_object())
        await server.drain(within=2.0)
        await specs.until(lambda: bool(specs.endings))
    assert (len(specs.specs), specs.endings) == (1, [grpc.StatusCode.OK])


async def test_an_open_stream_keeps_a_workload_registered() -> None:
    """A push trigger that KEDA polls seldom is not forgotten; one that it dropped is, in time."""
    world = World()
    server = world.server()
    port = await server.serve("127.0.0.1:0")
    keda = Keda(port)
    activity, specs = keda.push(scaled_object())
    await specs.until(lambda: bool(specs.specs))
    entry = world.entry()
    await eventually(lambda: entry.streams == 2)
    world.clock.at += 10_000
    assert not world.registry.forget_idle(world.clock.now())
    await keda.__aexit__(None, None, None)
    await eventually(lambda: not entry.streams)
    assert activity.endings == []
    assert not world.registry.forget_idle(world.clock.now())
    world.clock.at += 1_801
    assert world.registry.forget_idle(world.clock.now()) == {entry.key}
    await server.drain(within=1.0)


async def test_streams_come_back_to_a_restarted_scaler() -> None:
    """A clean end resets KEDA's pause: after each restart it is back within two seconds."""
    first, second = World(), World()
    for world in (first, second):
        world.post(decided(active=True))
    server = first.server()
    port = await server.serve("127.0.0.1:0")
    async with Keda(port, pause=no_pause) as keda:
        activity, _ = keda.push(scaled_object())
        await activity.until(lambda: activity.activations == 1)
        await server.drain(within=2.0)
        again = second.server()
        await again.serve(f"127.0.0.1:{port}")
        await activity.until(lambda: activity.activations == 2)
        assert (activity.endings[0], activity.pauses[0]) == (grpc.StatusCode.OK, 2.0)
        await again.drain(within=2.0)


async def test_draining_ends_streams_with_ok_and_answers_every_call() -> None:
    """Streams are open and calls keep coming while the scaler is told to end: none is lost."""
    world = World()
    world.post(decided(desired=3, active=True))
    server = world.server()
    port = await server.serve("127.0.0.1:0")
    async with Keda(port, pause=never_again) as keda:
        streams = [keda.push(scaled_object()) for _ in range(100)]
        for activity, specs in streams:
            await activity.until(lambda a=activity: a.activations == 1)  # type: ignore[misc]
            await specs.until(lambda s=specs: bool(s.specs))  # type: ignore[misc]
        request = GetMetricsRequest(scaledObjectRef=scaled_object(), metricName=METRIC)
        calls = [asyncio.ensure_future(keda.stub.GetMetrics(request)) for _ in range(300)]
        await asyncio.sleep(0)
        await calls[0]
        started = asyncio.get_running_loop().time()
        await server.drain(within=5.0)
        taken = asyncio.get_running_loop().time() - started
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for pair in streams:
            for stream in pair:
                await stream.until(lambda s=stream: bool(s.endings))  # type: ignore[misc]
                assert stream.endings == [grpc.StatusCode.OK]
    assert not [a for a in answers if isinstance(a, BaseException)]
    assert taken < 5.0  # the promise itself: SIGTERM to exit


async def test_draining_does_not_wait_for_somebody_who_watches_health() -> None:
    """A health watch never ends by itself, and the scaler ends all the same."""
    server = World().server()
    port = await server.serve("127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        ending = asyncio.create_task(server.drain(within=5.0))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        await ending


async def test_a_server_that_never_started_drains() -> None:
    """Ending before the beginning is no error, nor is ending twice."""
    server = World().server()
    await server.drain()
    await server.serve("127.0.0.1:0")
    await server.drain()
    await server.drain()
    assert not server.answering


async def test_health_and_reflection_answer() -> None:
    """Kubernetes' gRPC probe and grpcurl find what they ask for."""
    server = World().server()
    port = await server.serve("127.0.0.1:0")
    assert server.answering
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", SERVICE):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest(service="other"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
        mirror = reflection_pb2_grpc.ServerReflectionStub(channel)
        async for answer in mirror.ServerReflectionInfo(iter(requests)):
            names = {service.name for service in answer.list_services_response.service}
            assert SERVICE in names
            break
    await server.drain(within=1.0)


@pytest.mark.parametrize("address", ["127.0.0.1:{taken}", "no-such-host.invalid:1", "nonsense::x"])
async def test_an_address_that_cannot_be_used_is_named(address: str) -> None:
    """Two scalers on one port would answer in turn: the second one refuses to start."""
    first, second = World().server(), World().server()
    port = await first.serve("127.0.0.1:0")
    asked = address.format(taken=port)
    with pytest.raises(ListenFailed, match="cannot listen for gRPC on"):
        await second.serve(asked)
    assert not second.answering
    await first.drain(within=1.0)


@pytest.mark.parametrize("pings", [5])
async def test_a_client_that_pings_an_idle_connection_keeps_it(pings: int) -> None:
    """Clients written in Go ping connections without calls; that is no reason to hang up."""
    world = World()
    world.post(decided(desired=2))
    server = world.server()
    port = await server.serve("127.0.0.1:0")
    options = [
        ("grpc.keepalive_time_ms", 100),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        stub = ExternalScalerStub(channel)
        request = GetMetricsRequest(scaledObjectRef=scaled_object(), metricName=METRIC)
        for _ in range(pings):
            await stub.GetMetrics(request)
            await asyncio.sleep(0.15)
            assert channel.get_state() is grpc.ChannelConnectivity.READY
    await server.drain(within=1.0)


@pytest.mark.timeout(120)
async def test_a_burst_of_calls_is_answered_to_the_last() -> None:
    """KEDA that reconnects asks for everything at once: 5,000 calls, none cancelled."""
    world = World()
    world.post(decided(desired=3))
    server = world.server()
    port = await server.serve("127.0.0.1:0")
    async with Keda(port) as keda:
        request = GetMetricsRequest(scaledObjectRef=scaled_object(), metricName=METRIC)
        calls = [keda.stub.GetMetrics(request) for _ in range(5_000)]
        answers = await asyncio.gather(*calls)
    await server.drain(within=5.0)
    assert {a.metricValues[0].metricValue for a in answers} == {3}


@pytest.mark.timeout(120)
async def test_a_burst_of_streams_is_opened_to_the_last() -> None:
    """3,000 streams opened at once each get their message, and each ends with OK."""
    world = World()
    world.post(decided(active=True))
    server = world.server()
    port = await server.serve("127.0.0.1:0")
    async with Keda(port) as keda:
        calls = [keda.stub.StreamIsActive(scaled_object()) for _ in range(3_000)]
        messages = await asyncio.gather(*(call.read() for call in calls))
        await server.drain(within=30.0)
        codes = {await call.code() for call in calls}
    assert {getattr(message, "result", None) for message in messages} == {True}
    assert codes == {grpc.StatusCode.OK}
