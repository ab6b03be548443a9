"""The requests that decode, and many steps of them at once.

Between two events a decoding batch does not change: each step gives every request one token. So
what a step would update for each request is kept once for all of them. Tokens in the cache are
`held_offset + step`; a request ends at a step known when it joins; and it needs a new block
whenever `step` has the residue (modulo the block size) that it joined under, so that one array of
counts by residue says how many blocks any number of steps will take.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

from scaler.core.units import Seconds
from scaler.simulation.requests import Request
from scaler.simulation.shapes import StepCost

ROUNDING: Seconds = 1e-6
"""Times that differ by less are the same: seconds since the epoch are no finer in a float."""


class DecodeBatch:
    """The decoding part of an engine's running requests.

    `step` counts engine steps, `size` requests, `context` the tokens that they hold in the cache.
    """

    __slots__ = (
        "_base",
        "_block_size",
        "_finishes",
        "_per_context_token",
        "_per_request",
        "_residues",
        "context",
        "size",
        "step",
    )

    def __init__(self, cost: StepCost, block_size: int) -> None:
        self._base = cost.base
        self._per_request = cost.per_token + cost.per_sequence
        self._per_context_token = cost.per_context_token
        self._block_size = block_size
        self._residues = [0] * block_size
        self._finishes: list[tuple[int, int, Request]] = []
        self.step = 0
        self.size = 0
        self.context = 0

    def join(self, request: Request) -> None:
        """Take in a request whose prefill is complete and which wants more tokens."""
        request.decoding = True
        request.held_offset = request.prefill - self.step
        request.finish_step = self.step + request.output - request.made
        self._residues[-request.held_offset % self._block_size] += 1
        self.size += 1
        self.context += request.prefill
        heappush(self._finishes, (request.finish_step, request.number, request))

    def leave(self, request: Request) -> None:
        """Let a request go; what it holds and has made becomes its own again."""
        held = request.held_offset + self.step
        request.decoding = False
        request.made = request.output - (request.finish_step - self.step)
        request.prefill = held + 1
        self._residues[-request.held_offset % self._block_size] -= 1
        self.size -= 1
        self.context -= held

    def held(self, request: Request) -> int:
        """Return the tokens in the cache of a decoding request."""
        return request.held_offset + self.step

    def needs_block(self, request: Request) -> bool:
        """Say whether the next step of a decoding request starts a new block."""
        return (request.held_offset + self.step) % self._block_size == 0

    def finished(self) -> Request | None:
        """Remove and return a request whose last token is made, or None."""
        top = self._top()
        if top is None or top.finish_step > self.step:
            return None
        heappop(self._finishes)
        return top

    def steps_to_finish(self) -> int:
        """Return how many steps the request that ends first still needs; the batch has one."""
        top = self._top()
        return 0 if top is None else top.finish_step - self.step

    def _top(self) -> Request | None:
        # A request that left early (preempted, given up) leaves its entry behind.
        heap = self._finishes
        while heap:
            finish_step, _, request = heap[0]
            if request.decoding and request.finish_step == finish_step:
                return request
            heappop(heap)
        return None

    def blocks_in(self, steps: int) -> int:
        """Return how many new blocks the next `steps` steps take."""
        if steps == 1:
            return self._residues[self.step % self._block_size]
        rounds, rest = divmod(steps, self._block_size)
        taken = rounds * self.size
        if rest:
            start = self.step % self._block_size
            end = start + rest
            taken += sum(self._residues[start:end])
            if end > self._block_size:
                taken += sum(self._residues[: end - self._block_size])
        return taken

    def steps_within(self, blocks: int, limit: int) -> int:
        """Return how many of the next `limit` steps fit into this many free blocks."""
        if self.blocks_in(limit) <= blocks:
            return limit
        rounds = blocks // self.size
        left = blocks - rounds * self.size
        steps = rounds * self._block_size
        while steps < limit:
            left -= self._residues[(self.step + steps) % self._block_size]
            if left < 0:
                break
            steps += 1
        return steps

    def step_time(self) -> Seconds:
        """Return the duration of the next step when nothing but decoding happens in it."""
        size = self.size
        return self._base + self._per_request * size + self._per_context_token * self.context

    def rise(self) -> Seconds:
        """Return by how much each step is longer than the one before: the context grows."""
        return self._per_context_token * self.size

    def duration(self, steps: int) -> Seconds:
        """Return how long the next `steps` steps take."""
        return steps * self.step_time() + self.rise() * (steps * (steps - 1) / 2)

    def steps_ended_by(self, span: Seconds) -> int:
        """Return how many whole steps end within `span` seconds from now."""
        span += ROUNDING
        if span <= 0:
            return 0
        first, half = self.step_time(), self.rise() / 2
        slope = first - half
        # The root of half·n² + slope·n = span, then the whole number that rounding may have missed.
        steps = int(2 * span / (slope + math.sqrt(slope * slope + 4 * half * span)))
        while (steps + 1) * (slope + half * (steps + 1)) <= span:
            steps += 1
        while steps > 0 and steps * (slope + half * steps) > span:
            steps -= 1
        return steps

    def steps_until(self, span: Seconds) -> int:
        """Return the fewest steps (at least one) that take `span` seconds or more."""
        steps = self.steps_ended_by(span)
        return steps if steps > 0 and self.duration(steps) >= span - ROUNDING else steps + 1

    def advance(self, steps: int) -> None:
        """Give every request that decodes `steps` more tokens."""
        self.step += steps
        self.context += steps * self.size
