"""The annotation by which a gang asks that its ranks follow the topology of its nodes (docs/groups.md)."""

import re
from typing import Final

NODES: Final = "nodes"
"""Whose labels order ranks."""
MAX_KEYS: Final = 8
MAX_CHARACTERS: Final = 250
EXPECTED: Final = (
    f"1 to {MAX_KEYS} keys of labels of nodes, each once, with commas, in at most {MAX_CHARACTERS} characters"
)
_PREFIX: Final = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_KEY: Final = re.compile(rf"(?:{_PREFIX}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")


def keys_of(text: str) -> tuple[str, ...]:
    """Return the keys of labels that nodes are ordered by, the one of the largest domains first.

    Raises:
        ValueError: The text is something else; says what it must be.
    """
    keys = tuple(key.strip() for key in text.split(","))
    is_one = 0 < len(keys) == len(set(keys)) <= MAX_KEYS and all(map(_KEY.fullmatch, keys))
    if not is_one or len(text) > MAX_CHARACTERS:
        raise ValueError(EXPECTED)
    return keys
