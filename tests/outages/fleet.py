"""A fleet in closed loop: its replicas share what demand there is in a phase."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler.core.pods import Pod
from scaler.core.units import TICK
from tests.outages.cells import PAGES, WARM_UP, Cell, Phase

SLOTS, STARTS_IN, TOKENS, TOOK = 20.0, 30.0, 20.0, 10.0
"""Requests that a replica runs, seconds until it serves, tokens and seconds of a request."""
EDGES = (0.5, 1.0, 2.5, 5.0, 10.0, float("inf"))

FIRST = {
    Phase.RISING: 2,
    Phase.PEAK: 4,
    Phase.FALLING: 4,
    Phase.IDLE: 2,
    Phase.AT_ZERO: 0,
    Phase.FIRST_START: 4,
}
"""How many replicas there are at first."""

TO_ZERO = frozenset({Phase.IDLE, Phase.AT_ZERO})


def demand(cell: Cell, tick: float) -> float:
    """Return the requests in the engines, `tick` ticks after the fault began."""
    match cell.phase:
        case Phase.RISING:
            return min(60.0, 20.0 + 5.0 * max(0.0, tick + 3.0))
        case Phase.FALLING:
            return max(20.0, 44.0 - 20.0 * max(0.0, tick + 18.0))
        case Phase.IDLE:
            return 12.0 if tick < -16 else 0.0
        case Phase.AT_ZERO:
            return 0.0 if tick < wakes(cell) else 8.0
        case _:
            return 44.0


def wakes(cell: Cell) -> int:
    """Return the tick at which somebody waits at the gateway of the fleet at zero.

    Where the engines' pages are at fault that is before it, for else there would be none; in all
    other parts it is after every fault.
    """
    return -4 if cell.part in PAGES else 30


def waiting_at_gateway(cell: Cell, tick: float, replicas: int) -> float:
    """Return what waits at the gateway."""
    woken = cell.phase is Phase.AT_ZERO and tick >= wakes(cell) and replicas == 0
    return 3.0 if woken else 0.0


@dataclass(slots=True)
class Replica:
    """One replica, its counters since its start."""

    number: int
    created_at: float
    ready_at: float
    running: float = 0.0
    waiting: float = 0.0
    tokens: float = 1000.0
    firsts: float = 10.0
    buckets: dict[float, float] = field(default_factory=lambda: dict.fromkeys(EDGES, 10.0))


class Fleet:
    """The replicas of one workload."""

    def __init__(self, cell: Cell, start: float) -> None:
        """Begin at the tick of epoch time `start`, which is `WARM_UP` ticks before the fault."""
        self.name = cell.name
        self.cell = cell
        self.spec = FIRST[cell.phase]
        self.replicas = [Replica(n, start - 7200.0, start - 7170.0) for n in range(self.spec)]
        self._fault_at = start + WARM_UP * TICK
        self._at = start
        self._number = self.spec

    def tick_of(self, at: float) -> float:
        """Count the ticks since the fault began."""
        return (at - self._fault_at) / TICK

    def serving(self) -> list[Replica]:
        """Return the replicas that serve."""
        return [each for each in self.replicas if each.ready_at <= self._at]

    def scale(self, replicas: int) -> None:
        """Take the newest away or create more."""
        self.spec = replicas
        del self.replicas[replicas:]
        while len(self.replicas) < replicas:
            self.replicas.append(Replica(self._number, self._at, self._at + STARTS_IN))
            self._number += 1

    def advance(self, at: float) -> None:
        """Let time pass: engines work, counters grow."""
        passed, self._at = at - self._at, at
        serving = self.serving()
        total = demand(self.cell, self.tick_of(at))
        for each in serving:
            share = total / len(serving)
            each.running, each.waiting = min(SLOTS, share), max(0.0, share - SLOTS)
            rate = each.running / TOOK
            each.tokens += each.running * TOKENS * passed
            each.firsts += rate * passed
            ttft = 0.3 if not each.waiting else 0.3 + each.waiting / rate
            for edge in EDGES:
                each.buckets[edge] += rate * passed if edge >= ttft else 0.0

    def pod(self, each: Replica, ip: str, port: int) -> Pod:
        """Return a replica as Kubernetes shows it."""
        ready = each.ready_at <= self._at
        return Pod(
            name=self.pod_name(each),
            replica=self.pod_name(each),
            created_at=each.created_at,
            ready=ready,
            ready_at=each.ready_at if ready else None,
            ip=ip,
            ports={"http": port},
        )

    def pod_name(self, each: Replica) -> str:
        """Return a replica's name."""
        return f"{self.name}-{each.number}"


Sample = tuple[str, dict[str, str], float]


def gauges(each: Replica) -> list[Sample]:
    """Return what a replica's gauges say."""
    return [
        ("num_requests_running", {}, each.running),
        ("num_requests_waiting", {}, each.waiting),
        ("kv_cache_usage_perc", {}, 0.6 * each.running / SLOTS),
    ]


def counters(each: Replica) -> list[Sample]:
    """Return what a replica's counters say."""
    return [
        ("generation_tokens_total", {}, each.tokens),
        ("time_to_first_token_seconds_count", {}, each.firsts),
        *(
            (
                "time_to_first_token_seconds_bucket",
                {"le": "+Inf" if edge == float("inf") else str(edge)},
                count,
            )
            for edge, count in each.buckets.items()
        ),
    ]
