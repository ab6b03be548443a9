"""How fast and how large: the conversation trace on twenty simulated replicas.

Run as `python -m benchmarks.simulate_hour [TRACE.csv]` from the project root; without a file the
shipped shape of the trace is drawn. Prints a line per router and engine, and what more hours cost
in memory (they should cost nothing).
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from benchmarks._measure import told
from benchmarks._results import Line, Section
from scaler.core.units import TICK
from scaler.simulation.fleet import Fleet
from scaler.simulation.profiles import profile_named
from scaler.simulation.router import router_named
from scaler.simulation.shapes import ENGINES, FleetShape
from scaler.simulation.trace_shapes import shipped_shape
from scaler.simulation.traces import Trace, read_trace
from scaler.simulation.workloads import Workload

REPLICAS, HOUR = 20, 3600.0


def simulate(trace: Trace, engine: str, router: str, hours: float) -> str:
    """Run the trace and say in a line how long that took."""
    workload = Workload(
        trace=trace, profile=profile_named("steady"), duration=hours * trace.duration
    )
    fleet = Fleet(
        FleetShape(engine=ENGINES[engine]),
        arrivals=workload.requests(),
        replicas=REPLICAS,
        router=router_named(router),
    )
    began = time.perf_counter()
    at = 0.0
    while not fleet.exhausted:
        at += TICK
        fleet.reading(at)
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    attained = fleet.outcomes.slo_attainment
    return (
        f"{engine:14} {router:13} {hours:3.0f} h  {fleet.outcomes.arrived:7} requests  "
        f"{took:6.2f} s  {peak:6.1f} MiB  SLO {attained:.4f}"
    )


def measure(*, quick: bool = False) -> Section:
    """Compare what an hour takes to simulate with the hour."""
    trace = shipped_shape("azure-conv").draw(seed=1)
    lines = []
    for engine in ENGINES:
        taken = []
        for _ in range(1 if quick else 3):
            began = time.process_time()
            told_of = simulate(trace, engine, "least-loaded", 1.0)
            taken.append(time.process_time() - began)
        requests = int(told_of.split(" requests")[0].split()[-1])
        lines.append(
            Line(
                key=f"simulator.{engine}",
                what=f"an hour of {REPLICAS} replicas, {requests:,} requests, engine {engine}",
                ours=told(taken, " s"),
                yardstick=f"{HOUR:,.0f} s, the hour itself",
                ratio=min(taken) / HOUR,
                tolerance=2.0,
            )
        )
    return Section(title="The simulator, CPU", lines=lines)


def main() -> None:
    """Print the table."""
    given = sys.argv[1:]
    trace = read_trace(Path(given[0])) if given else shipped_shape("azure-conv").draw(seed=1)
    for engine in ENGINES:
        for router in ("least-loaded", "round-robin"):
            sys.stdout.write(simulate(trace, engine, router, 1.0) + "\n")
    for hours in (2.0, 8.0):
        sys.stdout.write(simulate(trace, "compute-bound", "least-loaded", hours) + "\n")


if __name__ == "__main__":
    main()
