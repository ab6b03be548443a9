"""`scaler health`, the list of commands, and what running one costs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scaler import __version__
from scaler.cli import COMMANDS, main
from scaler.edge.tls import TlsFiles
from tests.edge.certificates import Authority
from tests.edge.world import World

pytestmark = pytest.mark.timeout(30)


async def run(*arguments: str) -> Result:
    """Run a command beside the event loop that serves it."""
    return await asyncio.to_thread(CliRunner().invoke, main, list(arguments))


async def test_a_scaler_that_answers_is_healthy() -> None:
    """The exit status is what a container's health check reads."""
    server = World().server()
    port = await server.serve("127.0.0.1:0")
    well = await run("health", "--grpc", f"127.0.0.1:{port}")
    await server.drain(within=1.0)
    gone = await run("health", "--grpc", f"127.0.0.1:{port}", "--timeout", "1")
    assert (well.exit_code, well.output.strip()) == (0, "SERVING")
    assert gone.exit_code == 1
    assert f"the scaler at 127.0.0.1:{port} does not answer KEDA: UNAVAILABLE" in gone.output


async def test_health_can_be_asked_over_mutual_tls(tmp_path: Path) -> None:
    """A probe shows its certificate as KEDA does; without one it is turned away."""
    ca = Authority("ca")
    ca.issue("server").write(tmp_path)
    (tmp_path / "ca.crt").write_bytes(ca.certificate)
    tls = TlsFiles(
        certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key", client_ca=tmp_path / "ca.crt"
    )
    server = World().server(tls=tls)
    port = await server.serve("127.0.0.1:0")
    asked = ["health", "--grpc", f"127.0.0.1:{port}", "--server-name", "localhost"]
    asked += ["--ca-cert", str(tmp_path / "ca.crt"), "--timeout", "2"]
    shown = ["--client-cert", str(tmp_path / "tls.crt"), "--client-key", str(tmp_path / "tls.key")]
    known, stranger = await run(*asked, *shown), await run(*asked)
    await server.drain(within=1.0)
    assert (known.exit_code, stranger.exit_code) == (0, 1)


@pytest.mark.parametrize("option", ["--client-cert", "--client-key"])
async def test_half_of_a_pair_is_refused(tmp_path: Path, option: str) -> None:
    """A certificate without its key would be ignored in silence."""
    (tmp_path / "file").write_bytes(b"")
    result = await run("health", option, str(tmp_path / "file"))
    assert result.exit_code == 2
    assert "belong together" in result.output


def test_the_version_is_the_package_s() -> None:
    """`scaler --version` prints one line."""
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.output) == (0, f"scaler, version {__version__}\n")


def test_the_list_of_commands_names_each() -> None:
    """`scaler --help` has a line for every command."""
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name, (_, line) in COMMANDS.items():
        assert f"{name} " in result.output
        assert line in result.output


def test_an_unknown_command_is_a_usage_error() -> None:
    """A typing error is no traceback."""
    result = CliRunner().invoke(main, ["explode"])
    assert result.exit_code == 2
    assert "No such command" in result.output


@pytest.mark.parametrize("command", ["", "check", "explain", "health"])
def test_help_loads_no_heavy_library(command: str) -> None:
    """Commands are imported when they run, and big libraries when they are needed."""
    heavy = {"grpc", "aiohttp", "kubernetes", "prometheus_api_client", "prometheus_client"}
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from scaler.cli import main\n"
        f"arguments = [word for word in ({command!r}, '--help') if word]\n"
        "assert CliRunner().invoke(main, arguments).exit_code == 0\n"
        f"print(*({heavy!r} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
