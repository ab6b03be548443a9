"""A page whose data is guarded: it asks for the token and keeps it no longer than its tab."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from scaler.edge.access import Readers
from tests.browser.chromium import screen
from tests.browser.gallery import gallery
from tests.edge.site import served

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(90),
    pytest.mark.asyncio(loop_scope="session"),
]

TOKEN = "0123456789abcdef-of-the-page"
DENIED = ("401",)


@pytest.fixture
def readers(tmp_path: Path) -> Readers:
    """Ask for a token."""
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return Readers(token_file=path)


async def test_the_page_asks_for_the_token_and_goes_on(browser: Browser, readers: Readers) -> None:
    """A wrong one is asked for again; the right one opens the view that was asked for."""
    async with served(gallery(), readers=readers) as site:
        where = f"http://127.0.0.1:{site.port}/"
        async with screen(browser, where, forgiven=DENIED) as seen:
            field = seen.page.get_by_label("Token")
            await expect(field).to_be_focused()
            await expect(seen.page.locator("#content")).to_contain_text("http.tokenFile")
            assert not await seen.barriers()
            await seen.keep("token")
            await field.fill("not-the-one-that-is-meant")
            await field.press("Enter")
            await expect(field).to_have_value("")
            await field.fill(TOKEN)
            await field.press("Enter")
            await expect(seen.page.locator(".row")).to_have_count(8)
            await expect(seen.page.locator("#live")).to_have_text("live")
            await seen.page.reload()
            await expect(seen.page.locator(".row")).to_have_count(8)


async def test_the_token_is_in_no_address_and_goes_with_the_tab(
    browser: Browser, readers: Readers
) -> None:
    """It is sent in a header, kept for the tab alone, and a second tab asks anew."""
    addresses: list[str] = []
    async with served(gallery(), readers=readers) as site:
        where = f"http://127.0.0.1:{site.port}/"
        async with screen(browser, where, forgiven=DENIED) as seen:
            seen.page.on("request", lambda request: addresses.append(request.url))
            await seen.page.get_by_label("Token").fill(TOKEN)
            await seen.page.get_by_role("button", name="Open").click()
            await expect(seen.page.locator(".row")).to_have_count(8)
            assert not [address for address in addresses if TOKEN in address]
            assert TOKEN not in str(await seen.page.evaluate("JSON.stringify(localStorage)"))
            assert TOKEN not in await seen.page.evaluate("document.cookie")
            assert TOKEN not in await seen.page.content()
            other = await seen.page.context.new_page()
            await other.goto(where)
            await expect(other.get_by_label("Token")).to_be_visible()


async def test_a_token_that_is_withdrawn_is_asked_for_again(
    browser: Browser, readers: Readers
) -> None:
    """The next news ends what the old one showed."""
    async with served(gallery(), readers=readers) as site:
        where = f"http://127.0.0.1:{site.port}/"
        async with screen(browser, where, forgiven=DENIED) as seen:
            await seen.page.get_by_label("Token").fill(TOKEN)
            await seen.page.get_by_role("button", name="Open").click()
            await expect(seen.page.locator(".row")).to_have_count(8)
            _replace(readers.token_file)
            site.world.board.post(site.world.board.snapshot.at + 15, {}, frozenset())
            await expect(seen.page.get_by_label("Token")).to_be_visible()
            assert await seen.page.locator(".row").count() == 0


def _replace(path: Path | None) -> None:
    assert path is not None
    path.write_text("another-token-of-enough-length")
