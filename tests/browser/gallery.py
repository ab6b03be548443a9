"""A board with one workload of each kind, to look at."""

from __future__ import annotations

from scaler.core.diagnosis import diagnose
from scaler.core.reasons import Reason
from scaler.core.workload import Scale
from tests.core.illness import ended, facts, pods
from tests.edge.history import decision_on
from tests.edge.world import World, decided
from tests.keda_client import scaled_object

SILENT = "prometheus.monitoring:9090 gave no answer within 8 s"


def gallery() -> World:
    """Return a world with fleets that are killed, loaded, silent, new, busy and calm."""
    world = World(unresolved={"typo": "there is no such source"})
    lost = facts(pods=pods(last_exit=ended(137, "OOMKilled")), situation=None)
    world.post(lost.decision, scaled_object(name="chat"), diagnosis=diagnose(lost))
    world.post(
        decision_on(waiting=60.0, running=380.0, kv_cache=0.93),
        scaled_object(name="code-completion"),
    )
    world.post(
        decided(desired=None, reason=Reason.SILENT_TOO_LONG),
        scaled_object("llm", "embeddings"),
        trouble=SILENT,
    )
    world.post(
        decision_on(running=20.0, waiting=0.0, scale=Scale(current=6, max_replicas=20)),
        scaled_object("llm", "summaries-of-long-documents-in-many-languages"),
    )
    world.post(decision_on(), scaled_object("llm", "translation"))
    world.post(
        decided(current=20, desired=20, advised=20, reason=Reason.AT_MAX),
        scaled_object("llm", "vision"),
    )
    world.entry(scaled_object(name="new"))
    world.entry(scaled_object(name="typo"))
    return world
