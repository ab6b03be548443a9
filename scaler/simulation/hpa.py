"""The horizontal pod autoscaler of Kubernetes 1.36 in simulated time, for External metrics.

It is held to recorded answers of the real controller. What it leaves out: other kinds of metrics,
a scale target that cannot be read or written, and quantities past 64 bits with an exponent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scaler.core.units import Seconds
from scaler.simulation.hpa_limits import (
    MICROS,
    highest_allowed,
    highest_of_window,
    legacy_highest,
    lowest_allowed,
    remember,
    stabilized,
)
from scaler.simulation.hpa_metrics import Proposal, largest, propose
from scaler.simulation.hpa_types import (
    Behavior,
    Condition,
    HpaInvalid,
    HpaSpec,
    HpaState,
    MetricValue,
    PodCount,
    Reconciled,
    TargetScale,
)

SYNC_PERIOD: Seconds = 15.0
"""How often the controller reconciles each autoscaler."""

_READY = Condition(holds=True, reason="ReadyForNewScale")
_IN_RANGE = "DesiredWithinRange"


class Hpa:
    """One autoscaler: its object, which may be replaced at any time, and the controller's memory.

    A `behavior` block and its absence are different code paths: with a block, even an empty one,
    the API's defaults count, windows act in both directions and rates have a memory; without one,
    only the highest proposal of the last 300 s counts, and one reconcile may at most double.
    """

    def __init__(self, spec: HpaSpec) -> None:
        self.spec = spec
        self.state = HpaState()

    def wants_metrics(self, scale: TargetScale) -> bool:
        """Say whether a reconcile that sees this scale reads the metrics at all."""
        if scale.spec == 0:
            zeroed = self.state.scaled_to_zero
            return self.spec.scale_to_zero and zeroed is not None and zeroed.holds
        return self.spec.min_replicas <= scale.spec <= self.spec.max_replicas

    def reconcile(
        self,
        now: Seconds,
        scale: TargetScale,
        metrics: Sequence[MetricValue | None],
        pods: PodCount,
    ) -> Reconciled:
        """Decide once and remember it.

        Args:
            now: Seconds on any clock that does not go back.
            scale: The scale subresource as read.
            metrics: One value for each of the spec's metrics, `None` when it is not available;
                ignored where `wants_metrics` is false.
            pods: Pods of the scale target; only metrics of type Value look at them.

        Raises:
            HpaInvalid: The number of values differs from the number of metrics.
        """
        micros = round(now * MICROS)
        state = self.state
        state.able = Condition(holds=True, reason="SucceededGetScale")
        if state.proposals is None:
            state.proposals = [(micros, scale.spec)]
        if self.wants_metrics(scale):
            return self._by_metrics(micros, scale, metrics, pods)
        if scale.spec == 0:
            state.active = Condition(holds=False, reason="ScalingDisabled")
            if not self.spec.scale_to_zero:
                state.scaled_to_zero = None
            return self._answer(Reconciled(desired=0, rescaled=False))
        bound = min(max(scale.spec, self.spec.min_replicas), self.spec.max_replicas)
        self._rescale(micros, scale.spec, bound)
        return self._answer(Reconciled(desired=bound, rescaled=True))

    def _by_metrics(
        self,
        micros: int,
        scale: TargetScale,
        metrics: Sequence[MetricValue | None],
        pods: PodCount,
    ) -> Reconciled:
        proposals = self._proposals(scale, metrics, pods)
        proposal = largest(proposals, scale.spec)
        seen = Reconciled(
            desired=scale.spec,
            rescaled=False,
            proposal=proposal,
            current=tuple(None if each is None else each.current for each in proposals),
            failed=sum(each is None for each in proposals),
        )
        if proposal is None:
            self.state.active = Condition(holds=False, reason="FailedGetExternalMetric")
            return self._answer(seen)
        self.state.active = Condition(holds=True, reason="ValidMetricFound")
        wanted = max(0, proposal)
        if self.spec.behavior is None:
            desired = self._without_block(micros, scale.spec, wanted)
        else:
            desired = self._with_block(micros, scale.spec, wanted, self._rules(self.spec.behavior))
        if scale.spec == 0:
            desired = max(desired, self.spec.min_replicas)
        if desired != scale.spec:
            self._rescale(micros, scale.spec, desired)
        return self._answer(replace(seen, desired=desired, rescaled=desired != scale.spec))

    def _proposals(
        self, scale: TargetScale, metrics: Sequence[MetricValue | None], pods: PodCount
    ) -> list[Proposal | None]:
        if len(metrics) != len(self.spec.metrics):
            raise HpaInvalid(
                f"{len(metrics)} values for {len(self.spec.metrics)} metrics: give one for each, "
                "None for one that is not available"
            )
        tolerances = self.spec.tolerances()
        return [
            propose(target, value, scale=scale, pods=pods, tolerances=tolerances)
            for target, value in zip(self.spec.metrics, metrics, strict=True)
        ]

    def _without_block(self, micros: int, spec: int, wanted: int) -> int:
        window = round(self.spec.downscale_stabilization * MICROS)
        stable = highest_of_window(self.state, micros, wanted, window)
        self._note_stability(stable, wanted, "ScaleDownStabilized")
        limit = legacy_highest(spec)
        most, reason = self.spec.max_replicas, "TooManyReplicas"
        if most > limit:
            most, reason = limit, "ScaleUpLimit"
        if stable < self.spec.min_replicas:
            return self._limited(self.spec.min_replicas, stable, "TooFewReplicas")
        return self._limited(min(stable, most), stable, reason)

    def _with_block(self, micros: int, spec: int, wanted: int, rules: Behavior) -> int:
        stable = stabilized(self.state, micros, spec, wanted, rules)
        up = wanted >= spec
        self._note_stability(stable, wanted, "ScaleUpStabilized" if up else "ScaleDownStabilized")
        if stable > spec:
            most, reason = self.spec.max_replicas, "TooManyReplicas"
            limit = highest_allowed(self.state, micros, spec, rules.scale_up)
            if most > limit:
                most, reason = limit, "ScaleUpLimit"
            return self._limited(min(stable, most), stable, reason)
        if stable < spec:
            least, reason = self.spec.min_replicas, "TooFewReplicas"
            limit = lowest_allowed(self.state, micros, spec, rules.scale_down)
            if least < limit:
                least, reason = limit, "ScaleDownLimit"
            return self._limited(max(stable, least), stable, reason)
        return self._limited(stable, stable, _IN_RANGE)

    def _rules(self, behavior: Behavior) -> Behavior:
        """Return the block with its defaults, the controller's own scale-down window included."""
        rules = behavior.defaulted()
        if rules.scale_down.window is not None:
            return rules
        window = int(self.spec.downscale_stabilization)
        return replace(rules, scale_down=replace(rules.scale_down, window=window))

    def _note_stability(self, stable: int, wanted: int, reason: str) -> None:
        changed = stable != wanted
        self.state.able = Condition(holds=True, reason=reason) if changed else _READY

    def _limited(self, desired: int, stable: int, reason: str) -> int:
        held = desired != stable
        self.state.limited = Condition(holds=held, reason=reason if held else _IN_RANGE)
        return desired

    def _rescale(self, micros: int, before: int, after: int) -> None:
        """Record that the scale was written; without a block no rate will ask for it."""
        state = self.state
        state.able = Condition(holds=True, reason="SucceededRescale")
        if self.spec.behavior is not None:
            remember(state, micros, before, after, self._rules(self.spec.behavior))
        if not self.spec.scale_to_zero:
            state.scaled_to_zero = None
        elif after == 0:
            state.scaled_to_zero = Condition(holds=True, reason="ScaledToZero")
        else:
            state.scaled_to_zero = Condition(holds=False, reason="NotScaledToZero")

    def _answer(self, seen: Reconciled) -> Reconciled:
        state = self.state
        return replace(
            seen,
            able=state.able,
            active=state.active,
            limited=state.limited,
            scaled_to_zero=state.scaled_to_zero,
        )
