"""Which pods count for a workload, and in what state each of its replicas is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.pods import Pod
from scaler.core.quantile import percentile
from scaler.core.reading import LatencyBuckets, add_latencies
from scaler.core.sample import take_sample
from scaler.core.states import narrow
from tests.core.histories import NOW
from tests.core.placing import loading, pod, reading, reports

USUAL = 100.0


def states(pods: list[Pod], *names: str, silent: frozenset[str] = frozenset()) -> dict[str, int]:
    """Return how many replicas are in which state, those that are none left out."""
    seen = reading(*(reports(name) for name in names), silent=silent)
    sample = take_sample(narrow(seen, pods, USUAL))
    counts = {
        state: getattr(sample, state) for state in ("serving", "unseen", "loading", "overdue")
    }
    return {state: count for state, count in counts.items() if count}


@pytest.mark.parametrize(
    ("placed", "engine", "state"),
    [
        pytest.param(pod("a-0"), "reports", {"serving": 1}, id="reports"),
        pytest.param(loading("a-0", 50), "reports", {"serving": 1}, id="reports, not Ready"),
        pytest.param(pod("a-0"), "never spoke", {"unseen": 1}, id="Ready and silent"),
        pytest.param(loading("a-0", 50), "never spoke", {"loading": 1}, id="never served"),
        pytest.param(loading("a-0", 50), "fell silent", {"unseen": 1}, id="served before"),
        pytest.param(loading("a-0", 300), "never spoke", {"loading": 1}, id="patience's end"),
        pytest.param(loading("a-0", 301), "never spoke", {"overdue": 1}, id="too long"),
        pytest.param(loading("a-0", 301), "fell silent", {"overdue": 1}, id="late, served once"),
        pytest.param(
            loading("a-0", 9000, unready_at=NOW - 50, restarts=1),
            "never spoke",
            {"loading": 1},
            id="loads anew after a crash",
        ),
        pytest.param(
            loading("a-0", 9000, unready_at=NOW - 301, restarts=7),
            "never spoke",
            {"overdue": 1},
            id="crashes again and again",
        ),
        pytest.param(
            loading("a-0", 301, blocked="ImagePullBackOff"),
            "never spoke",
            {"overdue": 1},
            id="has no image",
        ),
        pytest.param(
            loading("a-0", 301, blocked="Unschedulable"),
            "never spoke",
            {"overdue": 1},
            id="has no node",
        ),
        pytest.param(pod("a-0", terminating=True), "reports", {}, id="terminating and busy"),
        pytest.param(pod("a-0", terminating=True), "fell silent", {}, id="terminating and silent"),
    ],
)  # fmt: skip
def test_each_state(placed: Pod, engine: str, state: dict[str, int]) -> None:
    """A replica is in the one state that its pod and its silence tell."""
    names = ["a-0"] if engine == "reports" else []
    silent = frozenset({"a-0"} if engine == "fell silent" else ())
    assert states([placed], *names, silent=silent) == state


def test_only_the_workload_s_own_pods_count() -> None:
    """Another Deployment of the same model, a router and a pod that has gone say nothing here."""
    seen = reading(
        reports("chat-5d8f-aaaaa", 10.0),
        reports("slow-77c9-bbbbb", 90.0),
        reports("router-1-ccccc", 0.0),
        reports("chat-5d8f-ddddd", 20.0),
        silent=frozenset({"slow-77c9-eeeee"}),
        unseen=1,
    )
    own = narrow(seen, [pod("chat-5d8f-aaaaa"), pod("chat-5d8f-ddddd")], USUAL)
    assert [(r.name, r.running) for r in own.replicas] == [
        ("chat-5d8f-aaaaa", 10.0),
        ("chat-5d8f-ddddd", 20.0),
    ]
    assert (own.unseen, own.loading) == (0, 0)
    assert own.latencies.keys() == {"chat-5d8f-"}
    assert own.ttft is not None
    known = percentile(own.ttft)
    assert known is not None
    assert (known.upper, known.observations) == (0.5, 10.0)


def test_two_fleets_of_one_model_share_nothing() -> None:
    """What one workload sees and what the other sees together are the whole reading."""
    seen = reading(reports("a-1-x", 3.0), reports("slow-1-y", 5.0))
    first, second = (narrow(seen, [pod(name)], USUAL) for name in ("a-1-x", "slow-1-y"))
    assert first.ttft is not None
    assert second.ttft is not None
    assert (*first.replicas, *second.replicas) == seen.replicas
    assert add_latencies([first.ttft, second.ttft]) == seen.ttft


@pytest.mark.parametrize("name", ["10.0.0.7:8000", "10.0.0.7"])
def test_a_source_that_knows_addresses_only(name: str) -> None:
    """A pod is known by its address, too, and gets its own name."""
    seen = reading(reports(name), reports("10.0.0.8:8000"))
    own = narrow(seen, [pod("chat-0", ip="10.0.0.7")], USUAL)
    assert [r.name for r in own.replicas] == ["chat-0"]


def test_an_address_of_the_newer_kind() -> None:
    """An IPv6 address stands in brackets."""
    own = narrow(reading(reports("[fd00::7]:8000")), [pod("chat-0", ip="fd00::7")], USUAL)
    assert [r.name for r in own.replicas] == ["chat-0"]


def test_series_without_a_pod_cannot_be_narrowed() -> None:
    """Where the series name no pod, the source's own account stays as it is."""
    seen = reading(reports(""), unseen=2)
    assert narrow(seen, [pod("chat-0")], USUAL) == seen


def test_a_partial_answer_stays_one() -> None:
    """More than half of the replicas are unseen while an unknown number may be missing."""
    seen = reading(reports("a-0"), reports("a-1"), partial=True, unseen=3)
    assert narrow(seen, [pod("a-0"), pod("a-1")], USUAL).unseen == 3


class TestGroups:
    """A replica of several pods."""

    LEADER = pod("lws-0", replica="lws-0")
    WORKER = pod("lws-0-1", replica="lws-0", leader=False)
    PAIR = (LEADER, WORKER)

    def test_a_worker_that_serves_no_api_is_nobody(self) -> None:
        """The leader speaks for its group, which is one replica."""
        assert states([*self.PAIR], "lws-0") == {"serving": 1}

    def test_two_that_report_are_one_replica(self) -> None:
        """Requests and rates add up, the caches' mean is over engines."""
        seen = reading(
            reports("lws-0", 8.0, engines=1, kv_cache=0.9),
            reports("lws-0-1", 4.0, engines=3, kv_cache=0.1, busy_for=60.0),
        )
        (whole,) = narrow(seen, self.PAIR, USUAL).replicas
        assert (whole.name, whole.running, whole.waiting, whole.engines) == ("lws-0", 12.0, 2.0, 4)
        assert whole.kv_cache == pytest.approx(0.3)
        assert (whole.token_rate, whole.busy_for) == (100.0, 60.0)

    @pytest.mark.parametrize(
        ("heard", "silent"),
        [(["lws-0"], ["lws-0-1"]), (["lws-0-1"], ["lws-0"]), (["lws-0-1"], [])],
        ids=["a rank fell silent", "the leader fell silent", "the leader is mute"],
    )
    def test_one_that_is_half_seen_is_unseen(self, heard: list[str], silent: list[str]) -> None:
        """What is left would look less busy than the replica is."""
        assert states([*self.PAIR], *heard, silent=frozenset(silent)) == {"unseen": 1}

    def test_a_group_whose_leader_goes_is_no_replica(self) -> None:
        """Its workers count for nothing until there is a leader again."""
        gone = replace(self.LEADER, terminating=True)
        assert states([gone, self.WORKER], "lws-0") == {}

    def test_a_rate_that_one_pod_lacks_is_not_known(self) -> None:
        """A sum of the others would be too low."""
        seen = reading(reports("lws-0"), reports("lws-0-1", token_rate=None))
        (whole,) = narrow(seen, self.PAIR, USUAL).replicas
        assert whole.token_rate is None


def test_histograms_add_up_where_both_know() -> None:
    """Only at common edges is a sum known; one without an observation takes no edge away."""
    fine = LatencyBuckets(edges=(0.1, 1.0, float("inf")), counts=(1.0, 2.0, 3.0))
    coarse = LatencyBuckets(edges=(1.0, float("inf")), counts=(5.0, 5.0))
    empty = LatencyBuckets(edges=(float("inf"),), counts=(0.0,))
    assert add_latencies([fine, coarse, empty]) == LatencyBuckets(
        edges=(1.0, float("inf")), counts=(7.0, 8.0)
    )
    assert add_latencies([fine, empty]) == fine
    assert add_latencies([]) is None


_PODS = st.lists(
    st.builds(
        lambda index, ready, age, gone: pod(
            f"p-{index}",
            age=age,
            ready=ready,
            ready_at=NOW - age / 2 if ready else None,
            terminating=gone,
        ),
        st.integers(0, 5),
        st.booleans(),
        st.sampled_from([10.0, 200.0, 5000.0]),
        st.booleans(),
    ),
    unique_by=lambda p: p.name,
)


@given(_PODS, st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8)))
def test_every_replica_is_in_one_state(pods: list[Pod], heard: set[int], silent: set[int]) -> None:
    """States add up to the replicas that do not terminate, whatever a source says."""
    seen = reading(
        *(reports(f"p-{index}") for index in sorted(heard)),
        silent=frozenset(f"p-{index}" for index in silent - heard),
        unseen=len(silent - heard),
    )
    own = narrow(seen, pods, USUAL)
    counted = len(own.replicas) + own.unseen + own.loading + own.overdue
    assert counted == sum(not each.terminating for each in pods)
    assert {r.name for r in own.replicas} <= {each.name for each in pods}
