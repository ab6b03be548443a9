"""What a decision rested on and came to, a row a moment, in columns of plain numbers."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from scaler.core.decision import Decision
from scaler.core.quantile import Percentile
from scaler.core.reasons import Reason
from scaler.core.sample import Sample
from scaler.core.units import Seconds
from scaler.core.workload import Scale

_DROPPED_TOGETHER = 64
_UNKNOWN = -1
_REASONS = tuple(Reason)
_PLACE_OF_REASON = {reason: place for place, reason in enumerate(_REASONS)}
_COUNTS = (
    *("scrapes", "serving", "stalled", "asleep", "unseen", "loading", "overdue", "queued"),
    "partial",
)
_AMOUNTS = (
    *("waiting", "running", "kv_cache", "first_token_rate", "token_rate", "prompt_token_rate"),
    *("preemption_rate", "rejection_rate", "saturated", "activation"),
)
_TTFT = ("value", "lower", "upper", "observations")
_ANSWER = ("current", "desired", "advised", "floor", "proven_ceiling")
_LARGEST = 32_767


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One moment as it was kept; `scale` as it was read, `current` as it was decided on.

    `floor` is None where nothing could be said, `ceiling` where no calm has proven one, either.
    """

    at: Seconds
    sample: Sample | None
    scale: Scale | None
    lead_time: Seconds | None
    current: int | None
    desired: int | None
    advised: int | None
    floor: int | None
    ceiling: int | None
    need_low: float | None
    need_high: float | None
    reason: Reason


class Columns:
    """Rows, ascending in time. `code` is the array type of amounts: "d" keeps them exactly.

    A row takes about a sixth of what the objects would (`benchmarks/history.py`).
    """

    def __init__(self, code: Literal["d", "f"]) -> None:
        """Start without a row."""
        self.at = array("d")
        self._age: array[float] = array(code)
        self._lead_time = array("f")
        self._amounts: dict[str, array[float]] = {name: array(code) for name in _AMOUNTS}
        self._ttft: dict[str, array[float]] = {name: array(code) for name in _TTFT}
        self._needs: dict[str, array[float]] = {name: array("f") for name in ("low", "high")}
        self._counts: dict[str, array[int]] = {name: array("h") for name in _COUNTS}
        self._answer: dict[str, array[int]] = {name: array("h") for name in _ANSWER}
        self._count = array("h")
        self._ready = array("h")
        self._settling = array("b")
        self._reason = array("B")
        self._bounds = array("H")
        self._known_bounds: list[Scale | None] = []

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.at)

    def add(
        self,
        at: Seconds,
        decision: Decision,
        *,
        sample: Sample | None,
        scale: Scale | None,
        lead_time: Seconds | None,
    ) -> None:
        """Append a row, which must be younger than all before it."""
        self.at.append(at)
        self._age.append(math.nan if sample is None else at - sample.scraped_at)
        seen = sample or _NOTHING
        self._lead_time.append(_amount(lead_time))
        for name, counts in self._counts.items():
            counts.append(min(int(getattr(seen, name)), _LARGEST))
        for name, amounts in self._amounts.items():
            amounts.append(_amount(getattr(seen, name)))
        for name, parts in self._ttft.items():
            parts.append(math.nan if seen.ttft is None else getattr(seen.ttft, name))
        need = decision.need
        self._needs["low"].append(math.nan if need is None else need.low)
        self._needs["high"].append(math.nan if need is None else need.high)
        for name, answers in self._answer.items():
            answers.append(_count(getattr(decision, name)))
        self._count.append(_UNKNOWN if scale is None else _count(scale.current))
        self._ready.append(_UNKNOWN if scale is None else _count(scale.ready))
        self._settling.append(scale is not None and scale.settling)
        self._reason.append(_PLACE_OF_REASON[decision.reason])
        self._bounds.append(self._place(scale))

    def row(self, index: int) -> Row:
        """Return a row."""
        answer = {name: _known(values[index]) for name, values in self._answer.items()}
        return Row(
            at=self.at[index],
            sample=self._sample(index),
            scale=self._scale(index),
            lead_time=_real(self._lead_time[index]),
            current=answer["current"],
            desired=answer["desired"],
            advised=answer["advised"],
            floor=answer["floor"],
            ceiling=answer["proven_ceiling"],
            need_low=_real(self._needs["low"][index]),
            need_high=_real(self._needs["high"][index]),
            reason=_REASONS[self._reason[index]],
        )

    def knows(self, at: Seconds) -> bool:
        """Say whether the newest row is that of `at`, with a sample."""
        return bool(self.at) and self.at[-1] == at and not math.isnan(self._age[-1])

    def first_since(self, since: Seconds) -> int:
        """Return the place of the first row that is not older than `since`."""
        return bisect_left(self.at, since)

    def move_older(self, before: Seconds, into: Columns, step: Seconds) -> None:
        """Move the rows older than `before`, of which those on the `step` grid are kept."""
        count = bisect_left(self.at, before)
        if count < _DROPPED_TOGETHER:
            return
        for index in range(count):
            if self.at[index] % step == 0:
                into.copy(self, index)
        self._drop(count)

    def forget(self, before: Seconds) -> None:
        """Drop the rows older than `before`, many at a time."""
        count = bisect_left(self.at, before)
        if count >= _DROPPED_TOGETHER:
            self._drop(count)

    def forget_from(self, at: Seconds) -> None:
        """Drop the rows from `at` on: they were written while the clock was ahead of the time."""
        first = bisect_left(self.at, at)
        for real in self._reals():
            del real[first:]
        for whole in self._wholes():
            del whole[first:]

    def copy(self, other: Columns, index: int) -> None:
        """Append a row of other columns."""
        for real, their_real in zip(self._reals(), other._reals(), strict=True):
            real.append(their_real[index])
        for whole, their_whole in zip(self._wholes(), other._wholes(), strict=True):
            whole.append(their_whole[index])
        self._bounds[-1] = self._place(other._known_bounds[other._bounds[index]])

    def _drop(self, count: int) -> None:
        for real in self._reals():
            del real[:count]
        for whole in self._wholes():
            del whole[:count]

    def _reals(self) -> Iterator[array[float]]:
        yield from (self.at, self._age, self._lead_time)
        for group in (self._amounts, self._ttft, self._needs):
            yield from group.values()

    def _wholes(self) -> Iterator[array[int]]:
        yield from (self._count, self._ready, self._settling, self._reason, self._bounds)
        for group in (self._counts, self._answer):
            yield from group.values()

    def _place(self, scale: Scale | None) -> int:
        """Return where the bounds and tolerances stand, of which there are few."""
        bounds = None if scale is None else replace(scale, current=0, ready=None, settling=False)
        if bounds not in self._known_bounds:
            self._known_bounds.append(bounds)
        return self._known_bounds.index(bounds)

    def _scale(self, index: int) -> Scale | None:
        bounds = self._known_bounds[self._bounds[index]]
        if bounds is None:
            return None
        current = self._count[index]
        ready, settling = _known(self._ready[index]), bool(self._settling[index])
        return replace(bounds, current=current, ready=ready, settling=settling)

    def _sample(self, index: int) -> Sample | None:
        age = self._age[index]
        if math.isnan(age):
            return None
        amounts = {name: _real(values[index]) for name, values in self._amounts.items()}
        counts = {name: values[index] for name, values in self._counts.items()}
        value, lower, upper, observations = (values[index] for values in self._ttft.values())
        ttft = Percentile(value=value, lower=lower, upper=upper, observations=observations)
        return Sample(
            at=self.at[index],
            scraped_at=self.at[index] - age,
            scrapes=counts["scrapes"],
            serving=counts["serving"],
            stalled=counts["stalled"],
            asleep=counts["asleep"],
            unseen=counts["unseen"],
            loading=counts["loading"],
            overdue=counts["overdue"],
            queued=counts["queued"],
            partial=bool(counts["partial"]),
            waiting=amounts["waiting"] or 0.0,
            running=amounts["running"] or 0.0,
            kv_cache=amounts["kv_cache"],
            ttft=None if math.isnan(value) else ttft,
            first_token_rate=amounts["first_token_rate"],
            token_rate=amounts["token_rate"],
            prompt_token_rate=amounts["prompt_token_rate"],
            preemption_rate=amounts["preemption_rate"],
            rejection_rate=amounts["rejection_rate"],
            saturated=amounts["saturated"],
            activation=amounts["activation"],
        )


_NOTHING = Sample(at=0.0, scraped_at=0.0)


def _amount(value: float | None) -> float:
    return math.nan if value is None else value


def _real(value: float) -> float | None:
    return None if math.isnan(value) else value


def _count(value: int | None) -> int:
    return _UNKNOWN if value is None else min(value, _LARGEST)


def _known(value: int) -> int | None:
    return None if value == _UNKNOWN else value
