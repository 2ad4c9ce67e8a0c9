"""The demo as a person runs it, on its own real node: from nothing to a training that has succeeded."""

import json
import re

import pytest

from tests.e2e.demo.cluster import demo_cluster, finished
from tests.support.http import fetch

pytestmark = pytest.mark.node


def test_the_training_runs_as_a_gang_by_the_command_line() -> None:
    with demo_cluster("demo-node") as name:
        done = finished(name)
        ((port, key),) = re.findall(r"is on a page: http://127\.0\.0\.1:(\d+)/signin\?key=(\S+)\n", done.stdout)
        bearer = {"Authorization": f"Bearer {key}"}
        (row,) = json.loads(fetch(int(port), "/api/v1/frameworks", **bearer)[1])["frameworks"]
        log = fetch(int(port), "/frameworks/demo/spirals/log", **bearer)[1]
    assert (row["name"], row["result"]) == ("spirals", "Succeeded")
    assert "training finished" in log
    assert done.returncode == 0
    assert "$ frameworkctl submit -f examples/tensorflow/framework.yaml -n demo\n" in done.stdout
    assert "$ frameworkctl watch spirals -n demo\n" in done.stdout
    assert "chief-0 | " in done.stdout
    assert "training finished" in done.stdout
    assert "spirals: Completed, Succeeded\n" in done.stdout
    assert [character for character in done.stdout if not character.isprintable() and character != "\n"] == []
    summary = done.stdout.partition("\nsteps:\n")[2].splitlines()
    taken = [line.split("  ")[1] for line in summary]
    assert taken == ["cluster", "load", "programs", "gang", "all together"]
