"""Engines found by their pods: what is scraped, and whose it is."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from scaler.adapters.pod_targets import PodPage, PodTargets
from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.control.ports import SourceUnreachable
from scaler.core.pods import Pod
from scaler.core.reading import Reading
from scaler.core.workload import Matcher, MatchOp, Selection
from tests.edge.certificates import Authority
from tests.fakes.clock import FakeClock

PAGE = (Path(__file__).parents[2] / "data" / "captures" / "saturated-waiting.txt").read_bytes()
CHAT, BATCH = ("llm", "chat"), ("llm", "batch")

Placed = dict[tuple[str, str], tuple[Pod, ...] | None]


def pod(name: str, ip: str | None = "10.0.0.7", **changes: object) -> Pod:
    """Return a pod with an address."""
    return replace(Pod(name=name, replica=name, created_at=1.0, ip=ip), **changes)  # type: ignore[arg-type]


def urls(placed: Placed, page: PodPage | None = None) -> list[str]:
    """Return what is scraped."""
    targets = PodTargets(page or PodPage(), lambda: placed)
    targets.look()
    return [target.url for target in targets.targets]


@pytest.mark.parametrize(
    ("page", "url"),
    [
        (PodPage(), "http://10.0.0.7:8000/metrics"),
        (PodPage(port=9000, path="/m", scheme="https"), "https://10.0.0.7:9000/m"),
        (PodPage(port="metrics"), "http://10.0.0.7:9100/metrics"),
    ],
)
def test_where_a_pod_is_scraped(page: PodPage, url: str) -> None:
    """By number or by the name of a container's port."""
    assert urls({CHAT: (pod("chat-0", ports={"metrics": 9100}),)}, page) == [url]


def test_an_address_of_the_newer_kind() -> None:
    """An IPv6 address stands in brackets."""
    assert urls({CHAT: (pod("chat-0", ip="fd00::7"),)}) == ["http://[fd00::7]:8000/metrics"]


def test_who_is_scraped() -> None:
    """Every pod of every workload that has an address and does not terminate, once."""
    here = pod("chat-0", ip="10.0.0.1")
    placed: Placed = {
        CHAT: (here, pod("chat-1", ip=None), pod("chat-2", ip="10.0.0.2", terminating=True)),
        ("llm", "chat-again"): (here,),
        BATCH: (pod("batch-0", ip="10.0.0.3", ready=False),),
        ("other", "chat"): (pod("chat-0", ip="10.0.0.4"),),
        ("other", "unknown"): None,
    }
    assert urls(placed) == [f"http://10.0.0.{n}:8000/metrics" for n in (1, 3, 4)]


def test_of_two_pods_with_one_address_the_younger_has_it() -> None:
    """An address is given away as soon as its pod has ended."""
    placed: Placed = {CHAT: (pod("young", created_at=9.0), pod("old", created_at=5.0))}
    targets = PodTargets(PodPage(), lambda: placed)
    targets.look()
    assert [target.pod for target in targets.targets] == ["young"]


def test_what_is_not_known_at_present_stays() -> None:
    """An outage of the API server changes no targets; a workload that goes takes its along."""
    placed: Placed = {CHAT: (pod("chat-0"),), BATCH: (pod("batch-0", ip="10.0.0.8"),)}
    targets = PodTargets(PodPage(), lambda: placed)
    assert targets.look()
    placed[CHAT] = None
    assert not targets.look()
    assert len(targets.targets) == 2
    del placed[BATCH]
    assert targets.look()
    assert [target.pod for target in targets.targets] == ["chat-0"]
    placed[CHAT] = ()
    assert targets.look()
    assert not targets.targets


def test_a_pod_without_the_port_is_told() -> None:
    """The message names a pod, the port and the cure, until the port is there."""
    placed: Placed = {CHAT: (pod("chat-0"), pod("chat-1"))}
    targets = PodTargets(PodPage(port="metrics"), lambda: placed)
    targets.look()
    assert not targets.targets
    assert targets.fault is not None
    assert targets.fault.startswith('2 pods, such as chat-0, have no port named "metrics": ')
    placed[CHAT] = (pod("chat-0", ports={"metrics": 1}),)
    targets.look()
    assert targets.fault is None


@pytest.mark.parametrize("ip", ["010.0.0.1", "bogus", " ", "127.9.0.9/24", "10.0.0.1:80", "::g"])
def test_an_address_that_is_none_concerns_its_pod_alone(ip: str) -> None:
    """Whatever a status says: the others are asked, and a person is told."""
    placed: Placed = {("prod", "chat"): (pod("chat-0", ip), pod("chat-1", "10.0.0.8"))}
    targets = PodTargets(PodPage(), lambda: placed)
    assert targets.look()
    assert [target.pod for target in targets.targets] == ["chat-1"]
    assert targets.fault is not None
    assert targets.fault.startswith("1 pods, such as chat-0, have a podIP that is no address")


def test_labels_are_those_of_the_pod() -> None:
    """As Prometheus writes them; what says whose the page is cannot be overwritten."""
    labels = {"app.kubernetes.io/name": "vllm", "pod": "mine", "tier": "gold"}
    targets = PodTargets(PodPage(), lambda: {CHAT: (pod("chat-0", labels=labels),)})
    targets.look()
    (target,) = targets.targets
    assert target.labels == {
        "app_kubernetes_io_name": "vllm",
        "tier": "gold",
        "pod": "chat-0",
        "namespace": "llm",
        "instance": "10.0.0.7:8000",
    }


# --- scraped over real sockets --------------------------------------------------------------------


class Pods:
    """Pages served at addresses of this machine, a pod each."""

    def __init__(self, port: int) -> None:
        """Serve nobody yet."""
        self.port = port
        self.placed: Placed = {}
        self.clock = FakeClock(1_000_000_005.0)

    def source(self, **settings: object) -> ScrapeSource:
        """Make a source over the pods."""
        page = PodPage(port=self.port, scheme=str(settings.pop("scheme", "http")))
        given = ScrapeSettings(timeout=1.0, **settings)  # type: ignore[arg-type]
        return ScrapeSource(given, self.clock, PodTargets(page, lambda: self.placed))


@pytest.fixture
async def pods() -> AsyncIterator[Pods]:
    """Serve the page at 127.0.0.1 and 127.0.0.2."""
    runner = web.AppRunner(_application(), shutdown_timeout=0.1)
    await runner.setup()
    first = web.TCPSite(runner, "127.0.0.1", 0)
    await first.start()
    port = int(runner.addresses[0][1])
    await web.TCPSite(runner, "127.0.0.2", port).start()
    yield Pods(port)
    await runner.cleanup()


def _application() -> web.Application:
    async def page(_: web.Request) -> web.Response:
        return web.Response(body=PAGE)

    app = web.Application()
    app.router.add_get("/metrics", page)
    return app


async def test_pods_are_found_by_any_selection_that_fits(pods: Pods) -> None:
    """By nothing but the namespace, by the model, and by a label of the pod."""
    labels = {"app": "chat"}
    pods.placed[CHAT] = (pod("chat-0", ip="127.0.0.1", labels=labels),)
    pods.placed[BATCH] = (pod("batch-0", ip="127.0.0.2"),)
    source = pods.source()
    await source.scrape_once()
    by_label = (Matcher(label="app", op=MatchOp.EQUAL, value="chat"),)
    anything = Selection(source="scrape", namespace="llm")
    model = replace(anything, model_name="tiny")
    labelled = replace(anything, matchers=by_label)
    found = await source.read([anything, model, labelled], pods.clock.now())
    names = {
        selection: {replica.name for replica in reading.replicas}
        for selection, reading in found.items()
        if isinstance(reading, Reading)
    }
    assert names == {
        anything: {"chat-0", "batch-0"},
        model: {"chat-0", "batch-0"},
        labelled: {"chat-0"},
    }


async def test_a_pod_that_comes_and_one_that_goes(pods: Pods) -> None:
    """Each round scrapes the pods that there are; an address that changes hands forgets."""
    source = pods.source()
    anything = Selection(source="scrape", namespace="llm")
    seen = []
    for placed in [
        (pod("chat-0", ip="127.0.0.1"),),
        (pod("chat-0", ip="127.0.0.1"), pod("chat-1", ip="127.0.0.2")),
        (pod("chat-0", ip="127.0.0.1", terminating=True), pod("chat-1", ip="127.0.0.2")),
        (pod("chat-2", ip="127.0.0.1"), pod("chat-1", ip="127.0.0.2")),
    ]:
        pods.placed[CHAT] = placed
        pods.clock.set(pods.clock.now() + 5.0)
        await source.scrape_once()
        reading = (await source.read([anything], pods.clock.now()))[anything]
        assert isinstance(reading, Reading)
        seen.append(sorted(replica.name for replica in reading.replicas))
        assert all(r.token_rate is None for r in reading.replicas if r.name == "chat-2")
    assert seen == [["chat-0"], ["chat-0", "chat-1"], ["chat-1"], ["chat-1", "chat-2"]]


async def test_a_certificate_is_checked_against_the_server_s_name(tmp_path: Path) -> None:
    """A pod's address stands in no certificate; without the name the page is refused."""
    authority = Authority("engines")
    authority.issue("engine").write(tmp_path)
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    runner = web.AppRunner(_application(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    pods = Pods(int(runner.addresses[0][1]))
    pods.placed[CHAT] = (pod("chat-0", ip="127.0.0.1"),)
    anything = Selection(source="scrape", namespace="llm")
    found = []
    for name in ("localhost", None):
        source = pods.source(scheme="https", ca_file=tmp_path / "ca.crt", server_name=name)
        await source.scrape_once()
        found.append((await source.read([anything], pods.clock.now()))[anything])
    await runner.cleanup()
    assert isinstance(found[0], Reading)
    assert len(found[0].replicas) == 1
    assert isinstance(found[1], SourceUnreachable)
