"""A trigger is filled from its profile and the defaults, or what the server lacks is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.config.resolve import resolve
from scaler.config.sections import PrometheusSource, ScrapeSource
from scaler.config.server import ServerConfig
from scaler.config.settings import TriggerSettings
from scaler.config.trigger import Resolved, TriggerUnresolved, parse_trigger
from scaler.core.policy import Policy
from scaler.core.workload import Matcher, MatchOp, Selection

ENGINES = ScrapeSource.model_validate({"type": "scrape", "targets": "/t"})
MAIN = PrometheusSource.model_validate(
    {"type": "prometheus", "url": "http://p", "queries": {"queue": "gateway_queue"}}
)
ONE = ServerConfig(sources={"main": MAIN})
TWO = ServerConfig(sources={"main": MAIN, "engines": ENGINES})
PROFILES = ServerConfig(
    sources={"main": MAIN},
    profiles={
        "slow": TriggerSettings(waiting_high=9.0, drain_time=60.0),
        "model": TriggerSettings(model_name="llama"),
        "strict": TriggerSettings(waiting_high=0.5, waiting_low=0.2),
        "odd": TriggerSettings(waiting_low=7.0, waiting_high=9.0),
    },
)


def _resolve(server: ServerConfig, **metadata: str) -> Resolved:
    return resolve(parse_trigger("prod", "chat", metadata), server)


def test_the_defaults_are_the_cores() -> None:
    """With the only source there is."""
    resolved = _resolve(ONE, modelName="llama", selector='app="chat"')
    assert resolved.policy == Policy()
    assert resolved.selection == Selection(
        source="main",
        namespace="prod",
        model_name="llama",
        matchers=(Matcher(label="app", op=MatchOp.EQUAL, value="chat"),),
    )


def test_the_trigger_wins_over_its_profile() -> None:
    """Key by key."""
    policy = _resolve(PROFILES, modelName="x", profile="slow", waitingHigh="7").policy
    assert policy == Policy(waiting_high=7.0, drain_time=60.0)


def test_a_profile_may_say_which_series_are_meant() -> None:
    """It holds any key."""
    assert _resolve(PROFILES, profile="model").selection.model_name == "llama"


def test_thresholds_do_not_touch_the_selection() -> None:
    """An edited threshold starts no history anew."""
    one = _resolve(ONE, modelName="x", waitingHigh="7").selection
    assert one == _resolve(ONE, modelName="x", signals="ttft").selection


@pytest.mark.parametrize(
    ("server", "metadata", "said"),
    [
        (TWO, {"modelName": "x"}, "source: is not given, and the server has several"),
        (ServerConfig(), {"modelName": "x"}, "source: cannot be found: the server has none"),
        (TWO, {"modelName": "x", "source": "mian"}, "did you mean main?"),
        (ONE, {}, "modelName: is not given, nor is selector"),
        (PROFILES, {"modelName": "x", "profile": "slwo"}, "did you mean slow?"),
        (ONE, {"modelName": "x", "profile": "slow"}, "none is configured"),
        (
            PROFILES,
            {"modelName": "x", "profile": "odd", "waitingHigh": "6"},
            'waitingLow: "7" is not below waitingHigh (6)',
        ),
        (
            PROFILES,
            {"modelName": "x", "profile": "slow", "waitingLow": "9"},
            'waitingLow: "9" is not below waitingHigh (9)',
        ),
        (
            TWO,
            {"modelName": "x", "source": "engines", "activationQuery": "sum(queue)"},
            "the source engines reads engines and answers no queries",
        ),
        (
            ONE,
            {"modelName": "x", "rejectionQuery": "name:qeue"},
            "is no query of the source main (did you mean queue?)",
        ),
    ],
)
def test_what_the_server_lacks(server: ServerConfig, metadata: dict[str, str], said: str) -> None:
    """The trigger is well-formed: another configuration may serve it."""
    with pytest.raises(TriggerUnresolved) as refused:
        _resolve(server, **metadata)
    assert said in str(refused.value)
    assert str(refused.value).startswith("the trigger of prod/chat cannot be served: ")


def test_all_that_lacks_comes_together() -> None:
    """One round is enough."""
    with pytest.raises(TriggerUnresolved) as refused:
        _resolve(TWO, profile="p", source="s")
    assert [fault.key for fault in refused.value.faults] == ["profile", "source", "modelName"]


def test_named_queries_and_halves_of_profiles() -> None:
    """What is there is served."""
    resolved = _resolve(ONE, modelName="x", activationQuery="name:queue")
    assert resolved.selection.activation_query == "name:queue"
    assert _resolve(PROFILES, modelName="x", profile="strict").policy.waiting_low == 0.2
    strict = _resolve(PROFILES, modelName="x", profile="strict", waitingHigh="0.4").policy
    assert strict.waiting_high == 0.4


@given(
    profile=st.sampled_from([*PROFILES.profiles, "none"]),
    high=st.sampled_from(["0.3", "1", "6", "10"]),
    source=st.sampled_from(["main", "engines"]),
)
def test_a_resolved_policy_has_low_below_high(profile: str, high: str, source: str) -> None:
    """However profile, trigger and defaults meet."""
    try:
        policy = _resolve(
            PROFILES, modelName="x", profile=profile, waitingHigh=high, source=source
        ).policy
    except TriggerUnresolved:
        return
    assert policy.waiting_low < policy.waiting_high
