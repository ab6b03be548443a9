"""The tuning desk in a real browser: sliders, the rehearsed corridor, figures and the snippet."""

from __future__ import annotations

import re
from typing import Literal

import pytest
import yaml
from playwright.async_api import Browser, Locator, expect

from tests.browser.chromium import DESKTOP, PHONE, Screen, screen
from tests.edge.a_day import Kept
from tests.edge.site import Site, served
from tests.edge.test_desk import world

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(90),
    pytest.mark.asyncio(loop_scope="session"),
]

DAY = Kept()


def address(site: Site) -> str:
    """Return where the desk of the one workload is."""
    (key,) = site.world.board.snapshot.postings
    return f"http://127.0.0.1:{site.port}/#/{key.namespace}/{key.name}/{key.trigger}/desk"


def figure(seen: Screen, name: str, column: int) -> Locator:
    """Return a cell of the table of figures."""
    row = seen.page.get_by_role("row").filter(has_text=name)
    return row.get_by_role("cell").nth(column)


async def slide(slider: Locator, *keys: str) -> None:
    """Move a slider by the keyboard."""
    await slider.focus()
    for key in keys:
        await slider.press(key)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_another_window_is_tried_on_a_whole_day(
    browser: Browser, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    """The slider redraws corridor and count, the figures say what it costs; and no barrier."""
    async with (
        served(world(), records=DAY) as site,
        screen(browser, address(site), size=size, scheme=scheme) as seen,
    ):
        page = seen.page
        plot = page.get_by_role("img", name="Corridor and count")
        count = plot.locator(".line.current")
        await expect(count).to_have_count(1)
        before = await count.get_attribute("d")
        await expect(figure(seen, "Replica-hours", 3)).to_have_text("same")
        present = await figure(seen, "Replica-hours", 1).inner_text()
        await slide(page.get_by_role("slider", name="scaleInWindow"), "End")
        await expect(figure(seen, "Replica-hours", 3)).to_contain_text("+")
        await expect(page.locator(".knob.changed output")).to_have_text("5 min → 60 min")
        assert await count.get_attribute("d") != before
        await expect(figure(seen, "Replica-hours", 1)).to_have_text(present)
        assert not await seen.overflows()
        assert not await seen.barriers()
        await seen.keep(f"desk-{'phone' if size == PHONE else 'desktop'}-{scheme}")


async def test_what_is_copied_is_what_was_tried(browser: Browser) -> None:
    """The snippet follows the sliders, and is on the clipboard at a press of a button."""
    async with served(world(), records=DAY) as site, screen(browser, address(site)) as seen:
        await seen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await slide(seen.page.get_by_role("slider", name="waitingHigh"), "ArrowRight")
        snippet = seen.page.get_by_role("textbox")
        await expect(snippet).to_have_value(re.compile('waitingHigh: "8"'))
        await seen.page.get_by_role("button", name="Copy").click()
        await expect(seen.page.get_by_text("Copied")).to_be_visible()
        copied = await seen.page.evaluate("navigator.clipboard.readText()")
    assert yaml.safe_load(copied) == {"metadata": {"modelName": "llama", "waitingHigh": "8"}}


async def test_what_cannot_be_is_said_beside_the_sliders(browser: Browser) -> None:
    """Low above High is a fault that names the key; going back cures it."""
    async with served(world(), records=DAY) as site, screen(browser, address(site)) as seen:
        slider = seen.page.get_by_role("slider", name="kvCacheHigh")
        await slide(slider, "Home")
        await expect(seen.page.get_by_role("alert")).to_contain_text("kvCacheHigh")
        await expect(slider).to_have_attribute("aria-invalid", "true")
        assert not await seen.barriers()
        await seen.page.get_by_role("button", name="Reset all").click()
        await expect(seen.page.get_by_role("alert")).to_be_empty()
        await expect(figure(seen, "Replica-hours", 3)).to_have_text("same")


async def test_a_fast_hand_gets_the_newest_answer(browser: Browser) -> None:
    """A slider that is dragged over all its steps ends at the figures of the last."""
    async with served(world(), records=DAY) as site, screen(browser, address(site)) as seen:
        slider = seen.page.get_by_role("slider", name="waitingHigh")
        await slide(slider, "Home", *["ArrowRight"] * 12, "End")
        await expect(figure(seen, "Time over waitingHigh", 2)).to_have_text("0 s")
        await expect(seen.page.get_by_role("textbox")).to_have_value(re.compile('High: "100"'))


async def test_without_a_past_the_desk_says_when_there_will_be_one(browser: Browser) -> None:
    """A new scaler has nothing to rehearse on."""
    async with (
        served(world(), records=Kept(hours=0)) as site,
        screen(browser, address(site), forgiven=("503",)) as seen,
    ):
        await expect(seen.page.get_by_text("nothing is recorded of prod/chat yet")).to_be_visible()
