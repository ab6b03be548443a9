"""How long a trial takes with each policy, and how much of that is not the engines.

Run as `python -m benchmarks.simulate_policies [PROFILE [ENGINE]]` from the project root. A static
fleet costs the engines alone, so that what a policy adds beside it (its samples, its decision,
KEDA's and the autoscaler's arithmetic) shows; per simulated request, since policies differ in how
many requests they serve. The last lines say what the lower bound costs, and what the stated matrix
would take at this speed.
"""

from __future__ import annotations

import sys
import time

from scaler.simulation.bound import LowerBound
from scaler.simulation.comparison import ALL
from scaler.simulation.policies import policy_named, static_size
from scaler.simulation.scenarios import Scenario, subset, world_of
from scaler.simulation.trial import World, run_trial


def took(world: World, name: str) -> tuple[float, int]:
    """Run a policy; return the seconds that it took and the requests that arrived."""
    policy = policy_named(name, world.bounds)
    began = time.perf_counter()
    result = run_trial(world, policy, replicas=static_size(name))
    return time.perf_counter() - began, result.arrived


def main() -> None:
    """Print the table."""
    given = dict(zip(("profile", "engine"), sys.argv[1:], strict=False))
    scenario = Scenario(
        profile=given.get("profile", "step"), engine=given.get("engine", "compute-bound")
    )
    world = world_of(scenario)
    total = 0.0
    print(scenario.name)
    for name in ALL:
        seconds, arrived = took(world, name)
        total += seconds
        print(f"{name:24} {seconds:6.1f} s  {seconds / arrived * 1e6:5.0f} µs a request")
    began = time.perf_counter()
    bound = LowerBound(world)
    bound.hours(1.0)
    seconds = time.perf_counter() - began
    print(f"{'lower bound':24} {seconds:6.1f} s")
    rate = (total + seconds) / arrived
    needed = sum(rate * expected(each) for each in subset())
    print(f"the stated matrix: {len(subset())} scenarios, about {needed / 60:.0f} min on one core")


def expected(scenario: Scenario) -> float:
    """Return about how many requests a scenario has."""
    workload = world_of(scenario).workload
    steps = 1000
    mean = sum(workload.rate_at(workload.length * step / steps) for step in range(steps)) / steps
    return mean * workload.length


if __name__ == "__main__":
    main()
