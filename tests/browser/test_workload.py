"""One workload in a real browser: why it has its count, its past, and what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import pytest
from playwright.async_api import Browser, Locator, expect

from scaler.core.reasons import Reason
from tests.browser.chromium import DESKTOP, PHONE, Screen, screen
from tests.browser.gallery import gallery
from tests.browser.past import Row, day, pretend
from tests.edge.history import decision_on
from tests.edge.site import Site, served
from tests.edge.world import NOON, World, decided
from tests.keda_client import scaled_object

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(90),
    pytest.mark.asyncio(loop_scope="session"),
]

UNKNOWN_WORKLOAD = ("404",)


def address(site: Site, namespace: str = "prod", name: str = "chat") -> str:
    """Return where a workload's view is."""
    key = next(
        k for k in site.world.board.snapshot.postings if (k.namespace, k.name) == (namespace, name)
    )
    return f"http://127.0.0.1:{site.port}/#/{namespace}/{name}/{key.trigger}"


async def charts(seen: Screen) -> list[Locator]:
    """Return the line through each chart that shows the moment."""
    return await seen.page.locator(".cursor").all()


def busy() -> World:
    """Return a world with a fleet that is about to grow."""
    world = World()
    world.post(decision_on(waiting=60.0, running=380.0, kv_cache=0.93))
    return world


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_one_workload_is_explained_on_one_page(
    browser: Browser, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    """Count, reason, diagnosis, the day's corridor, signals, states and log; and no barrier."""
    async with (
        served(busy()) as site,
        screen(browser, "about:blank", size=size, scheme=scheme) as seen,
    ):
        page = seen.page
        await pretend(page, day())
        await page.goto(address(site))
        await expect(page.locator(".count-now")).to_have_text("4 → 7")
        await expect(page.locator(".because")).to_contain_text("scale-out-concurrency")
        await page.get_by_role("button", name="24 h").click()
        corridor = page.get_by_role("img", name="Corridor and count")
        await expect(corridor.locator(".line.current")).to_have_count(1)
        await expect(corridor.locator(".line.floor")).to_have_count(2)
        await expect(corridor.locator(".area.corridor")).to_have_count(2)
        for name, high, low in (
            ("Waiting requests per replica", "High 5", "Low 1"),
            ("Time to first token p95", "High 2.5 s", "Low 1 s"),
            ("KV cache in use", "High 85 %", "Low 60 %"),
        ):
            chart = page.get_by_role("figure").filter(has=page.get_by_role("img", name=name))
            await expect(chart.locator(".legend")).to_contain_text(high)
            await expect(chart.locator(".legend")).to_contain_text(low)
            await expect(chart.locator(".line.limit")).to_have_count(2)
        tpot = page.get_by_role("img", name="Time per output token")
        await expect(tpot.locator(".line.signal")).to_have_count(2)
        await expect(tpot.locator(".line.limit")).to_have_count(0)
        await expect(page.get_by_role("img", name="Replica states")).to_be_visible()
        await expect(page.get_by_text("What would change the answer")).to_be_visible()
        assert not await seen.overflows()
        assert not await seen.barriers()
        await seen.keep(f"workload-{'phone' if size == PHONE else 'desktop'}-{scheme}")
        await seen.keep(f"workload-upper-{scheme}", height=1500)


async def test_the_corridor_is_drawn_around_the_count(browser: Browser) -> None:
    """On the screen the floor lies below the ceiling and the count is where its value says."""
    rows: list[Row] = [
        {**row, "current": 4, "desired": 4, "floor": 2, "ceiling": 6}
        for row in day()
        if row["serving"] is not None
    ]
    async with served(busy()) as site, screen(browser, "about:blank") as seen:
        await pretend(seen.page, rows)
        await seen.page.goto(address(site))
        corridor = seen.page.get_by_role("img", name="Corridor and count")
        await expect(corridor).to_have_accessible_name(
            "Corridor and count (replicas). The count is 4, the floor 2, the ceiling 6."
        )
        floor, count, ceiling = await corridor.evaluate(
            """plot => ["floor", "current", "ceiling"].map((kind) =>
                plot.querySelector(`.line.${kind}`).getBoundingClientRect().top)"""
        )
        assert floor > count > ceiling
        assert count == pytest.approx((floor + ceiling) / 2, abs=1.5)


async def test_any_moment_is_read_off_with_the_keyboard(browser: Browser) -> None:
    """The slider moves a line through all charts and says in words what was."""
    rows = day()
    async with served(busy()) as site, screen(browser, "about:blank") as seen:
        await pretend(seen.page, rows)
        await seen.page.goto(address(site))
        slider = seen.page.get_by_role("slider", name="Moment")
        told = (
            "2027-01-15 08:00:00 · 2 replicas, corridor 1 to 3 · steady · waiting 0.5 · "
            "TTFT 400 ms · KV cache 42 % · TPOT 33 ms"
        )
        await expect(slider).to_have_attribute("aria-valuetext", told)
        await slider.focus()
        before = await seen.page.locator(".cursor").first.get_attribute("x1")
        await seen.page.keyboard.press("Home")
        await expect(seen.page.locator(".told")).to_contain_text("02:00:00")
        assert await seen.page.locator(".cursor").first.get_attribute("x1") != before


async def test_any_moment_is_read_off_with_a_pointer(browser: Browser) -> None:
    """Whoever points at one chart reads all of them at that time."""
    async with served(busy()) as site, screen(browser, "about:blank") as seen:
        await pretend(seen.page, day())
        await seen.page.goto(address(site))
        plot = seen.page.get_by_role("img", name="KV cache in use")
        await expect(plot.locator(".line.signal").first).to_be_attached()
        await plot.scroll_into_view_if_needed()
        box = await plot.bounding_box()
        assert box is not None
        await seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        told = seen.page.locator(".told")
        await expect(told).to_contain_text(re.compile(r"04:[45]\d:\d\d · \d replicas"))
        places = {await cursor.get_attribute("x1") for cursor in await charts(seen)}
        assert len(places) == 2  # wide charts, and narrow ones


async def test_the_past_grows_with_the_news(browser: Browser) -> None:
    """Only what is new is asked for, and who looks at the newest moment stays at the newest."""
    world = busy()
    rows = day()
    async with served(world) as site, screen(browser, "about:blank") as seen:
        asked = await pretend(seen.page, rows)
        await seen.page.goto(address(site))
        told = seen.page.locator(".told")
        await expect(told).to_contain_text("08:00:00")
        rows.append({**rows[-1], "at": NOON + 15, "reason": Reason.AT_MAX})
        world.post(replace(decision_on(), at=NOON + 15))
        await expect(told).to_contain_text("08:00:15")
        await expect(told).to_contain_text("at-max")
        assert asked[-1] == NOON + 1
        assert asked[0] == NOON - 6 * 3600


async def test_the_log_tells_every_change_the_newest_first(browser: Browser) -> None:
    """Twenty at first, all on demand."""
    rows = day()
    async with served(busy()) as site, screen(browser, "about:blank") as seen:
        await pretend(seen.page, rows)
        await seen.page.goto(address(site))
        lines = seen.page.locator(".log tbody tr")
        await expect(lines).to_have_count(20)
        await seen.page.get_by_role("button", name="Show all").click()
        assert await lines.count() > 20
        times = await lines.locator("td:first-child").all_inner_texts()
        assert times == sorted(times, reverse=True)
        await expect(seen.page.locator(".log").get_by_text("source-silent")).to_have_count(1)


async def test_a_diagnosis_says_what_to_do(browser: Browser) -> None:
    """Each finding with its gravity, its evidence and the cure."""
    async with served(gallery()) as site, screen(browser, "about:blank") as seen:
        await pretend(seen.page, day())
        await seen.page.goto(address(site))
        finding = seen.page.locator(".findings li").first
        await expect(finding).to_contain_text("critical: host-oom-kill")
        await expect(finding).to_contain_text("Do: ")
        await seen.keep("workload-diagnosis")


async def test_a_workload_that_nobody_knows_is_said_so(browser: Browser) -> None:
    """A mistyped address gives the scaler's own sentence, not an empty page."""
    world = World()
    world.post(decided(), scaled_object())
    async with served(world) as site:
        where = f"http://127.0.0.1:{site.port}/#/prod/none/t"
        async with screen(browser, where, forgiven=UNKNOWN_WORKLOAD) as seen:
            await expect(seen.page.get_by_role("alert")).to_contain_text("no workload prod/none")


async def test_the_skip_link_leads_to_the_content_of_the_same_view(browser: Browser) -> None:
    """The first press of Tab offers a way past the header."""
    async with served(busy()) as site, screen(browser, "about:blank") as seen:
        await pretend(seen.page, day())
        await seen.page.goto(address(site))
        await expect(seen.page.locator(".count-now")).to_have_text("4 → 7")
        await seen.page.keyboard.press("Tab")
        await seen.page.keyboard.press("Enter")
        await expect(seen.page.locator("main")).to_be_focused()
        await expect(seen.page.locator(".count-now")).to_be_visible()
