"""Getting in: basic authentication, an own CA and a client certificate, for both sources."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from scaler.adapters.prometheus import PrometheusSource
from scaler.adapters.prometheus_settings import PrometheusSettings
from scaler.adapters.scrape import ScrapeSource
from scaler.adapters.scrape_client import ScrapeSettings
from scaler.control.ports import SourceError, SourceUnreachable
from scaler.core.reading import Reading
from scaler.core.workload import Selection
from tests.edge.certificates import Authority
from tests.fakes.clock import FakeClock

NOTHING = {"status": "success", "data": {"resultType": "vector", "result": []}}
CHAT = Selection(source="p", namespace="prod", model_name="m")
AT = 1_000_000_005.0
PAGE = (
    'vllm:num_requests_running{engine="0",model_name="m"} 1\n'
    'vllm:num_requests_waiting{engine="0",model_name="m"} 0\n'
    'vllm:generation_tokens_total{engine="0",model_name="m"} 5\n'
)


class Guarded:
    """A TLS server that serves only clients of its authority, and notes how they got in."""

    def __init__(self, directory: Path) -> None:
        """Make the certificates of both sides."""
        authority = Authority("tests")
        self.ca = directory / "ca.crt"
        self.ca.write_bytes(authority.certificate)
        self.folders: dict[str, Path] = {}
        for side in ("server", "client"):
            self.folders[side] = directory / side
            self.folders[side].mkdir()
            authority.issue(side).write(self.folders[side])
        self.seen: list[str] = []
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a query with nothing, and a scrape with a page."""
        self.seen.append(request.headers.get("Authorization", ""))
        if request.method == "POST":
            return web.Response(text=json.dumps(NOTHING))
        return web.Response(text=PAGE)

    def context(self) -> ssl.SSLContext:
        """Demand a client certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.ca)
        folder = self.folders["server"]
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """Serve on a port of this machine."""
    served = Guarded(tmp_path)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", served.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=served.context()).start()
    served.port = int(runner.addresses[0][1])
    yield served
    await runner.cleanup()


def given(guarded: Guarded, directory: Path) -> dict[str, object]:
    """Return how to get in."""
    password = directory / "password"
    password.write_text("open sesame\n", encoding="utf-8")
    return {
        "username": "scaler",
        "password_file": password,
        "ca_file": guarded.ca,
        "client_certificate_file": guarded.folders["client"] / "tls.crt",
        "client_key_file": guarded.folders["client"] / "tls.key",
    }


async def asked(settings: PrometheusSettings) -> Reading | SourceError:
    """Ask once, and leave no connection open."""
    source = PrometheusSource(settings)
    try:
        return (await source.read([CHAT], AT))[CHAT]
    finally:
        source.close()


BASIC = "Basic " + base64.b64encode(b"scaler:open sesame").decode()


async def test_prometheus_with_a_client_certificate(guarded: Guarded, tmp_path: Path) -> None:
    """Own CA, client certificate and basic authentication together get in."""
    url = f"https://localhost:{guarded.port}"
    settings = PrometheusSettings(url=url, **given(guarded, tmp_path))  # type: ignore[arg-type]
    found = await asked(settings)
    assert isinstance(found, Reading)
    assert set(guarded.seen) == {BASIC}


@pytest.mark.parametrize("missing", ["ca_file", "client_certificate_file"])
async def test_prometheus_without_a_certificate(
    guarded: Guarded, tmp_path: Path, missing: str
) -> None:
    """A server that is not trusted, or does not trust us, is unreachable; the password stays in."""
    access = given(guarded, tmp_path)
    access[missing] = None
    if missing == "client_certificate_file":
        access["client_key_file"] = None
    url = f"https://localhost:{guarded.port}"
    settings = PrometheusSettings(url=url, timeout=5.0, **access)  # type: ignore[arg-type]
    found = await asked(settings)
    assert isinstance(found, SourceUnreachable)
    assert "sesame" not in str(found)
    assert guarded.seen == []


async def test_scraping_with_a_client_certificate(guarded: Guarded, tmp_path: Path) -> None:
    """The scrape source gets in the same way."""
    targets = tmp_path / "targets.json"
    labels = {"namespace": "prod", "pod": "a", "__scheme__": "https"}
    group = {"targets": [f"localhost:{guarded.port}"], "labels": labels}
    targets.write_text(json.dumps([group]), encoding="utf-8")
    settings = ScrapeSettings(targets=targets, **given(guarded, tmp_path))  # type: ignore[arg-type]
    clock = FakeClock(AT)
    source = ScrapeSource(settings, clock)
    await source.scrape_once()
    found = (await source.read([CHAT], AT))[CHAT]
    assert isinstance(found, Reading)
    assert [replica.name for replica in found.replicas] == ["a"]
    assert guarded.seen == [BASIC]
