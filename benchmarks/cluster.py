"""1,000 ScaledObjects and 5,000 pods in a cluster: start to the first full board, CPU, memory.

Three processes: the tests' API server, the scaler with its loop, and this one, which starts them
and looks at what they use. The objects are as large as real ones (a pod takes 6 kB).
"""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import structlog
from _measure import cpu_seconds, machine, resident_mib

sys.path.insert(0, str(Path(__file__).parents[1]))

from scaler.app import Application
from scaler.config.server import load_config
from tests.adapters.kubernetes.following import kubeconfig
from tests.kubernetes_server.objects import deployment, hpa, pod, scaled_object
from tests.kubernetes_server.resources import Json, section
from tests.kubernetes_server.server import ApiServer, api_server

WORKLOADS, PODS = 1000, 5
CHURN_SECONDS = 30


def place(number: int, namespaces: int) -> str:
    """Spread the workloads."""
    return f"team-{number % namespaces}"


def realistic(found: Json) -> Json:
    """Add what real objects carry beside what matters."""
    meta = section(found, "metadata")
    meta["managedFields"] = [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "time": "2026-12-01T10:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {f"f:{a}": {f"f:{b}": {} for b in range(10)} for a in range(12)},
        }
    ]
    spec = section(found, "spec")
    spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}] * 4
    spec["env"] = [{"name": f"VARIABLE_{n}", "value": "v" * 40} for n in range(40)]
    return found


def fill(server: ApiServer, namespaces: int) -> None:
    """Put everything into the store."""
    for number in range(WORKLOADS):
        name, namespace = f"chat-{number}", place(number, namespaces)
        server.store.put(scaled_object(name, namespace=namespace))
        server.store.put(hpa(name, namespace=namespace, current=PODS, most=40))
        server.store.put(realistic(deployment(name, namespace=namespace, replicas=PODS)))
        for each in range(PODS):
            server.store.put(realistic(pod(f"{name}-{each}", of=name, namespace=namespace)))


async def churn(server: ApiServer, namespaces: int) -> None:
    """Change what changes in a busy cluster: each HPA every 15 s, ten pods a second."""
    number = 0
    while True:
        for _ in range(7):
            number += 1
            of = number % WORKLOADS
            name, namespace = f"chat-{of}", place(of, namespaces)
            found = hpa(name, namespace=namespace, current=PODS, most=40)
            section(found, "status")["observedAt"] = number
            server.store.put(found)
            ready = None if number % 2 else 1_000_000_180.0
            server.store.put(
                realistic(pod(f"{name}-0", of=name, namespace=namespace, ready_at=ready))
            )
        await asyncio.sleep(0.1)


async def serve(directory: Path, namespaces: int) -> None:
    """Be the API server: full, then busy once somebody asks for it."""
    async with api_server() as server:
        fill(server, namespaces)
        kubeconfig(directory, server)
        busy = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, busy.set)
        print("ready", flush=True)
        await busy.wait()
        await churn(server, namespaces)


async def scale(directory: Path, namespaces: int) -> None:
    """Be the scaler, asked about all workloads; say when the board is full, then go on."""
    targets = directory / "targets.json"
    targets.write_text("[]", encoding="utf-8")
    flags = {
        "source": "scrape",
        "targets": str(targets),
        "cluster": "kubernetes",
        "kubeconfig": str(directory / "kubeconfig"),
        "grpc_listen": "127.0.0.1:0",
        "http_listen": "127.0.0.1:0",
        "log_level": "error",
    }
    application = Application(partial(load_config, None, {}, flags))
    cluster = application.loop._cluster
    if cluster is None:
        sys.exit("the configuration names no cluster")
    running = asyncio.create_task(application.run(asyncio.Event()))
    await application.started.wait()
    print("started", flush=True)
    keys = [(place(number, namespaces), f"chat-{number}") for number in range(WORKLOADS)]
    for namespace, name in keys:
        application.registry.ask(namespace, name, {"modelName": name})
    while True:
        postings = application.board.snapshot.postings.values()
        full = sum(posting.decision.current == PODS for posting in postings) == WORKLOADS
        if full and all(len(cluster.pods(*key) or ()) == PODS for key in keys):
            break
        await asyncio.sleep(0.02)
    print("full", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"peak": peak, "faults": cluster.faults}), flush=True)
    await running


def measure(namespaces: int) -> None:
    """Start both, and print what the scaler took."""
    child = [sys.executable, __file__]
    with tempfile.TemporaryDirectory() as directory:
        role = [directory, str(namespaces)]
        server = start([*child, "serve", *role])
        scaler = None
        try:
            heard(server)
            served, began = cpu_seconds(server.pid), time.perf_counter()
            scaler = start([*child, "scale", *role])
            report(scaler, server, began, served, namespaces)
        finally:
            for process in filter(None, (scaler, server)):
                process.kill()
                process.wait()


def start(command: list[str]) -> subprocess.Popen[str]:
    """Start a process that we listen to."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> str:
    """Return the next line that it says."""
    return process.stdout.readline() if process.stdout is not None else ""


def report(
    scaler: subprocess.Popen[str],
    server: subprocess.Popen[str],
    began: float,
    served: float,
    namespaces: int,
) -> None:
    """Follow the scaler through its start and through a busy half minute."""
    heard(scaler)
    started, cpu_started = time.perf_counter() - began, cpu_seconds(scaler.pid)
    heard(scaler)
    full, cpu_full = time.perf_counter() - began, cpu_seconds(scaler.pid)
    told = json.loads(heard(scaler))
    print(f"{WORKLOADS} ScaledObjects, {WORKLOADS * PODS} pods, {namespaces} namespaces:")
    print(f"  listening after {started:.2f} s ({cpu_started:.2f} s CPU)")
    print(f"  full board after {full:.2f} s ({cpu_full:.2f} s CPU; peak {told['peak']:.0f} MiB)")
    print(f"  the test API server took {cpu_seconds(server.pid) - served:.2f} s CPU for it")
    print(f"  faults: {told['faults'] or 'none'}")
    time.sleep(15)
    quiet = cpu_seconds(scaler.pid)
    time.sleep(CHURN_SECONDS)
    idle = cpu_seconds(scaler.pid) - quiet
    server.send_signal(signal.SIGUSR1)
    time.sleep(CHURN_SECONDS)
    busy = cpu_seconds(scaler.pid) - quiet - idle
    print(f"  quiet: {100 * idle / CHURN_SECONDS:.1f} % of a core")
    print(f"  67 HPAs and 70 pods change a second: {100 * busy / CHURN_SECONDS:.1f} % of a core")
    print(f"  memory at the end: {resident_mib(scaler.pid):.0f} MiB")


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    if len(sys.argv) > 1 and sys.argv[1] in {"serve", "scale"}:
        role = serve if sys.argv[1] == "serve" else scale
        asyncio.run(role(Path(sys.argv[2]), int(sys.argv[3])))
        return
    print(machine())
    for namespaces in (1, 20, 200):
        measure(namespaces)


main()
