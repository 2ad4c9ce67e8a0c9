"""The recording of a terminal: what is kept of its frames, and what is drawn of them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from frameworkrelease.recording import scene
from frameworkrelease.recording.__main__ import FILE
from frameworkrelease.recording.frames import Frame, Span, tidied
from frameworkrelease.recording.picture import svg
from frameworkrelease.recording.screen import CURSOR, rows_of

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def frame(at: float, *lines: str) -> Frame:
    return Frame(at, tuple((Span(0, line),) if line else () for line in lines))


def drawn(frames: list[Frame], end: float = 10.0) -> ET.Element:
    return ET.fromstring(svg(frames, end, 80, 5, "title"))


def shown(picture: ET.Element) -> dict[str, str]:
    """Each text with the keyframes of its group, "" if it is always there."""
    rules = dict(re.findall(r"@keyframes (k\d+){((?:[^{}]*{[^{}]*})*)}", picture.findtext(f"{SVG}style") or ""))
    found = {text.text or "": "" for text in picture.findall(f"{SVG}text")}
    for group in picture.findall(f"{SVG}g"):
        found |= {text.text or "": rules[group.attrib["class"]] for text in group}
    return found


def test_a_frame_that_shows_nothing_new_is_left_out() -> None:
    frames = [frame(100, "a"), frame(100.1, "a"), frame(100.2, "b"), frame(100.3, "a")]
    assert tidied(frames) == [frame(0, "a"), frame(pytest.approx(0.2), "b"), frame(pytest.approx(0.3), "a")]


def test_a_long_pause_is_cut_and_what_follows_comes_earlier() -> None:
    frames = [frame(5, "a"), frame(6, "b"), frame(66, "c"), frame(67, "d")]
    assert [one.at for one in tidied(frames, longest=2)] == [0, 1, 3, 4]


def test_colours_and_looks_are_read_and_go_on_in_the_next_line() -> None:
    first, second = rows_of("$ \x1b[1;32mok\x1b[0m  \x1b[2mdim\n more\x1b[0m\n")
    assert [(span.column, span.text, span.bold, span.dim) for span in first] == [
        (0, "$", False, False),
        (2, "ok", True, False),
        (6, "dim", False, True),
    ]
    assert re.fullmatch("#[0-9a-f]{6}", first[1].colour)
    assert [(span.column, span.text, span.dim) for span in second] == [(1, "more", True)]


def test_the_cursor_stands_where_it_is() -> None:
    _, second = rows_of("a\n$ x", (3, 1))
    assert [(span.column, span.text) for span in second] == [(0, "$ x"), (3, CURSOR)]
    assert rows_of("a", (3, 7)) == ((Span(0, "a"),),)


def test_a_line_is_visible_while_it_is_on_the_screen() -> None:
    picture = drawn([frame(0, "always", "first"), frame(4, "always", "second"), frame(6, "always", "third")])
    assert shown(picture) == {
        "always": "",
        "first": "0%{visibility:visible}40%{visibility:hidden}",
        "second": "0%{visibility:hidden}40%{visibility:visible}60%{visibility:hidden}",
        "third": "0%{visibility:hidden}60%{visibility:visible}",
    }


def test_a_line_that_comes_back_is_drawn_once() -> None:
    picture = drawn([frame(0, "a"), frame(2, "b"), frame(4, "a"), frame(8, "")])
    assert shown(picture)["a"] == (
        "0%{visibility:visible}20%{visibility:hidden}40%{visibility:visible}80%{visibility:hidden}"
    )
    assert [text.text for text in picture.iter(f"{SVG}text")] == ["a", "b"]


def test_who_asks_for_no_motion_sees_the_last_frame() -> None:
    style = drawn([frame(0, "first"), frame(4, "second")]).findtext(f"{SVG}style") or ""
    hidden = re.findall(r"\.(k\d+)\{animation-name:k\d+;visibility:hidden\}", style)
    assert (hidden, "prefers-reduced-motion" in style) == (["k0"], True)


def test_hostile_text_stays_text() -> None:
    text = "</text><script>alert('1')</script>&lt;\x00\x1b\x0b\ud800'\""
    (only,) = drawn([frame(0, text)]).iter(f"{SVG}text")
    assert only.text == "</text><script>alert('1')</script>&lt;\ufffd\ufffd\ufffd\ufffd'\""


def test_columns_stay_columns_whatever_the_font() -> None:
    (wide,) = drawn([Frame(0, ((Span(10, "日本"),),))]).iter(f"{SVG}text")
    (narrow,) = drawn([Frame(0, ((Span(14, "abcd"),),))]).iter(f"{SVG}text")
    assert wide.attrib["textLength"] == narrow.attrib["textLength"]
    assert float(narrow.attrib["x"]) - float(wide.attrib["x"]) == pytest.approx(float(wide.attrib["textLength"]))


def test_the_recording_is_small_and_needs_nothing_else() -> None:
    text = FILE.read_text()
    assert len(text) < 300 * 1024
    assert {element.tag.removeprefix(SVG) for element in ET.fromstring(text).iter()} == {
        "svg", "title", "style", "rect", "circle", "g", "text",
    }  # fmt: skip
    assert re.findall(r"url\(|@import|href|https?:", text.replace("http://www.w3.org/2000/svg", "")) == []


def test_the_recording_is_of_the_scene() -> None:
    picture = ET.fromstring(FILE.read_text())
    texts = "\n".join(text.text or "" for text in picture.iter(f"{SVG}text")) + "\n"
    typed = [line for step in scene.STEPS for line in step.command.split("\n")]
    assert [line for line in typed if f"{line}\n" not in texts] == []
    assert picture.findtext(f"{SVG}title") == scene.TITLE


@pytest.mark.parametrize("page", ["README.md", "docs/cli.md"])
def test_a_page_says_what_is_to_be_seen(page: str) -> None:
    assert f"![{scene.TITLE}](" in (ROOT / page).read_text()
