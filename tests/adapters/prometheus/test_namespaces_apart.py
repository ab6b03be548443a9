"""On a real Prometheus: nothing that a trigger can write shows anything of another namespace.

Two servers have the same series of the namespace `mine`; one has, besides, those of another
namespace and of none. Whatever a trigger writes is refused, or both servers answer alike.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.query_batches import is_whole, joined
from scaler.config.promql import QueryInvalid, pin_to_namespace
from scaler.config.resolve import resolve
from scaler.config.sections import PrometheusSource as Section
from scaler.config.server import ServerConfig
from scaler.config.trigger import TriggerInvalid, parse_trigger
from scaler.core.units import tick_at
from scaler.core.workload import Matcher, Selection
from tests.prometheus_server import Past, prometheus

pytestmark = pytest.mark.prometheus

NOW = tick_at(time.time() - 3600.0)
SCRAPES = [NOW - back * 15.0 - 7.0 for back in range(40)]
Two: TypeAlias = tuple[str, str]
"""The server with `mine` alone, and the one with everybody's series."""


def fleet(past: Past, labels: dict[str, str], value: float) -> None:
    """Write an engine and a gateway's queue."""
    base = {"model_name": "llama", "pod": f"chat-{value:g}", "engine": "0", **labels}
    for name in ("num_requests_running", "num_requests_waiting"):
        past.add(f"vllm:{name}", base, dict.fromkeys(SCRAPES, value))
    past.add("vllm:kv_cache_usage_perc", base, dict.fromkeys(SCRAPES, 0.5))
    grown = {at: (at - SCRAPES[-1]) * value for at in SCRAPES}
    past.add("vllm:generation_tokens_total", base, grown)
    past.add("queue", labels, dict.fromkeys(SCRAPES, value))
    past.add("target_info", {"job": "x", **labels}, dict.fromkeys(SCRAPES, 1.0))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Run both."""
    alone, everybody = Past(), Past()
    for past in (alone, everybody):
        fleet(past, {"namespace": "mine", "tier": "gold", "job": "x"}, 3.0)
        fleet(past, {"namespace": "mine", "tier": "silver", "job": "x"}, 5.0)
    others = [{"namespace": "b"}, {"namespace": "mine2"}, {"namespace": "MINE"}]
    for number, labels in enumerate(others):
        fleet(everybody, {"tier": "gold", "exported_namespace": "mine", **labels}, 1e6 + number)
    everybody.add("queue", {"tier": "gold"}, dict.fromkeys(SCRAPES, 1e7))
    everybody.add("queue", {"exported_namespace": "mine"}, dict.fromkeys(SCRAPES, 1e8))
    first, second = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("everybody")
    with prometheus(first, alone) as one, prometheus(second, everybody) as other:
        yield one, other


def answer(server: str, query: str) -> object:
    """Ask one server; an error is an answer, too."""
    form = urllib.parse.urlencode({"query": query, "time": f"{NOW:.3f}"}).encode()
    try:
        with urllib.request.urlopen(f"{server}/api/v1/query", form, timeout=20) as told:  # noqa: S310
            result = json.load(told)["data"]
    except urllib.error.HTTPError as error:
        return json.load(error)["error"]
    if isinstance(result["result"], list):
        result["result"].sort(key=json.dumps)
    return result


def held_apart(servers: Two, query: str) -> bool:
    """Say whether a query was sent at all, having compared what both servers say to it."""
    try:
        pinned = pin_to_namespace(query, "mine")
    except QueryInvalid:
        return False
    told = [answer(server, pinned) for server in servers]
    assert told[0] == told[1], pinned
    if is_whole(pinned):
        neighbour = pin_to_namespace("queue", "mine")
        told = [answer(server, joined([pinned, neighbour])) for server in servers]
        assert told[0] == told[1], pinned
    return True


def test_the_servers_can_be_told_apart(servers: Two) -> None:
    """What is not pinned shows the others: the comparison can fail."""
    for query in ("queue", 'sum({__name__=~"vllm:.+"})', "absent(queue{namespace='b'})"):
        assert answer(servers[0], query) != answer(servers[1], query)


EVASIONS = {
    "plain": "queue",
    "subquery": "max_over_time(queue[10m:1m])",
    "nested-subquery": "max_over_time(sum_over_time(queue[5m:1m])[5m:1m])",
    "or": "queue or queue",
    "or-vector": "queue or vector(1)",
    "unless": "queue unless on () queue",
    "and": "queue and on () queue",
    "offset": "queue offset 1m",
    "offset-back": "queue offset -1m",
    "at": f"queue @ {NOW - 60:.0f}",
    "at-end": "max_over_time(queue[5m] @ end())",
    "any-name": 'sum({__name__=~".+"})',
    "not-no-name": '{__name__!=""}',
    "name-with-a-selector": '{__name__="queue{namespace=\\"b\\"}"}',
    "quoted-name": '{"queue"}',
    "rename-after": 'label_replace(queue, "namespace", "b", "", "")',
    "rename-in-subquery": 'sum_over_time(label_replace(queue,"namespace","b","","")[5m:1m])',
    "join": 'label_join(queue, "namespace", "", "tier")',
    "batch-tag": 'label_replace(queue, "__query__", "1", "", "")',
    "group-left": "queue * on (tier) group_left (namespace) queue",
    "group-right": "queue * on (job) group_right () target_info",
    "ignoring": "sum(queue) + ignoring (namespace) sum(queue)",
    "nested-aggregation": "sum(max by (namespace) (topk(5, queue)))",
    "count-values": 'count_values("namespace", queue)',
    "quantile": "quantile(1, queue)",
    "topk-scalar": "topk(scalar(sum(queue)), queue)",
    "absent": "absent(queue)",
    "absent-over-time": 'absent_over_time(queue{namespace!="mine"}[5m])',
    "scalar": "vector(scalar(sum(queue)))",
    "timestamp": "timestamp(queue)",
    "comment": 'queue # {namespace="b"}',
    "comment-line": 'queue # "\n or queue',
    "comment-in-braces": 'queue{tier="gold" # ,namespace="b"\n}',
    "brace-in-string": 'queue{tier="} or queue{"}',
    "raw-string": 'queue{tier=`"} or queue{namespace="b`}',
    "escape": 'queue{tier="\\"} or queue{tier!=\\""}',
    "backslash-at-the-end": 'queue{tier!="\\\\"}',
    "unicode-escape": 'queue{tier="\\u007d or queue"}',
    "bracket-out": "queue) or sum(queue",
    "two-queries": "queue; queue",
    "line-break": "queue\r\nor\tqueue",
    "negative-regex": 'queue{tier!~"x"}',
    "empty-regex": 'queue{tier=~".*"}',
    "capital-label": 'queue{NAMESPACE="b"}',
    "other-label": 'queue{exported_namespace=~".+"}',
    "own-twice": 'queue{namespace="mine",namespace="mine"}',
    "own-and-other": 'queue{namespace="mine",namespace="b"}',
    "own-and-any": 'queue{namespace="mine",namespace=~".+"}',
    "other": 'queue{namespace="b"}',
    "not-mine": 'queue{namespace!="mine"}',
    "any": 'queue{namespace=~".*"}',
    "empty": 'queue{namespace=""}',
    "escaped-label": 'queue{"namespace"="b"}',
    "escaped-value": 'queue{namespace="\\x62"}',
    "or-in-braces": 'queue{namespace="mine" or namespace="b"}',
    "or-in-braces-of-another": 'queue{tier="gold" or tier="silver"}',
    "other-below": 'sum(queue) + sum(max_over_time(queue{namespace="b"}[5m:]))',
    "info": "info(queue)",
    "constant": "42",
    "look-alike-letter": 'queue{namesp\u0430ce="b"}',
    "wide-space": "queue\u00a0{namespace='b'}",
    "zero-width": 'queue{name\u200bspace="b"}',
    "form": 'queue&query=queue{namespace="b"}',
    "named": "name:queue",
}
REFUSED = {
    *("absent-over-time", "bracket-out", "two-queries", "own-and-other", "own-and-any", "other"),
    *("not-mine", "any", "empty", "escaped-label", "escaped-value", "or-in-braces", "info"),
    *("or-in-braces-of-another", "other-below", "constant", "look-alike-letter", "wide-space"),
    *("zero-width", "form", "own-twice"),
}


@pytest.mark.parametrize("name", EVASIONS)
def test_no_evasion_shows_another_namespace(servers: Two, name: str) -> None:
    """Each way out that somebody thought of is refused, or shows what is one's own."""
    assert held_apart(servers, EVASIONS[name]) is (name not in REFUSED)


_LEAVES = st.sampled_from(
    [
        *("queue", 'queue{tier="gold"}', "queue offset 1m", '{__name__=~"q.*"}', "target_info"),
        *('queue{namespace="mine"}', 'queue{namespace=~"b|mine"}', "vector(2)", "queue[1m:15s]"),
        *('queue{tier=~".+"}', 'queue{tier=`"}`}', f"queue @ {NOW:.0f}", "time()"),
    ]
)
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds("({})".format, inner),
        st.builds("-{}".format, inner),
        st.builds("sum by (namespace) ({})".format, inner),
        st.builds("count without (tier) ({})".format, inner),
        st.builds("max_over_time(({})[2m:30s])".format, inner),
        st.builds("absent({})".format, inner),
        st.builds('label_replace({}, "namespace", "b", "", "")'.format, inner),
        st.builds("{} or {}".format, inner, inner),
        st.builds("{} * on (tier) group_left (namespace) {}".format, inner, inner),
        st.builds("{} unless {}".format, inner, inner),
        st.builds("{} # {}\n".format, inner, inner),
        st.builds('{}{{namespace="b"}}'.format, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=_EXPRESSIONS)
def test_no_query_shows_another_namespace(servers: Two, query: str) -> None:
    """Nor does any that is put together by chance."""
    held_apart(servers, query)


SELECTORS = [
    'tier="gold"',
    'tier=~".*",job="x"',
    'exported_namespace="mine"',
    'tier!="x",job="x"',
    'tier=~"gold|} or {"',
    'tier="gold\\"} or vllm:num_requests_running{job=\\"x"',
    'tier=`gold"} or {`',
    'NAMESPACE="b",tier="gold"',
    'tier="\\u0022,namespace=~\\u0022.+"',
    '__query__="0"',
    '__signal__="x",tier="gold"',
    'reason="x"',
    'server="router"',
]


@pytest.mark.parametrize("selector", SELECTORS)
async def test_no_selector_shows_another_namespace(servers: Two, selector: str) -> None:
    """What the source reads of `mine` is the same, beside others or not; now and in the past."""
    selection = Selection(source="p", namespace="mine", matchers=_matchers(selector))
    neighbour = Selection(source="p", namespace="b", model_name="llama")
    told = []
    for server in servers:
        source = PrometheusSource(PrometheusSettings(name="p", url=server, timeout=20.0))
        now = (await source.read([selection, neighbour], NOW))[selection]
        past = await source.recall(selection, NOW - 60.0, NOW, 15.0)
        # A fault names its source's address, which differs.
        told.append((str(now).replace(server, ""), past))
    assert told[0] == told[1]


def _matchers(selector: str) -> tuple[Matcher, ...]:
    server = ServerConfig(
        sources={"p": Section.model_validate({"type": "prometheus", "url": "http://p"})}
    )
    return resolve(parse_trigger("mine", "chat", {"selector": selector}), server).selection.matchers


@pytest.mark.parametrize(
    "selector",
    [
        'namespace="b"',
        'namespace=~".+"',
        'tier="gold",namespace!="mine"',
        'namespace="mine"',
        '__name__="queue"',
        '{namespace="b"}',
        'tier="gold"} or {namespace="b"',
        'tier="gold" or tier="silver"',
        '"namespace"="b"',
        'namesp\u0430ce="b"',
        'tier="gold" # ,',
        'tier="x\\"',
    ],
)
def test_selectors_that_reach_out_are_refused(selector: str) -> None:
    """At the door, with a reason."""
    with pytest.raises(TriggerInvalid, match="selector"):
        parse_trigger("mine", "chat", {"selector": selector})
