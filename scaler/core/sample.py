"""What one tick says about a workload: the readings of its replicas put together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from scaler.core.quantile import Percentile, percentile
from scaler.core.reading import Reading, ReplicaReading
from scaler.core.units import RATE_WINDOW, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One workload at one tick. Sums and means are over the replicas that serve.

    A replica serves when it reports and is neither asleep nor stalled. `kv_cache` is the mean over
    engines (0..1), `queued` the number of serving replicas with a request waiting, `saturated` the
    median running of those. `overdue` replicas do not count as coming any more. Rates are per
    second over `RATE_WINDOW`. `None` means not known. `partial`: replicas may have served, or
    did, of which nobody had told.
    """

    at: Seconds
    scraped_at: Seconds
    scrapes: int = 1
    serving: int = 0
    stalled: int = 0
    asleep: int = 0
    unseen: int = 0
    loading: int = 0
    overdue: int = 0
    waiting: float = 0.0
    running: float = 0.0
    queued: int = 0
    kv_cache: float | None = None
    ttft: Percentile | None = None
    first_token_rate: float | None = None
    token_rate: float | None = None
    prompt_token_rate: float | None = None
    preemption_rate: float | None = None
    rejection_rate: float | None = None
    saturated: float | None = None
    activation: float | None = None
    partial: bool = False

    @property
    def reporting(self) -> int:
        """Count the replicas that said anything at all."""
        return self.serving + self.stalled + self.asleep

    @property
    def known(self) -> int:
        """Count the replicas that the source knows of, reporting or not."""
        return self.reporting + self.unseen + self.loading

    @property
    def idle(self) -> bool:
        """Say whether every replica is known to have nothing to do."""
        return self.serving > 0 and self.waiting == 0 and self.running == 0 and self.stalled == 0

    @property
    def waiting_per_replica(self) -> float:
        """Return the waiting requests per serving replica (0 where none serves)."""
        return self.waiting / self.serving if self.serving else 0.0

    @property
    def skewed(self) -> bool:
        """Say whether requests wait at fewer than half of the serving replicas: a routing fault."""
        return 0 < self.queued < self.serving / 2


def take_sample(reading: Reading) -> Sample:
    """Put a reading's replicas together; pure, and whatever their order the same.

    A replica that tells what cannot be (NaN, infinite or negative requests) has not reported.
    """
    told = [replica for replica in reading.replicas if _is_possible(replica)]
    asleep = [replica for replica in told if replica.asleep]
    awake = [replica for replica in told if not replica.asleep]
    stalled = [replica for replica in awake if is_stalled(replica)]
    serving = sorted((r for r in awake if not is_stalled(r)), key=lambda r: r.name)
    queued = [replica for replica in serving if replica.waiting > 0]
    rejections = [r.rejection_rate for r in serving]
    return Sample(
        at=reading.at,
        scraped_at=reading.scraped_at,
        scrapes=reading.scrapes,
        serving=len(serving),
        stalled=len(stalled),
        asleep=len(asleep),
        unseen=reading.unseen + len(reading.replicas) - len(told),
        loading=reading.loading,
        overdue=reading.overdue,
        waiting=sum(r.waiting for r in serving),
        running=sum(r.running for r in serving),
        queued=len(queued),
        kv_cache=_mean_over_engines(serving),
        ttft=percentile(reading.ttft) if reading.ttft is not None else None,
        first_token_rate=sum_of_known(r.first_token_rate for r in serving),
        token_rate=sum_of_known(r.token_rate for r in serving),
        prompt_token_rate=sum_of_known(r.prompt_token_rate for r in serving),
        preemption_rate=sum_of_known(r.preemption_rate for r in serving),
        rejection_rate=sum_of_known([*rejections, reading.rejection_rate]),
        saturated=median(r.running for r in queued) if queued else None,
        activation=reading.activation,
    )


def is_stalled(replica: ReplicaReading) -> bool:
    """Say whether a replica has had work for a whole rate window and produced no token.

    More replicas cure no livelock, so such a replica neither serves nor counts as demand.
    """
    return replica.busy_for >= RATE_WINDOW and replica.token_rate == 0.0


def _is_possible(replica: ReplicaReading) -> bool:
    return 0 <= replica.running < math.inf and 0 <= replica.waiting < math.inf


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """Add what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean_over_engines(replicas: list[ReplicaReading]) -> float | None:
    known = [(r.kv_cache, r.engines) for r in replicas if r.kv_cache is not None]
    engines = sum(count for _, count in known)
    return sum(usage * count for usage, count in known) / engines if engines else None
