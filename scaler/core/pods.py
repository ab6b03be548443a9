"""The pods of a scale target, and what KEDA and the HPA make of it: a cluster's facts, no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.core.units import Seconds

_KILLED = 137
"""The exit code of what was sent SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a container last ended: `status.containerStatuses[].lastState.terminated`.

    `reason` is Kubernetes' word (`OOMKilled`, `Error`, `Completed`), `code` the exit code, `at`
    when it ended (epoch seconds). `message` is what the container left behind: the end of its log
    where its `terminationMessagePolicy` is FallbackToLogsOnError, mostly empty otherwise.
    """

    container: str
    reason: str
    code: int | None = None
    at: Seconds | None = None
    message: str = ""

    @property
    def by_host(self) -> bool:
        """Say whether the host killed it: for want of host memory, as far as anybody knows."""
        return self.reason == "OOMKilled" or self.code == _KILLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of a scale target that has not ended.

    `replica` names what the scale target counts: the pod itself, or the group that it belongs to
    (a LeaderWorkerSet's group); of a group only the leader serves the API. `revision` is the
    pod template's (`pod-template-hash`, `controller-revision-hash`). `ready_at` is since when it
    has been Ready, `unready_at` since when it has not, as far as its node has said so, `created_at`
    its creation (epoch seconds); `restarts` counts all containers'.
    `blocked` is what keeps it from running, in Kubernetes' word (`Unschedulable`,
    `ImagePullBackOff`, `CrashLoopBackOff`). `ports` are the containers' named ports.
    `deletion_cost` is the annotation `controller.kubernetes.io/pod-deletion-cost`, None where
    there is none.
    """

    name: str
    replica: str
    created_at: Seconds
    ready: bool = False
    ready_at: Seconds | None = None
    unready_at: Seconds | None = None
    terminating: bool = False
    leader: bool = True
    revision: str | None = None
    restarts: int = 0
    last_exit: Exit | None = None
    blocked: str | None = None
    ip: str | None = None
    deletion_cost: int | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of the HPA or the ScaledObject: `status` is True, False or Unknown (None)."""

    status: bool | None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What KEDA and the HPA are told to do with a scale target; None where it is not known.

    `target_kind` and `target_name` are of the scale target. `min_replicas` is KEDA's
    `minReplicaCount`, so it can be 0. `paused` is any pause annotation, `paused_replicas` the
    count it asks for; `in_paused` and `out_paused` say which way the fleet cannot move for it.
    `metric_type` is that of our metric in the HPA (`AverageValue`, `Value`).
    `other_triggers` are the types of the ScaledObject's other triggers, `other_owners` what else
    was seen to write the count. `scale_down_window` is the HPA's `stabilizationWindowSeconds`.
    """

    target_kind: str
    target_name: str
    min_replicas: int = 0
    idle_replicas: int | None = None
    paused: bool = False
    paused_replicas: int | None = None
    in_paused: bool = False
    out_paused: bool = False
    fallback_replicas: int | None = None
    metric_type: str | None = None
    other_triggers: tuple[str, ...] = ()
    other_owners: tuple[str, ...] = ()
    scale_down_window: Seconds | None = None
    hpa_name: str | None = None
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    uid: str | None = None
