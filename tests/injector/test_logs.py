"""The injector logs as the controller does, so that one set of rules collects both."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from frameworkcontroller.engine.observe import log as of_the_controller
from frameworkinjector.serving import log

SOURCES = sorted((Path(__file__).parents[2] / "injector" / "frameworkinjector").rglob("*.py"))
EVENT = {"level": "info", "event": "reviewed", "uid": "1", "namespace": "dé\u2028mo", "count": 3, "path": Path("x")}


def test_a_line_is_that_of_the_controller() -> None:
    ours, theirs = log.render_json(None, "", dict(EVENT)), of_the_controller.render_json(None, "", dict(EVENT))[0][0]
    found, expected = json.loads(ours), json.loads(theirs)
    assert list(found) == list(expected) == ["ts", "level", "msg", "uid", "namespace", "count", "path"]
    for line in (found, expected):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("ts"))
    assert found == expected
    assert b"\n" not in ours


def calls_of_the_logger(source: Path) -> list[Any]:
    """Return every call of a method of `_log` in a file."""
    return [
        node
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "_log"
    ]


@pytest.mark.parametrize("source", [one for one in SOURCES if calls_of_the_logger(one)], ids=lambda one: one.stem)
def test_messages_are_constant_and_keys_are_named(source: Path) -> None:
    for call in calls_of_the_logger(source):
        (message,) = call.args
        assert isinstance(message, ast.Constant), ast.unparse(call)
        assert not {"msg", "ts", "level", "event"} & {one.arg for one in call.keywords}
