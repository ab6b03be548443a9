"""What one trigger, or one profile, asks for: only what was written, nothing filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict

from scaler.core.policy import Mode, Signal
from scaler.core.units import Seconds
from scaler.core.workload import Matcher

LOW_HIGH = (
    ("waiting_low", "waiting_high"),
    ("ttft_p95_low", "ttft_p95_high"),
    ("kv_cache_low", "kv_cache_high"),
)
"""The pairs of thresholds; in each, Low is below High."""


class TriggerSettings(BaseModel):
    """The parsed values of those keys that were given; `None` everywhere else."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: str | None = None
    model_name: str | None = None
    selector: tuple[Matcher, ...] | None = None
    waiting_high: float | None = None
    waiting_low: float | None = None
    ttft_p95_high: Seconds | None = None
    ttft_p95_low: Seconds | None = None
    kv_cache_high: float | None = None
    kv_cache_low: float | None = None
    signals: frozenset[Signal] | None = None
    scale_out_window: Seconds | None = None
    scale_in_window: Seconds | None = None
    drain_time: Seconds | None = None
    concurrency_per_replica: float | None = None
    headroom: float | None = None
    lead_time: Seconds | None = None
    activation_query: str | None = None
    rejection_query: str | None = None
    hold_for: Seconds | None = None
    mode: Mode | None = None
    profile: str | None = None

    @property
    def given(self) -> Mapping[str, object]:
        """Return what was written, by field."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}

    def over(self, weaker: TriggerSettings) -> Self:
        """Return these settings, filled from weaker ones where they are silent."""
        return self.model_validate({**weaker.given, **self.given})
