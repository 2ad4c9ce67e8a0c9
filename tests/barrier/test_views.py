"""The Pods source over lists that come in pages."""

from collections.abc import Callable
from itertools import islice
from typing import Any

from frameworkbarrier import settings
from frameworkbarrier.gate.gate import Observation
from frameworkbarrier.source import choose
from frameworkbarrier.source.access import Access
from frameworkbarrier.source.api import Api
from tests.barrier.faulty_server import FaultyServer, Reply, Request, Script

Serve = Callable[[Script], FaultyServer]


def pod(index: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"web-{index}", "uid": f"uid-{index}", "creationTimestamp": "2026-11-21T00:00:00Z"},
        "status": {"phase": "Running", "podIP": f"10.0.0.{index + 1}"},
    }


def test_the_pods_of_every_page_of_a_list_are_in_the_gang(serve: Serve) -> None:
    tokens = {"": "second", "second": "third", "third": ""}
    numbers = {"": (0, 1), "second": (2, 3), "third": (4,)}

    def script(request: Request, reply: Reply) -> None:
        page = request.query.get("continue", "")
        metadata = {"resourceVersion": "7"} | ({"continue": tokens[page]} if tokens[page] else {})
        reply.answer(200, {"kind": "PodList", "metadata": metadata, "items": [pod(index) for index in numbers[page]]})

    server = serve(script)
    read = settings.parse({"FB_SELECTOR": "app=web", "FB_ROLES": "worker=5", "FC_FRAMEWORK_NAMESPACE": "lab"})
    items = list(islice(choose.observe(read, Api(Access(server.url))), 1))
    assert isinstance(items[0], Observation)
    assert items[0].gang.complete
    assert [task.pod for task in items[0].gang.roles[0].tasks] == [f"web-{index}" for index in range(5)]
    # Each page is asked for with the same selector: a token alone would not do.
    assert [request.query.get("continue", "") for request in server.requests] == ["", "second", "third"]
    assert {request.query["labelSelector"] for request in server.requests} == {"app=web"}
