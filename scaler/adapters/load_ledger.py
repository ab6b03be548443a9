"""Accounts for every request of a load test, by the simulator's own definitions."""

from __future__ import annotations

from collections import Counter

from scaler.adapters.fates import Fate, Seen
from scaler.core.units import Seconds
from scaler.simulation.outcomes import Outcomes, Sketch, Slo
from scaler.simulation.requests import Ending, Request


class Interval:
    """The requests whose instants lie in one stretch of the test, and what became of them."""

    def __init__(self, slo: Slo) -> None:
        self.outcomes = Outcomes(slo)
        self.late = Sketch()
        self.unsent = 0
        self.ended = 0
        """Requests that ended within this stretch, whenever they came."""


class Ledger:
    """Counts. A request that could not be sent has arrived and never ends: it is a miss.

    What comes within `warm_up` seconds of the beginning is in `intervals` (of `every` seconds
    each) and in no other count. `longest` is the model's context in tokens, where it is known.
    """

    def __init__(
        self,
        *,
        slo: Slo,
        warm_up: Seconds = 0.0,
        every: Seconds = 10.0,
        longest: int | None = None,
    ) -> None:
        self.every = every
        self.intervals: list[Interval] = []
        self.outcomes = Outcomes(slo)
        self.warming = 0
        """Requests of the warm-up."""
        self.kinds: Counter[str] = Counter()
        """Ends by their finer kind."""
        self.messages: dict[str, str] = {}
        """The first words of the server for each kind that had some."""
        self.unsent = 0
        self.too_long = 0
        """Requests that are longer than the model's context."""
        self.late = Sketch()
        """How long after their planned instants requests were sent, in seconds."""
        self.most_late: Seconds = 0.0
        self.asked_output = 0
        """Output tokens that the served requests asked for."""
        self.asked_prompt = 0
        """Planned prompt tokens of the requests whose prompts the server counted."""
        self.counted_prompt = 0
        self._slo = slo
        self._warm_up = warm_up
        self._longest = longest
        self._begun: Seconds = 0.0

    def begin(self, at: Seconds) -> None:
        """Say when the traffic begins."""
        self._begun = at

    @property
    def unfinished(self) -> int:
        """Count the requests that were sent and have not ended."""
        return self.outcomes.open - self.unsent

    def arrive(self, request: Request, at: Seconds) -> None:
        """Count a request whose instant has come, `at` which it is sent."""
        late = max(0.0, at - request.arrived)
        interval = self._interval(request.arrived)
        interval.outcomes.arrive()
        interval.late.add(late)
        if self._warms(request):
            self.warming += 1
            return
        self.outcomes.arrive()
        self.late.add(late)
        self.most_late = max(self.most_late, late)
        if self._longest is not None and request.prompt + request.output > self._longest:
            self.too_long += 1

    def end(self, request: Request, seen: Seen, fate: Fate, at: Seconds) -> None:
        """Count a request that ended at a time, of which the client has seen this much."""
        interval = self._interval(request.arrived)
        self._interval(at).ended += 1
        if seen.message:
            self.messages.setdefault(fate.kind, seen.message)
        warms = self._warms(request)
        if not warms:
            self.kinds[fate.kind] += 1
        if fate.ending is None:
            interval.unsent += 1
            self.unsent += not warms
            return
        if not warms:
            self._compare(request, seen, fate.ending)
        request.first_token_at = seen.first_token_at
        if fate.ending is Ending.SERVED:
            request.output = max(1, seen.tokens(request.output))
            # The pace is that of the tokens: what follows the last of them is no part of it.
            at = at if seen.last_token_at is None else seen.last_token_at
        request.end(fate.ending, at)
        interval.outcomes.record(request)
        if not warms:
            self.outcomes.record(request)

    def _compare(self, request: Request, seen: Seen, ending: Ending) -> None:
        """Add up how the lengths that were asked for compare with those that came."""
        if seen.prompt is not None:
            self.asked_prompt += request.prompt
            self.counted_prompt += seen.prompt
        if ending is Ending.SERVED:
            self.asked_output += request.output

    def _warms(self, request: Request) -> bool:
        return request.arrived - self._begun < self._warm_up

    def _interval(self, at: Seconds) -> Interval:
        index = max(0, int((at - self._begun) // self.every))
        while len(self.intervals) <= index:
            self.intervals.append(Interval(self._slo))
        return self.intervals[index]
