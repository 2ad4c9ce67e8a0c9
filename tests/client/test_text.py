"""Text of others, made safe for a terminal; the pictures of client and demo write it."""

from __future__ import annotations

from frameworkclient.views.text import sanitize


def test_control_sequences_and_what_is_not_visible_are_removed() -> None:
    assert sanitize("\x1b[2J\x1b]0;title\x07a\tb\rc\x9b31m\u202ed\ne") == "a    b cd e"
