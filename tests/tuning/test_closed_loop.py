"""A model built from a record tells what the fleet did, and a wrong one is found out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from scaler.core.policy import Policy
from scaler.core.units import TICK
from scaler.tuning.closed_loop import (
    Model,
    calibrate,
    corrected_model,
    judge,
    judge_largest,
    model_of,
    record_of_world,
)
from scaler.tuning.errors import NotEnoughKnown
from scaler.tuning.estimate import Estimate, estimate
from scaler.tuning.prepared import Prepared
from scaler.tuning.record import Record
from scaler.tuning.slo import PromiseInvalid, promise
from tests.core.histories import BUSY, steady
from tests.tuning.fleets import SLOW, small_world
from tests.tuning.records import record_of

WORLDS = {"spike": (0.4, 120.0), "step": (0.5, 600.0)}


@cache
def known(profile: str) -> tuple[Record, Prepared, Estimate]:
    """Record a fleet, and estimate what was behind it."""
    load, start_up = WORLDS[profile]
    record = record_of_world(small_world(profile, load=load, start_up=start_up), Policy())
    prepared = Prepared(record)
    return record, prepared, estimate(prepared, Policy())


@cache
def model(profile: str) -> Model:
    """Model a fleet, its speed set right."""
    _, prepared, found = known(profile)
    return corrected_model(prepared, found)


@pytest.mark.parametrize("profile", WORLDS)
def test_the_traffic_and_the_engine_are_estimated(profile: str) -> None:
    """Arrivals, lengths, start-up, cache and speed are near what they were."""
    load, start_up = WORLDS[profile]
    sent = list(small_world(profile, load=load, start_up=start_up).workload.requests())
    _, _, found = known(profile)
    assert found.requests == pytest.approx(len(sent), rel=0.05)
    assert found.mean("prompt") == pytest.approx(sum(r.prompt for r in sent) / len(sent), rel=0.1)
    assert found.mean("output") == pytest.approx(sum(r.output for r in sent) / len(sent), rel=0.1)
    assert found.lead_time == pytest.approx(start_up, rel=0.2)
    assert found.engine.blocks == pytest.approx(SLOW.blocks, rel=0.15)
    assert model(profile).estimate.engine.cost.base == pytest.approx(SLOW.cost.base, rel=0.25)


def test_a_full_replica_is_seen_where_one_was() -> None:
    """Slots that were never full are told as an assumption."""
    assert known("spike")[2].engine.max_num_seqs == SLOW.max_num_seqs
    assert any("none was seen full" in each for each in known("step")[2].assumed)


@pytest.mark.parametrize("profile", WORLDS)
@pytest.mark.parametrize(("speed", "bad"), [(1.0, False), (0.5, True), (0.7, True), (1.4, True)])
def test_a_wrong_model_is_found_out(profile: str, speed: float, *, bad: bool) -> None:
    """The true speed passes the limits; one off by 30 % or more in either direction does not."""
    right = model(profile)
    engine = right.estimate.engine
    cost = replace(
        engine.cost,
        base=engine.cost.base * speed,
        per_token=engine.cost.per_token * speed,
        per_sequence=engine.cost.per_sequence * speed,
    )
    changed = replace(right.estimate, engine=replace(engine, cost=cost))
    errors = calibrate(known(profile)[0], replace(right, estimate=changed))
    assert {error.signal for error in errors} == {"running", "waiting", "kvCache", "ttft"}
    assert any(error.bad for error in errors) is bad


def test_policies_are_judged_on_the_same_requests() -> None:
    """Each seed draws its requests whatever the policy; the largest fleet misses the fewest."""
    promises = [promise("ttft<=2s:99%"), promise("tpot<=100ms:95%")]
    default = judge(model("spike"), Policy(), promises, seed=3)
    largest = judge_largest(model("spike"), promises, seed=3)
    assert default.requests == largest.requests > 5000
    assert len(default.missed) == 3
    assert max(default.missed[:2]) <= default.missed[2]
    assert largest.missed[0] < default.missed[0]
    assert largest.replica_hours > default.replica_hours
    assert judge(model("spike"), Policy(), promises, seed=3) == default
    assert judge(model("spike"), Policy(), promises, seed=4).requests != default.requests


def test_a_part_is_judged_where_load_rises_most() -> None:
    """An hour of two holds one of the spikes or the step, whole windows of it."""
    record, _, found = known("step")
    part = model_of(record, found, 3600.0)
    assert part.end - part.start == 3600.0
    rates = [each.rate for each in found.traffic if part.start <= each.at < part.end]
    assert max(rates) > 2 * min(rates)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (record_of(steady(BUSY, 20)), "at least 30"),
        (record_of(steady(replace(BUSY, first_token_rate=None), 400)), "first tokens"),
        (record_of(steady(replace(BUSY, token_rate=None), 400)), "how fast"),
        (record_of(steady(replace(BUSY, token_rate=800.0), 400)), "factor of two"),
    ],
)
def test_what_the_history_does_not_show_is_said(record: Record, said: str) -> None:
    """Too short, no rates, or a load that never varied."""
    with pytest.raises(NotEnoughKnown, match=said):
        estimate(Prepared(record), Policy())


def test_a_history_with_gaps_is_refused() -> None:
    """Gaps are bridged up to a fifth."""
    record = known("spike")[0]
    half = len(record.moments) // 2
    gap = tuple(replace(moment, sample=None) for moment in record.moments[half : half + 40])
    few = replace(record, moments=(*record.moments[:half], *gap, *record.moments[half + 40 :]))
    found = estimate(Prepared(few), Policy())
    assert 30 * TICK <= found.unseen <= 60 * TICK
    gone = tuple(replace(moment, sample=None) for moment in record.moments[40:-40])
    most = replace(record, moments=(*record.moments[:40], *gone, *record.moments[-40:]))
    with pytest.raises(NotEnoughKnown, match="nothing was seen in"):
        estimate(Prepared(most), Policy())


@pytest.mark.parametrize("text", ["ttft<=2s:99%", "tpot<=100ms:95%", "ttft<=1m30s:99.5%"])
def test_a_promise_is_written_as_it_is_read(text: str) -> None:
    """Both ways."""
    assert str(promise(text)) == text


@pytest.mark.parametrize(
    "text", ["", "ttft", "ttft<=2s", "itl<=2s:99%", "ttft<=x:9%", "ttft<=2s:0%"]
)
def test_what_is_no_promise_is_refused(text: str) -> None:
    """With what to write instead."""
    with pytest.raises(PromiseInvalid, match="write ttft"):
        promise(text)
