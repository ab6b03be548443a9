"""A source whose answers are timed and counted for the scaler's own metrics."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from scaler.control.ports import Gateways, Source, SourceError
from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.core.workload import Selection
from scaler.edge.measures import Measures

OK, FAILED, CUT_OFF = "ok", "failed", "cut-off"


class MeasuredSource:
    """Passes everything on to a source; notes how long it took and how it ended."""

    def __init__(self, source: Source, measures: Measures) -> None:
        """Measure `source`."""
        self._source = source
        self._measures = measures

    @property
    def name(self) -> str:
        """Return the source's name."""
        return self._source.name

    async def run(self) -> None:
        """Run the source."""
        await self._source.run()

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Read, and count each kind of error among the answers as one outcome of the read."""
        with self._timed("read") as outcome:
            readings = await self._source.read(selections, at)
            outcome.append(_outcome(readings.values()))
            return readings

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Read history back."""
        with self._timed("recall") as outcome:
            readings = await self._source.recall(selection, start, end, step)
            outcome.append(OK)
            return readings

    def _timed(self, operation: str) -> AbstractContextManager[list[str]]:
        return _timed(self._measures, self.name, operation)


class MeasuredGateways:
    """Passes the rounds for fleets at zero on; notes how long they took and how they ended."""

    def __init__(self, name: str, gateways: Gateways, measures: Measures) -> None:
        """Measure `gateways` under the name of their source."""
        self._name = name
        self._gateways = gateways
        self._measures = measures

    async def demands(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, float | SourceError | None]:
        """Ask, and count each kind of error among the answers as one outcome of the round."""
        with _timed(self._measures, self._name, "activation") as outcome:
            demands = await self._gateways.demands(selections, at)
            outcome.append(_outcome(demands.values()))
            return demands


def _outcome(answers: Iterable[object]) -> str:
    kinds = {answer.kind for answer in answers if isinstance(answer, SourceError)}
    return min(kinds) if len(kinds) == 1 else "mixed" if kinds else OK


@contextmanager
def _timed(measures: Measures, name: str, operation: str) -> Iterator[list[str]]:
    """Time a block, which appends how it ended; what raises tells by its kind."""
    outcome: list[str] = []
    started = time.perf_counter()
    try:
        yield outcome
    except SourceError as error:
        outcome.append(error.kind)
        raise
    except Exception:
        outcome.append(FAILED)
        raise
    finally:
        taken = time.perf_counter() - started
        ended = outcome[0] if outcome else CUT_OFF
        measures.queries.labels(name, operation, ended).observe(taken)
