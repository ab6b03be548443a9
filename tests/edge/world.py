"""A registry and a board without sources, filled by hand, behind a real gRPC server."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from scaler.config.faults import Fault
from scaler.config.trigger import Resolved, Trigger, TriggerUnresolved
from scaler.control.board import Board, Posting
from scaler.control.registry import Entry, Registry
from scaler.core.decision import Decision
from scaler.core.diagnosis_finding import Diagnosis
from scaler.core.policy import Policy
from scaler.core.reasons import Reason
from scaler.core.units import Seconds
from scaler.core.workload import Selection
from scaler.edge.grpc_server import GrpcServer
from scaler.edge.measures import Measures
from scaler.edge.tls import TlsFiles
from scaler.wire.externalscaler_pb2 import ScaledObjectRef
from tests.keda_client import scaled_object

NOON: Seconds = 1_800_000_000.0


class StoppedClock:
    """A wall clock that moves when it is told to."""

    def __init__(self, at: Seconds = NOON) -> None:
        """Stand at `at`."""
        self.at = at

    def now(self) -> Seconds:
        """Return the time."""
        return self.at


def decided(**changes: object) -> Decision:
    """Return a decision to hold four replicas at noon, changed as told."""
    plain = Decision(at=NOON, current=4, desired=4, advised=4, reason=Reason.STEADY, active=False)
    return replace(plain, **changes)  # type: ignore[arg-type]


@dataclass(slots=True, kw_only=True)
class World:
    """Everything around a server."""

    clock: StoppedClock = field(default_factory=StoppedClock)
    board: Board = field(default_factory=Board)
    measures: Measures = field(default_factory=Measures)
    unresolved: dict[str, str] = field(default_factory=dict)
    at_most: int = 20_000
    registry: Registry = field(init=False)

    def __post_init__(self) -> None:
        """Resolve every trigger with the default policy, but those that `unresolved` names."""
        self.registry = Registry(self.resolve, self.clock.now, at_most=self.at_most)

    def resolve(self, trigger: Trigger) -> Resolved:
        """Resolve as the server's configuration would."""
        fault = self.unresolved.get(trigger.key.name)
        if fault is not None:
            where = Fault(key="source", problem=fault, cure="name another one")
            raise TriggerUnresolved(str(trigger.key), [where])
        selection = Selection(source="engines", namespace=trigger.key.namespace, model_name="llama")
        return Resolved(policy=Policy(), selection=selection)

    def server(self, tls: TlsFiles | None = None) -> GrpcServer:
        """Make a server over this world."""
        return GrpcServer(
            registry=self.registry,
            board=self.board,
            now=self.clock.now,
            measures=self.measures,
            tls=tls,
        )

    def entry(self, ref: ScaledObjectRef | None = None) -> Entry:
        """Register a workload, as its first call would."""
        asked = scaled_object() if ref is None else ref
        return self.registry.ask(asked.namespace, asked.name, asked.scalerMetadata)

    def post(
        self,
        decision: Decision,
        ref: ScaledObjectRef | None = None,
        *,
        trouble: str | None = None,
        fault: str | None = None,
        diagnosis: Diagnosis | None = None,
    ) -> Posting:
        """Put a decision on the board."""
        entry = self.entry(ref)
        assert entry.resolved is not None
        posting = Posting(
            key=entry.key,
            policy=entry.resolved.policy,
            selection=entry.resolved.selection,
            decision=decision,
            trouble=trouble,
            fault=fault,
            diagnosis=diagnosis,
        )
        self.board.post(decision.at, {entry.key: posting}, frozenset())
        return posting
