"""Whether prompts have grown while requests came no faster: what fills a cache unseen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from scaler.core.diagnosis_facts import Facts
from scaler.core.diagnosis_finding import span
from scaler.core.numbers import number
from scaler.core.sample import Sample
from scaler.core.units import Seconds

_BEFORE: Seconds = 900.0
_BEFORE_LEAST = 20
_LONGER, _MUCH_LONGER, _SAME_RATE = 1.25, 2.0, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Mean prompt length now and before, in tokens; None where it is not known.

    `rate` and `rate_before` are the requests per second that got their first token. A prompt is
    counted when it has been read, so one that waits shows up only then.
    """

    length: float | None = None
    before: float | None = None
    rate: float = 0.0
    rate_before: float = 0.0
    before_span: Seconds = 0.0

    @classmethod
    def of(cls, facts: Facts) -> Self:
        """Compare the newest sample with those older than a quarter of an hour."""
        earlier = cls.earlier(facts)
        length, rate = _length(facts.samples[-1:])
        before, rate_before = _length(earlier) if len(earlier) >= _BEFORE_LEAST else (None, 0.0)
        return cls(
            length=length,
            before=before,
            rate=rate,
            rate_before=rate_before,
            before_span=facts.now - earlier[0].at if earlier else 0.0,
        )

    @staticmethod
    def earlier(facts: Facts) -> Sequence[Sample]:
        """Return the samples that the present is compared with."""
        return facts.since(0.0, facts.now - _BEFORE)

    @property
    def growth(self) -> float | None:
        """Return how many times as long prompts are as before."""
        return self.length / self.before if self.length and self.before else None

    @property
    def same_rate(self) -> bool:
        """Say whether requests come about as often as before."""
        return abs(self.rate - self.rate_before) <= _SAME_RATE * self.rate_before

    @property
    def much_longer(self) -> bool:
        """Say whether prompts at least doubled while requests came no faster."""
        grown = self.growth is not None and self.growth >= _MUCH_LONGER
        return grown and self.rate <= (1 + _SAME_RATE) * self.rate_before

    def sentences(self) -> Iterator[str]:
        """Say what is known of the prompts."""
        if self.length is None:
            yield "prompt lengths are not known"
            return
        told = f"prompts are {number(self.length)} tokens long on average"
        if self.growth is None:
            yield told
        elif self.growth < _LONGER:
            yield f"{told}, about as before"
        else:
            pace = "at an unchanged rate of" if self.same_rate else "at another rate of"
            yield (
                f"{told}, {number(self.growth)} times as long as {span(_BEFORE)} to "
                f"{span(self.before_span)} ago, {pace} {number(self.rate)} requests a second "
                f"({number(self.rate_before)} then)"
            )


def _length(samples: Sequence[Sample]) -> tuple[float | None, float]:
    """Return the mean prompt length over samples and how many requests a second they show."""
    known = [
        (s.prompt_token_rate, s.first_token_rate)
        for s in samples
        if s.prompt_token_rate is not None and s.first_token_rate is not None
    ]
    prompts = sum(tokens for tokens, _ in known)
    requests = sum(rate for _, rate in known)
    if not known or requests <= 0:
        return None, 0.0
    return prompts / requests, requests / len(known)
