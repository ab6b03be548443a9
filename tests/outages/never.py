"""The cells that nobody can tell from health, each with why."""

from __future__ import annotations

from collections.abc import Mapping

from tests.outages.cells import PAGES, Fault, Part
from tests.outages.keeping import Verdict

_FROZEN = (
    "The gauges stand still and the counters go on, as they do under even load. Nothing in the "
    "page says when a gauge was set."
)
_CACHED = (
    "An old copy of the whole page: its counters stand still, which is `stalled` after two minutes "
    "where requests run, and idleness where none do. Before that it is an even load."
)

NEVER: Mapping[tuple[Part, Fault | None], str] = {
    **{(part, Fault.FROZEN): _FROZEN for part in PAGES},
    **{(part, Fault.STALE): _CACHED for part in PAGES},
}


def never_seen(verdict: Verdict) -> bool:
    """Say whether a fault moved the answers and showed itself in nothing."""
    return verdict.seen is None and not verdict.alike


LATE: Mapping[Fault, int] = {Fault.STALE: 8, Fault.FROZEN: 8}
"""Ticks after which a fault differs from health: a rate window without a token."""
