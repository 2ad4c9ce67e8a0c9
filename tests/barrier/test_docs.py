"""The pages name each setting, and each field of a preset."""

import re
from pathlib import Path

from frameworkbarrier.settings import SETTINGS

DOCS = Path(__file__).parents[2] / "docs"
PRESETS = (DOCS / "presets.md").read_text()
BARRIER = (DOCS / "reference" / "barrier.md").read_text()


def test_the_page_has_each_field_of_a_definition() -> None:
    table = PRESETS.partition("## Presets of your own")[2]
    for field in ("variables", "files", "short_variables"):
        assert f"`[{field}]`" in table
    for field in ("optional", "long", "port", "rank_roles", "ranks_by_topology", "heads", "gpu_slots", "place", "doc"):
        assert f"`{field}`" in table


def test_the_page_has_each_setting_once() -> None:
    section = BARRIER.partition("\n## 4. Environment\n")[2].partition("**Faults**")[0]
    cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("|")]
    named = re.findall(r"`(\w+)`", " ".join(cells))
    assert sorted(named) == sorted(setting.env for setting in SETTINGS.values())
