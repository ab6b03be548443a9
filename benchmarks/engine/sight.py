"""What one look at an engine shows, real or modelled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Gauges and counters at a time, in seconds from the first request.

    `waiting_for_capacity` and `deferred` are the gauge by reason. `steps` are those that gave
    somebody a token; `waited` are the seconds until first tokens, all together. `preempted` counts
    a preemption at once, `preemptions` as vLLM does; the real engine does not tell the former.
    """

    at: float
    running: float
    waiting: float
    waiting_for_capacity: float
    deferred: float
    usage: float
    steps: float
    generated: float
    prompts: float
    first_tokens: float
    waited: float
    finished: float
    preemptions: float
    preempted: float | None = None

    @property
    def received(self) -> float:
        """Return how many requests had reached the engine."""
        return self.finished + self.running + self.waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One request as its client saw it: times in seconds from the first request.

    `client` is None where nobody waited for its end to send another.
    """

    client: int | None
    sent: float
    first_token: float | None
    ended: float | None
    prompt: int
    output: int
