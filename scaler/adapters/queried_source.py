"""A source that answers no queries, with a Prometheus beside it that is asked triggers' own."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from scaler.adapters.own_queries import Own, OwnQueries
from scaler.adapters.prometheus_api import PrometheusApi
from scaler.control.ports import Source, SourceError
from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.core.workload import Selection


class QueriedSource:
    """Fulfils the port `Source`: the engines by one way, the gateways by another.

    Whatever is wrong with the Prometheus, the engines' signals are told; what waits at the gateway
    is then not known.
    """

    def __init__(self, source: Source, api: PrometheusApi, queries: OwnQueries) -> None:
        """Take the source of the engines' signals, and who is asked beside it."""
        self.own_queries = queries
        self._source = source
        self._api = api

    @property
    def name(self) -> str:
        """Return the source's name."""
        return self._source.name

    async def run(self) -> None:
        """Run the source; drop the connections when cancelled."""
        try:
            await self._source.run()
        finally:
            self._api.close()

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Read the source and ask the queries at the same time; see the port."""
        asking = [s for s in selections if s.activation_query or s.rejection_query]
        own, found = await asyncio.gather(
            self.own_queries.ask(asking, at), self._source.read(selections, at)
        )
        return {
            selection: own.get(selection, _NOTHING).added_to(reading)
            if isinstance(reading, Reading)
            else reading
            for selection, reading in found.items()
        }

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Read back what the source remembers, with what the queries said then."""
        readings = await self._source.recall(selection, start, end, step)
        return await self.own_queries.recall(selection, readings, step)


_NOTHING = Own()
