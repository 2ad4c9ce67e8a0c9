"""The injector logs as the controller does, so that one set of rules collects both."""

import ast
import json
import re
from pathlib import Path

from frameworkkube.log import render_json

SOURCES = sorted((Path(__file__).parents[3] / "injector" / "frameworkinjector").rglob("*.py"))


def test_a_line_is_json_with_its_time_its_level_and_its_message_first() -> None:
    line = render_json(None, "", {"level": "info", "event": "reviewed", "name": "dé\u2028mo", "path": Path("x")})
    (_, time), *rest = json.loads(line).items()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert rest == [("level", "info"), ("msg", "reviewed"), ("name", "dé\u2028mo"), ("path", "x")]
    assert b"\n" not in line


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
