"""All workloads at a glance, in a real browser."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from playwright.async_api import Browser, expect

from scaler.core.policy import Mode
from scaler.core.reasons import Reason
from tests.browser.chromium import DESKTOP, PHONE, Screen, screen
from tests.browser.gallery import gallery
from tests.edge.site import Site, served
from tests.edge.world import NOON, World, decided
from tests.keda_client import scaled_object

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(90),
    pytest.mark.asyncio(loop_scope="session"),
]

HOSTILE = '<img src=x onerror="document.title=1"><b>no answer</b>'
LOST = ("ERR_", "net::")


def address(site: Site) -> str:
    """Return where the page is."""
    return f"http://127.0.0.1:{site.port}/"


async def shown(shown: Screen) -> list[str]:
    """Return the names in the list, from the top."""
    return await shown.page.locator(".row .name").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_every_workload_is_seen_at_a_glance(
    browser: Browser, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    """State, counts, reason and nearest threshold of each, the most urgent first; no barrier."""
    async with (
        served(gallery()) as site,
        screen(browser, address(site), size=size, scheme=scheme) as seen,
    ):
        rows = seen.page.locator(".row")
        await expect(rows).to_have_count(8)
        await expect(rows.nth(0)).to_contain_text("Critical")
        await expect(rows.last).to_contain_text("Steady")
        names = await shown(seen)
        busy = rows.nth(names.index("prod/code-completion"))
        await expect(busy.locator(".badge")).to_have_text("→ Moving")
        await expect(busy.locator(".scale")).to_have_text("4 → 7")
        await expect(busy.locator(".why")).to_contain_text("the headroom is used up")
        await expect(busy.locator(".near")).to_contain_text("Waiting per replica 15, High is 5")
        killed = rows.nth(names.index("prod/chat"))
        await expect(killed).to_contain_text("host-oom-kill")
        await expect(seen.page.locator("#live")).to_have_text("live")
        assert not await seen.overflows()
        assert not await seen.barriers()
        await seen.keep(f"glance-{'phone' if size == PHONE else 'desktop'}-{scheme}")


async def test_news_arrive_without_a_reload(browser: Browser) -> None:
    """What is posted on the board is on the page, in the row that was there before."""
    world = World()
    world.post(decided())
    async with served(world) as site, screen(browser, address(site)) as seen:
        row = seen.page.locator(".row")
        await expect(row.locator(".scale")).to_have_text("4")
        await row.locator("a").focus()
        world.post(decided(at=NOON + 15, desired=6, advised=6, reason=Reason.SCALE_OUT_QUEUE))
        await expect(row.locator(".scale")).to_have_text("4 → 6")
        await expect(row.locator("a")).to_be_focused()
        world.post(decided(), scaled_object(name="another"))
        await expect(seen.page.locator(".row")).to_have_count(2)


async def test_nothing_that_is_shown_is_read_as_markup(browser: Browser) -> None:
    """A message with tags in it is shown with its tags."""
    world = World()
    world.post(decided(), trouble=HOSTILE)
    async with served(world) as site, screen(browser, address(site)) as seen:
        await expect(seen.page.get_by_text(HOSTILE)).to_be_visible()
        assert await seen.page.locator(".row img, .row b").count() == 0
        assert await seen.page.title() == "Workloads – vLLM scaler"


async def test_advice_is_told_from_an_answer(browser: Browser) -> None:
    """Where a workload is only watched, the list shows what would have been asked for."""
    world = World()
    posting = world.post(decided(desired=4, advised=6, reason=Reason.SCALE_OUT_QUEUE))
    advised = replace(posting, policy=replace(posting.policy, mode=Mode.ADVISE))
    world.board.post(NOON, {posting.key: advised}, frozenset())
    async with served(world) as site, screen(browser, address(site)) as seen:
        await expect(seen.page.locator(".row .scale")).to_have_text("4 → 6")
        await expect(seen.page.locator(".row .why")).to_contain_text("Advice only.")


async def test_the_list_is_used_with_the_keyboard(browser: Browser) -> None:
    """A slash leads to the filter, which survives a look at a workload; Tab leads on to it."""
    async with served(gallery()) as site, screen(browser, address(site)) as seen:
        await expect(seen.page.locator(".row")).to_have_count(8)
        await seen.page.keyboard.press("/")
        await seen.page.keyboard.type("LLM transl")
        await expect(seen.page.locator(".row")).to_have_count(1)
        await expect(seen.page.get_by_text("1 of 8 workloads match.")).to_be_visible()
        await seen.page.keyboard.press("Tab")
        await expect(seen.page.get_by_role("link", name="llm/translation")).to_be_focused()


async def test_a_new_user_is_told_what_is_missing(browser: Browser) -> None:
    """An empty list says how a workload gets into it."""
    async with served() as site, screen(browser, address(site)) as seen:
        await expect(seen.page.get_by_text("create a ScaledObject")).to_be_visible()
        await seen.keep("glance-empty")


async def test_a_lost_connection_is_seen_and_comes_back_by_itself(browser: Browser) -> None:
    """The page says since when it shows the past, and is live again with the server."""
    world = World()
    world.post(decided())
    async with served(world) as site, screen(browser, address(site), forgiven=LOST) as seen:
        await expect(seen.page.locator("#live")).to_have_text("live")
        await site.server.drain()
        await expect(seen.page.locator("#live")).to_contain_text("connection lost since")
        assert not await seen.barriers()
        world.post(decided(at=NOON + 15, desired=5, advised=5))
        async with served(World(board=world.board), port=site.port):
            await expect(seen.page.locator("#live")).to_have_text("live")
            await expect(seen.page.locator(".row .scale")).to_have_text("4 → 5")


async def test_the_theme_can_be_chosen_and_is_kept(browser: Browser) -> None:
    """The button goes round light, dark and the system's own; a reload keeps the choice."""
    async with served(gallery()) as site, screen(browser, address(site)) as seen:
        button = seen.page.get_by_role("button", name="Theme")
        await expect(button).to_have_text("Theme: auto")
        await button.click()
        await button.click()
        await seen.page.reload()
        await expect(button).to_have_text("Theme: dark")
        await expect(seen.page.locator("html")).to_have_attribute("data-theme", "dark")
        assert not await seen.barriers()
