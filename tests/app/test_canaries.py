"""A real process whose neighbours repeat every secret that they are shown: none comes out of it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import yaml
from aiohttp import web

from tests.app.process import Process, scaler
from tests.app.test_process import until
from tests.keda_client import Keda, scaled_object

CANARY = "canary5ec"
TOKEN, PASSWORD = f"{CANARY}-token", f"{CANARY}-password"
HEADER, PARAMETER = f"{CANARY}-tenant", f"{CANARY}-parameter"
KUBE_TOKEN, METADATA = f"{CANARY}-kube", f"{CANARY}-metadata"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
"""A password is as good as itself in this form."""

pytestmark = pytest.mark.timeout(90)


@asynccontextmanager
async def parrot(status: int, asked: list[str]) -> AsyncIterator[int]:
    """Repeat all headers and the address in the reason, the headers and the body of each answer."""

    async def repeat(request: web.Request) -> web.Response:
        told = " ".join([str(request.rel_url), *request.headers.values()])
        asked.append(told)
        error = {"status": "error", "errorType": "execution", "error": f"refused: {told}"}
        body = json.dumps(error)
        return web.Response(status=status, reason="no", headers={"X-Told": told}, text=body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", repeat)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def configure(folder: Path, port: int) -> Path:
    """Write a configuration that holds a secret wherever one can be named."""
    (folder / "token").write_text(TOKEN, encoding="utf-8")
    (folder / "password").write_text(PASSWORD, encoding="utf-8")
    url = f"http://127.0.0.1:{port}"
    user = {"name": "u", "user": {"token": KUBE_TOKEN}}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": url}}],
        "users": [user],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig), encoding="utf-8")
    headers = {"X-Scope-OrgID": HEADER}
    bearer = {"type": "prometheus", "url": url, "bearerTokenFile": str(folder / "token")}
    config = {
        "log": {"level": "debug"},
        "cluster": "kubernetes",
        "kubernetes": {"kubeconfig": str(folder / "kubeconfig")},
        "sources": {
            "bearer": {**bearer, "headers": headers, "parameters": {"tenant": PARAMETER}},
            "basic": {
                "type": "prometheus",
                "url": url,
                "username": "me",
                "passwordFile": str(folder / "password"),
            },
        },
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


async def all_that_is_said(running: Process) -> list[str]:
    """Ask KEDA's calls and every page, and collect the log."""
    said: list[str] = []
    async with Keda(running.grpc) as keda:
        for ref in (
            scaled_object("prod", "bearer", {"modelName": "m", "source": "bearer"}),
            scaled_object("prod", "basic", {"modelName": "m", "source": "basic"}),
            scaled_object("prod", "bad", {"modelName": "m", "waitingHighFromEnv": METADATA}),
            scaled_object("prod", "authenticated", {"tlsClientKey": METADATA, "token": METADATA}),
        ):
            try:
                await keda.poll(ref)
            except grpc.aio.AioRpcError as error:
                said.append(f"{error.details()} {error.debug_error_string()}")
    paths = ["/", "/metrics", "/healthz", "/readyz", "/api/v1/workloads"]
    for name in ("bearer", "basic"):
        about = f"/api/v1/workloads/prod/{name}"
        paths += [about, f"{about}?format=text", f"{about}/diagnosis", f"{about}/history"]
        paths += [f"{about}/diagnosis?format=text", f"{about}/decisions"]
    said += [(await running.get(path))[1] for path in paths]
    return [*said, running.logged()]


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 429, 500, 503])
async def test_no_secret_comes_out(tmp_path: Path, status: int) -> None:
    """Neither in a log, a metric, an error of KEDA's, a page, an explanation nor a diagnosis."""
    asked: list[str] = []
    async with parrot(status, asked) as port:
        config = configure(tmp_path, port)
        async with scaler(tmp_path, ["--config", str(config)]) as running:
            await all_that_is_said(running)

            async def everybody_was_shown_theirs() -> bool:
                shown = " ".join(asked)
                return all(each in shown for each in (TOKEN, BASIC, HEADER, PARAMETER, KUBE_TOKEN))

            await until(everybody_was_shown_theirs)
            await asyncio.sleep(0.3)  # what was answered is told a moment later
            said = "\n".join(await all_that_is_said(running))
    assert "prod" in said
    assert CANARY not in said
    assert BASIC not in said


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"url": f"http://me:{CANARY}@p:9090"}, "holds a user or a password"),
        ({"url": "http://p", "headers": {"Authorization": CANARY}}, "holds a secret"),
        ({"url": "http://p", "password": CANARY}, "use passwordFile"),
        ({"url": "http://p", "bearerToken": CANARY}, "use bearerTokenFile"),
        ({"url": "http://p", "parameters": {"api_key": CANARY}}, "holds a secret"),
        ({"url": f"http://p/?token={CANARY}"}, "holds a query"),
    ],
)
async def test_a_secret_in_the_configuration_is_refused_unshown(
    tmp_path: Path, section: dict[str, object], told: str
) -> None:
    """The process does not start, says why, and repeats nothing."""
    config = tmp_path / "config.yaml"
    sources = {"sources": {"main": {"type": "prometheus", **section}}}
    config.write_text(yaml.safe_dump(sources), encoding="utf-8")
    with pytest.raises(AssertionError, match=told) as ended:
        async with scaler(tmp_path, ["--config", str(config)]):
            pass
    assert CANARY not in str(ended.value)
