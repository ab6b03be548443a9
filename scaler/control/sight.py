"""What one ScaledObject sees of a selection."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.core.workload import Selection, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A selection as one ScaledObject sees it: its own pods only. History belongs to this.

    Two triggers of one ScaledObject that select the same series share one; two ScaledObjects never
    do, for the same selection may mean other pods to each.
    """

    selection: Selection
    name: str

    @property
    def place(self) -> tuple[str, str]:
        """Return namespace and name of the ScaledObject."""
        return self.selection.namespace, self.name

    @property
    def names_series(self) -> bool:
        """Say whether the selection alone tells which series are meant."""
        return self.selection.model_name is not None or bool(self.selection.matchers)


def sight_of(key: WorkloadKey, selection: Selection) -> Sight:
    """Return what a workload sees."""
    return Sight(selection=selection, name=key.name)
