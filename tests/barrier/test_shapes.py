"""Documents of a wrong shape from an API server: a sentence and another request, never a traceback."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from frameworkbarrier import settings
from frameworkbarrier.errors import BarrierError
from frameworkbarrier.gate.gate import Fault, Observation
from frameworkbarrier.source import choose
from frameworkbarrier.source.access import Access
from frameworkbarrier.source.api import Api
from frameworkbarrier.source.follow import Follower, View
from frameworkbarrier.source.views import FrameworkView, PodsView, RosterView
from tests.barrier.documents import BY_SELECTOR, DOCUMENTS, VALID, a_configmap, a_framework, a_list
from tests.barrier.faulty_server import FaultyServer, Reply, Request, Script
from tests.barrier.gangs import environment

Serve = Callable[[Script], FaultyServer]

VIEWS: dict[str, Callable[[], View[Any]]] = {
    "roster": lambda: RosterView(settings.parse(environment())),
    "framework": lambda: FrameworkView(settings.parse(environment(FC_FRAMEWORK_ATTEMPT_ID="0"))),
    "pods": lambda: PodsView(settings.parse(environment(FB_WAIT_FOR="arrived", **BY_SELECTOR)), "lab"),
}


class EnoughError(Exception):
    """The follower has paused for the third time."""


class Answers(Api):
    """An API server that answers each read with one document and each watch with one event."""

    def __init__(self, document: dict[str, Any], kind: str = "", body: dict[str, Any] | None = None) -> None:
        self._document = document
        self._event = (kind, body or {})

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._document

    def watch(
        self, path: str, params: Mapping[str, str], read_timeout_sec: float
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        if self._event[0]:
            yield self._event


def follow(api: Api, view: View[Any]) -> list[Any]:
    """What the barrier makes of it: values, faults, or the sentence with which it ends."""
    pauses = 0

    def sleep(_: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            raise EnoughError

    items: list[Any] = []
    try:
        for item in Follower(api, view, poll_sec=1, sleep=sleep):
            items.append(item)  # noqa: PERF402 -- keeps what came before an exception
    except EnoughError:
        return items
    except BarrierError as end:
        return [*items, str(end)]
    raise AssertionError


def check(items: list[Any]) -> None:
    assert items
    for item in items:
        text = item.text if isinstance(item, Fault) else item if isinstance(item, str) else ""
        assert item is None or isinstance(item, Observation | Fault | str)
        assert "Error" not in text


@pytest.mark.parametrize("source", VIEWS)
@given(data=st.data())
@hypothesis_settings(max_examples=400)
def test_any_document_that_is_read_is_understood_or_a_sentence(source: str, data: st.DataObject) -> None:
    check(follow(Answers(data.draw(DOCUMENTS[source])), VIEWS[source]()))


@pytest.mark.parametrize("source", VIEWS)
@given(data=st.data(), kind=st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]))
@hypothesis_settings(max_examples=400)
def test_any_event_is_understood_or_a_sentence(source: str, data: st.DataObject, kind: str) -> None:
    body = data.draw(DOCUMENTS["pod" if source == "pods" else source])
    check(follow(Answers(VALID[source], kind, body), VIEWS[source]()))


CONFIGMAP = "/api/v1/namespaces/lab/configmaps/mnist-attempt"
FRAMEWORK = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/lab/frameworks/mnist"
PODS = "/api/v1/namespaces/lab/pods"


@pytest.mark.parametrize(
    ("path", "document", "environ", "says"),
    [
        (CONFIGMAP, {}, {}, "metadata.name"),
        (CONFIGMAP, a_configmap() | {"metadata": []}, {}, "metadata: [] is not an object"),
        (CONFIGMAP, a_configmap() | {"data": 5}, {}, "data: 5 is not an object"),
        (FRAMEWORK, a_framework() | {"spec": 5}, {}, "spec: 5 is not an object"),
        (FRAMEWORK, a_framework() | {"spec": {"taskRoles": [{"name": "ps"}]}}, {}, "spec.taskRoles[ps].taskNumber"),
        (FRAMEWORK, a_framework() | {"status": {"attemptStatus": [1]}}, {}, "status.attemptStatus: [1] is not"),
        (PODS, {}, BY_SELECTOR, "items: is not there"),
        (PODS, {"items": 5}, BY_SELECTOR, "items: 5 is not a list"),
        (PODS, {"items": [{"metadata": {"uid": 1}}]}, BY_SELECTOR, "metadata.uid: 1 is not a string"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_a_wrong_shape_is_a_sentence_and_the_next_answer_counts(
    serve: Serve, path: str, document: dict[str, Any], environ: dict[str, str], says: str
) -> None:
    answers = {CONFIGMAP: a_configmap(), FRAMEWORK: a_framework(), PODS: a_list()}
    wrong = iter([document])

    def script(request: Request, reply: Reply) -> None:
        if request.path == path:
            reply.answer(200, next(wrong, answers[path]))
        elif request.path == CONFIGMAP:
            reply.answer(200, a_configmap() | {"data": {}})
        else:
            reply.status(404, "no")

    read = settings.parse(environment() | environ)
    items = choose.observe(read, Api(Access(serve(script).url)))
    first, second = next(items), next(items)
    assert isinstance(first, Fault)
    assert says in first.text
    assert isinstance(second, Observation)
    assert second.gang.complete
