"""What a cycle came to: did the fleet grow under the burst, and shrink after it?"""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler.core.reasons import Reason
from scaler.core.units import Seconds
from scaler.demo.load import BURST
from scaler.demo.table import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A cycle in a sentence or two; `good` when the fleet grew under the burst and shrank after."""

    good: bool
    sentence: str


@dataclass(slots=True)
class Story:
    """Follows one cycle, line by line.

    Counts of replicas: `first` as the cycle began, `before` the burst, `highest` in it, `lowest`
    after it. `reasons` are those for growing in the burst, in order.
    """

    first: int | None = None
    before: int | None = None
    highest: int = 0
    lowest: int | None = None
    worst_ttft: Seconds | None = None
    reasons: list[Reason] = field(default_factory=list)
    _burst_seen: bool = False

    def note(self, line: Line) -> None:
        """Take the next line in."""
        if self.first is None:
            self.first = line.current
        self._note_ttft(line)
        if line.name == BURST:
            self._burst_seen = True
            self.highest = max(self.highest, line.current)
            self._note_reason(line)
        elif not self._burst_seen:
            self.before = line.current
        elif self.lowest is None or line.current < self.lowest:
            self.lowest = line.current

    def _note_ttft(self, line: Line) -> None:
        sample = line.posting.decision.sample if line.posting is not None else None
        if sample is not None and sample.ttft is not None:
            self.worst_ttft = max(self.worst_ttft or 0.0, sample.ttft.value)

    def _note_reason(self, line: Line) -> None:
        decision = line.posting.decision if line.posting is not None else None
        if decision is None or decision.current is None or decision.desired is None:
            return
        if decision.desired > decision.current and decision.reason not in self.reasons:
            self.reasons.append(decision.reason)

    def verdict(self, *, served: int, arrived: int) -> Verdict:
        """Say how the cycle went, and with how many of its requests served."""
        if self.first is None or self.before is None or self.lowest is None:
            return Verdict(good=False, sentence="The cycle was cut short: there is nothing to say.")
        parts = [self._burst(self.before), self._after(self.lowest), self._served(served, arrived)]
        if self.before > self.first:
            parts.insert(0, f"The ramp took the fleet from {self.first} to {self.before}.")
        good = self.highest > self.before and self.lowest < self.highest
        return Verdict(good=good, sentence=" ".join(parts))

    def _burst(self, before: int) -> str:
        if self.highest <= before:
            return f"The fleet did not grow under the burst: {_count(before)} were there already."
        why = ", ".join(reason.value for reason in self.reasons) or "for a reason that was not seen"
        grown = f"from {before} to {_count(self.highest)}"
        return f"The burst of long prompts took the fleet {grown} ({why})."

    def _after(self, lowest: int) -> str:
        if lowest >= self.highest:
            return f"After it the fleet did not shrink: {_count(lowest)} at the least."
        return f"After it the fleet shrank to {lowest}."

    def _served(self, served: int, arrived: int) -> str:
        worst = "not known" if self.worst_ttft is None else f"{self.worst_ttft:.1f} s"
        return f"{served} of {arrived} requests were served; the worst TTFT p95 was {worst}."


def _count(replicas: int) -> str:
    return f"{replicas} replica{'' if replicas == 1 else 's'}"
