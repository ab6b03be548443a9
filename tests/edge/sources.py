"""A source that only fails."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from scaler.control.ports import SourceError
from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.core.workload import Selection


class FaultySource:
    """A source that answers with the errors that it is given."""

    name = "paris"

    def __init__(self, *errors: SourceError) -> None:
        """Answer with these errors, in turn over the selections."""
        self._errors = errors

    async def run(self) -> None:
        """Do nothing."""

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Fail for each selection."""
        del at
        answers: list[Reading | SourceError] = [*self._errors]
        return dict(zip(selections, answers, strict=False))

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Fail."""
        del selection, start, end, step
        raise self._errors[0]
