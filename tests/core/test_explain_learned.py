"""Who says how much a quantity is: the trigger, the workload's own history, or nobody yet."""

from __future__ import annotations

import pytest

from scaler.core.explain_learned import Origin, explain_learned
from scaler.core.learned import Learned
from scaler.core.policy import Policy

SEEN = Learned(saturation=30.0, lead_time=180.0, lead_time_observed=True)


@pytest.mark.parametrize(
    ("policy", "learned", "saturation", "lead_time"),
    [
        pytest.param(Policy(), Learned(), None, Origin.DEFAULT, id="nothing is known"),
        pytest.param(Policy(), SEEN, Origin.LEARNED, Origin.LEARNED, id="seen"),
        pytest.param(
            Policy(concurrency_per_replica=30.0, lead_time=180.0),
            SEEN,
            Origin.STATED,
            Origin.STATED,
            id="stated",
        ),
    ],
)
def test_where_a_quantity_comes_from(
    policy: Policy, learned: Learned, saturation: Origin | None, lead_time: Origin
) -> None:
    """Three minutes that were seen differ from three minutes that are assumed."""
    told = explain_learned(policy, learned)
    assert (told.saturation_origin, told.lead_time_origin) == (saturation, lead_time)


def test_the_sentences_name_the_origin() -> None:
    """Whoever reads the explanation knows where to correct a number."""
    told = explain_learned(Policy(concurrency_per_replica=30.0), SEEN)
    assert "30 requests (stated)" in told.sentences[0]
    assert told.sentences[-1] == (
        "A replica takes 180 s from creation to serving (learned from its pods)."
    )
