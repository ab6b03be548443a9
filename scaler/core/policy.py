"""What a user asks of the scaler: thresholds, windows and the signals that may move the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scaler.core.units import Seconds


class Signal(StrEnum):
    """The signals that a policy may use, under the names that users write."""

    WAITING = "waiting"
    TTFT = "ttft"
    KV_CACHE = "kvCache"


class Mode(StrEnum):
    """Whether the answer moves the fleet, or is only published."""

    ACT = "act"
    ADVISE = "advise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A workload's valid policy. Times are seconds, shares are fractions 0..1.

    `waiting_*` are requests that wait per serving replica, `ttft_p95_*` seconds, `kv_cache_*`
    the used fraction of the KV cache. `concurrency_per_replica` and `lead_time` are learned
    where they are `None`, `drain_time` then is half the lead time. `headroom` is the share of a
    full replica's concurrency to keep free.
    """

    waiting_high: float = 5.0
    waiting_low: float = 1.0
    ttft_p95_high: Seconds = 2.5
    ttft_p95_low: Seconds = 1.0
    kv_cache_high: float = 0.85
    kv_cache_low: float = 0.6
    signals: frozenset[Signal] = frozenset(Signal)
    scale_out_window: Seconds = 45.0
    scale_in_window: Seconds = 300.0
    drain_time: Seconds | None = None
    concurrency_per_replica: float | None = None
    headroom: float = 0.4
    lead_time: Seconds | None = None
    hold_for: Seconds = 300.0
    mode: Mode = Mode.ACT
