"""The law that this scaler is also for: memory that ran out on a host is not demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.core.decision import Decision
from scaler.core.pods import Exit, Pod
from scaler.core.reading import Reading
from scaler.core.sample import take_sample
from scaler.core.states import narrow
from scaler.core.units import TICK
from scaler.core.workload import Scale
from tests.core.histories import NOW, decided
from tests.core.illness import pod
from tests.fakes.source import fleet_reading

LEAD_TIME = 180.0

_KILLS = st.builds(
    Exit,
    container=st.sampled_from(["vllm", "istio-proxy"]),
    reason=st.sampled_from(["OOMKilled", "Error"]),
    code=st.just(137),
    at=st.sampled_from([None, NOW - 3600.0, NOW - 30.0]),
)
_FLEETS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([7200.0, 541.0, 300.0]),
        st.one_of(st.none(), _KILLS),
        st.integers(1, 40),
    ),
    min_size=1,
    max_size=6,
)
_LOADS = st.tuples(
    st.sampled_from([0.0, 1.0, 30.0, 64.0]),
    st.sampled_from([0.0, 0.0, 2.0, 8.0]),
    st.sampled_from([0.1, 0.5, 0.97]),
)


def answer(pods: Sequence[Pod], reading: Reading) -> Decision:
    """Decide over half an hour of the same, narrowed to the pods, as the loop does."""
    times = [NOW - back * TICK for back in reversed(range(120))]
    seen = narrow(reading, pods, LEAD_TIME)
    samples = [take_sample(replace(seen, at=at, scraped_at=at)) for at in times]
    return decided(samples, scale=Scale(current=len(pods), max_replicas=40))


@settings(max_examples=200)
@given(_FLEETS, _LOADS)
def test_a_host_kill_by_itself_never_moves_the_fleet(
    fleet: list[tuple[bool, float, Exit | None, int]], load: tuple[float, float, float]
) -> None:
    """With killed containers, in whatever loop of kills, the answer is the one without them."""
    running, waiting, cache = load
    unhurt, killed = [], []
    for index, (ready, age, kill, restarts) in enumerate(fleet):
        plain = pod(f"chat-{index}", ready=ready, created_at=NOW - age, ready_at=None)
        looping = None if ready else "CrashLoopBackOff"
        hurt = replace(plain, last_exit=kill, restarts=restarts, blocked=looping)
        unhurt.append(plain)
        killed.append(plain if kill is None else hurt)
    reading = fleet_reading(
        NOW, len(fleet), running=running, waiting=waiting, kv_cache=cache, prefix="chat"
    )
    ready_ones = tuple(
        each for each, (ready, *_) in zip(reading.replicas, fleet, strict=True) if ready
    )
    reading = replace(reading, replicas=ready_ones)
    assert answer(killed, reading) == answer(unhurt, reading)
