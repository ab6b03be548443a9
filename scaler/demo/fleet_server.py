"""The fleet: simulated engines that serve vLLM's exposition over HTTP, each on its own port."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Self

from scaler.control.ports import Clock
from scaler.core.units import Seconds
from scaler.demo.files import FleetFiles
from scaler.demo.load import Load
from scaler.demo.replica_port import ReplicaPort
from scaler.demo.scene import Scene
from scaler.simulation.exposition import exposition
from scaler.simulation.fleet import Census, Fleet
from scaler.simulation.outcomes import Outcomes
from scaler.simulation.replica import Replica, ReplicaState

LOOKED_AT_EVERY: Seconds = 1.0


class FleetServer:
    """A fleet under a load, which whoever sets a ScaledObject's count may scale.

    Whenever it is looked at, it first catches up with the clock: however late a scrape comes, it
    shows the state of its own instant. A loading replica is a target that refuses; a draining one
    is no target any more, finishes its requests and then is gone.
    """

    def __init__(
        self, *, clock: Clock, load: Load, directory: Path, scene: Scene | None = None
    ) -> None:
        """Take the first replicas' ports. Raises NoFreePort."""
        self.scene = scene or Scene()
        self.load = load
        self.files = FleetFiles(directory, self.scene)
        self._clock = clock
        self._fleet = Fleet(
            self.scene.fleet_shape(),
            arrivals=load.requests(),
            replicas=self.scene.replicas,
            started=clock.now(),
        )
        self._ports: dict[str, ReplicaPort] = {}
        self._changing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Open the first replicas' ports and write the files."""
        await self.catch_up()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every port."""
        async with self._changing:
            await asyncio.gather(*(port.close() for port in self._ports.values()))
            self._ports.clear()

    @property
    def targets_file(self) -> Path:
        """Return the file_sd file for the scrape source."""
        return self.files.targets

    @property
    def cluster_file(self) -> Path:
        """Return the file with the replica count."""
        return self.files.cluster

    @property
    def outcomes(self) -> Outcomes:
        """Return what became of the requests up to now."""
        self._advance()
        return self._fleet.outcomes

    def census(self) -> Census:
        """Count the replicas as they are now."""
        self._advance()
        return self._fleet.census()

    async def scale(self, replicas: int) -> None:
        """Set the count that is wanted, as a write to `spec.replicas` does."""
        self._fleet.scale(replicas, self._advance())
        await self.catch_up()

    async def run(self) -> None:
        """Open and close ports as replicas come and go, until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.now() + LOOKED_AT_EVERY)
            await self.catch_up()

    async def catch_up(self) -> None:
        """Bring the fleet to the clock's time, then ports and files in line with the fleet."""
        async with self._changing:
            self._advance()
            replicas = self._fleet.replicas
            names = {replica.name for replica in replicas}
            for replica in replicas:
                await self._attend(replica)
            self._publish()
            for name in self._ports.keys() - names:
                await self._ports.pop(name).close()

    async def _attend(self, replica: Replica) -> None:
        port = self._ports.get(replica.name)
        if port is None:
            port = self._ports[replica.name] = ReplicaPort(lambda: self._page(replica))
        if replica.state is not ReplicaState.LOADING:
            await port.open()

    def _publish(self) -> None:
        targets = {
            replica.name: self._ports[replica.name].address
            for replica in self._fleet.replicas
            if replica.state is not ReplicaState.DRAINING and replica.name in self._ports
        }
        self.files.write(targets, self._fleet.spec)

    def _page(self, replica: Replica) -> str:
        self._advance()
        return exposition([replica.engine], model_name=self.scene.model_name)

    def _advance(self) -> Seconds:
        now = max(self._clock.now(), self._fleet.now)
        self._fleet.advance(now)
        return now
