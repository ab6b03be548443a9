"""Hostile input at each door: a plain refusal or a sane value, whatever comes. `make fuzz` goes on.

FUZZ is the number of examples for each door; without it, as many as everywhere.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scaler.adapters.kubernetes_errors import ClusterAnswerInvalid
from scaler.adapters.kubernetes_pods import placed_pod
from scaler.adapters.kubernetes_scaled import hpa_view, scaled_object_view
from scaler.adapters.kubernetes_targets import target_head
from scaler.adapters.prometheus_answer import NotAnAnswer, parse_answer, stated_error, stated_kind
from scaler.config.faults import ConfigInvalid
from scaler.config.keys import BY_NAME
from scaler.config.manifest import check_manifests
from scaler.config.server import load_config
from scaler.config.trigger import TriggerInvalid, parse_trigger
from tests.kubernetes_server.objects import deployment, hpa, pod, scaled_object

_EXAMPLES = int(os.environ.get("FUZZ", "0"))
_SETTINGS = settings(
    max_examples=_EXAMPLES or settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
pytestmark = pytest.mark.timeout(0 if _EXAMPLES else 120)

_ODD = st.sampled_from(
    [
        "",
        "0",
        "-1",
        "1e999",
        "nan",
        "inf",
        "²",
        "\x00",
        "85",
        "5s",
        "1h",
        "name:x",
        "a=~'('",
        "\ud800",
    ]
)
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), _ODD
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def _damaged(draw: st.DrawFn, whole: object) -> object:
    """Put something odd into one place of a good object, or take it away."""
    if isinstance(whole, dict) and whole and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(whole)))
        if not draw(st.integers(0, 5)):
            return {k: v for k, v in whole.items() if k != key}
        return {**whole, key: draw(_damaged(whole[key]))}
    if isinstance(whole, list) and whole and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(whole) - 1))
        return [*whole[:at], draw(_damaged(whole[at])), *whole[at + 1 :]]
    return draw(_VALUES)


@_SETTINGS
@given(
    metadata=st.dictionaries(
        st.one_of(st.sampled_from(sorted(BY_NAME)), st.text(max_size=12)),
        st.one_of(_ODD, st.text(max_size=40)),
        max_size=8,
    ),
    namespace=st.text(max_size=12),
)
@example(metadata={"selector": 'a=~"' + "(" * 2000 + '"'}, namespace="a")
@example(metadata={"activationQuery": "-" * 2000 + "x"}, namespace="a")
def test_metadata(metadata: dict[str, str], namespace: str) -> None:
    """A trigger, or one error of one line; thresholds that come through are numbers, in order."""
    try:
        given_ = parse_trigger(namespace, "chat", metadata).settings.given
    except TriggerInvalid as error:
        refused = str(error)
    else:
        refused = ""
    assert refused.isprintable()
    if refused:
        return
    numbers = [v for v in given_.values() if isinstance(v, float | int)]
    assert all(math.isfinite(number) and number >= 0 for number in numbers)


_ROW = {"metric": {"__name__": "x", "pod": "p"}, "value": [1.5, "2"]}
_ANSWER = {"status": "success", "data": {"resultType": "vector", "result": [_ROW, _ROW]}}
_MATRIX = {
    "status": "success",
    "warnings": ["w"],
    "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "2"], [2, "3"]]}]},
}


@_SETTINGS
@given(
    body=st.one_of(
        st.binary(max_size=60),
        _damaged(_ANSWER).map(json.dumps).map(str.encode),
        _damaged(_MATRIX).map(json.dumps).map(str.encode),
    )
)
@example(body=b"[" * 100_000)
@example(body=b'{"status":"success","data":{"resultType":"vector","result":' + b"[" * 50_000)
def test_prometheus_json(body: bytes) -> None:
    """Series of finite instants, or "no answer"; what it says of itself is text."""
    assert isinstance(stated_error(body), str)
    assert isinstance(stated_kind(body), str)
    try:
        answer = parse_answer(body)
    except NotAnAnswer:
        return
    for series in answer.series:
        assert all(isinstance(v, str) for v in series.labels.values())
        assert all(isinstance(value, float) for _, value in series.points)


_OBJECTS = [
    (placed_pod, pod("chat-0", of="chat")),
    (hpa_view, hpa("chat")),
    (scaled_object_view, scaled_object("chat")),
    (target_head, deployment("chat", replicas=2)),
]


@pytest.mark.parametrize(("decode", "whole"), _OBJECTS, ids=["pod", "hpa", "scaledobject", "head"])
@_SETTINGS
@given(data=st.data())
def test_kubernetes_objects(decode: object, whole: object, data: st.DataObject) -> None:
    """An object is understood, or it is none: never another error, which would end its watch."""
    assert callable(decode)
    body = json.dumps(data.draw(_damaged(whole)))
    try:
        decode(msgspec.Raw(body.encode()))
    except ClusterAnswerInvalid:
        return


_CONFIG = {
    "grpc": {"listen": "0.0.0.0:1", "tls": {"certificateFile": "c", "keyFile": "k"}},
    "log": {"level": "info"},
    "maxWorkloads": 5,
    "kubernetes": {"namespaces": ["a"]},
    "sources": {
        "s": {"type": "scrape", "targets": "/t", "interval": "5s", "namespaces": ["a"]},
        "p": {
            "type": "prometheus",
            "url": "http://p",
            "queries": {"q": "x"},
            "headers": {"a": "b"},
        },
    },
    "profiles": {"x": {"waitingHigh": 3}},
    "watch": [{"namespace": "a", "name": "b", "metadata": {"modelName": "m", "source": "p"}}],
}


@_SETTINGS
@given(
    text=st.one_of(
        st.text(max_size=60),
        _damaged(_CONFIG).map(json.dumps),
        _damaged(_CONFIG).map(lambda value: yaml.safe_dump(value, allow_unicode=True)),
    )
)
@example(text="a: &a [*a]")
@example(text="[" * 5000)
def test_configuration_file(tmp_path: Path, text: str) -> None:
    """A configuration with a source, or one error; and `check` reads the same text unharmed."""
    file = tmp_path / "config.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ConfigInvalid):
        assert load_config(file, {}, {}).sources
    check_manifests(text, "x.yaml")
