"""Cells whose engines' pages are at fault: the real scrape source, over sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from scaler.adapters.pod_targets import PodPage, PodTargets
from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.config.sections import ScrapeSource as ScrapeSection
from scaler.config.server import ServerConfig
from scaler.control.placement import pods_of_source
from scaler.control.ports import SourceError
from scaler.core.workload import Selection
from tests.edge.certificates import Authority
from tests.fakes.cluster import FakeCluster
from tests.outages.cells import RECOVERY, Cell, Fault, Length, Part
from tests.outages.fleet import Fleet, Replica, Sample, counters, gauges, waiting_at_gateway
from tests.outages.keeping import Moment
from tests.outages.names import names
from tests.outages.pages import PageServer
from tests.outages.world import BEFORE, World, grouped
from tests.scenarios.pages import Stepped

SLOW = frozenset({Fault.SILENT, Fault.TRICKLE})
"""Faults that take real time: a page's whole timeout."""

_PATIENT, _IMPATIENT = 60.0, 1.5
_RENAMED = {"num_requests_running": "requests_running", "num_requests_waiting": "requests_waiting"}


class Waiting:
    """What waits at the gateways, as the fleets have it; fulfils the port `Gateways`."""

    def __init__(self, world: World) -> None:
        """Look at the world's fleets."""
        self._fleets = {each.fleet.name: each.fleet for each in world.workloads}

    async def demands(
        self, selections: Collection[Selection], at: float
    ) -> Mapping[Selection, float | SourceError | None]:
        """Say what waits."""
        found: dict[Selection, float | SourceError | None] = {}
        for each in selections:
            fleet = self._fleets[each.model_name or ""]
            found[each] = waiting_at_gateway(fleet.cell, fleet.tick_of(at), fleet.spec)
        return found


def page_of(fleet: Fleet, samples: Iterable[Sample], fault: Fault | None, at: float) -> bytes:
    """Write a page, spoilt as far as the fault lies in what it says."""
    if fault is Fault.EMPTY:
        return b""
    lines = []
    for name, labels, value in samples:
        told = _RENAMED.get(name, name) if fault is Fault.RENAMED else name
        inside = {"engine": "0", "model_name": fleet.name, **labels}
        listed = ",".join(f'{key}="{said}"' for key, said in inside.items())
        number = "NaN" if fault is Fault.NAN else repr(value)
        stamp = f" {int((at - 3600.0) * 1000)}" if fault is Fault.SKEWED else ""
        lines.append(f"vllm:{told}{{{listed}}} {number}{stamp}")
    return ("\n".join(lines) + "\n").encode()


class ScrapedWorld(World):
    """A scaler that scrapes pods' pages."""

    def __init__(self, cells: Sequence[Cell], server: PageServer, directory: Path) -> None:
        """Put the parts together."""
        fault = next((c.fault for c in cells if c.fault is not None), None)
        self._by_name = fault is Fault.DNS
        self._timeout = _IMPATIENT if fault in SLOW else _PATIENT
        self._targets = directory / "targets.json"
        self._targets.write_text("[]", encoding="utf-8")
        # Reading all of the machine's authorities at each tick would take most of the time.
        self._authority = directory / "ca.pem"
        self._authority.write_bytes(Authority("outages").certificate)
        section = ScrapeSection.model_validate(
            {
                "type": "scrape",
                "pods": {"port": "http"},
                "prometheus": {"url": "http://prometheus:9090", "queries": {"queue": "queue"}},
            }
        )
        config = ServerConfig(cluster="kubernetes", sources={"engines": section})
        super().__init__(cells, config, {"activationQuery": "name:queue"})
        self._server = server
        self._places: dict[tuple[str, int], tuple[str, int]] = {}
        self._kept: dict[tuple[str, int], list[Sample]] = {}
        self._fake = FakeCluster()
        self.cluster = self._fake
        self.source = self._source()

    def _source(self) -> ScrapeSource:
        if self._by_name:
            settings = ScrapeSettings(
                name="engines",
                timeout=self._timeout,
                ca_file=self._authority,
                targets=self._targets,
            )
            source = ScrapeSource(settings, self.clock)
        else:
            registry, cluster = self.registry, self.cluster
            targets = PodTargets(
                PodPage(port="http"), lambda: pods_of_source(registry, cluster, "engines")
            )
            settings = ScrapeSettings(
                name="engines", timeout=self._timeout, ca_file=self._authority
            )
            source = ScrapeSource(settings, self.clock, targets)
        waiting = Waiting(self)
        self.follow(Stepped(source, waiting), waiting)
        return source

    async def play(self) -> Mapping[Cell, Sequence[Moment]]:
        """Play the whole of it."""
        while self.tick < Length.LONG.ticks + RECOVERY:
            self.fleets_advance(self.at - BEFORE)
            await self._show()
            for each in self.workloads:
                self.registry.ask("llm", each.fleet.name, each.metadata)
            await self.source.scrape_once()
            await self.decide()
            await self.let_keda_act()
            self._place()
            await self.review()
        return self.told()

    async def _show(self) -> None:
        """Show every page as it is at this tick, or as the fault makes it."""
        for each in self.workloads:
            for replica in each.fleet.serving():
                await self._show_one(each.cell, each.fleet, replica)
        self._place()

    async def _show_one(self, cell: Cell, fleet: Fleet, replica: Replica) -> None:
        key = fleet.name, replica.number
        place = await self._place_of(cell, key)
        fault = cell.fault if cell.at_fault(self.tick) and _is_hit(cell, replica) else None
        at = self.clock.now()
        if fault not in {Fault.STALE, Fault.FROZEN}:
            self._kept[key] = [*gauges(replica), *counters(replica)]
        kept = self._kept.setdefault(key, [*gauges(replica), *counters(replica)])
        told = [*kept[:3], *counters(replica)] if fault is Fault.FROZEN else kept
        self._server.shown[place] = page_of(fleet, told, fault, at), fault
        if fault is Fault.REFUSED and not self._server.refuses(place[1]):
            self._server.refuse(place[1])
        elif fault is not Fault.REFUSED and self._server.refuses(place[1]):
            await self._server.open(*place)
        names.lost[f"{fleet.name}-{replica.number}.test"] = fault is Fault.DNS

    async def _place_of(self, cell: Cell, key: tuple[str, int]) -> tuple[str, int]:
        """Return address and port of a replica; whoever may refuse has a port of its own."""
        if key not in self._places:
            number = len(self._places)
            ip = f"127.{20 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"
            refuses = cell.fault is Fault.REFUSED
            port = await self._server.open(ip, 0) if refuses else self._server.port
            self._places[key] = ip, port
            names.known[f"{key[0]}-{key[1]}.test"] = ip
        return self._places[key]

    def _place(self) -> None:
        """Have Kubernetes show the pods."""
        groups = []
        for each in self.workloads:
            fleet = each.fleet
            pods = []
            for replica in fleet.replicas:
                ip, port = self._places.get((fleet.name, replica.number), ("127.1.1.1", 9))
                pods.append(fleet.pod(replica, ip, port))
                groups.append(
                    {
                        "targets": [f"{fleet.name}-{replica.number}.test:{port}"],
                        "labels": {"namespace": "llm", "pod": fleet.pod_name(replica)},
                    }
                )
            self._fake.placed["llm", fleet.name] = tuple(pods)
            self._fake.scales["llm", fleet.name] = each.scale
        if self._by_name:
            self._targets.write_text(json.dumps(groups), encoding="utf-8")


def _is_hit(cell: Cell, replica: Replica) -> bool:
    match cell.part:
        case Part.ONE_POD:
            return replica.number == 0
        case Part.HALF:
            return replica.number % 2 == 0
        case _:
            return True


@asynccontextmanager
async def _server() -> AsyncIterator[PageServer]:
    server = PageServer()
    async with server.serving():
        yield server


def play(cells: Sequence[Cell], directory: Path) -> Mapping[Cell, Sequence[Moment]]:
    """Play the cells of one scaler."""

    async def playing() -> Mapping[Cell, Sequence[Moment]]:
        async with _server() as server:
            with names.answering():
                return {
                    cell: told
                    for alike in grouped(cells)
                    for cell, told in (await ScrapedWorld(alike, server, directory).play()).items()
                }

    return asyncio.run(playing())
