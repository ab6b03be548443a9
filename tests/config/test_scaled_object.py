"""What a replay reads of a ScaledObject, and that it reads tolerances as the live scaler does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.kubernetes_objects import HpaRules
from scaler.adapters.kubernetes_scaled import _tolerance as live
from scaler.cli.replay import _tolerance as replayed
from scaler.config.scaled_object import read_scaled_object

TEXT = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{name: chat, namespace: prod}}
spec:
  scaleTargetRef: {{name: chat}}
  advanced: {{horizontalPodAutoscalerConfig: {{behavior: {behavior}}}}}
  triggers:
    - type: external-push
      metadata: {{scalerAddress: "vllm-keda-scaler:50051", modelName: llama}}
"""


def tolerances(behavior: str) -> tuple[float, float]:
    """Read both as a replay does."""
    found = read_scaled_object(TEXT.format(behavior=behavior), "chat.yaml")
    return (
        replayed("scaleUp", found.tolerance_out),
        replayed("scaleDown", found.tolerance_in),
    )


@pytest.mark.parametrize(
    ("behavior", "out", "down"),
    [
        ("{}", 0.1, 0.1),
        ("{scaleUp: {tolerance: 50m}}", 0.05, 0.1),
        ("{scaleUp: {tolerance: 0}, scaleDown: {tolerance: 5e-2}}", 0.0, 0.05),
        ("{scaleUp: {tolerance: '0.2'}, scaleDown: {tolerance: 0.001}}", 0.2, 0.001),
        ("{scaleUp: {tolerance: null}, scaleDown: {tolerance: 50000u}}", 0.1, 0.05),
    ],
)
def test_tolerances_are_quantities(behavior: str, out: float, down: float) -> None:
    """Of a thousandth as of a number; 10 % where nothing is written."""
    assert tolerances(behavior) == (out, down)


@given(number=st.integers(0, 999), suffix=st.sampled_from(["", "m", "u", "n", "e-3", "E-6"]))
def test_a_replay_reads_what_the_live_scaler_reads(number: int, suffix: str) -> None:
    """To the last bit: a border of the tolerance depends on it."""
    written = f"{number}{suffix}"
    assert replayed("scaleUp", written) == live(HpaRules(tolerance=written))
