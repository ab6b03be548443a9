"""How every test runs: Hypothesis' profiles, the real Prometheus, and loud skips."""

from __future__ import annotations

import os
import resource
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

# Hostile input that would eat all memory fails its test instead of the machine.
_MEMORY_AT_MOST = 6 * 1024**3
resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_AT_MOST, resource.getrlimit(resource.RLIMIT_AS)[1]))

IN_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}

# What the tests marked so run, by marker: the first is also the name of its Debian package.
_PROGRAMS = {
    "prometheus": ("real Prometheus", ("prometheus", "promtool")),
    "browser": ("browser", ("chromium",)),
}

# Wall time says nothing on a shared machine; in CI the same tree gives the same verdict.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if IN_CI else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer --fail-on-skip, which CI=true turns on."""
    parser.addoption(
        "--fail-on-skip",
        action="store_true",
        default=IN_CI,
        help="a skipped test makes the run fail (on where CI is set)",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked for a program that this machine does not have."""
    for marker, (what, programs) in _PROGRAMS.items():
        if all(map(shutil.which, programs)):
            continue
        reason = f"no {what} here (apt-get install {programs[0]})"
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn a green run with skips red where the option asks for it."""
    green = session.exitstatus == pytest.ExitCode.OK
    if green and session.config.getoption("--fail-on-skip") and _skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Say before the closing line how many tests were skipped, in colour."""
    count = _skipped(config)
    if not count:
        return
    fails = config.getoption("--fail-on-skip")
    verdict = "which fails this run" if fails else "so this run proves less than it could"
    terminalreporter.section("SKIPPED", sep="!", red=True, bold=True)
    terminalreporter.line(f"{count} tests were skipped, {verdict}. Reasons above.", red=True)


def _skipped(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get("skipped", ())) if reporter else 0
