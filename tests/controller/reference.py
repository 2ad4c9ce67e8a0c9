"""The tables of completion codes in docs/reference/framework-api.md: what the tests of all codes expect."""

from pathlib import Path

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "framework-api.md"
_ATTRIBUTES: dict[str, tuple[str, ...]] = {"T": ("Transient",), "P": ("Permanent",), "-": ()}


def section(heading: str) -> str:
    """The text below a heading, up to the next heading of any level."""
    _, found, rest = REFERENCE.read_text().partition(f"\n{heading}\n")
    assert found, f"{REFERENCE} has no heading {heading!r}"
    return rest.partition("\n#")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables in a text, without headings."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if not set(row[0]) <= {"-"} and row[0] != "code"]


def predefined_codes() -> dict[int, tuple[str, str, tuple[str, ...]]]:
    """Phrase, name of the type and its attributes of each predefined code."""
    found = {}
    for code, phrase, text in rows(section("## 6. Completion codes")):
        name, _, attributes = text.partition(";")[0].partition(", ")
        found[int(code)] = (phrase, name, tuple(filter(None, attributes.strip("[]").split(", "))))
    return found


def shipped_codes() -> dict[int, tuple[str, tuple[str, ...]]]:
    """Phrase and attributes of each code of the shipped configuration; the table has two columns of entries."""
    found = {}
    for row in rows(section("### The shipped configuration")):
        for code, phrase, kind in (row[:3], row[3:]):
            if code:
                found[int(code)] = (phrase, _ATTRIBUTES[kind])
    return found
