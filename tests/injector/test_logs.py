"""The injector logs as the controller does, so that one set of rules collects both."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

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


def test_messages_are_constant_and_keys_are_named() -> None:
    nodes = [node for source in SOURCES for node in ast.walk(ast.parse(source.read_text()))]
    calls = [
        node for node in nodes if isinstance(node, ast.Call) and re.fullmatch(r"_log\.\w+", ast.unparse(node.func))
    ]
    assert calls
    for call in calls:
        (message,) = call.args
        assert isinstance(message, ast.Constant), ast.unparse(call)
        assert not {"msg", "ts", "level", "event"} & {one.arg for one in call.keywords}
