"""The requests that an engine runs, and the KV blocks that they hold."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.core.units import Seconds
from scaler.simulation.batch import DecodeBatch
from scaler.simulation.requests import Request
from scaler.simulation.shapes import EngineShape


class RunningSet:
    """Running requests in the order they were admitted, and the free blocks.

    Most of them decode (`batch`); the rest are still being prefilled. A request that decodes
    holds what its tokens in the cache need; one that is being prefilled holds what its whole
    prompt will need.
    """

    __slots__ = ("_requests", "_shape", "_stepping", "batch", "free")

    def __init__(self, shape: EngineShape) -> None:
        self._shape = shape
        self._requests: dict[int, Request] = {}
        self._stepping = False
        self.batch = DecodeBatch(shape.cost, shape.block_size)
        self.free = shape.blocks

    def __len__(self) -> int:
        """Count the running requests."""
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        """Go through them, the longest admitted first."""
        return iter(self._requests.values())

    @property
    def prefilling(self) -> int:
        """Count those that are still being prefilled."""
        return len(self._requests) - self.batch.size

    def fits(self, request: Request) -> bool:
        """Say whether there is a slot, and room for all that this request has to prefill."""
        return (
            len(self._requests) < self._shape.max_num_seqs
            and self._shape.blocks_for(request.prefill) <= self.free
        )

    @property
    def has_slot(self) -> bool:
        """Say whether one more request could run if there were blocks for it."""
        return len(self._requests) < self._shape.max_num_seqs

    def admit(self, request: Request) -> int:
        """Let a request run; return how many of its tokens the prefix cache had already."""
        request.blocks = self._shape.blocks_for(request.prefill)
        self.free -= request.blocks
        self._requests[request.number] = request
        size = self._shape.block_size
        # Whole blocks, and never the last token: computing it is what gives the next one.
        hits = int(self._shape.prefix_hit_rate * request.prompt) // size * size
        request.computed = min(hits, (request.prefill - 1) // size * size)
        return request.computed

    def remove(self, request: Request) -> bool:
        """Take a request out and its blocks back; False when it was not running."""
        if self._requests.pop(request.number, None) is None:
            return False
        if request.decoding:
            held = self.batch.held(request) + self._stepping
            self.free += self._shape.blocks_for(held)
            self.batch.leave(request)
        else:
            self.free += request.blocks
        request.blocks = 0
        request.computed = 0
        return True

    def decode(self, steps: int) -> None:
        """Make `steps` steps in which nothing but decoding happens; the blocks must suffice."""
        self.free -= self.batch.blocks_in(steps)
        self.batch.advance(steps)

    def begin_step(self, now: Seconds) -> list[Request]:
        """Take the blocks for everybody's next token; return who was preempted for them.

        Those preempted, newest first, have lost their cache and wait for a new prefill.
        """
        need = self.batch.blocks_in(1)
        if need <= self.free:
            self.free -= need
            preempted = []
        else:
            preempted = self._fight_for_blocks(now)
        self._stepping = True
        return preempted

    def end_step(self) -> None:
        """Give everybody who decodes the token of the step begun."""
        self._stepping = False
        self.batch.advance(1)

    def _fight_for_blocks(self, now: Seconds) -> list[Request]:
        preempted: list[Request] = []
        for request in list(self._requests.values()):
            if request.number not in self._requests:
                break
            if not request.decoding or not self.batch.needs_block(request):
                continue
            while self.free == 0 and request.number in self._requests:
                victim = self._requests[next(reversed(self._requests))]
                self.remove(victim)
                victim.preempted += 1
                victim.unreported_preemptions += 1
                victim.last_token_at = now
                preempted.append(victim)
            if request.number in self._requests:
                self.free -= 1
        return preempted
