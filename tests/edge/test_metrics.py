"""The scaler's own metrics: names, values, and the absence of what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scaler.control.follower import Follower
from scaler.control.ports import SourceBusy, SourceDenied, SourceError
from scaler.control.source_work import Requests, SourceWork, Targets, outcomes
from scaler.core.diagnosis import diagnose
from scaler.core.diagnosis_finding import Kind
from scaler.core.learned import Learned
from scaler.core.reasons import Reason
from scaler.core.workload import Selection
from scaler.edge.families import COUNTED, READ
from scaler.edge.gauges import WORKLOAD_GAUGES
from scaler.edge.measured import MeasuredSource
from scaler.edge.metrics import exposition, register
from scaler.edge.reference import pages
from tests.core.illness import ended, facts, pods
from tests.edge.history import decision_on
from tests.edge.sources import FaultySource
from tests.edge.world import NOON, World, decided
from tests.keda_client import scaled_object

ROOT = Path(__file__).resolve().parents[2]


def scraped(world: World, *followers: Follower) -> dict[tuple[str, frozenset[str]], float]:
    """Scrape a world: values by name and label values, as a Prometheus reads them."""
    registry = register(
        world.measures,
        registry=world.registry,
        board=world.board,
        followers=followers,
        now=world.clock.now,
    )
    text = exposition(registry).decode()
    return {
        (s.name, frozenset(s.labels.values())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def workload(world: World, values: Mapping[tuple[str, frozenset[str]], float]) -> dict[str, float]:
    """Keep the values of the one workload, by name."""
    key = world.entry().key
    labels = frozenset({key.namespace, key.name, key.trigger})
    prefix = "vllm_scaler_"
    return {name.removeprefix(prefix): v for (name, found), v in values.items() if found == labels}


def test_the_board_is_published() -> None:
    """Signals, thresholds, corridor, counts and ages stand side by side for a graph."""
    world = World()
    world.post(decision_on())
    world.clock.at = NOON + 7
    found = workload(world, scraped(world))
    expected = {
        "current_replicas": 4,
        "desired_replicas": 4,
        "floor_replicas": 3,
        "ceiling_replicas": 4,
        "serving_replicas": 4,
        "unseen_replicas": 0,
        "stalled_replicas": 0,
        "loading_replicas": 0,
        "overdue_replicas": 0,
        "scale_out_window_seconds": 45,
        "scale_in_window_seconds": 360,
        "waiting_per_replica": 0.5,
        "waiting_per_replica_high": 5,
        "waiting_per_replica_low": 1,
        "ttft_p95_seconds": 0.7,
        "ttft_p95_high_seconds": 2.5,
        "kv_cache_ratio": 0.5,
        "kv_cache_low_ratio": 0.6,
        "scale_in_coverage_ratio": 1,
        "sample_age_seconds": 10,
        "decision_age_seconds": 7,
        "saturation_requests": 100,
        "source_trouble": 0,
        "active": 1,
    }
    assert {name: found[name] for name in expected} == expected


def test_what_is_not_known_is_absent() -> None:
    """Nothing unknown, unlimited or unproven is published, least of all as 0."""
    world = World()
    unknown = decision_on(
        ticks=2, learned=Learned(), kv_cache=None, ttft=None, first_token_rate=None
    )
    world.post(unknown)
    found = workload(world, scraped(world))
    absent = {
        "floor_replicas",
        "ceiling_replicas",
        "need_high_replicas",
        "ttft_p95_seconds",
        "kv_cache_ratio",
        "first_tokens_per_second",
        "rejections_per_second",
        "activation_demand",
        "saturation_requests",
        "carried_requests",
    }
    assert not absent & found.keys()
    assert found["current_replicas"] == 4


@pytest.mark.parametrize(
    ("current", "advised", "difference"), [(4, 7, 3), (9, 7, -2), (4, 4, 0), (None, 4, None)]
)
def test_advice_is_published_as_a_difference(
    current: int | None, advised: int, difference: int | None
) -> None:
    """What the scaler would have asked for, less what somebody else asked for; else absent."""
    world = World()
    world.post(decided(current=current, desired=current, advised=advised))
    found = workload(world, scraped(world))
    assert found.get("advised_difference_replicas") == difference


def test_a_silent_source_leaves_only_the_count() -> None:
    """Without a sample there is no signal, no age of one and no time of calm."""
    world = World()
    silent = decided(desired=None, active=None, reason=Reason.SILENT_TOO_LONG)
    world.post(silent, trouble="refused")
    found = workload(world, scraped(world))
    policy = {name for name in found if name.endswith(("_high", "_low", "_seconds", "_ratio"))}
    told = {"current_replicas", "advised_replicas", "source_trouble", "query_trouble"}
    told |= {"configuration_fault", "advised_difference_replicas"}
    assert found.keys() - policy == told
    assert found["source_trouble"] == 1
    assert not {"sample_age_seconds", "calm_seconds", "overload_seconds"} & found.keys()


def test_the_reason_is_a_label() -> None:
    """A board can show the reason of each workload, also where nothing is decided yet."""
    world = World(unresolved={"lost": "no source"})
    world.post(decided(reason=Reason.AT_MAX))
    keys = [world.entry(scaled_object(name=name)).key for name in ("chat", "lost", "new")]
    found = scraped(world)
    for key, reason in zip(keys, ["at-max", "unresolved", "not-yet-sampled"], strict=True):
        labels = frozenset({key.namespace, key.name, key.trigger, reason})
        assert found[("vllm_scaler_reason", labels)] == 1
    assert found[("vllm_scaler_workloads", frozenset())] == 3
    assert found[("vllm_scaler_unresolved_workloads", frozenset())] == 1


def test_each_kind_of_finding_is_a_gauge() -> None:
    """1 where it is found, 0 where it is not, absent where nobody could look."""
    world = World()
    known = facts(pods=pods(last_exit=ended(137, "OOMKilled")), situation=None)
    key = world.post(known.decision, diagnosis=diagnose(known)).key
    values = scraped(world)

    def value(kind: Kind) -> float | None:
        labels = frozenset({key.namespace, key.name, key.trigger, kind.value})
        return values.get(("vllm_scaler_finding", labels))

    assert value(Kind.HOST_OOM_KILL) == 1
    assert value(Kind.DEVICE_OOM) == 0
    assert value(Kind.PAUSED) is None


@pytest.mark.parametrize(
    ("errors", "outcome"),
    [
        ((), "ok"),
        ((SourceDenied("no"),), "denied"),
        ((SourceDenied("no"), SourceBusy("later")), "mixed"),
    ],
)
async def test_a_source_is_timed_by_outcome(errors: tuple[SourceError, ...], outcome: str) -> None:
    """What went wrong with a source can be counted and alerted on."""
    world = World()
    source = MeasuredSource(FaultySource(*errors), world.measures)
    selections = [Selection(source="paris", namespace=n) for n in ("a", "b")]
    await source.read(selections, NOON)
    found = scraped(world)
    labels = frozenset({"paris", "read", outcome})
    assert found[("vllm_scaler_source_duration_seconds_count", labels)] == 1


async def test_a_failed_recall_is_counted_and_passed_on() -> None:
    """Measuring changes nothing of what the loop gets to see."""
    world = World()
    source = MeasuredSource(FaultySource(SourceDenied("no")), world.measures)
    with pytest.raises(SourceDenied):
        await source.recall(Selection(source="paris", namespace="a"), 0.0, 1.0, 1.0)
    labels = frozenset({"paris", "recall", "denied"})
    assert scraped(world)[("vllm_scaler_source_duration_seconds_count", labels)] == 1
    assert source.name == "paris"


def test_the_requests_of_each_source_are_published() -> None:
    """By source, kind and outcome; a source without targets has no number of them, not even 0."""
    world = World()
    queries = Requests(ended=outcomes({"ok": 9, "busy": 2}), seconds=1.5, retried=3, partial=1)
    scrapes = Requests(ended=outcomes({"ok": 40}), seconds=0.5)
    lists = {"targets": True, "secrets": False}
    pages = SourceWork(
        requests={"scrape": scrapes},
        received=4_000,
        targets=Targets(known=5, failing=1),
        faults=lists,
    )
    world.measures.works["paris"] = lambda: SourceWork(requests={"rates": queries}, received=700)
    world.measures.works["rome"] = lambda: pages
    values = scraped(world)
    found = {
        (name.removeprefix("vllm_scaler_source_"), *sorted(labels)): value
        for (name, labels), value in values.items()
        if name.startswith("vllm_scaler_source_") and value
    }
    assert found == {
        ("requests_total", "ok", "paris", "rates"): 9,
        ("requests_total", "busy", "paris", "rates"): 2,
        ("requests_total", "ok", "rome", "scrape"): 40,
        ("request_retries_total", "paris", "rates"): 3,
        ("partial_answers_total", "paris", "rates"): 1,
        ("request_seconds_total", "paris", "rates"): 1.5,
        ("request_seconds_total", "rome", "scrape"): 0.5,
        ("received_bytes_total", "paris"): 700,
        ("received_bytes_total", "rome"): 4_000,
        ("targets", "rome"): 5,
        ("failing_targets", "rome"): 1,
        ("fault", "rome", "targets"): 1,
    }
    never = frozenset({"rome", "scrape", "denied"})
    assert values[("vllm_scaler_source_requests_total", never)] == 0
    assert ("vllm_scaler_source_targets", frozenset({"paris"})) not in values


async def test_a_follower_s_ticks_and_decisions_are_counted() -> None:
    """Ticks, failures and decisions by reason come from the follower itself."""
    world = World()
    world.entry()
    follower = Follower(FaultySource(), world.registry, world.board, None)
    await follower.tick(NOON)
    follower.stats.decisions[("prod", "chat", Reason.STEADY)] += 2
    follower.stats.decisions[("prod", "forgotten", Reason.STEADY)] += 1
    found = scraped(world, follower)
    assert found[("vllm_scaler_source_ticks_total", frozenset({"paris"}))] == 1
    steady = ("vllm_scaler_decisions_total", frozenset({"prod", "chat", "steady"}))
    assert found[steady] == 2
    assert not [labels for _, labels in found if "forgotten" in labels]
    assert ("vllm_scaler_source_age_seconds", frozenset({"paris"})) not in found


def test_every_published_name_is_documented_and_no_other() -> None:
    """The tables that the reference page is made from and the exposition agree."""
    world = World()
    registry = register(
        world.measures,
        registry=world.registry,
        board=world.board,
        followers=(),
        now=world.clock.now,
    )
    found = {m.name for m in registry.collect() if m.name.startswith("vllm_scaler_")}
    families = [*READ, *COUNTED, *(gauge.family for gauge in WORKLOAD_GAUGES)]
    assert found == {family.name for family in families}
    assert len(families) == len({family.name for family in families})


@pytest.mark.parametrize("name", pages())
def test_reference_pages_are_those_that_the_code_gives(name: str) -> None:
    """A page that was not written anew after a change is found out."""
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert written == pages()[name], "run python -m scaler.edge.reference docs/reference"
