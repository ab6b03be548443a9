"""Asks a Prometheus from the event loop: retried, bounded by a deadline, and counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from scaler.adapters.prometheus_answer import Answer
from scaler.adapters.prometheus_session import PARALLEL, Busy, PassingFault, PrometheusSession
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.control.ports import SourceBusy, SourceError, SourceUnreachable
from scaler.control.source_work import OK, Requests, SourceWork, outcomes
from scaler.core.units import Seconds

_ATTEMPTS = 3
_AT_ONCE = 4
"""Queries of ours that the server works on at the same time; it has others to serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStats:
    """What became of the queries of one kind since the start. Times in seconds, retries included.

    `faults` counts failed queries by `SourceError.kind`, `partial` the answers with a warning,
    `retried` the attempts after a query's first.
    """

    asked: int
    answered: int
    retried: int
    seconds: Seconds
    slowest: Seconds
    partial: int
    faults: Mapping[str, int]


class PrometheusApi:
    """One API. All queries of one tick share one deadline."""

    def __init__(self, settings: PrometheusSettings) -> None:
        """Open nothing yet."""
        self._settings = settings
        self._session = PrometheusSession(settings)
        # Threads of its own: a silent server may hold them, and name look-ups need the loop's.
        self._threads = ThreadPoolExecutor(PARALLEL, thread_name_prefix="prometheus")
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._busy_until: Seconds = 0.0
        self._asked: Counter[str] = Counter()
        self._answered: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()
        self._partial: Counter[str] = Counter()
        self._seconds: defaultdict[str, Seconds] = defaultdict(float)
        self._slowest: defaultdict[str, Seconds] = defaultdict(float)
        self._faults: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.answered_at: Seconds | None = None

    def deadline(self) -> Seconds:
        """Return the monotonic instant until which queries that start now may take."""
        return time.monotonic() + self._settings.timeout

    async def query(self, kind: str, promql: str, at: Seconds, deadline: Seconds) -> Answer:
        """Evaluate one query at one instant (seconds since the epoch). Raises SourceError."""
        form = {"query": promql, "time": f"{at:.3f}"}
        return await self._counted(kind, "query", form, deadline)

    async def query_range(
        self, kind: str, promql: str, span: tuple[Seconds, Seconds, Seconds], deadline: Seconds
    ) -> Answer:
        """Evaluate one query at start, start + step, … ≤ end; `span` is those three, in seconds."""
        start, end, step = (f"{value:.3f}" for value in span)
        form = {"query": promql, "start": start, "end": end, "step": step}
        return await self._counted(kind, "query_range", form, deadline)

    def stats(self) -> Mapping[str, QueryStats]:
        """Return what became of the queries, by kind; any thread may ask."""
        # Looked up with get: an entry made here could take the place of one that counts already.
        return {
            kind: QueryStats(
                asked=self._asked[kind],
                answered=self._answered[kind],
                retried=self._retries[kind],
                seconds=self._seconds.get(kind, 0.0),
                slowest=self._slowest.get(kind, 0.0),
                partial=self._partial[kind],
                faults=dict(self._faults.get(kind, {})),
            )
            for kind in sorted(self._asked)
        }

    def work(self) -> SourceWork:
        """Return the same for the scaler's own metrics."""
        requests = {
            kind: Requests(
                ended=outcomes({OK: told.answered, **told.faults}),
                seconds=told.seconds,
                retried=told.retried,
                partial=told.partial,
            )
            for kind, told in self.stats().items()
        }
        return SourceWork(requests=requests, received=self._session.received)

    def close(self) -> None:
        """Drop the connections; a thread that still waits ends at its deadline."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._session.close()

    async def _counted(
        self, kind: str, endpoint: str, form: Mapping[str, str], deadline: Seconds
    ) -> Answer:
        began = time.monotonic()
        self._asked[kind] += 1
        try:
            answer = await self._bounded(kind, endpoint, form, deadline)
        except SourceError as error:
            self._faults[kind][error.kind] += 1
            raise
        finally:
            took = time.monotonic() - began
            self._seconds[kind] += took
            self._slowest[kind] = max(self._slowest[kind], took)
        self._answered[kind] += 1
        self._partial[kind] += answer.partial
        self.answered_at = time.time()
        return answer

    async def _bounded(
        self, kind: str, endpoint: str, form: Mapping[str, str], deadline: Seconds
    ) -> Answer:
        left = max(0.0, deadline - time.monotonic())
        try:
            async with asyncio.timeout(left), self._at_once:
                return await self._retried(kind, endpoint, form, deadline)
        except TimeoutError as error:
            raise SourceUnreachable(
                f'source "{self._settings.name}" ({self._settings.place}) did not answer within '
                f"{self._settings.timeout:g} s: look at its load, or raise the timeout"
            ) from error

    async def _retried(
        self, kind: str, endpoint: str, form: Mapping[str, str], deadline: Seconds
    ) -> Answer:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(PassingFault),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.1, max=1.0),
            reraise=True,
        )
        try:
            return await retrying(self._once, endpoint, form, deadline)
        finally:
            self._retries[kind] += max(0, int(retrying.statistics.get("attempt_number", 1)) - 1)

    async def _once(self, endpoint: str, form: Mapping[str, str], deadline: Seconds) -> Answer:
        self._respect_patience()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._threads, self._session.ask, endpoint, form, deadline
            )
        except Busy as error:
            self._busy_until = max(self._busy_until, time.monotonic() + error.patience)
            raise

    def _respect_patience(self) -> None:
        """Leave a server alone that asked for it, without making the tick wait."""
        left = self._busy_until - time.monotonic()
        if left > 0:
            raise SourceBusy(
                f'source "{self._settings.name}" ({self._settings.place}) asked for patience: '
                f"{left:.0f} s more; it has too many queries, or its limits are too tight"
            )
