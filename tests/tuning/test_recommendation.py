"""A better setting is recommended where it is better by more than chance; otherwise: keep it."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.core.policy import Policy
from scaler.tuning.closed_loop import Judged
from scaler.tuning.recommendation import Candidate, advise, pareto
from scaler.tuning.slo import promise

PROMISES = [promise("ttft<=2s:99%")]


def candidate(headroom: float, hours: Sequence[float], missed: Sequence[float]) -> Candidate:
    """Return a setting that came to these figures, a seed each."""
    trials = tuple(
        Judged(seed=seed, replica_hours=h, missed=(m, m), changes=4, requests=9000)
        for seed, (h, m) in enumerate(zip(hours, missed, strict=True))
    )
    return Candidate(policy=Policy(headroom=headroom), trials=trials)


PRESENT = candidate(0.4, (10.0, 11.0, 12.0), (0.005, 0.006, 0.004))
BROKEN = candidate(0.1, (10.0, 11.0, 12.0), (0.05, 0.06, 0.04))


def test_a_cheaper_one_within_the_promise_is_taken() -> None:
    """Where it is cheaper under every seed."""
    cheaper = candidate(0.2, (8.0, 9.1, 9.9), (0.008, 0.009, 0.007))
    breaking = candidate(0.0, (5.0, 5.0, 5.0), (0.2, 0.2, 0.2))
    found = advise(PRESENT, [breaking, cheaper], PROMISES)
    assert found.candidate is cheaper
    assert not found.keep


def test_what_chance_may_have_done_is_no_reason() -> None:
    """Cheaper in the mean but not for every seed, or by a hair: keep it."""
    lucky = candidate(0.2, (7.0, 11.5, 11.0), (0.005, 0.005, 0.005))
    hair = candidate(0.35, (9.9, 10.9, 11.9), (0.005, 0.005, 0.005))
    for other in (lucky, hair):
        found = advise(PRESENT, [other], PROMISES)
        assert found.keep
        assert found.candidate is PRESENT
        assert found.why.startswith("keep it")
    assert advise(candidate(0.4, (10.0,), (0.0,)), [candidate(0.1, (1.0,), (0.0,))], PROMISES).keep


def test_a_broken_promise_is_mended_at_a_price() -> None:
    """The cheapest that keeps it is taken although the present one costs less."""
    dear = candidate(0.6, (14.0, 15.0, 16.0), (0.0, 0.0, 0.0))
    dearest = candidate(0.7, (19.0, 19.0, 19.0), (0.0, 0.0, 0.0))
    found = advise(BROKEN, [dearest, dear], PROMISES)
    assert found.candidate is dear
    assert "does not keep ttft<=2s:99%" in found.why


def test_a_promise_that_cannot_be_met_is_said() -> None:
    """With the largest fleet beside it, and the one that comes nearest."""
    nearer = candidate(0.6, (14.0, 15.0, 16.0), (0.02, 0.02, 0.02))
    largest = Judged(seed=0, replica_hours=24.0, missed=(0.015, 0.015), changes=0, requests=9000)
    found = advise(BROKEN, [nearer], PROMISES, largest)
    assert found.candidate is nearer
    assert "cannot be met by scaling" in found.why
    assert advise(BROKEN, [], PROMISES, largest).keep
    possible = Judged(seed=0, replica_hours=24.0, missed=(0.0, 0.0), changes=0, requests=9000)
    assert "cannot be met" not in advise(BROKEN, [nearer], PROMISES, possible).why


def test_the_pareto_set_is_what_none_beats() -> None:
    """Cheapest first."""
    one, two, three = (
        candidate(0.1, (hours,), (miss,)) for hours, miss in ((1, 0.5), (2, 0.1), (3, 0.2))
    )
    assert pareto([three, two, one]) == [one, two]
