"""How long a replica takes from its creation to serving, by the pods' own timestamps.

Whoever sees the same pods knows the same, so a scaler that has just started is no worse off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

from scaler.core.learned import LONGEST_LEAD_TIME
from scaler.core.pods import Pod
from scaler.core.states import PATIENCE
from scaler.core.units import Seconds

_NEWEST = 5


def observed_lead_time(pods: Iterable[Pod]) -> Seconds | None:
    """Return the median of the newest five starts, at most fifteen minutes; None where none is.

    Kubernetes keeps only when a pod last became Ready. One that has been Ready before shows its age
    at that moment instead of its start. A restart gives it away; and what took longer than the
    longest lead time is believed only beside a start that took a third of it, at the least.
    """
    starts = sorted(_starts(pods), reverse=True)
    if not starts:
        return None
    quickest = min(took for _, took in starts)
    patience = max(LONGEST_LEAD_TIME, PATIENCE * min(quickest, LONGEST_LEAD_TIME))
    believed = [took for _, took in starts if took <= patience]
    if not believed:
        return None
    return min(median(believed[:_NEWEST]), LONGEST_LEAD_TIME)


def _starts(pods: Iterable[Pod]) -> Iterator[tuple[Seconds, Seconds]]:
    """Give the starts that may be true: when it began, and how long it took."""
    for pod in pods:
        if not pod.leader or pod.ready_at is None or pod.restarts:
            continue
        took = pod.ready_at - pod.created_at
        if took > 0:
            yield pod.created_at, took
