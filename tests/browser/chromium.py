"""A real browser to look at the page with: Debian's chromium, driven by playwright."""

from __future__ import annotations

import resource
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, FloatRect, Page, async_playwright

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
DESKTOP, PHONE = (1280, 900), (390, 844)

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PATIENCE = 20_000.0


@contextmanager
def _memory_unlimited() -> Iterator[None]:
    """Let the browser reserve addresses, which it does by the terabyte and never fills."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run a browser."""
    with _memory_unlimited():
        driver = await async_playwright().start()
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*_FLAGS], chromium_sandbox=False
        )
    try:
        yield browser
    finally:
        await browser.close()
        await driver.stop()


@dataclass
class Screen:
    """A page in a window of its own, and everything that it complained of."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    async def keep(self, name: str, *, height: int | None = None) -> None:
        """Keep a picture of the whole page, or of its upper part."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        part: FloatRect | None = None
        if height is not None:
            part = {"x": 0, "y": 0, "width": DESKTOP[0], "height": height}
        await self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True, clip=part)

    async def barriers(self) -> str:
        """Return what axe-core finds that shuts people out; empty where it finds nothing."""
        found = await Axe().run(self.page)
        return found.generate_report() if found.violations_count else ""

    async def overflows(self) -> bool:
        """Say whether the page is wider than its window, so that it scrolls sideways."""
        script = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(await self.page.evaluate(script))

    def note(self, message: ConsoleMessage) -> None:
        """Remember what the browser's console calls an error or a warning."""
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)


@asynccontextmanager
async def screen(
    browser: Browser,
    address: str,
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: Literal["dark", "light"] = "light",
    forgiven: tuple[str, ...] = (),
) -> AsyncIterator[Screen]:
    """Open an address; at the end nothing may have been complained of but what is `forgiven`.

    A refused script, style or request of the Content-Security-Policy is such a complaint.
    """
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        timezone_id="UTC",
        locale="en-GB",
        has_touch=size == PHONE,
    )
    context.set_default_timeout(_PATIENCE)
    shown = Screen(await context.new_page())
    shown.page.on("console", shown.note)
    shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    try:
        await shown.page.goto(address)
        yield shown
    finally:
        await context.close()
    unforgiven = [c for c in shown.complaints if not any(part in c for part in forgiven)]
    assert not unforgiven, unforgiven
