"""Decisions as the board has them, and lines that show them."""

from __future__ import annotations

import math

from scaler.control.board import Posting
from scaler.core.corridor import Corridor, Window
from scaler.core.decision import Decision
from scaler.core.policy import Policy
from scaler.core.quantile import Percentile
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.workload import Selection, WorkloadKey
from scaler.demo.table import Line

AT = 1_800_000_000.0


def posting(
    current: int,
    desired: int | None,
    reason: Reason,
    *,
    ttft: float | None = None,
    ceiling: float = math.inf,
    notes: tuple[Reason, ...] = (),
    trouble: str | None = None,
) -> Posting:
    """Return what the board says of a workload whose corridor begins at two replicas."""
    window = Window(span=60.0, ticks=4, present=4)
    lines = Corridor(floor=1.4, ceiling=ceiling, out_window=window, in_window=window)
    p95 = None if ttft is None else Percentile(value=ttft, lower=0, upper=99, observations=100)
    return Posting(
        key=WorkloadKey(namespace="demo", name="chat", trigger="t"),
        policy=Policy(),
        selection=Selection(source="scrape", namespace="demo"),
        decision=Decision(
            at=AT,
            current=current,
            desired=desired,
            advised=desired,
            reason=reason,
            notes=notes,
            floor=2,
            ceiling=12 if math.isinf(ceiling) else math.ceil(ceiling),
            corridor=lines,
            sample=Sample(at=AT, scraped_at=AT, waiting=46.0, kv_cache=0.874, ttft=p95),
        ),
        trouble=trouble,
    )


def line(
    name: str, current: int, shown: Posting | None = None, *, trouble: str | None = None
) -> Line:
    """Return a line of this phase, a quarter of an hour into the load."""
    return Line(
        since=900.0,
        phase=3,
        name=name,
        rate=4.04,
        current=current,
        loading=0,
        posting=shown,
        trouble=trouble,
    )
