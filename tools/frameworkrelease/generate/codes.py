"""The table of completion codes: code, phrase and kind come from the programs, what is said of them from the page."""

import re
from collections.abc import Iterator
from typing import Final

from frameworkcontroller.api.codes import (
    NEVER_RETRIED,
    PREDEFINED,
    UNRECOGNIZED_PHRASE,
    WITHOUT_COUNT,
    Attribute,
    TypeName,
)
from frameworkcontroller.api.status import CompletionType
from frameworkcontroller.engine.config.settings import default_config, read_settings
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.generate import pages

PAGE: Final = REPOSITORY / "docs" / "troubleshooting.md"
_SAID: Final = re.compile(r"^\| \S+ \| `(?P<phrase>\w+)` \| [^|]* \| (?P<said>.*) \|$", re.MULTILINE)


def page(written: str) -> str:
    """Return the page with a row for each code; one that is new has two empty cells, to be filled."""
    said = {row["phrase"]: row["said"] for row in _SAID.finditer(written)}
    rows = ((code, f"`{phrase}`", kind, said.get(phrase, " | ")) for code, phrase, kind in kinds())
    table = pages.table(("code", "phrase", "kind", "meaning", "what to do"), rows)
    return pages.renewed(written, {"completion codes": table})


def kinds() -> Iterator[tuple[str, str, str]]:
    """Yield code, phrase and kind of each completion: the predefined ones, then those of the shipped file."""
    for code, (phrase, type_) in PREDEFINED.items():
        retried = "never retried" if code in NEVER_RETRIED else "always retried" if code in WITHOUT_COUNT else ""
        yield f"`{code}`", phrase, retried or _kind(type_)
    yield "others", UNRECOGNIZED_PHRASE, "counted"
    for info in (spec.info() for spec in read_settings(default_config()).pod_failure_spec):
        yield f"`{info.code}`", info.phrase, _kind(info.type)


def _kind(type_: CompletionType) -> str:
    """Return in a word what the retry policies make of such an end."""
    if type_.name == TypeName.SUCCEEDED:
        return "succeeded"
    named = [one.lower() for one in Attribute if one in (type_.attributes or ())]
    return ", ".join(named) or "counted"
