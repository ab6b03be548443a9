"""The scaler's own decision: the code that runs in a cluster, told simulated time."""

from __future__ import annotations

from scaler.core.decision import Decision, decide
from scaler.core.history import History, Judgement, span_needed
from scaler.core.lateness import count_to_decide_on, told
from scaler.core.policy import Policy
from scaler.core.sample import take_sample
from scaler.core.units import Seconds
from scaler.core.workload import Scale
from scaler.simulation.hpa_types import Behavior, PolicyType, Rules
from scaler.simulation.hpa_types import Policy as Rate
from scaler.simulation.keda_types import CallableScaler, MetricSpec, ScaledObject
from scaler.simulation.policies.port import Bounds, Note, View

BEHAVIOR = Behavior(
    scale_up=Rules(
        window=0,
        tolerance=0.0,
        policies=(Rate(type=PolicyType.PODS, value=1000, period=15),),
    ),
    scale_down=Rules(
        window=60,
        tolerance=0.0,
        policies=(Rate(type=PolicyType.PERCENT, value=100, period=15),),
    ),
)
"""The block of every example: no tolerance, no window but a guard against a late read."""


class CorridorPolicy:
    """The core behind KEDA, as the documentation has it: one metric, target 1, AverageValue.

    It learns the start-up time from the start-ups that were observed.
    """

    name = "corridor"

    def __init__(self, bounds: Bounds, policy: Policy | None = None) -> None:
        self.decision: Decision | None = None
        self._bounds = bounds
        self._policy = policy or Policy()
        self._history = History()
        self._judgement = Judgement()
        self._known_since: Seconds | None = None
        self.scaled_object = ScaledObject(
            min_replicas=bounds.min_replicas,
            max_replicas=bounds.max_replicas,
            polling_interval=15.0,
            behavior=BEHAVIOR,
        )
        self.triggers = (
            CallableScaler(
                spec=MetricSpec(name="vllm-desired-replicas"),
                value=lambda _: self._desired(),
                active=lambda _: self.decision.active if self.decision is not None else None,
            ),
        )

    def observe(self, view: View) -> None:
        """Take a sample and decide."""
        if self._known_since is None:
            self._known_since = view.at
        history, judgement = self._history, self._judgement
        if view.reading is not None:
            history.add(take_sample(view.reading))
        history.forget(view.at, span_needed(self._policy, judgement.learned))
        judgement.update(self._policy, history, view.at, view.lead_time)
        scale = Scale(
            current=view.spec,
            min_replicas=self._bounds.min_replicas,
            max_replicas=self._bounds.max_replicas,
            ready=view.ready,
        )
        count = count_to_decide_on(scale, self.decision, history.newest, view.at)
        decision = decide(
            self._policy,
            history.samples,
            judgement.needs,
            scale=count.scale,
            learned=judgement.learned,
            now=view.at,
            known_since=self._known_since,
        )
        self.decision = told(decision, self.decision, count)

    def note(self) -> Note:
        """Return the corridor and the reason."""
        decision = self.decision
        if decision is None:
            return Note()
        return Note(
            answer=decision.desired,
            floor=decision.floor,
            ceiling=decision.ceiling,
            reason=decision.reason.value,
        )

    def _desired(self) -> float | None:
        if self.decision is None or self.decision.desired is None:
            return None
        return float(self.decision.desired)
