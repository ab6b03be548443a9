"""KEDA's five calls over real sockets: answers, refusals and what never leaves the process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import pytest

from scaler.core.reasons import Reason
from scaler.edge.answers import METRIC
from scaler.wire.externalscaler_pb2 import GetMetricsRequest, ScaledObjectRef
from tests.edge.world import NOON, StoppedClock, World, decided
from tests.keda_client import Keda, scaled_object

pytestmark = pytest.mark.timeout(30)

CANARY = "hunter2-canary"


class BrokenClock(StoppedClock):
    """A clock that fails: the fault comes from inside the scaler."""

    def now(self) -> float:
        """Fail with a message that must not get out."""
        raise RuntimeError(CANARY)


@asynccontextmanager
async def served(world: World) -> AsyncIterator[Keda]:
    """Serve a world and connect to it as KEDA does."""
    server = world.server()
    port = await server.serve("127.0.0.1:0")
    try:
        async with Keda(port) as keda:
            yield keda
    finally:
        await server.drain(within=1.0)


async def refused(keda: Keda, method: str, ref: ScaledObjectRef) -> tuple[str, str]:
    """Make a call that fails and return its status and its message."""
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "GetMetricSpec": lambda: keda.stub.GetMetricSpec(ref),
        "GetMetrics": lambda: keda.stub.GetMetrics(
            GetMetricsRequest(scaledObjectRef=ref, metricName=METRIC)
        ),
        "IsActive": lambda: keda.stub.IsActive(ref),
        "StreamIsActive": lambda: keda.stub.StreamIsActive(ref).read(),
        "StreamMetricSpec": lambda: keda.stub.StreamMetricSpec(ref).read(),
    }
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await calls[method]()
    return caught.value.code().name, caught.value.details() or ""


async def test_a_poll_brings_the_desired_count() -> None:
    """What was decided arrives as both numbers, for a target of 1, with the activity."""
    world = World()
    world.post(decided(desired=7, active=True))
    async with served(world) as keda:
        poll = await keda.poll(scaled_object())
        (spec,) = await keda.specs(scaled_object())
        request = GetMetricsRequest(scaledObjectRef=scaled_object(), metricName=METRIC)
        (value,) = (await keda.stub.GetMetrics(request)).metricValues
    assert (poll.replicas, poll.active) == (7.0, True)
    assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == (METRIC, 1, 1.0)
    assert (value.metricName, value.metricValue, value.metricValueFloat) == (METRIC, 7, 7.0)


async def test_zero_is_zero_in_both_fields() -> None:
    """KEDA falls back to the whole number where the fraction is 0: neither may say more."""
    world = World()
    world.post(decided(current=0, desired=0))
    async with served(world) as keda:
        request = GetMetricsRequest(scaledObjectRef=scaled_object(), metricName=METRIC)
        (value,) = (await keda.stub.GetMetrics(request)).metricValues
        assert not (await keda.stub.IsActive(scaled_object())).result
    assert (value.metricValue, value.metricValueFloat) == (0, 0.0)


@pytest.mark.parametrize("name", [METRIC, f"s0-{METRIC}", f"s17-{METRIC}"])
async def test_the_metric_is_known_with_and_without_kedas_prefix(name: str) -> None:
    """Some KEDA releases ask with the name that the metric has in the HPA."""
    world = World()
    world.post(decided(desired=3))
    async with served(world) as keda:
        request = GetMetricsRequest(scaledObjectRef=scaled_object(), metricName=name)
        assert (await keda.stub.GetMetrics(request)).metricValues[0].metricValue == 3


@pytest.mark.parametrize("name", ["", "s0-", "other", f"s0-s1-{METRIC}", f"x-{METRIC}", "ü" * 5000])
async def test_another_metric_is_not_found(name: str) -> None:
    """A wrong name is a mistake to be seen, and however long it is, the status arrives."""
    world = World()
    world.post(decided())
    async with served(world) as keda:
        request = GetMetricsRequest(scaledObjectRef=scaled_object(), metricName=name)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await keda.stub.GetMetrics(request)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert METRIC in (caught.value.details() or "")


async def test_the_spec_needs_neither_sample_nor_configuration() -> None:
    """KEDA's fallback works only while GetMetricSpec answers, so it always does."""
    world = World(unresolved={"chat": 'there is no source "paris"'}, at_most=1)
    async with served(world) as keda:
        for name in ("chat", "one-too-many"):
            (spec,) = await keda.specs(scaled_object(name=name))
            assert spec.metricName == METRIC
        assert len(world.registry) == 1
        code, message = await refused(keda, "GetMetrics", scaled_object(name="one-too-many"))
    assert code == "RESOURCE_EXHAUSTED"
    assert "prod/one-too-many" in message


@pytest.mark.parametrize(
    "method", ["GetMetricSpec", "GetMetrics", "IsActive", "StreamIsActive", "StreamMetricSpec"]
)
async def test_invalid_metadata_is_an_invalid_argument_everywhere(method: str) -> None:
    """A trigger that can never work says so in every call, and names the key."""
    async with served(World()) as keda:
        ref = scaled_object(metadata={"modelName": "llama", "waitingHigh": "many"})
        code, message = await refused(keda, method, ref)
    assert code == "INVALID_ARGUMENT"
    assert "waitingHigh" in message


@pytest.mark.parametrize(("namespace", "name"), [("", "chat"), ("prod", ""), ("", "")])
async def test_a_request_without_a_name_is_an_invalid_argument(namespace: str, name: str) -> None:
    """Nothing is registered for a request that names nobody."""
    world = World()
    async with served(world) as keda:
        code, message = await refused(keda, "GetMetrics", scaled_object(namespace, name))
    assert (code, len(world.registry)) == ("INVALID_ARGUMENT", 0)
    assert "no namespace or no name" in message


@pytest.mark.parametrize("method", ["GetMetrics", "IsActive"])
async def test_a_new_workload_is_unavailable_until_its_first_sample(method: str) -> None:
    """Nobody knows anything yet: that is no number and not idle."""
    async with served(World()) as keda:
        code, message = await refused(keda, method, scaled_object())
    assert code == "UNAVAILABLE"
    assert "prod/chat: not-yet-sampled." in message


@pytest.mark.parametrize("method", ["GetMetrics", "IsActive"])
async def test_what_the_configuration_lacks_is_a_failed_precondition(method: str) -> None:
    """The operator of the scaler, not the author of the trigger, reads what to do."""
    async with served(World(unresolved={"chat": 'there is no source "paris"'})) as keda:
        code, message = await refused(keda, method, scaled_object())
    assert code == "FAILED_PRECONDITION"
    assert 'there is no source "paris"' in message


@pytest.mark.parametrize("method", ["GetMetrics", "IsActive"])
async def test_a_trouble_that_is_no_text_is_still_an_answer(method: str) -> None:
    """Half a character in what a source said must not leave KEDA waiting: it has no deadline."""
    world = World()
    silent = decided(desired=None, active=None, reason=Reason.SILENT_TOO_LONG)
    world.post(silent, trouble="it said \ud800 to us")
    async with served(world) as keda, asyncio.timeout(10):
        code, message = await refused(keda, method, scaled_object())
    assert code == "UNAVAILABLE"
    assert "it said ? to us" in message


@pytest.mark.parametrize("method", ["GetMetrics", "IsActive"])
async def test_no_answer_names_reason_cure_trouble_and_fault(method: str) -> None:
    """Whoever reads KEDA's events learns what is the matter without looking further."""
    world = World()
    world.post(
        decided(desired=None, active=None, reason=Reason.SILENT_TOO_LONG),
        trouble='source "engines": connection refused',
        fault="profile gone",
    )
    async with served(world) as keda:
        code, message = await refused(keda, method, scaled_object())
    assert code == "UNAVAILABLE"
    for part in ("prod/chat: silent-too-long.", "Repair the source", "connection refused"):
        assert part in message
    assert "profile gone" in message


async def test_activity_may_be_unknown_while_the_count_is_not() -> None:
    """At zero, silence is neither active nor idle, and GetMetrics still answers 0."""
    world = World()
    world.post(decided(current=0, desired=0, active=None, reason=Reason.AT_ZERO))
    async with served(world) as keda:
        request = GetMetricsRequest(scaledObjectRef=scaled_object(), metricName=METRIC)
        assert (await keda.stub.GetMetrics(request)).metricValues[0].metricValue == 0
        code, message = await refused(keda, "IsActive", scaled_object())
    assert code == "UNAVAILABLE"
    assert "activationQuery" in message


@pytest.mark.parametrize(("age", "code"), [(300.0, None), (301.0, "UNAVAILABLE")])
async def test_an_old_decision_is_held_and_then_no_answer(age: float, code: str | None) -> None:
    """When the loop hangs, the last count stands for holdFor and not for ever."""
    world = World()
    world.post(decided(desired=4))
    world.clock.at = NOON + age
    async with served(world) as keda:
        if code is None:
            assert (await keda.poll(scaled_object())).replicas == 4.0
        else:
            found, message = await refused(keda, "GetMetrics", scaled_object())
            assert (found, "301 s" in message) == (code, True)


@pytest.mark.parametrize(
    "desired", [math.nan, math.inf, -math.inf, -1, 2.5, 3.0, 10_001, 10**30, True, "3", 0]
)
async def test_what_is_no_count_never_leaves_the_process(desired: object) -> None:
    """Whatever a fault inside produces, the HPA gets an error and keeps the count."""
    world = World()
    world.post(decided(current=4, desired=desired))
    async with served(world) as keda:
        code, message = await refused(keda, "GetMetrics", scaled_object())
    assert code == "INTERNAL"
    assert "prod/chat" in message


@pytest.mark.parametrize("method", ["GetMetrics", "IsActive", "GetMetricSpec", "StreamIsActive"])
async def test_an_unforeseen_error_is_a_plain_sentence(method: str) -> None:
    """An exception's text may hold a secret; KEDA reads only that the scaler is at fault."""
    async with served(World(clock=BrokenClock())) as keda:
        code, message = await refused(keda, method, scaled_object())
    assert code == "INTERNAL"
    assert f"{method} failed through a fault of the scaler" in message
    assert CANARY not in message
    assert "Unexpected" not in message


HOSTILE = {
    "a megabyte of value": {"modelName": "x" * 1_000_000},
    "ten thousand keys": {f"key{i}": "v" for i in range(10_000)},
    "control characters": {"modelName": "a\x00b\r\nc\x1b[31m"},
    "an open quote": {"selector": 'app="'},
    "a bidirectional override": {"mod\u202eelName": "x"},
    "not a number": {"modelName": "m", "kvCacheHigh": "NaN"},
    "infinity": {"modelName": "m", "waitingHigh": "inf"},
    "an exponent": {"modelName": "m", "waitingHigh": "1e400"},
}


@pytest.mark.parametrize("metadata", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_metadata_is_refused_and_disturbs_nobody(metadata: dict[str, str]) -> None:
    """Each is refused by one readable status, and the next call is answered as ever."""
    world = World()
    world.post(decided(desired=5))
    async with served(world) as keda:
        code, message = await refused(keda, "GetMetrics", scaled_object(metadata=metadata))
        assert (await keda.poll(scaled_object())).replicas == 5.0
    assert code in {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
    assert 0 < len(message) <= 1500


async def test_bytes_that_are_no_message_disturb_nobody() -> None:
    """Garbage on the wire is an error of that call alone."""
    world = World()
    world.post(decided(desired=5))
    async with served(world) as keda:
        garbage: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = keda.channel.unary_unary(
            "/externalscaler.ExternalScaler/GetMetrics"
        )
        for payload in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x00"):
            with pytest.raises(grpc.aio.AioRpcError):
                await garbage(payload)
        assert (await keda.poll(scaled_object())).replicas == 5.0


async def test_two_triggers_of_one_scaled_object_are_told_apart() -> None:
    """Each trigger has its own answer, although KEDA sends no number with it."""
    world = World()
    low = scaled_object(metadata={"modelName": "llama", "waitingHigh": "2"})
    high = scaled_object(metadata={"modelName": "llama", "waitingHigh": "20"})
    world.post(decided(desired=9), low)
    world.post(decided(desired=2), high)
    async with served(world) as keda:
        assert (await keda.poll(low)).replicas == 9.0
        assert (await keda.poll(high, trigger=1)).replicas == 2.0


async def test_two_scalers_take_turns_and_agree() -> None:
    """One connection goes round both scalers, and each answers from its own board."""
    worlds = (World(), World())
    servers = [world.server() for world in worlds]
    ports = [await server.serve("127.0.0.1:0") for server in servers]
    for world in worlds:
        world.post(decided(desired=6))
    async with Keda(*ports) as keda:
        polls = [await keda.poll(scaled_object()) for _ in range(20)]
    for server in servers:
        await server.drain(within=1.0)
    assert {poll.replicas for poll in polls} == {6.0}
    counts = [_calls(world) for world in worlds]
    assert sum(counts) >= 60
    assert min(counts) > 20


def _calls(world: World) -> float:
    samples = [s for m in world.measures.calls.collect() for s in m.samples]
    return sum(s.value for s in samples if s.name.endswith("_count"))


@pytest.mark.parametrize(
    "key", ["waitingHighFromEnv", "selectorFromEnv", "tokenFromEnv", "activationQueryFromEnv"]
)
async def test_what_comes_from_the_environment_is_not_repeated(key: str) -> None:
    """KEDA sends the value of a variable, which may be a secret: no message holds it."""
    ref = scaled_object(metadata={"modelName": "llama", key: f'("{CANARY}'})
    async with served(World()) as keda:
        code, message = await refused(keda, "GetMetrics", ref)
    assert code == "INVALID_ARGUMENT"
    assert key.removesuffix("FromEnv") in message
    assert CANARY not in message
