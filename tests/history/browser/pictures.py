"""Draws the pages: `python -m tests.history.browser.pictures [FOLDER]` makes the two pictures of the README anew.

With a folder, it draws six pages there instead: light, dark and on a narrow screen.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.history.browser import shown
from tests.history.page.rooms import room
from tests.support.browser import chromium, visit

DOCS = Path(__file__).parents[3] / "docs"
README = {"list": 837, "framework": 985}
"""How much of a page is in the picture for the README: so many pixels from its top."""


async def draw(folder: Path | None) -> None:
    """Draw the six pages in a folder, or without one two of them for the docs."""
    with tempfile.TemporaryDirectory() as data:
        async with room(Path(data), *shown.everything()) as page, chromium() as browser:
            shown.fill(page)
            for screen, more in shown.SCREENS.items() if folder else [("light", shown.SCREENS["light"])]:
                async with visit(browser, page.url, "root", **more) as person:
                    for name in shown.PAGES if folder else README:
                        await person.go(shown.PAGES[name])
                        if folder:
                            await person.page.screenshot(path=folder / f"{name}-{screen}.png", full_page=True)
                        else:
                            await person.page.set_viewport_size({"width": 1280, "height": README[name]})
                            await person.page.screenshot(path=DOCS / f"history-{name}.png")


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1]) if sys.argv[1:] else None))
