"""The server's configuration: three layers, every fault at once, and no secret shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.config.faults import ConfigInvalid
from scaler.config.sections import PrometheusSource, ScrapeSource
from scaler.config.server import ServerConfig, adopt, compare, load_config
from scaler.core.policy import Mode, Signal

Load = Callable[..., ServerConfig]

MAIN = 'sources: {main: {type: prometheus, url: "http://prometheus:9090", queries: {q: queue}}}\n'


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a text as the file, with an environment and flags."""

    def load_text(
        text: str = "", environment: Mapping[str, str] | None = None, **flags: object
    ) -> ServerConfig:
        file = tmp_path / "config.yaml"
        file.write_text(text, encoding="utf-8")
        return load_config(file, environment or {}, flags)

    return load_text


def _refused(load: Load, *args: object, **flags: object) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as refused:
        load(*args, **flags)
    return refused.value


def test_two_flags_are_enough() -> None:
    """No file is needed."""
    config = load_config(None, {}, {"source": "scrape", "targets": "/targets.json"})
    assert config.sources == {
        "scrape": ScrapeSource.model_validate({"type": "scrape", "targets": Path("/targets.json")})
    }
    config = load_config(None, {}, {"source": "prometheus", "prometheus_url": "http://p:9090/x/"})
    (source,) = config.sources.values()
    assert isinstance(source, PrometheusSource)
    assert source.url == "http://p:9090/x"


def test_without_a_source_the_cure_is_told() -> None:
    """Nothing can be scaled without one."""
    with pytest.raises(ConfigInvalid, match="--source scrape --targets FILE"):
        load_config(None, {}, {})


@pytest.mark.parametrize(
    ("environment", "flags", "level"),
    [
        ({}, {}, "debug"),
        ({"SCALER_LOG_LEVEL": "warning"}, {}, "warning"),
        ({"SCALER_LOG_LEVEL": "warning"}, {"log_level": "error"}, "error"),
        ({"SCALER_LOG_LEVEL": "warning"}, {"log-level": "error"}, "error"),
        ({"SCALER_LOG_LEVEL": "warning"}, {"log_level": None}, "warning"),
        ({"SCALER_LOG_LEVEL": ""}, {}, "debug"),
    ],
)
def test_flags_win_over_the_environment_over_the_file(
    load: Load, environment: dict[str, str], flags: dict[str, object], level: str
) -> None:
    """Layer by layer, setting by setting."""
    config = load(MAIN + "log: {level: debug, format: text}", environment, **flags)
    assert (config.log.level, config.log.format) == (level, "text")


@pytest.mark.parametrize(
    ("flag", "value", "read"),
    [
        ("grpc_listen", "[::]:1", lambda config: config.grpc.listen),
        ("http_listen", ":2", lambda config: config.http.listen),
        ("cluster", "/counts.yaml", lambda config: str(config.cluster)),
        ("history_file", "/d.db", lambda config: str(config.history.file)),
        ("log_format", "text", lambda config: config.log.format),
        ("prometheus_url", "https://x", lambda config: config.sources["main"].url),
        ("prometheus_ca_file", "/ca", lambda config: str(config.sources["main"].ca_file)),
    ],
)
def test_each_setting_by_flag_and_environment(
    load: Load, flag: str, value: str, read: Callable[[ServerConfig], str]
) -> None:
    """The same name in both."""
    assert read(load(MAIN, **{flag: value})) == value
    assert read(load(MAIN, {f"SCALER_{flag.upper()}": value})) == value


def test_tls_files_by_flags(load: Load) -> None:
    """Sections that the file lacks are made."""
    tls = load(MAIN, grpc_tls_certificate_file="c", grpc_tls_key_file="k").grpc.tls
    assert tls is not None
    assert (tls.certificate_file, tls.key_file, tls.client_ca_file) == (Path("c"), Path("k"), None)


def test_a_cluster_of_none(load: Load) -> None:
    """The word stands for no file."""
    assert load(MAIN + "cluster: /x", cluster="none").cluster is None


def test_a_real_cluster(load: Load) -> None:
    """The word stands for the cluster, which a section of its own describes."""
    config = load(
        MAIN + "cluster: kubernetes\nkubernetes: {namespaces: [llm, chat], kubeconfig: /k}"
    )
    assert config.cluster == "kubernetes"
    assert config.kubernetes.namespaces == ("llm", "chat")
    config = load(MAIN, {"SCALER_NAMESPACES": "llm, chat"}, cluster="kubernetes", kubeconfig="/k")
    assert config.cluster == "kubernetes"
    assert config.kubernetes.namespaces == ("llm", "chat")
    assert config.kubernetes.kubeconfig == Path("/k")
    assert load(MAIN, cluster="./kubernetes").cluster == Path("kubernetes")


def test_the_kind_of_source_by_flag_leaves_sources_of_that_kind(load: Load) -> None:
    """A stronger layer's kind also does away with what a weaker one said of another."""
    environment = {"SCALER_SOURCE": "prometheus", "SCALER_PROMETHEUS_URL": "http://p"}
    config = load(MAIN, environment, source="scrape", targets="/t")
    assert list(config.sources) == ["scrape"]
    assert list(load(MAIN, source="prometheus").sources) == ["main"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"source": "graphite"}, '--source: "graphite" is no kind of source'),
        ({"source": "scrape"}, "sources.scrape.targets: is missing"),
        ({"source": "scrape", "prometheus_url": "http://p"}, "contradicts --source scrape"),
        ({"sorce": "scrape"}, "--sorce: is no setting of the scaler (did you mean source?)"),
    ],
)
def test_flags_that_cannot_be(load: Load, flags: dict[str, object], said: str) -> None:
    """Each is named."""
    assert said in str(_refused(load, "", **flags))


def test_a_shorthand_that_could_mean_two_sources(load: Load) -> None:
    """Which one, nobody knows."""
    two = "sources: {a: {type: prometheus, url: http://a}, b: {type: prometheus, url: http://b}}"
    assert "could mean each of a, b" in str(_refused(load, two, prometheus_url="http://c"))


def test_what_kubernetes_sets_for_a_service_is_no_setting(load: Load) -> None:
    """A Service named scaler puts SCALER_PORT and more into every pod's environment."""
    links = {
        "SCALER_PORT": "tcp://10.0.0.1:50051",
        "SCALER_SERVICE_HOST": "10.0.0.1",
        "SCALER_SERVICE_PORT_GRPC": "50051",
        "SCALER_PORT_50051_TCP_ADDR": "10.0.0.1",
        "SCALER_METRICS_SERVICE_PORT": "8080",
        "SCALER_CONFIG": "/etc/scaler.yaml",
        "OTHER": "x",
    }
    assert load(MAIN, links) == load(MAIN)


def test_an_unknown_variable_is_named_with_the_nearest(load: Load) -> None:
    """A misspelt setting would otherwise do nothing."""
    error = _refused(load, MAIN, {"SCALER_LOGLEVEL": "canary"})
    assert "SCALER_LOGLEVEL: is no setting of the scaler (did you mean SCALER_LOG_LEVEL?)" in str(
        error
    )
    assert "canary" not in str(error)


def test_all_faults_of_all_layers_come_together(load: Load) -> None:
    """One round is enough."""
    text = """
sources:
  main: {type: prometheus, url: "ftp://x", timeout: 0, header: {}}
  other: {type: influx}
  third: {url: http://x}
log: {level: loud}
grpc: {listen: here, tsl: {}}
htpp: {}
"""
    error = _refused(load, text, {"SCALER_X": "1"}, cluster="none", nope="1")
    keys = {fault.key for fault in error.faults}
    assert keys == {
        *("SCALER_X", "--nope", "sources.main.url", "sources.main.timeout", "sources.main.header"),
        *("sources.other", "sources.third", "log.level", "grpc.listen", "grpc.tsl", "htpp"),
    }
    assert "did you mean headers?" in str(error)
    assert "did you mean tls?" in str(error)
    assert "did you mean http?" in str(error)


@pytest.mark.parametrize(
    ("source", "cure"),
    [
        ("password: Canary", "passwordFile"),
        ("bearerToken: Canary", "bearerTokenFile"),
        ("basicAuth: {username: u, password: Canary}", "passwordFile"),
        ("clientKey: Canary", "clientKeyFile"),
        ("headers: {Authorization: Canary}", "bearerTokenFile"),
        ("headers: {X-Anything: Bearer Canary}", "bearerTokenFile"),
        ("headers: {X-Api-Key: Canary}", "bearerTokenFile"),
        ("headers: {X-Tenant: [Canary]}", "quotation marks"),
        ("parameters: {token: Canary}", "bearerTokenFile"),
        ("url: http://user:Canary@x", "passwordFile"),
        ("url: http://x?token=Canary", "parameters"),
        ("username: Canary", "give both or none"),
        ("queries: {q: [Canary]}", "quotation marks"),
        ("queries: Canary", "name: value"),
        ("passwrd: Canary", "passwordFile"),
        ("caFile: [Canary]", "path"),
        ("caFile: *Canary", "YAML"),
        ("caFile: !Canary x", "YAML"),
        ("caFile: 'Canary", "YAML"),
    ],
)
def test_secrets_are_named_by_file_and_never_shown(load: Load, source: str, cure: str) -> None:
    """Whatever was written where, no message holds it."""
    url = "" if source.startswith("url") else "\n    url: http://x"
    text = f"sources:\n  main:\n    type: prometheus{url}\n    {source}\n"
    error = _refused(load, text)
    assert cure in str(error)
    assert "Canary" not in str(error)
    assert "Canary" not in repr(error.faults)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "is no mapping"),
        ("1: a", "is no mapping"),
        ("a: b\n---\nc: d", "several documents"),
        ("log: {level: info}\nlog: {level: debug}", "line 2: log is given twice"),
        ("a: [", "line 1: not valid YAML"),
        ("a: \x00", "not valid YAML"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: 2024-13-45", "does not exist"),
        ("sources: [a]", "sources: is no mapping"),
        ("log: 3", "log: is no section"),
        ("profiles: {p: {waitingHgh: 3}}", "profiles.p.waitingHgh: is no key"),
        ("profiles: {p: {waitingHigh: abc}}", 'profiles.p.waitingHigh: "abc" is not a number'),
        ("profiles: {p: {waitingHigh: 1, waitingLow: 2}}", "profiles.p.waitingLow"),
        ("profiles: {p: {profile: q}}", "may not stand in a profile"),
        ("profiles: {p: {waitingHigh: true}}", "is no plain value"),
        ("profiles: {p: {waitingHighFromEnv: x}}", "profiles.p.waitingHighFromEnv: is no key"),
        ("watch: [{namespace: a, name: b, metadata: {x: y}}]", "watch.a/b.x"),
        ('sources: {"a b": {type: scrape, targets: t}}', "is not a name"),
        (MAIN.replace("queue", "''"), "sources.main.queries.q"),
        (MAIN + "grpc: {listen: 'x:99999'}", "grpc.listen"),
        (MAIN + "cluster: [x]", "cluster: is no file's name"),
        (MAIN + "cluster: ''", "cluster: is no file's name"),
        (MAIN + "kubernetes: {namespace: a}", "did you mean namespaces"),
        (MAIN + "kubernetes: {namespaces: [A_b]}", "is not the name of a namespace"),
        (MAIN + "kubernetes: {namespaces: 'a,,b'}", "is not the name of a namespace"),
        ("sources: {s: {type: scrape, targets: t, interval: soon}}", "is not a duration"),
        ("sources: {s: {type: scrape, targets: t, interval: [5]}}", "is not a duration"),
        ("sources: {s: {type: scrape, targets: t, interval: 2h}}", "at most an hour"),
        ("sources: {s: {type: scrape, targets: t, headers: {'a b': c}}}", "is not a header"),
        ("sources: {s: {type: scrape, targets: t, largestAnswer: 1}}", "sources.s.largestAnswer"),
        ("sources: {s: {type: scrape, targets: t, clientKeyFile: k}}", "give both or none"),
        (MAIN.replace("type:", "bearerTokenFile: t, username: u, passwordFile: p, type:"), "keep"),
        (MAIN.replace("type:", "username: 'a:b', passwordFile: p, type:"), "colon"),
        (MAIN.replace("type:", "labels: {pod: 'a b'}, type:"), "is not a label's name"),
        (MAIN.replace("http://prometheus:9090", "http://[x"), "http or https address"),
        (MAIN.replace("queue", "DCGM_FI_DEV_GPU_UTIL"), "GPU as busy as a hundred"),
        (MAIN.replace("q:", "q q:"), "sources.main.queries.q q: is not a name"),
    ],
)
def test_faulty_files(load: Load, text: str, said: str) -> None:
    """Each fault is told with its place."""
    assert said in str(_refused(load, text, source=None))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The path is in the message."""
    with pytest.raises(ConfigInvalid, match=r"none\.yaml.*cannot be read: No such file"):
        load_config(tmp_path / "none.yaml", {}, {})


def test_a_query_that_only_the_operators_prometheus_understands(load: Load) -> None:
    """Newer PromQL than the parser's is for the operator to name."""
    config = load(MAIN.replace("queue", '"histogram_quantiles(x, 0.5) by magic"'))
    assert "q" in config.sources["main"].queries


def test_profiles_hold_plain_yaml_values(load: Load) -> None:
    """Numbers and lists need no quotation marks in the file."""
    text = "profiles: {slow: {waitingHigh: 8, kvCacheHigh: 0.9, signals: [ttft], drainTime: 60}}"
    profile = load(MAIN + text).profiles["slow"]
    assert profile.given == {
        "waiting_high": 8.0,
        "kv_cache_high": 0.9,
        "signals": frozenset({Signal.TTFT}),
        "drain_time": 60.0,
    }


def test_watched_workloads_only_advise(load: Load) -> None:
    """Something else scales them."""
    text = "watch: [{namespace: a, name: b, metadata: {modelName: x, mode: act}}]"
    (trigger,) = load(MAIN + text).watch
    assert (str(trigger.key), trigger.settings.mode) == ("a/b", Mode.ADVISE)


@pytest.mark.parametrize(
    ("text", "live", "restart"),
    [
        (MAIN, (), ()),
        (MAIN + "log: {level: debug}", ("log.level",), ()),
        (MAIN + "log: {format: text}", (), ("log.format",)),
        (MAIN + "profiles: {p: {waitingHigh: 9}}", ("profiles",), ()),
        (MAIN + "watch: [{namespace: a, name: b}]", ("watch",), ()),
        (MAIN + "grpc: {listen: ':1'}\nhttp: {listen: ':2'}", (), ("grpc", "http")),
        (MAIN + "cluster: /x", (), ("cluster",)),
        (MAIN + "history: {file: /x}", (), ("history",)),
        (MAIN.replace("q:", "r:"), ("sources.main.queries",), ()),
        (MAIN.replace(":9090", ":9091"), (), ("sources.main",)),
        (MAIN.replace("main:", "other:"), (), ("sources.main", "sources.other")),
        ("sources: {main: {type: scrape, targets: t}}", (), ("sources.main",)),
    ],
)
def test_what_a_reload_changes(
    load: Load, text: str, live: tuple[str, ...], restart: tuple[str, ...]
) -> None:
    """At once or after a restart; what is adopted is exactly what needs none."""
    running, loaded = load(MAIN), load(text)
    change = compare(running, loaded)
    assert (change.live, change.restart) == (live, restart)
    adopted = adopt(running, loaded)
    assert compare(running, adopted).live == live
    assert compare(running, adopted).restart == ()
    assert compare(adopted, loaded).live == ()


def test_the_change_is_told_in_words(load: Load) -> None:
    """For the log."""
    changed = load(MAIN + "log: {level: debug, format: text}")
    assert str(compare(load(MAIN), changed)) == (
        "in force: log.level; in force only after a restart: log.format"
    )
    assert str(compare(changed, changed)) == "nothing changed"


_yaml = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["sources", "grpc", "log", "level", "type", "url", "main", "profiles", "watch"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(value=_yaml)
def test_any_file_is_a_configuration_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    """Never another exception."""
    import yaml  # noqa: PLC0415 - only this test writes YAML

    file = tmp_path_factory.mktemp("any") / "config.yaml"
    file.write_text(yaml.safe_dump(value), encoding="utf-8")
    try:
        config = load_config(file, {}, {"source": "scrape", "targets": "t"})
    except ConfigInvalid:
        return
    assert all(isinstance(source, ScrapeSource) for source in config.sources.values())
