"""The page of scale: its tables and its picture say what the benchmarks have measured, and nothing else."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from frameworkrelease.scale import page, picture, results, tables
from frameworkrelease.scale.__main__ import main
from frameworkrelease.scale.files import files
from frameworkrelease.scale.results import (
    BENCHMARK,
    CONTROLLER,
    Origin,
    Part,
    Request,
    Restart,
    Results,
    Row,
    Who,
    merged,
)

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = Origin("2026-11-22", "0.1.0", "0123456789ab", "x86_64, 2 cores", "3.11.7", "1.36.3")
RESTART = Restart(
    lists="in pages",
    origin=ORIGIN,
    pods=1000,
    frameworks=10,
    completed=100,
    full=1.0,
    working=1.5,
    settled=3.0,
    peak_mib=80.0,
    rss_mib=70.0,
    requests=30,
    received_mb=4.0,
    written_mb=0.1,
    controller_cpu=1.0,
    apiserver_cpu=2.0,
)


def row(who: Who, tasks: int, **more: Any) -> Row:
    return Row(
        shape=f"1x{tasks}",
        who=who,
        origin=ORIGIN,
        frameworks=1,
        tasks=tasks,
        running=tasks / 100,
        controller_cpu=tasks / 500,
        apiserver_cpu=tasks / 50,
        running_cpu={Part.API_SERVER: tasks / 100, BENCHMARK: 1.0},
        **more,
    )


def rows(*sizes: int) -> tuple[Row, ...]:
    return tuple(row(who, tasks) for tasks in sizes for who in (Who.BARE, Who.CONTROLLER))


@pytest.mark.parametrize("file", files(), ids=lambda file: file.name)
def test_each_file_is_what_the_kept_figures_say(file: Path) -> None:
    assert file.read_text() == files()[file], "run `make manifests`"


def test_a_row_stands_beside_the_bare_loop() -> None:
    ours = msgspec.structs.replace(
        row(Who.CONTROLLER, 100), running=1.2, running_cpu={Part.API_SERVER: 1.5, CONTROLLER: 0.25}
    )
    head, _, *cells = tables.of_times((row(Who.BARE, 100), ours))
    for name, ratio in {"of the loop": "1.20", "of the loop's": "1.50"}.items():
        column = head.split(" | ").index(name)
        assert [line.split(" | ")[column] for line in cells] == ["", ratio]


def test_the_cpu_time_of_each_process_stands_beside_that_of_all() -> None:
    head, _, line = tables.of_processes([row(Who.BARE, 200)])
    cells = dict(zip(head.split(" | "), line.split(" | "), strict=True))
    assert (cells["kube-apiserver"], cells["etcd"], cells["benchmark"], cells["all |"]) == ("2.0", "", "1.0", "3.0 |")
    assert list(tables.of_processes([msgspec.structs.replace(row(Who.BARE, 200), running_cpu={})])) == []


def test_requests_are_counted_by_kind_and_in_all() -> None:
    counted = row(Who.CONTROLLER, 10, requests={Request.PODS: 10, Request.ACCESS: 2}, sent=14)
    head, _, line = tables.of_requests([counted])
    cells = dict(zip(head.split(" | "), line.split(" | "), strict=True))
    assert (cells["Pods created"], cells["Roles, RoleBindings"], cells["Events"], cells["all"]) == (
        "10",
        "2",
        "0",
        "12",
    )


def test_the_memory_to_ask_for_is_a_quarter_more_than_the_better_way_took() -> None:
    streamed = msgspec.structs.replace(RESTART, lists="streamed", peak_mib=70.0)
    assert list(tables.of_resources([RESTART, streamed]))[2:] == ["| 1000 | 70 | 96Mi | 192Mi |"]


def test_what_was_not_measured_has_no_table() -> None:
    assert list(tables.of_rows([])) == []
    assert list(tables.of_restarts([])) == []
    assert tables.measured([]) == "Not measured yet."


def test_where_figures_come_from_is_said_once() -> None:
    assert tables.measured([ORIGIN, ORIGIN]) == (
        "Measured on 2026-11-22, of commit `0123456789ab`, on x86_64, 2 cores, with Kubernetes 1.36.3, "
        "and Python 3.11.7."
    )


def test_new_figures_replace_those_of_the_same_shape_and_keep_the_others() -> None:
    kept = Results(rows=rows(100, 1000), restarts=(RESTART,))
    new = Results(rows=(msgspec.structs.replace(row(Who.CONTROLLER, 100), running=9.0),))
    found = merged(kept, new)
    assert [(one.tasks, one.who, one.running) for one in found.rows] == [
        (100, Who.BARE, 1.0),
        (100, Who.CONTROLLER, 9.0),
        (1000, Who.BARE, 10.0),
        (1000, Who.CONTROLLER, 10.0),
    ]
    assert found.restarts == (RESTART,)


def test_figures_survive_their_file(tmp_path: Path) -> None:
    written = Results(rows=rows(100), restarts=(RESTART,))
    results.write(written, tmp_path / "new" / "figures.json")
    assert results.read(tmp_path / "new" / "figures.json") == written
    assert results.read(tmp_path / "none.json") == Results()


def test_a_page_without_the_markers_is_an_error_that_names_them() -> None:
    with pytest.raises(page.PageError, match="there is no part between <!-- times: made by `make manifests` --> and"):
        page.page("# Scale\n", Results())


def test_a_level_cost_is_a_level_line() -> None:
    lines = picture.lines_of(rows(10, 100, 1000))
    assert [line.name for line in lines] == ["controller", "API server, controller", "API server, bare loop"]
    drawn = ET.fromstring(picture.svg(lines))
    paths = [element.get("points", "") for element in drawn.iter("{http://www.w3.org/2000/svg}polyline")]
    heights = [{point.split(",")[1] for point in path.split()} for path in paths]
    assert [len(one) for one in heights] == [1, 1, 1]


def test_the_names_of_lines_do_not_cover_each_other() -> None:
    line = picture.Line("one", ((10.0, 1.0), (100.0, 1.0)))
    drawn = ET.fromstring(picture.svg((line, replace(line, name="two"), replace(line, name="three"))))
    texts = {element.text: float(element.get("y", "")) for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    heights = sorted(texts[name] for name in ("one", "two", "three"))
    assert min(below - above for above, below in pairwise(heights)) >= 16


def test_the_picture_shows_only_starts_of_one_framework() -> None:
    others = (
        row(Who.CONTROLLER, 100, phases={"created": 1.0}),
        row(Who.CONTROLLER, 100, gate_created=1.0),
        msgspec.structs.replace(row(Who.CONTROLLER, 100), frameworks=2),
    )
    assert picture.lines_of(others) == ()
    assert "Nothing was measured yet" in picture.svg(())


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "none.json")])
    assert "none.json: there is no such file" in capsys.readouterr().err
