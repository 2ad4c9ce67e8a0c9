"""How large the house is, and what its tests take: `make figures`.

Lines are those of `wc -l`, by room; cases and minutes are those of the last `make test`, from its JUnit report.
"""

from collections import Counter
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import run

REPORT: Final = REPOSITORY / "build" / "tests.xml"
PROGRAMS: Final = ("controller", "injector", "barrier", "kube", "client", "history")


def lines_by_room(root: Path = REPOSITORY) -> Counter[str]:
    """Return the lines of Python by room, and those of Markdown as `docs`."""
    found: Counter[str] = Counter()
    for name in run("git", "ls-files", "*.py", "*.md", folder=root).split():
        folders = Path(name).parts[:-1]
        is_page = name.endswith(".md")
        room = "docs" if is_page else "/".join(one for one in folders[:3] if one != f"framework{folders[0]}")
        found[room or "."] += (root / name).read_text().count("\n")
    return found


def text(root: Path = REPOSITORY) -> str:
    """Return what is printed."""
    rooms = lines_by_room(root)
    told = []
    for group, tops in (("programs", PROGRAMS), ("tools", ("tools",)), ("tests", ("tests",))):
        own = {room: number for room, number in rooms.items() if room.partition("/")[0] in tops}
        told.append(f"{sum(own.values()):7,} {group}")
        told += [f"  {number:7,} {room}" for room, number in sorted(own.items())]
    told.append(f"{rooms['docs']:7,} docs")
    if REPORT.exists():
        suite = next(ET.parse(REPORT).iter("testsuite")).attrib  # noqa: S314 -- pytest has written it
        told.append(f"{int(suite['tests']):7,} cases in {float(suite['time']) / 60:.1f} minutes, the last time")
    return "\n".join(told)
