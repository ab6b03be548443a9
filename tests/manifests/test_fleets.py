"""The examples' fleets: scaled as the scaler means it, and drained so that nobody is cut off."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import yaml
from click.testing import CliRunner

from scaler.cli import main
from scaler.config.matchers import matchers
from tests.manifests.built import (
    EXAMPLES,
    MANIFESTS,
    ROOT,
    Json,
    at,
    kserve_labels,
    mapping,
    name_of,
    objects_of,
    of_kind,
    only,
    pods_of,
    rows,
    text_of,
    texts,
)

LOADING_TAKES = 600
"""Seconds that a large model may take to load."""

WORKLOADS = ("Deployment", "StatefulSet", "LeaderWorkerSet", "InferenceService")
BEHAVIOR = {
    "scaleUp": {
        "tolerance": 0,
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 1000, "periodSeconds": 15}],
    },
    "scaleDown": {
        "tolerance": 0,
        "stabilizationWindowSeconds": 60,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    },
}


@pytest.fixture(params=EXAMPLES)
def folder(request: pytest.FixtureRequest) -> str:
    """Name each example."""
    return str(request.param)


@pytest.fixture
def built(folder: str) -> list[Json]:
    """Give an example's objects."""
    return objects_of(folder)


def ours(scaled: Json) -> Json:
    """Return the metadata of the trigger that the scaler answers."""
    found = [
        mapping(trigger, "metadata")
        for trigger in rows(scaled, "spec", "triggers")
        if trigger["type"] == "external-push"
    ]
    assert len(found) == 1, name_of(scaled)
    return found[0]


def target_of(scaled: Json, built: list[Json]) -> Json:
    """Return the workload that a ScaledObject scales."""
    reference = mapping(scaled, "spec", "scaleTargetRef")
    wanted = (reference.get("kind", "Deployment"), reference["name"])
    names = {
        (each["kind"], at(each, "metadata", "name")): each for each in of_kind(built, *WORKLOADS)
    }
    # KServe makes this one.
    names |= {
        ("Deployment", f"{name}-predictor"): each
        for (kind, name), each in names.items()
        if kind == "InferenceService"
    }
    found = names[wanted]
    assert reference.get("apiVersion", "apps/v1") == (
        "apps/v1" if found["kind"] == "InferenceService" else found["apiVersion"]
    )
    return found


def command_of(pod: Json) -> list[str]:
    """Return command and arguments of the pod's engine."""
    engine = mapping(pod, "spec", "containers", 0)
    return [*texts(engine, "command"), *texts(engine, "args")]


def argument(pod: Json, flag: str) -> str | None:
    """Return an argument's value, however it is written."""
    words = command_of(pod)
    for word, following in pairwise([*words, ""]):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag:
            return following
    return None


def labels_of(workload: Json, pod: Json) -> Json:
    """Return a pod's labels, those included that its controller adds."""
    labels = mapping(pod, "metadata", "labels")
    if workload["kind"] == "InferenceService":
        return {**labels, **kserve_labels(workload)}
    if workload["kind"] == "LeaderWorkerSet":
        worker = "--headless" in command_of(pod)
        return {
            **labels,
            "leaderworkerset.sigs.k8s.io/name": at(workload, "metadata", "name"),
            "leaderworkerset.sigs.k8s.io/worker-index": "1" if worker else "0",
        }
    return labels


def selected(selector: Json, labels: Json) -> bool:
    """Say whether a Kubernetes selector matches."""
    return mapping(selector, "matchLabels").items() <= labels.items() and all(
        row["operator"] == "In" and labels.get(str(row["key"])) in texts(row, "values")
        for row in rows(selector, "matchExpressions")
    )


def monitors_of(workload: Json, pod: Json, built: list[Json]) -> list[Json]:
    """Return the PodMonitors that select a pod."""
    labels = labels_of(workload, pod)
    return [
        monitor
        for monitor in of_kind(built, "PodMonitor")
        if selected(mapping(monitor, "spec", "selector"), labels)
    ]


def test_check_finds_nothing(folder: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`scaler check --strict` has neither an error nor a warning for what kubectl would apply."""
    file = tmp_path_factory.mktemp("built") / "built.yaml"
    file.write_text(text_of(MANIFESTS / folder), encoding="utf-8")
    assert "kind: ScaledObject" in file.read_text(encoding="utf-8")
    answer = CliRunner().invoke(main, ["check", "--strict", str(file)])
    assert (answer.exit_code, answer.output) == (0, "0 errors, 0 warnings\n")


def test_the_hpa_is_told_not_to_think(built: list[Json]) -> None:
    """No tolerance, no window upwards, a minute downwards, no limit on a step; the default type."""
    for scaled in of_kind(built, "ScaledObject"):
        path = ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior")
        assert mapping(scaled, *path) == BEHAVIOR
        assert all("metricType" not in trigger for trigger in rows(scaled, "spec", "triggers"))


def test_every_fleet_has_a_fallback_that_never_shrinks_it(built: list[Json]) -> None:
    """It keeps what is there or goes up to a number within the bounds; it is never zero."""
    for scaled in of_kind(built, "ScaledObject"):
        spec = mapping(scaled, "spec")
        fallback = mapping(spec, "fallback")
        assert fallback["behavior"] == "currentReplicasIfHigher"
        replicas, least, most = (
            fallback["replicas"],
            spec["minReplicaCount"],
            spec["maxReplicaCount"],
        )
        assert isinstance(replicas, int)
        assert isinstance(least, int)
        assert isinstance(most, int)
        assert max(1, least) <= replicas <= most


def test_the_scaler_is_where_the_triggers_look(built: list[Json]) -> None:
    """The address in each trigger is the Service's name, namespace and port."""
    service = only(objects_of("base"), "Service")
    (port,) = [p["port"] for p in rows(service, "spec", "ports") if p["name"] == "grpc"]
    host = f"{at(service, 'metadata', 'name')}.{at(service, 'metadata', 'namespace')}.svc"
    for scaled in of_kind(built, "ScaledObject"):
        assert ours(scaled)["scalerAddress"] == f"{host}:{port}"


def test_the_count_has_one_owner(built: list[Json]) -> None:
    """Each scale target is in the example and states no count of its own."""
    scaled = of_kind(built, "ScaledObject")
    targets = [target_of(each, built) for each in scaled]
    assert len({name_of(target) for target in targets}) == len(scaled)
    assert len(targets) == len(of_kind(built, *WORKLOADS))
    for target in targets:
        assert at(target, "spec", "replicas") is None
        assert at(target, "spec", "predictor", "minReplicas") is None
        if target["kind"] == "InferenceService":
            annotations = mapping(target, "metadata", "annotations")
            assert annotations["serving.kserve.io/autoscalerClass"] == "external"


def test_a_trigger_finds_the_series_of_its_own_engines(built: list[Json]) -> None:
    """The served name is modelName; what else it selects by is a label that the monitor copies."""
    for scaled in of_kind(built, "ScaledObject"):
        target, metadata = target_of(scaled, built), ours(scaled)
        serving = [pod for pod in pods_of(target) if "--headless" not in command_of(pod)]
        assert serving
        for pod in serving:
            words = command_of(pod)
            model = argument(pod, "--served-model-name") or words[words.index("serve") + 1]
            assert model == metadata["modelName"]
            (monitor,) = monitors_of(target, pod, built)
            if "selector" not in metadata:
                continue
            for matcher in matchers(str(metadata["selector"])):
                assert matcher.label in texts(monitor, "spec", "podTargetLabels")
                assert labels_of(target, pod)[matcher.label] == matcher.value


def test_pools_of_one_model_are_told_apart(built: list[Json]) -> None:
    """No two ScaledObjects select the same series."""
    selections = [
        (ours(each)["modelName"], ours(each).get("selector"))
        for each in of_kind(built, "ScaledObject")
    ]
    assert len(set(selections)) == len(selections)


def test_the_monitor_scrapes_the_engines_port(built: list[Json]) -> None:
    """A PodMonitor names a port that the engine has, and only pods that serve are scraped."""
    for target in of_kind(built, *WORKLOADS):
        for pod in pods_of(target):
            ports = {str(p["name"]) for p in rows(pod, "spec", "containers", 0, "ports")}
            monitors = monitors_of(target, pod, built)
            assert len(monitors) == (0 if "--headless" in command_of(pod) else 1)
            for monitor in monitors:
                (endpoint,) = rows(monitor, "spec", "podMetricsEndpoints")
                assert endpoint["port"] in ports
                assert endpoint["path"] == "/metrics"
                # Three scrapes fit into the shortest scale-out window that check accepts.
                assert int(str(endpoint["interval"]).removesuffix("s")) <= 15


def test_a_generation_outlives_scale_in(built: list[Json]) -> None:
    """Traffic goes first, then the engine finishes, and only after that the pod is killed."""
    for target in of_kind(built, *WORKLOADS):
        for pod in pods_of(target):
            engine = mapping(pod, "spec", "containers", 0)
            pause = at(engine, "lifecycle", "preStop", "sleep", "seconds")
            finish = argument(pod, "--shutdown-timeout")
            grace = at(pod, "spec", "terminationGracePeriodSeconds")
            assert isinstance(pause, int)
            assert isinstance(grace, int)
            assert finish is not None
            assert pause >= 15
            assert int(finish) >= 120
            # An engine whose time ran out can hang: it should not keep its GPU for long.
            assert 0 < grace - pause - int(finish) <= 60


def test_an_engine_that_loads_is_left_alone(built: list[Json]) -> None:
    """The startup probe waits longer than a load takes, and asks what the others ask."""
    for target in of_kind(built, *WORKLOADS):
        for pod in pods_of(target):
            if "--headless" in command_of(pod):
                continue
            engine = mapping(pod, "spec", "containers", 0)
            startup = mapping(engine, "startupProbe")
            patience = int(str(startup["periodSeconds"])) * int(str(startup["failureThreshold"]))
            assert patience > LOADING_TAKES
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert at(engine, probe, "httpGet", "path") == "/health"
                names = {p.get("name") for p in rows(engine, "ports")}
                numbers = {p.get("containerPort") for p in rows(engine, "ports")}
                assert at(engine, probe, "httpGet", "port") in names | numbers
            if target["kind"] == "Deployment":
                deadline = at(target, "spec", "progressDeadlineSeconds")
                assert isinstance(deadline, int)
                assert deadline > patience


def test_an_engine_never_gets_a_gpu_or_memory_that_it_did_not_ask_for(built: list[Json]) -> None:
    """Requests equal limits for both, so that a full node is no reason to be killed."""
    for target in of_kind(built, *WORKLOADS):
        for pod in pods_of(target):
            resources = mapping(pod, "spec", "containers", 0, "resources")
            for what in ("memory", "nvidia.com/gpu"):
                assert at(resources, "requests", what) == at(resources, "limits", what) is not None


def test_the_readme_shows_the_first_example() -> None:
    """README and examples/deployment have the same ScaledObject."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(apiVersion.*?)```", readme, re.DOTALL)
    assert yaml.safe_load(block) == only(objects_of("examples/deployment"), "ScaledObject")


def test_zero_has_a_way_back() -> None:
    """The one fleet that may go to zero is woken by a push, and idles longer than it loads."""
    at_zero = {
        folder: scaled
        for folder in EXAMPLES
        for scaled in of_kind(objects_of(folder), "ScaledObject")
        if at(scaled, "spec", "minReplicaCount") == 0
    }
    assert list(at_zero) == ["examples/scale-to-zero"]
    scaled = at_zero["examples/scale-to-zero"]
    assert {"activationQuery", "rejectionQuery"} <= ours(scaled).keys()
    # No series means not known, on which KEDA's fallback would wake the fleet again and again.
    assert " or 0 * sum(" in str(ours(scaled)["activationQuery"])
    assert int(str(at(scaled, "spec", "initialCooldownPeriod"))) > LOADING_TAKES


def test_the_gateways_waiting_room_outlasts_a_load() -> None:
    """The router's queue is bounded, and with no engine there it waits longer than a load takes."""
    file = MANIFESTS / "examples/scale-to-zero/router.values.yaml"
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    epp = values["router"]["epp"]
    config = yaml.safe_load(epp["pluginsCustomConfig"][epp["pluginsConfigFile"]])
    flow = config["flowControl"]
    assert "flowControl" in config["featureGates"]
    assert int(flow["maxRequests"]) > 0
    assert int(flow["noEndpointRequestTTL"].removesuffix("m")) * 60 > LOADING_TAKES


def test_the_charts_values_are_those_of_its_rendering() -> None:
    """What stands for the production-stack chart's rendering agrees with the values beside it."""
    place = MANIFESTS / "examples/production-stack"
    values = yaml.safe_load((place / "values.yaml").read_text(encoding="utf-8"))
    (model,) = values["servingEngineSpec"]["modelSpec"]
    rendered = yaml.safe_load((place / "engine.yaml").read_text(encoding="utf-8"))
    engine = mapping(rendered, "spec", "template", "spec", "containers", 0)
    assert at(rendered, "metadata", "name") == f"llmstack-{model['name']}-deployment-vllm"
    assert at(rendered, "spec", "replicas") == model["replicaCount"]
    assert engine["image"] == f"{model['repository']}:{model['tag']}"
    assert engine["startupProbe"] == values["servingEngineSpec"]["startupProbe"]
    assert model["modelURL"] in texts(engine, "command")
    assert set(model["vllmConfig"]["extraArgs"]) <= set(texts(engine, "command"))


def test_keda_shows_a_certificate_for_the_name_that_it_dials() -> None:
    """The certificate names scalerAddress's host, and KEDA's side comes from one Secret."""
    built = objects_of("examples/tls")
    scaled, auth = only(built, "ScaledObject"), only(built, "TriggerAuthentication")
    host = str(ours(scaled)["scalerAddress"]).rpartition(":")[0]
    certificates = {at(c, "metadata", "namespace"): c for c in of_kind(built, "Certificate")}
    server, client = certificates["keda"], certificates["llm"]
    assert host in texts(server, "spec", "dnsNames")
    assert at(scaled, "spec", "triggers", 0, "authenticationRef", "name") == at(
        auth, "metadata", "name"
    )
    references = rows(auth, "spec", "secretTargetRef")
    assert {ref["parameter"] for ref in references} == {"caCert", "tlsClientCert", "tlsClientKey"}
    assert {ref["name"] for ref in references} == {at(client, "spec", "secretName")}
    assert texts(server, "spec", "usages") == ["server auth"]
    assert texts(client, "spec", "usages") == ["client auth"]


def test_the_sidecar_outlives_the_engine() -> None:
    """With Istio the drain is as long as the engine's, and its port takes plain scrapes too."""
    built = objects_of("examples/istio")
    engine = only(built, "Deployment")
    (pod,) = pods_of(engine)
    config = yaml.safe_load(str(mapping(pod, "metadata", "annotations")["proxy.istio.io/config"]))
    drain = int(config["terminationDrainDuration"].removesuffix("s"))
    finish = argument(pod, "--shutdown-timeout")
    pause = at(pod, "spec", "containers", 0, "lifecycle", "preStop", "sleep", "seconds")
    grace = at(pod, "spec", "terminationGracePeriodSeconds")
    assert isinstance(pause, int)
    assert isinstance(grace, int)
    assert pause + int(finish or 0) <= drain <= grace
    peer = only(built, "PeerAuthentication")
    (port,) = [p["containerPort"] for p in rows(pod, "spec", "containers", 0, "ports")]
    assert mapping(peer, "spec", "portLevelMtls") == {str(port): {"mode": "PERMISSIVE"}}
    assert selected(mapping(peer, "spec", "selector"), labels_of(engine, pod))
