"""What the writer logs about the files, generation after generation."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from frameworkbarrier import settings
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.output import OutputDirectory
from frameworkbarrier.files.writer import Writer
from frameworkbarrier.log import Log
from frameworkbarrier.source.access import Access
from frameworkbarrier.source.api import Api
from frameworkbarrier.source.choose import read_framework
from tests.barrier.faulty_server import FaultyServer, Reply, Request, Script
from tests.barrier.gangs import environment, released, roster

MANY = 8000
"""Tasks whose addresses fit neither into the file `env` nor into a variable."""


def test_each_warning_is_logged_once_in_all_generations(folder: Path) -> None:
    said = io.StringIO()
    read = settings.parse(environment(FB_OUTPUT_DIR=str(folder), FB_FRAMEWORK_JSON="never"))

    with OutputDirectory(str(folder)) as output:
        writer = Writer(output, read, Container(), lambda: pytest.fail("not wanted"), Log(stream=said))

        def warnings_of(generation: int, **shape: int) -> list[str]:
            said.seek(0)
            said.truncate()
            writer.write(released(roster(shape, generation=generation)))
            assert (folder / "generation").read_text() == f"{generation}\n"
            return [line.split(" WARNING ")[1].split(" ")[0] for line in said.getvalue().splitlines()]

        first = warnings_of(1, ps=1, worker=MANY)
        assert "FB_WORKER_IPS" in first
        assert len(first) == len(set(first))
        # The text differs (it counts bytes), the thing does not.
        assert warnings_of(2, ps=1, worker=MANY + 1) == []
        # What is new is still said.
        assert {name.split("_")[1] for name in warnings_of(3, ps=MANY, worker=MANY)} == {"PS"}
        assert warnings_of(4, ps=MANY, worker=MANY) == []


def test_a_framework_that_cannot_be_read_again_leaves_the_old_file_and_one_warning(
    serve: Callable[[Script], FaultyServer], folder: Path
) -> None:
    answers = iter([200, 503, 503])
    own_task = {"name": "mnist", "namespace": "lab", "uid": "fw-uid"}

    def script(request: Request, reply: Reply) -> None:
        reply.answer(next(answers), {"kind": "Framework", "metadata": own_task, "spec": {"taskRoles": []}})

    said = io.StringIO()
    read = settings.parse(environment(FB_OUTPUT_DIR=str(folder), FB_FRAMEWORK_JSON="always"))
    with OutputDirectory(str(folder)) as output:
        api = Api(Access(serve(script).url))
        writer = Writer(output, read, Container(), lambda: read_framework(read, api), Log(stream=said))
        for generation in (1, 2, 3):
            writer.write(released(roster({"worker": 1}, generation=generation)))
            assert json.loads((folder / "framework.json").read_text())["metadata"]["name"] == "mnist"
    assert said.getvalue().count("framework.json is not written: the Framework cannot be read") == 1
