"""Numbers as people read them."""

from __future__ import annotations

import math

_WHOLE_FROM = 100.0


def number(value: float) -> str:
    """Write a number with three digits that count, or as a whole one where it is large."""
    if not math.isfinite(value):
        return "unlimited" if value > 0 else "unknown"
    return f"{value:.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.3g}"


def seconds(value: float) -> str:
    """Write a span of time."""
    return f"{number(value)} s"
