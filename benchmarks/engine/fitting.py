"""A step's cost, from what a real engine did in the first quarter of a run.

Between two looks the engine made some steps, for some sequences, with some tokens in them; the
time that took is base · steps + per_sequence · sequences + per_token · tokens. The three costs are
the non-negative ones with the least squared error; then they are scaled together so that the
quarter takes as long in the model as it did. Sequences and tokens can be told apart only by
prompts; where there are hardly any, the cost is the sequences'.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import sqrt

from benchmarks.engine.sight import Sight
from scaler.simulation.shapes import StepCost

LEAST_BASE = 1e-4
"""Seconds: a step takes time even where none could be told from its tokens."""

LEAST_ROWS = 5
"""Of three costs nothing can be said from fewer."""

DOUBT = 0.03
"""How much of all tokens must be prompts' before a cost per token is believed."""

TINY = 1e-9


class TooLittle(Exception):
    """The engine did too little in the first quarter of a run to learn a cost from it."""


def fitted(sights: Sequence[Sight]) -> StepCost:
    """Return the cost that fits these sights best. Raises TooLittle."""
    rows, took = [], []
    for before, after in pairwise(sights):
        # Who comes back from a preemption is prefilled anew, which no counter of tokens shows.
        untold = after.preemptions > before.preemptions
        if before.running and after.running and after.steps > before.steps and not untold:
            generated = after.generated - before.generated
            prompts = after.prompts - before.prompts
            rows.append((after.steps - before.steps, generated, generated + prompts))
            took.append(after.at - before.at)
    if len(rows) < LEAST_ROWS:
        raise TooLittle(
            f"in the first quarter only {len(rows)} of {len(sights)} looks showed a step "
            f"({LEAST_ROWS} are needed): is the machine busy with something else?"
        )
    costs = least_squares(
        [*rows, (0.0, 0.0, DOUBT * sqrt(sum(r[2] ** 2 for r in rows)))], [*took, 0.0]
    )
    costs[0] = max(costs[0], LEAST_BASE)
    told = sum(sum(c * x for c, x in zip(costs, row, strict=True)) for row in rows)
    base, per_sequence, per_token = (cost * sum(took) / told for cost in costs)
    return StepCost(
        base=base, per_sequence=per_sequence, per_token=per_token, per_context_token=0.0
    )


def outside(sights: Sequence[Sight], clients: int) -> float:
    """Return how long a client's request was neither running nor waiting, in seconds.

    That is the way to the engine and back: HTTP, the API server, the client. From the first look at
    which everybody was there: the requests that are missing from the gauges, summed over time, are
    shared by those that have ended.
    """
    counts = [sight.running + sight.waiting for sight in sights]
    if not clients or clients not in counts:
        return 0.0
    known = sights[counts.index(clients) :]
    ended = known[-1].finished - known[0].finished
    missing = sum(
        (after.at - before.at) * (clients - after.running - after.waiting)
        for before, after in pairwise(known)
    )
    return max(0.0, missing / ended) if ended else 0.0


def least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return non-negative x with the least |rows · x − values|².

    The best x leaves some of its parts at 0 and is the best of the others without a bound: all
    choices of those are tried.
    """
    width = len(rows[0])
    best, least = [0.0] * width, sum(value * value for value in values)
    for count in range(1, width + 1):
        for parts in combinations(range(width), count):
            found = _unbounded([[row[part] for part in parts] for row in rows], values)
            if found is None or min(found) < 0:
                continue
            x = [0.0] * width
            for part, value in zip(parts, found, strict=True):
                x[part] = value
            error = sum(
                (sum(c * v for c, v in zip(x, row, strict=True)) - value) ** 2
                for row, value in zip(rows, values, strict=True)
            )
            if error < least:
                best, least = x, error
    return best


def _unbounded(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float] | None:
    """Solve the normal equations by elimination; None where they have many solutions."""
    width = range(len(rows[0]))
    table = [
        [
            *(sum(row[i] * row[j] for row in rows) for j in width),
            sum(row[i] * value for row, value in zip(rows, values, strict=True)),
        ]
        for i in width
    ]
    for i in width:
        pivot = max(range(i, len(table)), key=lambda line: abs(table[line][i]))
        table[i], table[pivot] = table[pivot], table[i]
        if abs(table[i][i]) < TINY:
            return None
        for j in width:
            if j != i:
                share = table[j][i] / table[i][i]
                table[j] = [a - share * b for a, b in zip(table[j], table[i], strict=True)]
    return [table[i][-1] / table[i][i] for i in width]
