"""The whole of it: a real demo process, looked at with a real browser."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, expect

from tests.browser.chromium import screen

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(110),
    pytest.mark.asyncio(loop_scope="session"),
]

_SOON = 60_000
_DEMO = ("-m", "scaler", "demo", "--speed", "60")


@asynccontextmanager
async def demo() -> AsyncIterator[str]:
    """Run the demo and give the address that it says its page has."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *_DEMO, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    told = ""
    while (found := re.search(r"in a browser\s+(http://\S+)", told)) is None:
        line = await process.stdout.readline()
        assert line, told
        told += line.decode()
    swallowing = asyncio.create_task(_swallow(process.stdout))
    try:
        yield found[1]
    finally:
        process.terminate()
        await process.wait()
        await swallowing


async def _swallow(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        pass


async def test_the_demo_is_watched_explained_and_rehearsed(browser: Browser) -> None:
    """From the list to the workload to the desk, all on what a running scaler has seen."""
    async with demo() as address, screen(browser, address) as seen:
        page = seen.page
        row = page.locator(".row")
        await expect(row.locator(".near svg")).to_have_count(1, timeout=_SOON)
        await row.locator("a").click()
        corridor = page.get_by_role("img", name="Corridor and count")
        await expect(corridor.locator(".line.current").first).to_be_attached(timeout=_SOON)
        waiting = page.get_by_role("img", name="Waiting requests per replica")
        await expect(waiting.locator(".line.signal").first).to_be_attached()
        log = page.get_by_role("region", name="Changes of the answer")
        await expect(log.get_by_text("scale-out").first).to_be_visible(timeout=_SOON)
        await seen.keep("demo-workload")
        await page.get_by_role("link", name="Tuning desk").click()
        hours = page.get_by_role("row").filter(has_text="Replica-hours")
        await expect(hours.get_by_role("cell").nth(3)).to_have_text("same", timeout=_SOON)
        await page.get_by_role("slider", name="waitingHigh").press("End")
        await expect(page.get_by_role("textbox")).to_have_value(re.compile('waitingHigh: "100"'))
        await seen.keep("demo-desk")
