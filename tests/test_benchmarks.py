"""What the benchmarks decide without a cluster: the shapes, and how metrics are read."""

from typing import Any

import pytest

from bench import metrics
from bench.controller import shapes


@pytest.mark.parametrize(
    ("text", "scaled"),
    [
        ("1x100", "1x10"),
        ("200x10", "20x10"),
        ("2000x2@60", "200x2@6"),
        ("steady:15000x1@300", "steady:1500x1@30"),
        ("beside:1x10000", "beside:1x1000"),
        ("life:1x100", "life:1x20"),
        ("1x4", "1x2"),
    ],
)
def test_a_scaled_shape_has_the_same_rate(text: str, scaled: str) -> None:
    shape = shapes.parse(text)
    assert shape.name == text
    assert shape.scaled(1.0) == shape
    assert shape.scaled(0.1).name == scaled
    assert all(shapes.parse(text).name == text for text in shapes.SHAPES.split(","))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ten", r"'ten' is not \[start\|steady\|groups\|beside\|life:\]FRAMEWORKSxTASKS"),
        ("idle:1x10", "'idle:1x10' is not"),
        ("1x", "'1x' is not"),
        ("0x10", "has no Tasks"),
        ("beside:2x10", "has several Frameworks, beside is about one"),
        ("life:1x10", "has less than 20 Tasks"),
    ],
)
def test_a_word_that_is_no_shape_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        shapes.parse(text)


METRICS = """\
# HELP apiserver_request_total Counter.
apiserver_request_total{resource="pods",subresource="",verb="POST"} 7
apiserver_request_total{resource="pods",subresource="status",verb="PATCH"} 1e+06
apiserver_request_total_more{resource="pods"} 5
queue_bucket{le="0.1"} 90
queue_bucket{le="1"} 99
queue_bucket{le="+Inf"} 100
workqueue_depth 3
"""


def test_metrics_are_read_by_their_whole_names_bounded_by_buckets_and_compared_with_an_earlier_reading() -> None:
    found = list(metrics.samples(METRICS, "apiserver_request_total"))
    assert [(labels["subresource"], value) for labels, value in found] == [("", 7.0), ("status", 1e6)]
    assert metrics.total(METRICS, "workqueue_depth") == 3
    bounds = [metrics.quantile_bound(METRICS, "queue", one) for one in (0.5, 0.99, 0.999)]
    assert bounds == [0.1, 1.0, float("inf")]
    assert metrics.quantile_bound(METRICS, "none", 0.5) is None
    grown = metrics.since(metrics.counted(""), metrics.counted(METRICS))
    assert (grown["Pods created"], grown["others"], grown["all requests"]) == (7, 1_000_000, 1_000_007)


def test_each_request_has_one_kind_and_watches_and_objects_of_others_have_none() -> None:
    kinds = {
        "POST pods": "Pods created",
        "POST pods/binding": "others",
        "DELETE pods": "Pods deleted",
        "PUT frameworks/status": "status writes",
        "PATCH configmaps": "ConfigMaps",
        "POST rolebindings": "Roles, RoleBindings",
        "POST events": "Events",
        "LIST pods": "others",
        "WATCH pods": None,
        "PUT leases": None,
    }

    def kind_of(request: str) -> Any:
        verb, _, path = request.partition(" ")
        resource, _, subresource = path.partition("/")
        return metrics.request_of({"resource": resource, "subresource": subresource, "verb": verb})

    assert {request: kind_of(request) for request in kinds} == kinds
