"""A trigger's metadata becomes a trigger, or one error with every fault."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scaler.config.keys import BY_NAME, KEYS, metadata_table
from scaler.config.reference import metadata_page
from scaler.config.settings import TriggerSettings
from scaler.config.trigger import MOST_CHARACTERS, MOST_KEYS, Trigger, TriggerInvalid, parse_trigger
from scaler.core.policy import Mode, Policy, Signal
from scaler.core.workload import Matcher, MatchOp


def _settings(metadata: Mapping[str, str]) -> TriggerSettings:
    return parse_trigger("prod", "chat", metadata).settings


def _refusal(metadata: Mapping[str, str]) -> TriggerInvalid:
    with pytest.raises(TriggerInvalid) as refused:
        parse_trigger("prod", "chat", metadata)
    return refused.value


FULL = {
    "source": ("main", "main"),
    "modelName": ("llama", "llama"),
    "selector": ('app="chat"', (Matcher(label="app", op=MatchOp.EQUAL, value="chat"),)),
    "waitingHigh": ("8", 8.0),
    "waitingLow": ("2", 2.0),
    "ttftP95High": ("2s", 2.0),
    "ttftP95Low": ("500ms", 0.5),
    "kvCacheHigh": ("0.9", 0.9),
    "kvCacheLow": ("0.5", 0.5),
    "signals": ("waiting", frozenset({Signal.WAITING})),
    "scaleOutWindow": ("45", 45.0),
    "scaleInWindow": ("1h30m", 5400.0),
    "drainTime": ("2m", 120.0),
    "concurrencyPerReplica": ("256", 256.0),
    "headroom": ("0.3", 0.3),
    "leadTime": ("3m", 180.0),
    "activationQuery": ("sum(queue)", "sum(queue)"),
    "rejectionQuery": ("name: refused", "name:refused"),
    "holdFor": ("0", 0.0),
    "mode": ("advise", Mode.ADVISE),
    "profile": ("slow", "slow"),
}


def test_every_key_is_read() -> None:
    """The example names every key there is, and each lands in its field."""
    assert FULL.keys() == BY_NAME.keys()
    settings = _settings({key: text for key, (text, _) in FULL.items()})
    assert settings.given == {BY_NAME[key].field: value for key, (_, value) in FULL.items()}


def test_nothing_is_filled_in() -> None:
    """A profile may still give what the trigger does not."""
    assert _settings({"modelName": "llama"}).given == {"model_name": "llama"}
    assert _settings({}).given == {}


@pytest.mark.parametrize("key", [key.name for key in KEYS])
@pytest.mark.parametrize("value", ["", "   "])
def test_an_empty_value_is_a_fault(key: str, value: str) -> None:
    """A template that renders nothing is noticed."""
    (fault,) = _refusal({key: value}).faults
    assert (fault.key, fault.problem) == (key, "is empty")


def test_all_faults_come_together() -> None:
    """One round is enough to repair a trigger."""
    error = _refusal(
        {
            "kvCacheHigh": "85",
            "waitinghigh": "5",
            "scaleOutWindow": "14s",
            "signals": "ttft,kvcache",
            "modelName": "llama",
        }
    )
    assert str(error) == (
        'the trigger of prod/chat is not valid: kvCacheHigh: "85" is a percentage, not a fraction '
        'from 0 to 1 (write 0.85); scaleOutWindow: "14s" is too short: one sample is taken every '
        "15s (write 15s or more); signals: \"ttft,kvcache\" names 'kvcache', which is no signal "
        "(did you mean kvCache?); waitinghigh: is no key of this scaler (did you mean waitingHigh?)"
    )
    assert len(error.faults) == 4


@pytest.mark.parametrize(
    ("key", "cure"),
    [
        ("kvcachehigh", "did you mean kvCacheHigh?"),
        ("ttftHigh", "did you mean ttftP95High?"),
        ("model_name", "did you mean modelName?"),
        ("scale-in-window", "did you mean scaleInWindow?"),
        ("metricType", "beside the trigger's `type`"),
        ("threshold", "waitingHigh"),
        ("activationThreshold", "activationQuery"),
        ("serverAddress", "`source`"),
        ("pollingInterval", "ScaledObject's spec"),
        ("namespace", "ScaledObject's own"),
        ("zzzzzz", "table of metadata keys"),
        ("", "table of metadata keys"),
        ("FromEnv", "table of metadata keys"),
    ],
)
def test_unknown_keys_are_answered_with_what_was_meant(key: str, cure: str) -> None:
    """The nearest key, or where a key of KEDA's belongs."""
    (fault,) = _refusal({key: "canary"}).faults
    assert cure in fault.cure
    assert fault.value is None


def test_kedas_own_keys_are_ignored() -> None:
    """KEDA forwards its own keys, and people put TLS keys beside them."""
    kedas = {"scalerAddress": "x:1", "enableTLS": "true", "unsafeSsl": "false", "caCert": "PEM"}
    assert _settings(kedas).given == {}
    assert parse_trigger("p", "c", kedas).key == parse_trigger("p", "c", {}).key


def test_a_value_from_the_environment_is_read_as_the_key() -> None:
    """KEDA keeps the suffix."""
    assert _settings({"waitingHighFromEnv": "8"}).waiting_high == 8


def test_a_key_given_twice_is_a_fault() -> None:
    """Which one was meant, nobody knows."""
    (fault,) = _refusal({"waitingHigh": "8", "waitingHighFromEnv": "8"}).faults
    assert (fault.key, fault.problem) == ("waitingHighFromEnv", "is given beside waitingHigh")


@pytest.mark.parametrize("key", [f"{key.name}FromEnv" for key in KEYS] + ["passwordFromEnv"])
def test_a_value_from_the_environment_is_never_shown(key: str) -> None:
    """It may be a secret that somebody named by mistake."""
    canary = "Canary\nS3cret /"
    error = _refusal({key: canary, "nonsense": "x"})
    assert "Canary" not in str(error)
    assert all("Canary" not in repr(fault) for fault in error.faults)


@pytest.mark.parametrize(
    ("metadata", "key", "problem"),
    [
        ({"waitingHigh": "1", "waitingLow": "1"}, "waitingLow", "is not below waitingHigh (1)"),
        ({"waitingHigh": "1"}, "waitingHigh", "is not above waitingLow (1, its default)"),
        ({"waitingLow": "5"}, "waitingLow", "is not below waitingHigh (5, its default)"),
        ({"ttftP95High": "800ms"}, "ttftP95High", "is not above ttftP95Low (1s, its default)"),
        ({"kvCacheLow": "0.9"}, "kvCacheLow", "is not below kvCacheHigh (0.85, its default)"),
    ],
)
def test_low_is_below_high(metadata: dict[str, str], key: str, problem: str) -> None:
    """In each pair, and against the default where only one is given."""
    (fault,) = _refusal(metadata).faults
    assert (fault.key, fault.problem) == (key, problem)


def test_with_a_profile_a_missing_half_is_left_to_it() -> None:
    """The profile's Low may lie below what the default's does not."""
    assert _settings({"waitingHigh": "0.5", "profile": "small"}).waiting_high == 0.5
    _refusal({"waitingHigh": "1", "waitingLow": "2", "profile": "small"})


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("scaleOutWindow", "15s", "14.9s"),
        ("scaleInWindow", "24h", "24h1s"),
        ("drainTime", "1s", "999ms"),
        ("leadTime", "2h", "121m"),
        ("holdFor", "0s", "25h"),
        ("headroom", "0", "1"),
        ("concurrencyPerReplica", "1", "0"),
        ("kvCacheHigh", "1", "1.01"),
        ("ttftP95High", "1h", "3601"),
        ("waitingLow", "0", "-0"),
        ("ttftP95Low", "1ms", "0"),
        ("activationQuery", "name:q", "name:"),
        ("activationQuery", "sum(queue)", "sum(queue"),
        ("activationQuery", "sum(queue)", "queue[5m]"),
        ("activationQuery", "sum(queue)", "1"),
        ("rejectionQuery", "rate(refused[2m])", "rate(DCGM_FI_DEV_GPU_UTIL[2m])"),
    ],
)
def test_edges_of_each_key(key: str, good: str, bad: str) -> None:
    """The last value inside, and the first outside."""
    assert BY_NAME[key].field in _settings({key: good}).given
    (fault,) = _refusal({key: bad}).faults
    assert fault.key == key


def test_utilisation_is_refused_with_the_reason() -> None:
    """By key and by query; a label's value is free."""
    error = _refusal({"gpuUtilization": "80", "activationQuery": "avg(DCGM_FI_PROF_SM_ACTIVE)"})
    assert all("a GPU as busy as a hundred" in fault.problem for fault in error.faults)
    assert _settings({"selector": 'app="cpu-chat",gpu_utilization="high"'}).selector


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({f"k{i}": "x" for i in range(MOST_KEYS + 1)}, "65 keys"),
        ({"modelName": "x" * MOST_CHARACTERS}, "characters"),
        ({"x" * MOST_CHARACTERS: "y"}, "characters"),
        ({"activationQuery": "x" * 2001}, "2001 characters"),
        ({"activationQuery": "(" * 900 + "x" + ")" * 900}, "operators"),
        ({"activationQuery": "x" + "+x" * 999}, "operators"),
    ],
)
def test_hostile_sizes_are_refused(metadata: dict[str, str], problem: str) -> None:
    """Shortly, whatever was sent."""
    error = _refusal(metadata)
    assert problem in error.faults[0].problem
    assert len(str(error)) < 1024


def test_a_nameless_object_is_refused() -> None:
    """KEDA always sends both."""
    with pytest.raises(TriggerInvalid, match="no namespace or no name"):
        parse_trigger("", "chat", {"modelName": "x"})


def test_triggers_of_one_object_are_told_apart() -> None:
    """By what they say, not by how it is written."""
    one = parse_trigger("p", "c", {"modelName": "a", "waitingHigh": "5"}).key
    assert one == parse_trigger("p", "c", {"waitingHigh": " 5", "modelNameFromEnv": "a"}).key
    assert one != parse_trigger("p", "c", {"modelName": "b", "waitingHigh": "5"}).key
    assert one != parse_trigger("p", "c", {"modelName": "a"}).key
    assert len(one.trigger) == 8
    assert one.trigger == "1d2a6b1a"  # it must not change: other scalers and restarts know it


_values = st.one_of(
    st.text(max_size=30),
    st.sampled_from([text for text, _ in FULL.values()]),
    st.from_regex(r"[0-9.]{1,5}(ms|s|m|h|%)?", fullmatch=True),
)
_metadata = st.dictionaries(
    st.one_of(
        st.sampled_from([*BY_NAME, "scalerAddress", "waitingHighFromEnv", "metricType"]),
        st.text(max_size=20),
    ),
    _values,
    max_size=12,
)


def _outcome(metadata: dict[str, str]) -> Trigger | TriggerInvalid:
    try:
        return parse_trigger("prod", "chat", metadata)
    except TriggerInvalid as error:
        return error


@given(metadata=_metadata)
@example(metadata={"\ud800": "\ud800"})
@example(metadata={"selector": 'a=~"\\ud800"'})
@example(metadata={"activationQuery": "\x00"})
@example(metadata={"activationQuery": "\U00018d80"})
def test_any_metadata_is_a_trigger_or_an_error(metadata: dict[str, str]) -> None:
    """Never another exception; what is accepted is accepted again, whatever the order."""
    refused: TriggerInvalid | None = None
    try:
        trigger = parse_trigger("prod", "chat", metadata)
    except TriggerInvalid as error:
        refused = error
    if refused is not None:
        assert refused.faults
        assert str(refused).isprintable()
        return
    assert trigger == parse_trigger("prod", "chat", dict(reversed(metadata.items())))


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_defaults_in_the_table_are_the_policys(key: object) -> None:
    """The text of the table is what the core does."""
    by_name = BY_NAME[getattr(key, "name")]  # noqa: B009 - pytest gives an object
    if by_name.default in {"–", "learned", "the only one", "half the lead time"}:
        assert getattr(Policy(), by_name.field, None) is None
    else:
        assert by_name.read(by_name.default) == getattr(Policy(), by_name.field)


def test_the_reference_page_is_up_to_date() -> None:
    """It is written by `python -m scaler.config.reference docs/reference`."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "metadata.md"
    assert page.read_text(encoding="utf-8") == metadata_page()
    assert metadata_table().count("\n") == len(KEYS) + 2
