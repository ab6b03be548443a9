"""What a trial came to, and what it looked like on the way."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.core.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One policy on one world.

    `slo_attainment` is the share of all arrived requests that got their first token and their pace
    as promised; rejected, cut off, given up and unfinished ones are misses. `replica_hours` are
    paid from each pod's creation until it is gone, while traffic lasts. Latencies are in seconds;
    `None` where nothing was served. `bound_hours` is the least that any policy can have paid for
    this attainment, where it was computed. `scale_events` counts changes of `spec.replicas`,
    `direction_changes` those that went the other way than the one before.
    """

    policy: str
    slo_attainment: float
    replica_hours: float
    ttft_p50: Seconds | None
    ttft_p95: Seconds | None
    ttft_p99: Seconds | None
    tpot_p95: Seconds | None
    bound_hours: float | None = None
    scale_events: int
    direction_changes: int
    preemptions: int
    rejected: int
    cut_off: int
    given_up: int
    unfinished: int
    arrived: int
    most_replicas: int

    @property
    def ratio_to_bound(self) -> float | None:
        """Return by which factor the cost is above the lower bound."""
        return self.replica_hours / self.bound_hours if self.bound_hours else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One tick of a trial, for charts. `at` is in seconds since the traffic began.

    Signals are `None` where nothing was seen; `floor` and `ceiling` where a policy has none.
    """

    at: Seconds
    spec: int
    serving: int
    loading: int
    draining: int
    waiting: float | None
    running: float | None
    kv_cache: float | None
    ttft: Seconds | None
    floor: int | None = None
    ceiling: int | None = None
    answer: float | None = None
    reason: str = ""
