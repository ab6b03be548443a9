"""How soon the HPA reads a number that shows new demand, in parts; and what haste costs.

Detection and delivery are drawn from each system's own periods, with phases that know nothing of
each other: demand begins at any moment. What a shorter scale-out window costs in flapping is taken
from the simulator, with the decision that runs in a cluster.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks._results import Line, Section
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.core.policy import Policy
from scaler.core.units import TICK
from scaler.simulation.hpa import SYNC_PERIOD
from scaler.simulation.policies.corridor import CorridorPolicy
from scaler.simulation.policies.kaito import POLLING_INTERVAL as KAITO_POLLS
from scaler.simulation.scenarios import Scenario, world_of
from scaler.simulation.trial import run_trial

DRAWS = 20_000
ANSWERED: float = 0.5
"""From a tick to its answer on the board, in seconds: what a tick over 1,000 workloads takes."""
SCRAPE_INTERVAL: float = ScrapeSettings.__dataclass_fields__["interval"].default
SETTLE: float = PrometheusSettings.__dataclass_fields__["settle"].default
PROFILES = ("steady", "spike")
START_UP = 180.0
NOTES = (
    (
        "Detection: from the first request that waits to a sample that shows it. Delivery: from "
        f"there to the number that the HPA reads, which asks every {SYNC_PERIOD:g} s. Between the "
        "two lies the scale-out window, by choice; KEDA's Prometheus scaler and kaito's have none. "
        "After it a pod takes what it takes to start, whoever asks."
    ),
    (
        "KEDA asks Prometheus at the moment when the HPA asks KEDA. Ours looks at all workloads at "
        f"instants of its own, every {TICK:g} s, so that two scalers and a restarted one see the "
        "same. That costs half a tick, so at 15 s scrapes KEDA's own scaler reads new demand "
        f"sooner; the Prometheus source waits {SETTLE:g} s more for scrapes to end."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """Seconds from the first request that waits to its sample, and from there to the HPA."""

    detection: float
    delivery: float

    @property
    def total(self) -> float:
        """Return both together."""
        return self.detection + self.delivery


def after(moment: float, period: float, phase: float) -> float:
    """Return the first instant of a period after a moment."""
    return moment + (phase - moment) % period


def ours(chance: random.Random, scraped_every: float, settle: float) -> Reaction:
    """Scrape, then the tick that looks at it, then the HPA that asks."""
    scraped = after(0.0, scraped_every, chance.uniform(0, scraped_every))
    tick = after(scraped + settle, TICK, chance.uniform(0, TICK))
    asked = after(tick + ANSWERED, SYNC_PERIOD, chance.uniform(0, SYNC_PERIOD))
    return Reaction(detection=tick, delivery=asked - tick)


def keda(chance: random.Random, scraped_every: float) -> Reaction:
    """Scrape, then the HPA, whose question KEDA passes on to Prometheus at once."""
    scraped = after(0.0, scraped_every, chance.uniform(0, scraped_every))
    asked = after(scraped, SYNC_PERIOD, chance.uniform(0, SYNC_PERIOD))
    return Reaction(detection=scraped, delivery=asked - scraped)


def kaito(chance: random.Random) -> Reaction:
    """The scaler's own poll of the engines, then the HPA."""
    return keda(chance, KAITO_POLLS)


def told(drawn: list[Reaction]) -> str:
    """Write means, and the slowest of twenty."""
    total = statistics.quantiles([each.total for each in drawn], n=20)[18]
    detection = statistics.mean(each.detection for each in drawn)
    delivery = statistics.mean(each.delivery for each in drawn)
    return f"{detection:.1f} s + {delivery:.1f} s (p95 of both: {total:.0f} s)"


def reactions() -> Iterator[Line]:
    """Compare each of our sources with KEDA's Prometheus scaler and kaito's."""
    chance = random.Random(1)  # noqa: S311 - the same again

    def drawn(draw: Callable[[random.Random], Reaction]) -> list[Reaction]:
        return [draw(chance) for _ in range(DRAWS)]

    own = {
        "scrape source": drawn(lambda c: ours(c, SCRAPE_INTERVAL, 0.0)),
        "Prometheus source, 15 s scrapes": drawn(lambda c: ours(c, 15.0, SETTLE)),
        "Prometheus source, 30 s scrapes": drawn(lambda c: ours(c, 30.0, SETTLE)),
    }
    peers = {
        "KEDA's Prometheus scaler, 15 s scrapes": drawn(lambda c: keda(c, 15.0)),
        "KEDA's Prometheus scaler, 30 s scrapes": drawn(lambda c: keda(c, 30.0)),
        "keda-kaito-scaler": drawn(kaito),
    }
    beside = [
        ("scrape source", "KEDA's Prometheus scaler, 15 s scrapes"),
        ("scrape source", "KEDA's Prometheus scaler, 30 s scrapes"),
        ("scrape source", "keda-kaito-scaler"),
        ("Prometheus source, 15 s scrapes", "KEDA's Prometheus scaler, 15 s scrapes"),
        ("Prometheus source, 30 s scrapes", "KEDA's Prometheus scaler, 30 s scrapes"),
    ]
    for mine, other in beside:
        means = [statistics.mean(r.total for r in each) for each in (own[mine], peers[other])]
        yield Line(
            key=f"reaction.{mine}.{other}".replace(" ", "-").replace(",", ""),
            what=f"detection + delivery, {mine}",
            ours=told(own[mine]),
            yardstick=f"{told(peers[other])}, {other}",
            ratio=means[0] / means[1],
            tolerance=1.05,
        )


def flapping(profiles: tuple[str, ...]) -> Iterator[Line]:
    """Compare shorter scale-out windows with the default one."""
    usual = Policy().scale_out_window
    for profile in profiles:
        world = world_of(Scenario(profile=profile, start_up=START_UP))
        found = {
            window: run_trial(world, CorridorPolicy(world.bounds, Policy(scale_out_window=window)))
            for window in dict.fromkeys((15.0, 30.0, usual))
        }
        base = found[usual]
        for window in (w for w in found if w != usual):
            result = found[window]
            yield Line(
                key=f"reaction.window.{profile}.{window:g}",
                what=f"scale-out window of {window:g} s, profile {profile}: replica-hours",
                ours=f"{result.replica_hours:.2f} h, SLO {result.slo_attainment:.4f}, "
                f"{result.scale_events} changes, {result.direction_changes} turns",
                yardstick=f"{base.replica_hours:.2f} h, SLO {base.slo_attainment:.4f}, "
                f"{base.scale_events} changes, {base.direction_changes} turns, with {usual:g} s",
                ratio=result.replica_hours / base.replica_hours,
                tolerance=1.1,
                whole_runs=profile != "spike",
            )


def measure(*, quick: bool = False) -> Section:
    """Draw the reactions, and run the windows."""
    lines = [*reactions(), *flapping(("spike",) if quick else PROFILES)]
    return Section(
        title="Reaction",
        lines=lines,
        notes=list(NOTES),
    )


if __name__ == "__main__":
    print(measure(quick="--quick" in sys.argv).told())
