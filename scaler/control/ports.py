"""What the loop needs from the world.

Adapters fulfil these; tests use fakes that pass the same contract.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from scaler.core.diagnosis_notice import Notice
from scaler.core.pods import Pod, Situation
from scaler.core.reading import Reading
from scaler.core.units import Seconds
from scaler.core.workload import Scale, Selection


class SourceError(Exception):
    """A source cannot say anything of a selection; the message names source, fault and cure.

    `targets_silent`: the source itself is well, and it is the engines that did not answer it.
    """

    kind = "source-error"
    targets_silent = False


class SourceUnreachable(SourceError):
    """Nobody answered: refused, timed out, no such name, TLS failed, a 5xx."""

    kind = "unreachable"


class SourceDenied(SourceError):
    """The source answered that we may not ask (401, 403, an unknown tenant)."""

    kind = "denied"


class SourceBusy(SourceError):
    """The source asked for patience (429, 503 with Retry-After)."""

    kind = "busy"


class SourceAnswerInvalid(SourceError):
    """The answer is not what the protocol promises: HTML, truncated JSON, a missing label."""

    kind = "invalid-answer"


class SelectionInvalid(SourceError):
    """The source rejects this selection or query itself (400, 422); others are not concerned."""

    kind = "invalid-selection"


class Source(Protocol):
    """Where engines' signals come from."""

    @property
    def name(self) -> str:
        """Return the name that triggers use in `source`."""

    async def run(self) -> None:
        """Do what the source does in the background until cancelled; may return at once."""

    async def read(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, Reading | SourceError]:
        """Say what was seen of each selection at the tick `at`; never raises, never omits one.

        A selection that matches nothing gives a `Reading` without replicas: the source is well,
        there is just nothing there. A source that cannot know gives a `SourceError`.
        """

    async def recall(
        self, selection: Selection, start: Seconds, end: Seconds, step: Seconds
    ) -> Sequence[Reading]:
        """Read history back: readings at the multiples of `step` in [start, end] that are known.

        Equal to what `read` would have given at those instants. A source without memory returns
        nothing. Raises SourceError.
        """


class Gateways(Protocol):
    """Who can say between the ticks what waits at workloads' gateways."""

    async def demands(
        self, selections: Collection[Selection], at: Seconds
    ) -> Mapping[Selection, float | SourceError | None]:
        """Evaluate each selection's activationQuery at `at`; never raises, never omits one.

        `None` where the query has no answer that is a number: nobody knows what waits.
        """


class Cluster(Protocol):
    """Who knows the replica counts, the pods behind them, and what KEDA is told to do."""

    def scale(self, namespace: str, name: str) -> Scale | None:
        """Return the ScaledObject's count and bounds; `None` while it is not known."""

    def pods(self, namespace: str, name: str) -> tuple[Pod, ...] | None:
        """Return the pods of the ScaledObject's scale target, terminating ones included.

        `None` while they are not known (no cluster, no right, a view that is too old); an empty
        tuple is knowledge: there are none.
        """

    def situation(self, namespace: str, name: str) -> Situation | None:
        """Return what KEDA and the HPA are told to do; `None` while it is not known."""

    def is_gone(self, namespace: str, name: str) -> bool:
        """Say whether it is known that there is no such ScaledObject; not knowing is `False`."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Say, a sentence each, what of the cluster cannot be read and what that costs."""

    def on_change(self, notify: Callable[[], None]) -> None:
        """Call `notify` in the event loop's thread whenever a count may have changed."""

    async def run(self) -> None:
        """Keep the view fresh until cancelled."""


class WriteFailed(Exception):
    """The cluster did not take what was to be written; the message names fault and cure."""


class WriteDenied(WriteFailed):
    """We may not write that; the message names the right that is missing."""


class WriteMissing(WriteFailed):
    """What was to be written on has gone."""


class Notices(Protocol):
    """Where findings are told to whoever looks at a ScaledObject."""

    async def tell(self, notice: Notice) -> None:
        """Tell a notice; the same one told again counts as one more. Raises WriteFailed."""


@dataclass(frozen=True, slots=True, order=True)
class MarkedPod:
    """A pod with a deletion cost that a scaler wrote; what somebody else wrote is none of these.

    `stray`: it is known to belong to no ScaledObject that is followed.
    """

    namespace: str
    name: str
    stray: bool


class DeletionCosts(Protocol):
    """Where a pod's deletion cost is written."""

    async def marked(self) -> Collection[MarkedPod]:
        """Go through all pods for those that are marked. Raises WriteFailed."""

    async def write(self, namespace: str, pod: str, cost: int | None) -> None:
        """Write the cost of a pod, or take it away (None). Raises WriteFailed."""


class Clock(Protocol):
    """The wall clock, in seconds since the epoch."""

    def now(self) -> Seconds:
        """Return the time."""

    async def sleep_until(self, instant: Seconds) -> None:
        """Return at or just after the instant; at once when the clock is set back meanwhile.

        Then the instant may lie hours ahead: whoever waits has to look at the time again.
        """
