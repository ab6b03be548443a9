"""A source that a test scripts; it fulfils the port `Source`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from scaler.control.ports import SourceError
from scaler.control.source_work import OK, Requests, SourceWork, Targets, outcomes
from scaler.core.reading import LatencyBuckets, Reading, ReplicaReading
from scaler.core.units import RATE_WINDOW
from scaler.core.workload import Selection

EDGES = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, float("inf"))

Script = Callable[[Selection, float], Reading | SourceError]


class FakeSource:
    """Gives what its script says; remembers like Prometheus unless told otherwise."""

    def __init__(self, script: Script, name: str = "fake", *, remembers: bool = True) -> None:
        """Take the script: what each selection shows at each tick."""
        self.script = script
        self.reads: list[tuple[float, frozenset[Selection]]] = []
        self.recalls: list[tuple[Selection, float, float, float]] = []
        self.down: SourceError | None = None
        self.hangs = False
        self.recalls_wait: asyncio.Event | None = None
        self.breaks_at_recall: Exception | None = None
        self._ended: Counter[str] = Counter()
        self._name = name
        self._remembers = remembers

    @property
    def name(self) -> str:
        """Return the name that triggers use."""
        return self._name

    async def run(self) -> None:
        """Have nothing to do in the background."""

    async def read(
        self, selections: Collection[Selection], at: float
    ) -> Mapping[Selection, Reading | SourceError]:
        """Ask the script, unless the source is down or hangs."""
        self.reads.append((at, frozenset(selections)))
        if self.hangs:
            await asyncio.Event().wait()
        if self.down is not None:
            return dict.fromkeys(selections, self.down)
        answers = {selection: self.script(selection, at) for selection in selections}
        self._ended.update(
            each.kind if isinstance(each, SourceError) else OK for each in answers.values()
        )
        return answers

    def work(self) -> SourceWork:
        """Count what the script answered as one scrape each, of a second and a byte."""
        count = self._ended.total()
        scrapes = Requests(ended=outcomes(self._ended), seconds=float(count))
        targets = Targets(known=1, failing=0)
        return SourceWork(
            requests={"scrape": scrapes},
            received=count,
            targets=targets,
            faults={"targets": False, "secrets": False},
        )

    async def recall(
        self, selection: Selection, start: float, end: float, step: float
    ) -> Sequence[Reading]:
        """Ask the script for the past."""
        self.recalls.append((selection, start, end, step))
        if self.recalls_wait is not None:
            await self.recalls_wait.wait()
        if self.breaks_at_recall is not None:
            raise self.breaks_at_recall
        if self.down is not None:
            raise self.down
        if not self._remembers:
            return []
        first, last = int(-(-start // step)), int(end // step)
        found = [self.script(selection, tick * step) for tick in range(first, last + 1)]
        return [reading for reading in found if isinstance(reading, Reading)]


def fleet_reading(  # noqa: PLR0913 - a reading has so many parts
    at: float,
    replicas: int = 4,
    *,
    running: float = 10.0,
    waiting: float = 0.0,
    kv_cache: float = 0.3,
    first_token_rate: float = 1.0,
    ttft: float = 0.3,
    unseen: int = 0,
    prefix: str = "pod",
) -> Reading:
    """Make a reading of equal replicas; `running` and `waiting` are each replica's."""
    observations = first_token_rate * replicas * RATE_WINDOW
    counts = tuple(observations if edge >= ttft else 0.0 for edge in EDGES)
    each = tuple(
        ReplicaReading(
            name=f"{prefix}-{index}",
            running=running,
            waiting=waiting,
            kv_cache=kv_cache,
            first_token_rate=first_token_rate,
            token_rate=running * 20.0,
            preemption_rate=0.0,
            rejection_rate=0.0,
            busy_for=RATE_WINDOW if running or waiting else 0.0,
        )
        for index in range(replicas)
    )
    return Reading(
        at=at,
        scraped_at=at,
        scrapes=3,
        replicas=each,
        unseen=unseen,
        ttft=LatencyBuckets(edges=EDGES, counts=counts),
    )
