"""The script of the demo's load: calm, a ramp, a burst of long prompts, calm; and again.

Requests come at nearly even distances, so that a flat rate looks flat: whatever moves in the burst
is due to the lengths of the prompts alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from scaler.core.units import Seconds
from scaler.simulation.requests import Request
from scaler.simulation.trace_shapes import shipped_shape
from scaler.simulation.traces import TraceRow
from scaler.simulation.workloads import LONG_CONTEXT

PATIENCE: Seconds = 60.0
"""A client without a first token goes away after this long."""

_LENGTHS_FROM = "azure-conv"
_CALM_RATE, _RAMP_RATE = 4.0, 9.0
_LONG_SHARE = 1 / 3
_UNEVEN = 0.5
_MINUTE: Seconds = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of the cycle. Rates are requests per second and change evenly from begin to end.

    `long_share` is the share of the prompts that are long (12,000 to 30,000 tokens).
    """

    name: str
    about: str
    lasts: Seconds
    rate: float
    rate_after: float
    long_share: float = 0.0


def _steady(name: str, about: str, minutes: float, *, long_share: float = 0.0) -> Phase:
    return Phase(
        name=name,
        about=about,
        lasts=minutes * _MINUTE,
        rate=_CALM_RATE,
        rate_after=_CALM_RATE,
        long_share=long_share,
    )


def _slope(name: str, about: str, minutes: float, rate: float, rate_after: float) -> Phase:
    lasts = minutes * _MINUTE
    return Phase(name=name, about=about, lasts=lasts, rate=rate, rate_after=rate_after)


BURST = "burst"

SCRIPT: tuple[Phase, ...] = (
    _steady("calm", "conversations at an even rate", 5),
    _slope("ramp up", "more and more of the same requests", 6, _CALM_RATE, _RAMP_RATE),
    _slope("ramp down", "back to the rate from before", 3, _RAMP_RATE, _CALM_RATE),
    _steady(
        BURST,
        "a third of the prompts grow to 12-30k tokens, at an unchanged request rate",
        12,
        long_share=_LONG_SHARE,
    ),
    _steady("calm", "the prompts are as short as before", 17),
)

CYCLE: Seconds = sum(phase.lasts for phase in SCRIPT)


class Load:
    """The script from `started` on, over and over; the same requests for the same seed."""

    def __init__(
        self, *, started: Seconds, script: tuple[Phase, ...] = SCRIPT, seed: int = 0
    ) -> None:
        self.started = started
        self.script = script
        self.cycle: Seconds = sum(phase.lasts for phase in script)
        self._seed = seed

    def phase_at(self, now: Seconds) -> tuple[int, Phase]:
        """Return which phase of the script it is, counted on through all cycles from 0.

        Before `started` that is the first one.
        """
        since = max(0.0, now - self.started)
        cycles, into = divmod(since, self.cycle)
        index = self._index(into)
        return int(cycles) * len(self.script) + index, self.script[index]

    def rate_at(self, now: Seconds) -> float:
        """Return the requests per second that the script asks for."""
        if now < self.started:
            return 0.0
        return self._at((now - self.started) % self.cycle)[1]

    def requests(self) -> Iterator[Request]:
        """Generate the requests in order of time, for ever; nothing is kept."""
        random = Random(f"demo:{self._seed}")  # noqa: S311 - not a secret
        lengths = shipped_shape(_LENGTHS_FROM).draw(self._seed).rows
        since, number = 0.0, 0
        while True:
            phase, rate = self._at(since % self.cycle)
            yield self._request(number, since, phase, random.choice(lengths), random)
            number += 1
            since += (1 + _UNEVEN * (2 * random.random() - 1)) / rate

    def _request(
        self, number: int, since: Seconds, phase: Phase, lengths: TraceRow, random: Random
    ) -> Request:
        # Both draws are always made: the burst changes no other request.
        long, tokens = random.random() < phase.long_share, random.randint(*LONG_CONTEXT)
        return Request(
            number=number,
            arrived=self.started + since,
            prompt=tokens if long else lengths.prompt,
            output=lengths.output,
            patience=PATIENCE,
        )

    def _at(self, into: Seconds) -> tuple[Phase, float]:
        index = self._index(into)
        phase = self.script[index]
        begun = sum(each.lasts for each in self.script[:index])
        part = (into - begun) / phase.lasts
        return phase, phase.rate + (phase.rate_after - phase.rate) * part

    def _index(self, into: Seconds) -> int:
        ends = 0.0
        for index, phase in enumerate(self.script):
            ends += phase.lasts
            if into < ends:
                return index
        return len(self.script) - 1
