"""The annotation by which a gang asks that its ranks follow the topology of its nodes (docs/groups.md)."""

import re
from typing import Final

MAX_KEYS: Final = 8
MAX_CHARACTERS: Final = 250
_PREFIX: Final = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_KEY: Final = re.compile(rf"(?:{_PREFIX}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")


def keys_of(text: str) -> tuple[str, ...]:
    """Return the keys of labels that nodes are ordered by, the one of the largest domains first.

    Raises:
        ValueError: The text names none, or something else; one sentence says what.
    """
    keys = tuple(key.strip() for key in text.split(","))
    if len(keys) > MAX_KEYS or len(text) > MAX_CHARACTERS:
        raise ValueError(f"it has more than {MAX_KEYS} keys, or {MAX_CHARACTERS} characters")
    for key in keys:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key[:80]!r} is not the key of a label")
    if len(set(keys)) < len(keys):
        raise ValueError("it has a key twice")
    return keys
