from frameworkbarrier.gate.gang import Missing
from frameworkbarrier.gate.gate import Observation, Released, Waiting, decide
from frameworkbarrier.settings import Identity
from tests.barrier.gangs import observation, roster, uid


def gang(*args: object, **changes: object) -> Observation:
    return observation(roster(*args, **changes))


def test_a_complete_gang_that_lists_this_pod_is_open() -> None:
    verdict = decide(gang({"ps": 1, "worker": 2}), Identity("worker", 1, uid("worker", 1)))
    assert isinstance(verdict, Released)
    assert verdict.role
    assert verdict.task
    assert (verdict.role.name, verdict.task.index, verdict.task.pod) == ("worker", 1, "mnist-worker-1")


def test_an_incomplete_gang_is_closed_and_names_what_the_source_named() -> None:
    why = [{"task": "worker-0", "why": "Pending"}]
    verdict = decide(gang({"worker": 3}, ready=1, waitingFor=why), Identity("worker", 1, uid("worker", 1)))
    assert verdict == Waiting(1, 3, (Missing("worker-0", "Pending"),))
    assert str(verdict) == "1/3: worker-0 Pending, 1 more"


def test_a_gang_that_lists_another_instance_of_this_pod_is_old() -> None:
    verdict = decide(gang({"worker": 3}), Identity("worker", 1, uid("worker", 1, instance=1)))
    assert str(verdict) == "2/3: worker-1 (this Pod) is not recorded yet"


def test_a_gang_without_this_index_is_old() -> None:
    assert isinstance(decide(gang({"worker": 3}), Identity("worker", 3, uid("worker", 3))), Waiting)


def test_the_uid_of_a_neighbour_does_not_open() -> None:
    assert isinstance(decide(gang({"worker": 3}), Identity("worker", 1, uid("worker", 2))), Waiting)


def test_a_pod_that_knows_only_its_uid_is_found_by_it() -> None:
    verdict = decide(gang({"ps": 1, "worker": 2}), Identity(None, None, uid("ps", 0)))
    assert isinstance(verdict, Released)
    assert verdict.role
    assert verdict.role.name == "ps"


def test_a_pod_that_does_not_know_who_it_is_opens_with_the_gang() -> None:
    seen = gang({"worker": 1})
    assert decide(seen, Identity(None, None, None)) == Released(seen.gang, None, None, seen.roster_text)


def test_a_count_without_names_is_shown_as_a_count() -> None:
    assert str(Waiting(3, 5, ())) == "3/5: 2 Tasks"
    assert str(Waiting(4, 5, ())) == "4/5: 1 Task"
    assert str(Waiting(5, 5, ())) == "5/5: the gang to be complete"
