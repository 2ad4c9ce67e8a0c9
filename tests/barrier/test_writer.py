"""What the writer says about the files, generation after generation."""

import io
import json
from collections.abc import Callable
from pathlib import Path

from barrier.faulty_server import FaultyServer, Reply, Request, Script
from barrier.gangs import environment, roster, uid
from frameworkbarrier import settings
from frameworkbarrier.access import Access
from frameworkbarrier.gang import Me, Open, decide
from frameworkbarrier.kube import Api
from frameworkbarrier.log import Log
from frameworkbarrier.output import OutputDirectory
from frameworkbarrier.roster import decode
from frameworkbarrier.surroundings import Surroundings
from frameworkbarrier.views import Look
from frameworkbarrier.writer import Writer

MANY = 8000
"""Tasks whose addresses fit neither into the file `env` nor into a variable."""


def test_a_warning_of_each_thing_is_said_once_however_many_generations_there_are(folder: Path) -> None:
    said = io.StringIO()
    me = Me("worker", 0, uid("worker", 0))
    # Without framework.json nobody asks the API server, so its address may lead nowhere.
    read = settings.parse(environment(FB_OUTPUT_DIR=str(folder), FB_FRAMEWORK_JSON="never"))

    with OutputDirectory(str(folder)) as output:
        writer = Writer(output, read, Surroundings(), Api(Access("http://127.0.0.1:9")), Log(stream=said))

        def warnings_of(generation: int, **shape: int) -> list[str]:
            text = json.dumps(roster(shape, generation=generation))
            opened = decide(decode(text), me)
            assert isinstance(opened, Open)
            said.seek(0)
            said.truncate()
            writer.write(opened, Look(opened.gang, text))
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


def test_a_framework_that_cannot_be_read_again_leaves_the_file_of_before_and_is_said_where_it_was_asked_for(
    serve: Callable[[Script], FaultyServer], folder: Path
) -> None:
    answers = iter([200, 503, 503])
    identity = {"name": "mnist", "namespace": "lab", "uid": "fw-uid"}

    def script(request: Request, reply: Reply) -> None:
        reply.answer(next(answers), {"kind": "Framework", "metadata": identity, "spec": {"taskRoles": []}})

    said = io.StringIO()
    read = settings.parse(environment(FB_OUTPUT_DIR=str(folder), FB_FRAMEWORK_JSON="always"))
    with OutputDirectory(str(folder)) as output:
        writer = Writer(output, read, Surroundings(), Api(Access(serve(script).url)), Log(stream=said))
        for generation in (1, 2, 3):
            text = json.dumps(roster({"worker": 1}, generation=generation))
            opened = decide(decode(text), Me("worker", 0, uid("worker", 0)))
            assert isinstance(opened, Open)
            writer.write(opened, Look(opened.gang, text))
            assert json.loads((folder / "framework.json").read_text())["metadata"]["name"] == "mnist"
    assert said.getvalue().count("framework.json is not written: the Framework cannot be read") == 1
