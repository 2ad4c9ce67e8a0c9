"""The cache under events in every order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkkube.informer.store import Store
from tests.kube.pods import Changes, Meta, Pod


def make(name: str, version: int | str, uid: str) -> Pod:
    return Pod(Meta(name=name, uid=uid, resource_version=str(version), namespace="d"))


def cached(store: Store[Pod]) -> dict[str, Pod]:
    found = {key: store.get(*key) for key in store.keys()}  # noqa: SIM118 -- a store is no mapping
    assert len(found) == len(store)
    return {name: pod for (_, name), pod in found.items() if pod is not None}


def test_a_change_is_in_the_store_before_the_handler_is_called() -> None:
    seen: list[int] = []
    store: Store[Pod] = Store(lambda old, new: seen.append(len(store)))
    store.seen(make("a", 1, "u"))
    store.deleted(make("a", 2, "u"))
    assert seen == [1, 0]


@pytest.mark.parametrize(
    ("events", "seen"),
    [
        pytest.param("+1u -5u +4u -5u", "+a/u -a/u", id="an old event does not bring a deleted object back"),
        pytest.param("+1u -5u +6u -5u", "+a/u -a/u +a/u", id="an object that left the selection may come back"),
        pytest.param("+1u +3v +2u -2u", "+a/u -a/u +a/v", id="a new instance ends the old one first"),
        pytest.param("+1u -9v", "+a/u -a/u", id="the end of an unseen instance ends the one before it too"),
        pytest.param("+9u +10u", "+a/u ~a/u:", id="versions are compared as numbers"),
    ],
)
def test_events_of_one_name(events: str, seen: str) -> None:
    """An event is a sign, a version and a UID: `-5u` is the deletion of the instance `u` at version 5."""
    changes = Changes([])
    store: Store[Pod] = Store(changes)
    for event in events.split():
        (store.seen if event[0] == "+" else store.deleted)(make("a", int(event[1:-1]), event[-1]))
    assert changes.seen == seen.split()


def test_a_deletion_that_is_repeated_is_no_change() -> None:
    store: Store[Pod] = Store(Changes([]))
    store.seen(make("a", 1, "u"))
    assert store.deleted(make("a", 5, "u"))
    assert not store.deleted(make("a", 5, "u"))


def test_after_a_list_events_count_from_there_even_if_versions_went_back() -> None:
    store: Store[Pod] = Store(Changes([]))
    store.seen(make("a", 800, "u"))
    store.deleted(make("a", 900, "u"))
    store.listed(make("a", 90, "u"))
    store.forget_tombstones()
    store.seen(make("a", 101, "u"))
    assert store.get("d", "a") == make("a", 101, "u")


def test_a_version_that_is_no_number_is_taken_as_it_comes() -> None:
    store: Store[Pod] = Store(Changes([]))
    for odd in (make("a", version, "u") for version in ("abc", "abd", "abc")):
        store.seen(odd)
        assert store.get("d", "a") is odd


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Pod]]:
    """What truly happened to three names: an instance is added, modified some times, perhaps deleted; versions grow."""
    events, alive = list[tuple[str, Pod]](), dict[str, str]()
    for version in range(1, draw(st.integers(2, 26))):
        name = draw(st.sampled_from("abc"))
        is_end = name in alive and draw(st.booleans())
        uid = alive.pop(name) if is_end else alive.setdefault(name, f"u{version}")
        events.append(("deleted" if is_end else "seen", make(name, version, uid)))
    return events


def truth_of(history: list[tuple[str, Pod]]) -> dict[str, Pod]:
    truth: dict[str, Pod] = {}
    for kind, pod in history:
        truth[pod.metadata.name] = pod
        if kind == "deleted":
            del truth[pod.metadata.name]
    return truth


@given(histories(), st.data())
def test_any_order_with_repetitions_ends_in_the_truth_and_reports_consistent_changes(
    history: list[tuple[str, Pod]], data: st.DataObject
) -> None:
    truth = truth_of(history)
    delivered = data.draw(st.permutations(history)) + data.draw(st.lists(st.sampled_from(history), max_size=10))
    changes = Changes([])
    store: Store[Pod] = Store(changes)
    for kind, pod in delivered:
        getattr(store, kind)(pod)
    assert cached(store) == truth
    standing: dict[str, str] = {}
    for change in changes.seen:
        name, _, uid = change[1:].partition(":")[0].partition("/")
        # An object begins once, changes while it is there, and ends once.
        assert standing.get(name) == (None if change[0] == "+" else uid)
        standing[name] = uid
        if change[0] == "-":
            del standing[name]
    assert standing == {name: pod.metadata.uid for name, pod in truth.items()}


@given(histories(), st.integers(0, 25))
def test_a_list_after_any_prefix_ends_in_the_truth(history: list[tuple[str, Pod]], heard: int) -> None:
    truth, store = truth_of(history), Store[Pod](Changes([]))
    for kind, pod in history[:heard]:
        getattr(store, kind)(pod)
    for pod in truth.values():
        store.listed(pod)
    for key in set(store.keys()) - {("d", name) for name in truth}:
        store.vanished(key)
    assert cached(store) == truth
