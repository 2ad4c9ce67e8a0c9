"""The files that are made from the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frameworkrelease.scale import page, picture, results

if TYPE_CHECKING:
    from pathlib import Path


def files() -> dict[Path, str]:
    """Return each file with its text."""
    kept = results.read()
    return {
        results.PAGE: page.page(results.PAGE.read_text(), kept),
        results.PICTURE: picture.svg(picture.lines_of(kept.rows)),
    }
