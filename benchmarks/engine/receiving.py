"""When a request reached the engine, told from the engine's own counts.

A client knows when it sent a request; HTTP and the API server then take their time, on a busy
machine more than a step's. The page tells how many requests the engine has got by each look, so
each is known to have come between two looks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from benchmarks.engine.sight import Served, Sight


def received(served: Sequence[Served], sights: Sequence[Sight]) -> Iterator[tuple[float, Served]]:
    """Yield each request that reached the engine by the last look, with its time, in order.

    Requests are taken to arrive in the order in which they were sent: between the two looks at
    whose times the engine's count passed theirs, and in between as late as they were sent.
    """
    counts = list(accumulate((sight.received for sight in sights), max))
    ordered = sorted(served, key=lambda request: request.sent)
    for number, request in enumerate(ordered, start=1):
        look = bisect_left(counts, number)
        if look == len(counts):
            return
        earliest = sights[look - 1].at if look else 0.0
        yield min(max(request.sent, earliest), sights[look].at), request


def steps_at(sights: Sequence[Sight], at: float) -> float:
    """Return how many steps the engine had made at a time, between looks in proportion."""
    for before, after in pairwise(sights):
        if at <= after.at:
            share = max(0.0, at - before.at) / (after.at - before.at)
            return before.steps + share * (after.steps - before.steps)
    return sights[-1].steps
