"""Decisions as the core makes them, from samples given by hand."""

from __future__ import annotations

from scaler.core.decision import Decision, decide
from scaler.core.learned import Learned
from scaler.core.need import needs
from scaler.core.policy import Policy
from scaler.core.quantile import Percentile
from scaler.core.sample import Sample
from scaler.core.units import TICK
from scaler.core.workload import Scale
from tests.edge.world import NOON

CALM = Percentile(value=0.7, lower=0.5, upper=0.75, observations=300.0)


def sample(**changes: object) -> Sample:
    """Return a sample of four replicas at noon that have some work, changed as told."""
    values: dict[str, object] = {
        "at": NOON,
        "scraped_at": NOON - 3,
        "serving": 4,
        "waiting": 2.0,
        "running": 100.0,
        "kv_cache": 0.5,
        "ttft": CALM,
        "first_token_rate": 5.0,
    }
    return Sample(**(values | changes))  # type: ignore[arg-type]


def decision_on(
    *,
    policy: Policy | None = None,
    learned: Learned | None = None,
    scale: Scale | None = None,
    ticks: int = 120,
    **changes: object,
) -> Decision:
    """Decide on the same sample seen for some ticks up to noon."""
    policy = policy or Policy()
    learned = learned or Learned(saturation=100.0, carried=30.0)
    samples = [
        sample(**{"at": NOON - TICK * i, "scraped_at": NOON - TICK * i - 3, **changes})
        for i in reversed(range(ticks))
    ]
    return decide(
        policy,
        samples,
        needs(policy, samples, learned),
        scale=scale or Scale(current=4, max_replicas=20),
        learned=learned,
        now=NOON,
        known_since=NOON - 3600,
    )
