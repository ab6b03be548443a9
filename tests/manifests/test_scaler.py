"""The scaler's own manifests agree with the scaler, and with one another."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from scaler import __version__
from scaler.cli import main
from scaler.config.sections import GrpcSection, HttpSection, PrometheusSource
from scaler.config.server import ServerConfig, load_config
from scaler.control.board import Board
from scaler.control.registry import Registry
from scaler.edge.http_server import HttpServer
from scaler.edge.measures import Measures
from tests.manifests.built import (
    INSTALLS,
    ROOT,
    Json,
    at,
    compose,
    mapping,
    objects_of,
    of_kind,
    only,
    rows,
    texts,
)

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
GRPC = int(GrpcSection().listen.rpartition(":")[2])
HTTP = int(HttpSection().listen.rpartition(":")[2])
ENGINE = 8000
CONTAINER = ("spec", "template", "spec", "containers", 0)


@pytest.fixture(params=INSTALLS)
def built(request: pytest.FixtureRequest) -> list[Json]:
    """Give the objects of each way to install."""
    return objects_of(str(request.param))


def configured(built: list[Json], directory: Path) -> ServerConfig:
    """Load the configuration as the container would: file, environment, arguments."""
    file = directory / "config.yaml"
    file.write_text(str(at(only(built, "ConfigMap"), "data", "config.yaml")), encoding="utf-8")
    deployed = rows(only(built, "Deployment"), *CONTAINER, "env")
    return load_config(file, {str(e["name"]): str(e["value"]) for e in deployed}, {})


def served_paths() -> set[str]:
    """Name the paths that the HTTP server has."""
    server = HttpServer(
        registry=Registry(lambda _: pytest.fail("nothing is asked here"), lambda: 0.0),
        board=Board(),
        followers=(),
        now=lambda: 0.0,
        measures=Measures(),
        answering=lambda: True,
    )
    return {
        str(route.resource.canonical)
        for route in server.application().router.routes()
        if route.resource is not None
    }


def test_the_configuration_is_valid(built: list[Json], tmp_path: Path) -> None:
    """The ConfigMap, under the container's environment, is one that `scaler serve` takes."""
    config = configured(built, tmp_path)
    assert config.cluster == "kubernetes"
    (source,) = config.sources.values()
    assert isinstance(source, PrometheusSource)
    roles = of_kind(built, "Role")
    assert set(config.kubernetes.namespaces) == {
        at(role, "metadata", "namespace") for role in roles
    }


def test_the_container_runs_serve_with_the_mounted_file(built: list[Json]) -> None:
    """The arguments are those of a command that exists, and its file is where the volume is."""
    container = mapping(only(built, "Deployment"), *CONTAINER)
    command, option, file = texts(container, "args")
    served = main.get_command(click.Context(main), command)
    assert served is not None
    assert {name: each.name for each in served.params for name in each.opts}[option] == "config"
    (mount,) = rows(container, "volumeMounts")
    assert Path(file).parent.as_posix() == mount["mountPath"]
    # What is mounted by subPath is never updated, and the file is re-read when it changes.
    assert "subPath" not in mount
    assert Path(file).name in mapping(only(built, "ConfigMap"), "data")


def test_ports_are_the_servers(built: list[Json]) -> None:
    """Container and Service have the ports on which the server listens by default, and no other."""
    container = mapping(only(built, "Deployment"), *CONTAINER)
    ports = {str(port["name"]): port["containerPort"] for port in rows(container, "ports")}
    assert ports == {"grpc": GRPC, "http": HTTP}
    service = rows(only(built, "Service"), "spec", "ports")
    assert {str(port["name"]): port["port"] for port in service} == ports
    assert all(port["targetPort"] == port["name"] for port in service)


def test_probes_ask_what_there_is(built: list[Json]) -> None:
    """Both probes ask a path of the HTTP server, by the name of its port."""
    container = mapping(only(built, "Deployment"), *CONTAINER)
    asked = {
        probe: mapping(container, probe, "httpGet") for probe in ("readinessProbe", "livenessProbe")
    }
    assert asked == {
        "readinessProbe": {"path": "/readyz", "port": "http"},
        "livenessProbe": {"path": "/healthz", "port": "http"},
    }
    assert {str(get["path"]) for get in asked.values()} <= served_paths()


def test_the_monitor_finds_the_service(built: list[Json]) -> None:
    """The ServiceMonitor selects the Service and scrapes a port and a path that exist there."""
    monitor, service = only(built, "ServiceMonitor"), only(built, "Service")
    wanted = mapping(monitor, "spec", "selector", "matchLabels")
    assert wanted.items() <= mapping(service, "metadata", "labels").items()
    assert at(monitor, "metadata", "namespace") == at(service, "metadata", "namespace")
    (endpoint,) = rows(monitor, "spec", "endpoints")
    assert endpoint["port"] in {port["name"] for port in rows(service, "spec", "ports")}
    assert endpoint["path"] in served_paths()
    # The scaler's label namespace is the workload's: Prometheus must not overwrite it.
    assert endpoint["honorLabels"] is True


def test_selectors_select_the_deployment(built: list[Json]) -> None:
    """Service, budget, policy and the spread all mean the Deployment's pods."""
    deployment = only(built, "Deployment")
    labels = mapping(deployment, "spec", "template", "metadata", "labels")
    selectors = [
        mapping(deployment, "spec", "selector", "matchLabels"),
        mapping(only(built, "Service"), "spec", "selector"),
        mapping(only(built, "PodDisruptionBudget"), "spec", "selector", "matchLabels"),
        mapping(only(built, "NetworkPolicy"), "spec", "podSelector", "matchLabels"),
        *(
            mapping(spread, "labelSelector", "matchLabels")
            for spread in rows(deployment, "spec", "template", "spec", "topologySpreadConstraints")
        ),
    ]
    assert len(selectors) == 6
    assert all(selector and selector.items() <= labels.items() for selector in selectors)


def test_one_of_two_is_always_there(built: list[Json]) -> None:
    """Two pods behind their own addresses, of which neither a drain nor a rollout takes both."""
    deployment = only(built, "Deployment")
    assert at(deployment, "spec", "replicas") == 2
    assert at(deployment, "spec", "strategy", "rollingUpdate", "maxUnavailable") == 0
    assert at(only(built, "PodDisruptionBudget"), "spec", "maxUnavailable") == 1
    assert at(only(built, "Service"), "spec", "clusterIP") == "None"
    spec = mapping(deployment, "spec", "template", "spec")
    pause = at(spec, "containers", 0, "lifecycle", "preStop", "sleep", "seconds")
    grace = at(spec, "terminationGracePeriodSeconds")
    assert isinstance(pause, int)
    assert isinstance(grace, int)
    assert grace >= pause + 15


def test_the_pod_has_no_power(built: list[Json]) -> None:
    """Not root, nothing to write to, no capability, the runtime's filter of system calls."""
    spec = mapping(only(built, "Deployment"), "spec", "template", "spec")
    assert mapping(spec, "securityContext") == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert mapping(spec, "containers", 0, "securityContext") == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert at(spec, "serviceAccountName") == at(only(built, "ServiceAccount"), "metadata", "name")
    assert "cpu" not in mapping(spec, "containers", 0, "resources", "limits")


def numbers(policy: Json, direction: str) -> list[object]:
    """Return the ports of a policy's rules in a direction."""
    found = rows(policy, "spec", direction)
    return [port["port"] for rule in found for port in rows(rule, "ports")]


def test_the_policy_lets_in_two_and_out_what_is_needed(built: list[Json], tmp_path: Path) -> None:
    """KEDA to gRPC and Prometheus to HTTP come in; names, source, API server and engines go out."""
    policy = only(built, "NetworkPolicy")
    assert at(policy, "spec", "policyTypes") == ["Ingress", "Egress"]
    assert numbers(policy, "ingress") == ["grpc", "http"]
    assert all(rows(rule, "from") for rule in rows(policy, "spec", "ingress"))
    (source,) = configured(built, tmp_path).sources.values()
    assert isinstance(source, PrometheusSource)
    address = re.fullmatch(r"http://[a-z-]+\.([a-z-]+)\.svc:(\d+)", source.url)
    assert address is not None
    assert numbers(policy, "egress") == [53, 53, int(address[2]), 443, 6443, ENGINE]
    out = rows(policy, "spec", "egress")
    assert (
        at(out[1], "to", 0, "namespaceSelector", "matchLabels", "kubernetes.io/metadata.name")
        == address[1]
    )
    # Only the API server has no name that a policy could know.
    assert [index for index, rule in enumerate(out) if not rows(rule, "to")] == [2]


def test_the_image_is_the_one_that_the_dockerfile_makes() -> None:
    """Dockerfile and manifests agree on ports, version, and a numbered user that is not root."""
    assert f"EXPOSE {GRPC} {HTTP}" in DOCKERFILE
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert int(user) > 0
    image = at(only(objects_of("base"), "Deployment"), *CONTAINER, "image")
    assert image == f"vllm-keda-scaler:{__version__}"


def test_the_image_holds_only_what_has_a_hash() -> None:
    """Both locks are installed with their hashes, beside them only the scaler's own wheel."""
    joined = DOCKERFILE.replace("\\\n", " ")
    installs = re.findall(r"pip install ([^&\n]*)", joined)
    hashed = [line for line in installs if "--require-hashes" in line]
    assert {line.split()[-1] for line in hashed} == {"requirements.lock", "requirements-build.lock"}
    (own,) = [line for line in installs if line not in hashed]
    assert "--no-deps" in own
    assert "/dist/" in own
    # What builds stays behind in the first stage.
    assert len(re.findall(r"^FROM ", joined, re.MULTILINE)) == 2
    assert "pip" not in joined.rpartition("\nFROM ")[2]


def test_with_tls_the_certificates_are_where_the_settings_say(tmp_path: Path) -> None:
    """The component's variables are settings of the scaler and lie in the mounted Secret."""
    built = objects_of(compose(tmp_path / "tls", "cluster-wide", "tls"))
    tls = configured(built, tmp_path).grpc.tls
    assert tls is not None
    mounts = {
        str(mount["name"]): mount["mountPath"]
        for mount in rows(only(built, "Deployment"), *CONTAINER, "volumeMounts")
    }
    files = (tls.certificate_file, tls.key_file, tls.client_ca_file)
    assert [f"{path}" for path in files] == [
        f"{mounts['tls']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")
    ]
    volumes = rows(only(built, "Deployment"), "spec", "template", "spec", "volumes")
    (secret,) = [at(v, "secret", "secretName") for v in volumes if v["name"] == "tls"]
    certificates = of_kind(objects_of("examples/tls"), "Certificate")
    assert secret in {at(each, "spec", "secretName") for each in certificates}
    (grpc,) = [p for p in rows(only(built, "Service"), "spec", "ports") if p["name"] == "grpc"]
    assert "appProtocol" not in grpc


def test_the_mesh_leaves_the_scalers_ports_alone(tmp_path: Path) -> None:
    """What Istio's sidecar excludes is what the server listens on, and what the policy lets out."""
    built = objects_of(compose(tmp_path / "istio", "cluster-wide", "istio"))
    pod = mapping(only(built, "Deployment"), "spec", "template", "metadata", "annotations")
    prefix = "traffic.sidecar.istio.io/exclude"
    assert pod == {
        f"{prefix}InboundPorts": f"{GRPC},{HTTP}",
        f"{prefix}OutboundPorts": ",".join(
            sorted({str(n) for n in numbers(only(built, "NetworkPolicy"), "egress")} - {"53"})
        ),
    }
