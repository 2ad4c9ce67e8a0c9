"""The page in a browser: the list, a time line, logs, colours, widths, keys, and without script; nothing is forbidden.

`tests/apiserver/history/test_browser.py` has what changes Frameworks.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect

from frameworkhistory.archive.changes import Changes
from testkit.waiting import eventually_async
from tests.history.browser import shown
from tests.history.page.rooms import HOSTILE, NAME, NOW, Room, framework_row, hostile, lines, room
from tests.support.browser import Visit, chromium, visit

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOG = f"{shown.FAILED}/log"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Room]:
    """A page that shows a week of a cluster."""
    async with room(tmp_path_factory.mktemp("room"), *shown.everything()) as found:
        shown.fill(found)
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def person(browser: Browser, page: Room) -> AsyncIterator[Visit]:
    """Somebody who may see all of it; of what they have seen the browser must not have complained."""
    async with visit(browser, page.url, "root") as found:
        yield found
    assert found.complaints == []


async def test_the_list_is_searched_by_key_and_follows_what_is_new(person: Visit, page: Room) -> None:
    tab = await person.go("/")
    await tab.keyboard.press("/")
    await tab.keyboard.type("llamasft")
    await tab.keyboard.press("Enter")
    await tab.wait_for_url("**name=llamasft*")
    names = await tab.locator("tbody th").all_inner_texts()
    assert names
    assert all(name.startswith("llamasft") for name in names), names
    await tab.keyboard.press("j")
    await expect(tab.locator("tbody a").first).to_be_focused()
    add(page, "llamasftnew")
    await tab.get_by_role("link", name="llamasftnew").wait_for()
    # What was focused still is.
    await expect(tab.get_by_role("link", name=names[0], exact=True)).to_be_focused()


async def test_what_changes_while_a_page_is_loaded_or_read_again_is_shown_too(person: Visit, page: Room) -> None:
    async def before_it_is_open(route: Route) -> None:
        add(page, "before")
        await route.continue_()

    held: list[Route] = []

    async def after_it_was_read(route: Route) -> None:
        if route.request.resource_type != "fetch" or held:
            await route.continue_()
            return
        held.append(route)
        answer = await route.fetch()
        add(page, "after")
        # The browser hears of it before it has the answer.
        await asyncio.sleep(1.5)
        await route.fulfill(response=answer)

    await person.page.route("**/feed*", before_it_is_open, times=1)
    await person.page.route(f"{page.url}/", after_it_was_read)
    tab = await person.go("/")
    for name in ("before", "after"):
        await tab.get_by_role("link", name=name, exact=True).wait_for()
    await tab.unroute_all(behavior="wait")


async def test_a_tab_that_nobody_sees_keeps_no_connection_and_shows_later_what_it_missed(
    person: Visit, page: Room
) -> None:
    tab = await person.go("/")
    hide = """hidden => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    await tab.evaluate(hide, True)

    async def is_closed() -> None:
        page.site.feed.publish("language", "any")  # that nobody listens is found by telling
        assert not page.site.feed._subscribers

    await eventually_async(is_closed, timeout=30)
    add(page, "unseen")
    await tab.evaluate(hide, False)
    await tab.get_by_role("link", name="unseen", exact=True).wait_for()


def add(page: Room, name: str) -> None:
    """Let a Framework begin."""
    page.writer.apply([Changes(name, "language", framework_row(namespace="language", name=name, created=NOW))])
    page.site.feed.publish("language", name)


async def test_a_time_line_has_lanes_with_letters_and_titles_and_leads_to_an_attempt(person: Visit) -> None:
    tab = await person.go(shown.RUNS)
    line = tab.locator("svg.line")
    words = await line.locator("text").evaluate_all("all => all.map(one => one.firstChild.textContent)")
    lanes = [word for word in words if re.fullmatch(r"time|attempts|epochs|worker-\d", word)]
    assert lanes == ["time", "attempts", "epochs", "worker-1", "worker-2", "worker-0", "worker-3"]
    assert {"q", "R", "H", "r", "x", "0", "2"} <= set(words)
    titles = await line.locator("rect title").all_text_contents()
    for told in ("hung: 2026-01-01 10:28:35 UTC, 4m", "epoch 1, after worker-2 Exited", "attempt 1 GangHung (-270)"):
        assert any(title.startswith(told) for title in titles), (told, titles)
    # Letters and marks are within the picture, and each bar is where its title says.
    whole = await line.bounding_box()
    assert whole
    for mark in await line.locator("text").all():
        box = await mark.bounding_box()
        assert box
        assert whole["x"] <= box["x"] < box["x"] + box["width"] <= whole["x"] + whole["width"]
    legend = await person.text(".legend")
    assert "hung" in legend
    assert "waiting" not in legend
    assert "worker-2 on node gpu-07" in await person.text(".hang")
    await tab.get_by_role("row", name="GangHung").get_by_role("link", name="1", exact=True).click()
    await tab.get_by_role("heading", name="Time line of attempt 1").wait_for()


async def test_what_a_pod_writes_appears_while_one_looks(person: Visit, page: Room) -> None:
    tab = await person.go(f"{shown.RUNS}/log")
    log = tab.locator(".log")
    await expect(tab.locator(".badge.live")).to_have_text("live")
    assert "step 21919 " in await log.inner_text()
    assert "worker-3" in await log.inner_text()
    page.live.lines.append(shown.live_line(40))
    await expect(log).to_contain_text("step 21920 ")
    # It stays at the end, as long as nobody scrolls away from it.
    at_end = "log => log.scrollTop + log.clientHeight >= log.scrollHeight - 8"
    assert await log.evaluate(at_end)
    await log.evaluate("log => { log.scrollTop = 0 }")
    page.live.lines.append(shown.live_line(41))
    await expect(log).to_contain_text("step 21921 ")
    assert await log.evaluate("log => log.scrollTop") == 0


async def test_logs_of_the_archive_are_merged_over_ranks_and_downloaded_whole(person: Visit) -> None:
    tab = await person.go(shown.FAILED)
    await tab.get_by_role("link", name="The log of worker-1").click()
    assert "RuntimeError: stack expects each tensor" in await person.text(".log")
    assert "worker-0" not in await person.text(".log")
    tab = await person.go(LOG)
    ranks = re.findall(r"worker-(\d)/main INFO step", await person.text(".log"))
    assert ranks[:6] == ["0", "1", "2"] * 2
    assert "the node was gone before its log was read" in await person.text(".note")
    async with tab.expect_download() as waiting:
        await tab.get_by_role("link", name="worker-1/main").click()
    file = await (await waiting.value).path()
    assert file.read_text().splitlines()[-1].endswith("[3, 800, 1205]")
    await tab.get_by_label("Attempt").select_option(label="1")
    await tab.get_by_role("button", name="Show").click()
    await tab.wait_for_url("**attempt=0*")


@pytest.mark.parametrize("screen", shown.SCREENS.values(), ids=shown.SCREENS)
async def test_all_pages_are_readable(browser: Browser, page: Room, screen: dict[str, Any]) -> None:
    async with visit(browser, page.url, "root", **screen) as person:
        for path in shown.PAGES.values():
            await person.go(path)
            assert await person.beyond() == 0, path
            assert await person.page.evaluate(CONTRASTS) == [], path
    assert person.complaints == []


CONTRASTS = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => parts(colour).slice(0, 3).map((one) => one / 255)
    .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
  const back = (one) => {
    for (; one; one = one.parentElement) {
      const found = getComputedStyle(one).backgroundColor;
      if (parts(found).length < 4 || parts(found)[3] === 1) return found;
    }
    return "rgb(255, 255, 255)";
  };
  const wrong = new Set();
  for (const one of document.querySelectorAll("main *, header *, footer *")) {
    if (one.closest("svg") || ![...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
    const [low, high] = [light(getComputedStyle(one).color), light(back(one))].sort((a, b) => a - b);
    if ((high + 0.05) / (low + 0.05) < 4.5) wrong.add(`${one.tagName} ${one.className}: ${one.textContent}`);
  }
  return [...wrong];
}"""
"""What of a page has a text whose contrast is below 4.5, as WCAG 2.2 counts it."""


async def test_reading_needs_no_script(browser: Browser, page: Room) -> None:
    async with visit(browser, page.url, "root", java_script_enabled=False) as person:
        tab = await person.go("/")
        await tab.get_by_label("Name begins with").fill("detector")
        await tab.get_by_role("button", name="Search").click()
        await tab.get_by_role("link", name="detector", exact=True).click()
        assert "it is Completed and has failed by worker-1" in await person.text()
        assert await tab.locator("svg.line rect").count() > 10
        await tab.get_by_role("link", name="Logs").click()
        assert "RuntimeError" in await person.text(".log")
        await tab.get_by_role("link", name="Statistics").click()
        assert "attempts ended from" in await person.text()
        await tab.get_by_role("button", name="Sign out").click()
        await tab.get_by_label("Bearer token").wait_for()


async def test_the_keyboard_reaches_all_in_the_order_of_the_page_and_the_focus_is_seen(person: Visit) -> None:
    tab = await person.go("/")
    tour = await _tour(person, 18)
    assert tour[:3] == ["To the content", "Frameworks", "Statistics"]
    assert tour.index("Sign out") < tour.index("name") < tour.index("state") < tour.index("Search") < tour.index("CSV")
    # In a table of so many columns it can be scrolled, and its rows follow.
    assert tour[tour.index("JSON") + 1] in await tab.locator("tbody a").all_inner_texts()
    await person.go(shown.RUNS)
    tour = await _tour(person, 14)
    assert tour[4:13] == [
        "Logs",
        "Tasks",
        "Failed Tasks",
        "Spec and changes",
        "Roster",
        "Stop…",
        "Retry…",
        "Scale…",
        "Suspend…",
    ]
    assert tour[13] == "Time line"
    await person.go("/")
    await tab.keyboard.press("Tab")
    await tab.keyboard.press("Enter")
    await expect(tab.locator("main")).to_be_focused()


async def _tour(person: Visit, stops: int) -> list[str]:
    """Return what is focused at each press of Tab, by its name; it is outlined, and in the window."""
    found = []
    for _ in range(stops):
        await person.page.keyboard.press("Tab")
        name, style, inside = await person.page.evaluate(
            """() => {
              const one = document.activeElement, box = one.getBoundingClientRect();
              const name = one.getAttribute("aria-label") || one.getAttribute("name") || one.textContent.trim();
              const isInside = box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight;
              return [name, getComputedStyle(one).outlineStyle, isInside];
            }"""
        )
        assert style == "solid", f"{name} has no outline"
        assert inside, f"{name} is out of sight"
        found.append(name)
    return found


async def test_hostile_text_widens_no_page_and_does_nothing(browser: Browser, tmp_path: Path) -> None:
    one = f"/frameworks/demo/{quote(NAME, safe='')}"
    async with room(tmp_path, hostile()) as page, visit(browser, page.url, "root", **shown.SCREENS["narrow"]) as person:
        page.keep(zero=lines(HOSTILE * 50), one=lines(HOSTILE))
        for path in ("/", one, f"{one}/tasks/worker/1", f"{one}/spec", f"{one}/log", "/statistics"):
            await person.go(path)
            assert await person.beyond() == 0, path
    # A script or a style of it, or an error of ours that it has caused.
    assert person.complaints == []
