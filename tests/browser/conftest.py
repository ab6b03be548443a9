"""One browser for all tests in this folder; each opens windows of its own in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.chromium import chromium


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Run a browser until the last test is over."""
    async with chromium() as running:
        yield running
