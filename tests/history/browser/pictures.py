"""Draws the pages: `python -m tests.history.browser.pictures [FOLDER]` makes the two pictures of the README anew.

With a folder, it draws six pages there instead: light, dark and on a narrow screen.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.history.browser import shown
from tests.history.page.rooms import room
from tests.support.browser import chromium, visit

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {
    "list": "/",
    "framework": shown.RUNS,
    "failed": shown.FAILED,
    "log": f"{shown.FAILED}/log",
    "statistics": "/statistics",
    "spec": f"{shown.RUNS}/spec",
}
SCREENS = {
    "light": {"viewport": {"width": 1280, "height": 860}},
    "dark": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 360, "height": 740}, "is_mobile": True},
}


async def draw(folder: Path | None) -> None:
    """Draw the six pages in a folder, or without one two of them for the docs."""
    with tempfile.TemporaryDirectory() as data:
        async with room(Path(data), *shown.everything()) as page, chromium() as browser:
            shown.fill(page)
            for screen, more in SCREENS.items() if folder else [("light", SCREENS["light"])]:
                async with visit(browser, page.url, "root", **more) as person:
                    for name, path in PAGES.items() if folder else [*PAGES.items()][:2]:
                        await person.go(path)
                        file = folder / f"{name}-{screen}.png" if folder else DOCS / f"history-{name}.png"
                        await person.page.screenshot(path=file, full_page=bool(folder))


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1]) if sys.argv[1:] else None))
