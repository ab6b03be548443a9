"""What a load test sends and how it is judged, and what is known when it has ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import click

from scaler.adapters.load_ledger import Ledger
from scaler.adapters.openai_client import Endpoint
from scaler.adapters.openai_dialect import Api
from scaler.core.units import Seconds
from scaler.simulation.outcomes import Slo
from scaler.simulation.workloads import Workload

_MOST_INTERVALS = 240
_INTERVALS: tuple[Seconds, ...] = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class CannotRun(click.ClickException):
    """The test cannot begin; an exit status apart from that of a missed SLO."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to send, where to, and how it is judged.

    `shared` is the share of each prompt that begins all of them. With `clip` a request that the
    model's context cannot hold is shortened, else the server may refuse it. When 1 % of the
    requests go out later than `most_late` seconds, the test says nothing about the server.
    """

    endpoint: Endpoint
    api: Api
    model: str | None
    workload: Workload
    slo: Slo = field(default_factory=Slo)
    warm_up: Seconds = 0.0
    shared: float = 0.0
    clip: bool = False
    most_open: int = 4000
    most_late: Seconds = 0.1

    @property
    def every(self) -> Seconds:
        """Return the length of the series' intervals: round, and not too many of them."""
        length = self.workload.length
        fit = (every for every in _INTERVALS if length / every <= _MOST_INTERVALS)
        return next(fit, length / _MOST_INTERVALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A test that has ended. `elapsed` is in seconds, from the first instant to the last end."""

    plan: Plan
    model: str
    ledger: Ledger
    elapsed: Seconds
    interrupted: bool

    @property
    def behind(self) -> bool:
        """Say whether this machine, and not the server, was what did not keep up."""
        late = self.ledger.late.quantile(0.99)
        return bool(self.ledger.unsent) or (late is not None and late > self.plan.most_late)

    @property
    def scenario(self) -> str:
        """Return the name under which results are listed, as the simulator's are."""
        work = self.plan.workload
        parts = [work.trace.name, work.profile.name, f"load-{work.load:g}", f"seed-{work.seed}"]
        return "/".join(parts)
