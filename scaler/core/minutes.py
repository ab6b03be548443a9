"""A workload's day, one row a minute: what is learned from after the windows have gone by."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping

from scaler.core.quantile import ENOUGH_OBSERVATIONS
from scaler.core.sample import Sample
from scaler.core.units import Seconds

MINUTE: Seconds = 60.0
"""What lies further back than `RECENT` is remembered at this step, aligned to the epoch."""

RECENT: Seconds = 1800.0
"""Samples as young as this are learned from one by one."""

REMEMBERED: Seconds = 86_400.0
"""How far back anything is learned from."""


class Minutes:
    """A day of a workload, one row a minute, in columns: 72 bytes a row, not a sample's 600."""

    __slots__ = (
        *("at", "prompts", "running", "saturated", "serving", "tokens", "ttft", "ttft_lower"),
        "waiting",
    )

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self.at = array("d")
        self.serving = array("d")
        self.running = array("d")
        self.tokens = array("d")
        self.prompts = array("d")
        self.waiting = array("d")
        self.saturated = array("d")
        self.ttft = array("d")
        self.ttft_lower = array("d")

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.at)

    def keep(self, sample: Sample) -> None:
        """Remember a sample that lies on the minute grid and is younger than all before it.

        A fleet that is only half seen teaches nothing: its row says that nobody served.
        """
        if sample.at % MINUTE or (self.at and sample.at <= self.at[-1]):
            return
        seen = sample.unseen == 0
        few = sample.ttft is None or sample.ttft.observations < ENOUGH_OBSERVATIONS
        enough = None if few else sample.ttft
        self.at.append(sample.at)
        self.serving.append(sample.serving if seen else 0)
        self.running.append(sample.running)
        self.tokens.append(math.nan if sample.token_rate is None else sample.token_rate)
        prompts = sample.prompt_token_rate
        self.prompts.append(math.nan if prompts is None else prompts)
        self.waiting.append(sample.waiting)
        self.saturated.append(math.nan if sample.saturated is None else sample.saturated)
        self.ttft.append(math.nan if enough is None else enough.value)
        self.ttft_lower.append(math.nan if enough is None else enough.lower)

    def merge(self, known: Minutes, samples: Mapping[Seconds, Sample]) -> None:
        """Fill an empty memory from rows that are known and samples by time; known rows win."""
        places = {at: index for index, at in enumerate(known.at)}
        for at in sorted({*places, *(at for at in samples if at % MINUTE == 0)}):
            if at in places:
                for name in self.__slots__:
                    getattr(self, name).append(getattr(known, name)[places[at]])
            else:
                self.keep(samples[at])

    def forget_after(self, newest: Seconds) -> None:
        """Drop the rows younger than `newest`."""
        first = bisect_right(self.at, newest)
        if first < len(self.at):
            for name in self.__slots__:
                del getattr(self, name)[first:]

    def forget(self, before: Seconds) -> None:
        """Drop the rows older than `before`."""
        count = bisect_left(self.at, before)
        if count:
            for name in self.__slots__:
                del getattr(self, name)[:count]
