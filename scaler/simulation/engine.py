"""One vLLM engine in simulated time: exact per step, at a cost per event.

A step's batch is made as vLLM's scheduler makes it: running requests first, in the order they were
admitted, each decoding one token or prefilling a chunk; when no block is free the newest running
request is preempted, loses its cache and goes to the head of the queue; then waiting requests are
admitted in order while slots, token budget and blocks last. Steps in which anything is prefilled,
admitted or preempted are made one by one; a run of steps that only decode is made at once, to the
next event (`DecodeBatch`). There is no fluid approximation: a token-by-token engine gives the same
times up to rounding.

Simplified: all blocks of a prompt are taken at admission, not chunk by chunk, and cached prefixes
share no blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scaler.core.units import Seconds
from scaler.simulation.batch import ROUNDING
from scaler.simulation.counters import Counters
from scaler.simulation.requests import Ending, Request
from scaler.simulation.running import RunningSet
from scaler.simulation.shapes import EngineShape
from scaler.simulation.waiting import Deadlines, WaitingLine


class Engine:
    """A simulated engine, driven by `submit` and `advance`.

    Time only moves in `advance`. The gauges `running`, `waiting` and `kv_cache_usage` are those of
    the last step that ended, as vLLM exposes them: read them after `advance(now)`. `on_first_token`
    and `on_end` are called with each request as it gets its first token or ends. Request numbers
    must be unique within an engine.
    """

    def __init__(
        self,
        shape: EngineShape,
        *,
        started: Seconds = 0.0,
        on_end: Callable[[Request], None] | None = None,
        on_first_token: Callable[[Request], None] | None = None,
    ) -> None:
        self.shape = shape
        self.counters = Counters()
        self.asleep = False
        self.now = started
        """The end of the last step; the step under way, if any, began here."""
        self.running = 0
        self.waiting = 0
        self.in_flight = 0
        """The requests that are with the engine at this instant: running, waiting or just sent."""
        self.busy_since: Seconds | None = None
        """Since when, without a pause, the engine has had a request."""
        self._on_end = on_end
        self._on_first_token = on_first_token
        self._running = RunningSet(shape)
        self._line = WaitingLine()
        self._deadlines = Deadlines()
        self._shown_free = shape.blocks
        self._chunks: list[tuple[Request, int]] = []
        self._step_ends: Seconds | None = None
        self._stops_at: Seconds = math.inf
        self._frozen_at: Seconds = math.inf
        self._quiet_until: Seconds | None = None

    # --- what others see ---------------------------------------------------------------------

    @property
    def kv_cache_usage(self) -> float:
        """Return the share of KV blocks in use, 0..1."""
        return 1.0 - self._shown_free / self.shape.blocks

    @property
    def blocks_free(self) -> int:
        """Return the free KV blocks at this instant; the gauge follows at the step's end."""
        return self._running.free

    @property
    def stopping(self) -> bool:
        """Say whether the engine was told to stop."""
        return self._stops_at < math.inf

    @property
    def stopped(self) -> bool:
        """Say whether the engine has ended: told to stop, and nothing is left."""
        return self.stopping and self.in_flight == 0

    def quiet_until(self) -> Seconds:
        """Return a time before which no request ends or gets its first token, unless one is sent.

        Infinite while the engine has nothing to do.
        """
        if self._quiet_until is None:
            self._quiet_until = self._next_event()
        return self._quiet_until

    # --- what others do ----------------------------------------------------------------------

    def submit(self, request: Request, at: Seconds) -> bool:
        """Send a request to the engine; False when it is refused (and then has ended so).

        Requests come in order of time.
        """
        request.submitted = at
        self._quiet_until = None
        if self.shape.max_queued is not None:
            self.advance(at)
            if len(self._line) >= self.shape.max_queued:
                self.counters.rejections += 1
                return self._refuse(request, at)
        if request.prompt >= self.shape.max_model_len or self.stopping:
            return self._refuse(request, at)
        request.output = min(request.output, self.shape.max_model_len - request.prompt)
        self.in_flight += 1
        self._line.send(request)
        self._deadlines.watch(request)
        if self.busy_since is None:
            self.busy_since = at
        return True

    def withdraw(self, request: Request, at: Seconds) -> None:
        """Let a client go away: its request ends so at the next step's end."""
        if request.ending is None:
            self._deadlines.add(request, at, final=True)
            self._quiet_until = None

    def stop(self, at: Seconds, *, grace: Seconds = 0.0) -> None:
        """Send SIGTERM: refuse what is new, finish what is there within `grace`, cut off the rest.

        A grace of 0 is vLLM's default `--shutdown-timeout`.
        """
        self.advance(at)
        self._stops_at = min(self._stops_at, at + grace)
        self.advance(at)

    def freeze(self, at: Seconds) -> None:
        """Make no progress any more, as an engine that hangs: the gauges stay as they are."""
        self.advance(at)
        self._frozen_at = min(self._frozen_at, at)

    def advance(self, until: Seconds) -> None:
        """Make every step that ends at or before `until`."""
        self._run(until, to_the_end=True)

    def catch_up(self, until: Seconds) -> None:
        """Let every first token and end happen that falls at or before `until`.

        Cheaper than `advance`: steps since the last event may be left for later, so that the
        gauges are those of an earlier step.
        """
        if self.quiet_until() <= until:
            self._run(until, to_the_end=False)

    def _run(self, until: Seconds, *, to_the_end: bool) -> None:
        limit = min(until, self._stops_at, self._frozen_at)
        while self._proceed(limit, to_the_end=to_the_end):
            pass
        self._quiet_until = None
        if until >= self._frozen_at:
            self._forsake(min(until, self._stops_at))
        if until >= self._stops_at:
            self._cut_off()

    # --- steps -------------------------------------------------------------------------------

    def _proceed(self, limit: Seconds, *, to_the_end: bool) -> bool:
        """Do the next thing if it ends by `limit`; say whether anything was done."""
        if self._step_ends is not None:
            if self._step_ends > limit:
                return False
            self._finish_step(self._step_ends)
            return True
        if not self._running and self._line.head() is None:
            arrival = self._line.next_arrival()
            if arrival > limit:
                return False
            self.now = max(self.now, arrival)
        self._forsake(self.now)
        if self._must_schedule():
            self._begin_step()
            return True
        if self._running:
            return self._decode(limit, to_the_end=to_the_end)
        return self._line.next_arrival() <= limit

    def _admissible(self) -> bool:
        head = self._line.head()
        return head is not None and self._running.fits(head)

    def _must_schedule(self) -> bool:
        """Say whether the next step does more than give every running request a token."""
        running = self._running
        if running.prefilling or running.batch.blocks_in(1) > running.free:
            return True
        return self._admissible()

    def _decode(self, limit: Seconds, *, to_the_end: bool) -> bool:
        """Make the decoding steps up to the next event, or as many of them as end by `limit`."""
        batch = self._running.batch
        steps, span = self._steps_to_event(), limit - self.now
        if batch.duration(steps) > span + ROUNDING:
            steps = batch.steps_ended_by(span) if to_the_end else 0
            if steps < 1:
                return False
        took, first, rise = batch.duration(steps), batch.step_time(), batch.rise()
        self.counters.itl.observe_ramp(first, rise, steps, batch.size)
        self.counters.generation_tokens += steps * batch.size
        self.counters.busy_seconds += took
        self._running.decode(steps)
        self.now += took
        self._settle(last_step_began=self.now - (first + rise * (steps - 1)))
        return True

    def _steps_to_event(self) -> int:
        """Return how many steps may be made at once: until one ends, or blocks do, or a wake."""
        batch = self._running.batch
        steps = batch.steps_to_finish()
        wake = self._next_wake()
        if wake < math.inf:
            # What comes from outside is taken in when the step under way ends.
            steps = min(steps, batch.steps_until(wake - self.now))
        return batch.steps_within(self._running.free, steps)

    def _next_wake(self) -> Seconds:
        """Return when something from outside may change the batch: somebody comes or leaves."""
        wake = self._deadlines.next()
        if self._running.has_slot and self._line.head() is None:
            wake = min(wake, self._line.next_arrival())
        return wake

    def _next_event(self) -> Seconds:
        if self._frozen_at < math.inf:
            return min(self._deadlines.next(), self._stops_at)
        if self._step_ends is not None:
            return min(self._step_ends, self._stops_at)
        if self._must_schedule():
            return self.now
        if not self._running:
            return min(self._line.next_arrival(), self._stops_at)
        event = self.now + self._running.batch.duration(self._steps_to_event())
        return min(event, self._stops_at)

    def _begin_step(self) -> None:
        """Schedule one step as vLLM does, and set when it ends."""
        running, budget = self._running, self.shape.max_num_batched_tokens
        preempted = running.begin_step(self.now)
        for request in preempted:
            self._line.push_front(request)
        left = budget - running.batch.size
        chunks: list[tuple[Request, int]] = []
        if running.prefilling:
            for request in running:
                if not request.decoding and left > 0:
                    left = self._add_chunk(chunks, request, left)
        while left > 0 and not preempted and self._admissible():
            left = self._add_chunk(chunks, self._admit(), left)
        context = running.batch.context + sum(request.computed for request, _ in chunks)
        cost = self.shape.cost
        took = cost.of(budget - left, running.batch.size + len(chunks), context)
        took += sum(cost.of_attention(chunk, request.computed) for request, chunk in chunks)
        self._chunks = chunks
        self._step_ends = self.now + took

    def _add_chunk(self, chunks: list[tuple[Request, int]], request: Request, left: int) -> int:
        chunk = min(left, request.prefill - request.computed)
        chunks.append((request, chunk))
        return left - chunk

    def _admit(self) -> Request:
        request = self._line.take_head()
        hits = self._running.admit(request)
        if not request.preempted:
            # vLLM does not count the look-ups of those that come back.
            self.counters.prefix_queries += request.prompt
            self.counters.prefix_hits += hits
        return request

    def _finish_step(self, ends: Seconds) -> None:
        """Let the step under way end: every token it made comes out now."""
        took = ends - self.now
        began, self.now, self._step_ends = self.now, ends, None
        decoded = self._running.batch.size
        if decoded:
            self.counters.itl.observe(took, decoded)
            self.counters.generation_tokens += decoded
        self.counters.busy_seconds += took
        self._running.end_step()
        chunks, self._chunks = self._chunks, []
        for request, chunk in chunks:
            request.computed += chunk
            if request.computed >= request.prefill:
                self._token_after_prefill(request)
        self._settle(last_step_began=began)

    def _token_after_prefill(self, request: Request) -> None:
        counters = self.counters
        counters.generation_tokens += 1
        if request.made == 0:
            request.first_token_at = self.now
            counters.ttft.observe(self.now - request.submitted)
            counters.prompt_tokens += request.prompt
            if self._on_first_token is not None:
                self._on_first_token(request)
        else:
            counters.itl.observe(self.now - request.last_token_at)
        counters.preemptions += request.unreported_preemptions
        request.unreported_preemptions = 0
        request.made += 1
        if request.made >= request.output:
            self._serve(request)
        else:
            self._running.batch.join(request)

    def _settle(self, *, last_step_began: Seconds) -> None:
        """After a step: let finished requests go, then show the gauges as they are now."""
        self._line.collect(last_step_began)
        while (request := self._running.batch.finished()) is not None:
            self._serve(request)
        self._show()

    def _show(self) -> None:
        self.running = len(self._running)
        self.waiting = self._line.queued
        self._shown_free = self._running.free
        if self.in_flight == 0:
            self.busy_since = None

    # --- endings -----------------------------------------------------------------------------

    def _forsake(self, at: Seconds) -> None:
        """Take in what was sent by now, and end the requests whose clients have left by now."""
        self._line.collect(at)
        if self._deadlines.next() > at:
            return
        while (leaver := self._deadlines.take(at)) is not None:
            left_at, request = leaver
            if not self._running.remove(request):
                self._line.leave()
            self._end(request, Ending.GIVEN_UP, left_at)
        if not self._running and self._frozen_at == math.inf:
            self._show()

    def _cut_off(self) -> None:
        """End everything that is left, as the process ends."""
        left = [*self._running, *self._line]
        if not left:
            return
        for request in left:
            self._running.remove(request)
        self._line.clear()
        self._chunks, self._step_ends = [], None
        self.now = max(self.now, self._stops_at)
        for request in left:
            self._end(request, Ending.CUT_OFF, self._stops_at)
        self._show()

    def _serve(self, request: Request) -> None:
        self._running.remove(request)
        request.made = request.output
        self.counters.success += 1
        self.counters.e2e.observe(self.now - request.submitted)
        self._end(request, Ending.SERVED, self.now)

    def _refuse(self, request: Request, at: Seconds) -> bool:
        request.end(Ending.REJECTED, at)
        if self._on_end is not None:
            self._on_end(request)
        return False

    def _end(self, request: Request, ending: Ending, at: Seconds) -> None:
        self.in_flight -= 1
        request.end(ending, at)
        if self._on_end is not None:
            self._on_end(request)
