"""Debian's Chromium, without a window, driven by Playwright: persons who look at the page of the archive."""

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from localcluster import packages
from testkit.waiting import patience

PATIENCE_MILLISECONDS = 1000 * patience(10)
"""For which an element is waited for, and what is expected of it: both have defaults of their own."""


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run a browser until the block ends.

    Raises:
        SetupError: It, or a font, is missing and could not be installed.
    """
    packages.require(("chromium", "dejavu"))
    # Its sandbox does not work for root.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Visit:
    """A tab of a person; `complaints` is what the browser says of pages: errors, and what the policy forbids."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    async def go(self, path: str) -> Page:
        """Open a page of the site."""
        await self.page.goto(self.url + path)
        return self.page

    async def text(self, selector: str = "main") -> str:
        """Return the text of an element as a person sees it."""
        return await self.page.locator(selector).inner_text()

    async def beyond(self) -> int:
        """Return by how many pixels the page is wider than the window, which on a phone grows with the page."""
        window, whole = self.page.viewport_size, await self.page.evaluate("document.documentElement.scrollWidth")
        assert window
        return max(0, int(whole) - window["width"])


@contextlib.asynccontextmanager
async def visit(browser: Browser, url: str, token: str, **more: Any) -> AsyncIterator[Visit]:
    """Sign in by a token, as a person does, and follow what the browser complains of; `more` is of its context."""
    context = await browser.new_context(**more)
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    try:
        seen = Visit(await context.new_page(), url)

        def note(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                seen.complaints.append(message.text)

        await seen.go("/signin")
        await seen.page.get_by_label("Bearer token").fill(token)
        await seen.page.get_by_role("button", name="Sign in").click()
        await seen.page.get_by_role("heading", name="Frameworks").wait_for()
        seen.page.on("console", note)
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        yield seen
    finally:
        await context.close()
