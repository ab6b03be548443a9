"""A step's cost, from what a real engine did in the first quarter of a run.

Between two looks the engine made some steps, for some sequences, with some tokens in them; the
time that took is base · steps + per_sequence · sequences + per_token · tokens. The three costs are
the non-negative ones with the least squared error; then they are scaled together so that the
quarter takes as long in the model as it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from benchmarks.engine.sight import Sight
from scaler.simulation.shapes import StepCost

LEAST_BASE = 1e-4
"""Seconds: a step takes time even where none could be told from its tokens."""

_ROUNDS = 20_000


def fitted(sights: Sequence[Sight]) -> StepCost:
    """Return the cost that fits these sights best; there must be some in which requests ran."""
    rows, took = [], []
    for before, after in pairwise(sights):
        if before.running and after.running and after.steps > before.steps:
            generated = after.generated - before.generated
            prompts = after.prompts - before.prompts
            rows.append((after.steps - before.steps, generated, generated + prompts))
            took.append(after.at - before.at)
    costs = least_squares(rows, took)
    costs[0] = max(costs[0], LEAST_BASE)
    told = sum(sum(c * x for c, x in zip(costs, row, strict=True)) for row in rows)
    base, per_sequence, per_token = (cost * sum(took) / told for cost in costs)
    return StepCost(
        base=base, per_sequence=per_sequence, per_token=per_token, per_context_token=0.0
    )


def outside(sights: Sequence[Sight], clients: int) -> float:
    """Return how long a client's request was neither running nor waiting, in seconds.

    That is the way to the engine and back: HTTP, the API server, the client. By Little's law the
    requests that are missing from the gauges, over the rate at which requests come.
    """
    busy = [sight for sight in sights if sight.first_tokens]
    if not clients or len(busy) < 2:  # noqa: PLR2004 - a rate needs two looks
        return 0.0
    missing = sum(clients - sight.running - sight.waiting for sight in busy) / len(busy)
    rate = (busy[-1].first_tokens - busy[0].first_tokens) / (busy[-1].at - busy[0].at)
    return max(0.0, missing / rate) if rate else 0.0


def least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return non-negative x with the least |rows · x − values|², one coordinate at a time."""
    width = range(len(rows[0]))
    gram = [[sum(row[i] * row[j] for row in rows) for j in width] for i in width]
    aim = [sum(row[i] * value for row, value in zip(rows, values, strict=True)) for i in width]
    x = [0.0 for _ in width]
    for _ in range(_ROUNDS):
        for i in width:
            if gram[i][i] > 0:
                rest = aim[i] - sum(gram[i][j] * x[j] for j in width if j != i)
                x[i] = max(0.0, rest / gram[i][i])
    return x
