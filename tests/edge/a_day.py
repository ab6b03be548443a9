"""A day of one fleet as it is kept: minutes, and ticks in the last two hours."""

from __future__ import annotations

import math
from collections.abc import Iterator

from scaler.core.quantile import Percentile
from scaler.core.sample import Sample
from scaler.core.units import TICK, Seconds
from scaler.core.workload import Scale, WorkloadKey
from scaler.tuning.record import Moment, Record
from tests.edge.world import NOON

FINE_SINCE: Seconds = NOON - 7200


def moments(hours: int = 24) -> Iterator[Moment]:
    """Go through a made-up day with two waves, and queues at the end of each rise."""
    at = NOON - hours * 3600
    while at <= NOON:
        step = 60.0 if at < FINE_SINCE else TICK
        load = 4 + 3 * math.sin(at / 5_000) + math.sin(at / 1_300)
        count, queue = max(2, math.ceil(load)), 8.0 * (load % 1 > 0.9)
        yield Moment(
            at=at,
            sample=Sample(
                at=at,
                scraped_at=at - 3,
                serving=count,
                waiting=queue * count,
                running=load * 40,
                queued=count if queue else 0,
                kv_cache=min(0.97, 0.3 + load / 14),
                ttft=Percentile(
                    value=0.4 + queue / 3, lower=0.3, upper=0.5 + queue / 2, observations=300.0
                ),
                first_token_rate=load * 2,
                token_rate=load * 900,
                saturated=load * 40 / count if queue else None,
            ),
            scale=Scale(current=count, max_replicas=20),
            lead_time=120.0,
            step=step,
        )
        at += 60.0 if at + 60 <= FINE_SINCE else TICK


class Kept:
    """Keeps that day of every workload, and counts how often it was asked for."""

    def __init__(self, hours: int = 24) -> None:
        """Keep so many hours."""
        self.moments = tuple(moments(hours)) if hours else ()
        self.asked = 0

    def record(
        self, key: WorkloadKey, start: Seconds, end: Seconds, *, asks_gateway: bool = False
    ) -> Record:
        """Return what is kept of [start, end]."""
        self.asked += 1
        whole = Record(
            namespace=key.namespace,
            name=key.name,
            moments=self.moments,
            asks_gateway=asks_gateway,
        )
        return whole.between(start, end)
