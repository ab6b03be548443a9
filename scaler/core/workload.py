"""What a workload is and which series belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MatchOp(StrEnum):
    """PromQL's label matching operators; the regular ones are RE2 and anchored."""

    EQUAL = "="
    NOT_EQUAL = "!="
    REGEX = "=~"
    NOT_REGEX = "!~"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Matcher:
    """One PromQL label matcher, e.g. `tier=~"gold|silver"`."""

    label: str
    op: MatchOp
    value: str

    def __str__(self) -> str:
        """Write the matcher as PromQL has it."""
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.label}{self.op}"{escaped}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which series are meant, from which named source. History belongs to this.

    Two triggers, or one trigger before and after an edit of its thresholds, that select the same
    series have equal selections and share one history. `matchers` are sorted and without doubles.
    """

    source: str
    namespace: str
    model_name: str | None = None
    matchers: tuple[Matcher, ...] = ()
    activation_query: str | None = None
    rejection_query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class WorkloadKey:
    """One trigger of one ScaledObject.

    KEDA sends neither a trigger's index nor a uid, so `trigger` is a short digest of the metadata:
    it tells two triggers of one ScaledObject apart.
    """

    namespace: str
    name: str
    trigger: str

    def __str__(self) -> str:
        """Name the workload as users do."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The scale target's count and its bounds, as KEDA's HPA has them.

    `current` is `spec.replicas`. The tolerances are the HPA's own, a fraction of the ratio within
    which it does nothing. `max_replicas` is `None` where nobody told us, `ready` (pods that are
    Ready) where nobody looks at pods. `settling` says that the count is known for so short a time
    that the pods behind it may not be.
    """

    current: int
    min_replicas: int = 1
    max_replicas: int | None = None
    tolerance_out: float = 0.0
    tolerance_in: float = 0.0
    ready: int | None = None
    settling: bool = False

    def within_bounds(self, replicas: float) -> int:
        """Bring a whole or infinite number of replicas between max(1, min) and max."""
        lowest = max(1, self.min_replicas)
        highest = self.max_replicas if self.max_replicas is not None else MAX_REPLICAS
        return int(max(lowest, min(replicas, max(lowest, highest))))


MAX_REPLICAS = 10_000
"""Where no maximum is known: far above any fleet, far below what the HPA's arithmetic can wrap."""
