"""What users were promised: `ttft<=2s:99%`, for 99 of 100 requests a first token within 2 s."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scaler.config.faults import Unreadable
from scaler.config.quantities import latency, written
from scaler.core.units import Seconds
from scaler.simulation.requests import Request
from scaler.tuning.errors import TuningError

_PROMISE = re.compile(r"\s*(\w+)\s*<=?\s*([^:\s]+)\s*:\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")
_ALL = 100.0


class PromiseInvalid(TuningError):
    """An SLO that cannot be read."""


class Latency(StrEnum):
    """What can be promised: the time to the first token, and the mean time of each after it."""

    TTFT = "ttft"
    TPOT = "tpot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A latency within so many seconds for a share (0..1) of all requests that come."""

    latency: Latency
    within: Seconds
    share: float

    def __str__(self) -> str:
        """Write the promise as it is read."""
        return f"{self.latency.value}<={written(self.within)}:{self.share * _ALL:g}%"

    def kept(self, request: Request) -> bool:
        """Say whether it was kept; not where a request was refused, cut off or given up."""
        value = request.ttft if self.latency is Latency.TTFT else request.tpot
        return value is not None and value <= self.within

    @property
    def allowed(self) -> float:
        """Return the share of requests that may miss it."""
        return 1.0 - self.share


def promise(text: str) -> Promise:
    """Read `ttft<=2s:99%` or `tpot<=100ms:95%`. Raises PromiseInvalid."""
    cure = "write ttft<=2s:99% or tpot<=100ms:95%"
    match = _PROMISE.fullmatch(text)
    if match is None:
        raise PromiseInvalid(f"{text!r} is no SLO: {cure}")
    name, within, share = match.groups()
    if name not in list(Latency):
        raise PromiseInvalid(f"{text!r}: {name} is nothing that is promised here: {cure}")
    try:
        seconds = latency(within)
    except Unreadable as error:
        raise PromiseInvalid(f"{text!r}: {within} {error}: {cure}") from error
    if not 0 < float(share) <= _ALL:
        raise PromiseInvalid(f"{text!r}: a share is above 0 % and at most 100 %: {cure}")
    return Promise(latency=Latency(name), within=seconds, share=float(share) / _ALL)


def missed(promises: Sequence[Promise], requests: Sequence[Request]) -> tuple[float, ...]:
    """Return the share of requests that missed each promise, and in the last place any of them."""
    if not requests:
        return (0.0,) * (len(promises) + 1)
    kept = [[each.kept(request) for each in promises] for request in requests]
    shares = [1 - sum(row[i] for row in kept) / len(kept) for i in range(len(promises))]
    return (*shares, 1 - sum(all(row) for row in kept) / len(kept))
