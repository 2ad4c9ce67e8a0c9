"""What a group asks of the scheduler, and how often it is told what that says; `scenarios/groups` has whole lives."""

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod_group import KINDS, GangScheduling, PodGroup
from frameworkcontroller.core.effects import (
    CreateCompanion,
    CreatePod,
    Missing,
    NameTaken,
    PatchCompanion,
    Refused,
    WriteStatus,
)
from frameworkcontroller.core.policies.shares import GROUPS_A_SECOND, GROUPS_AT_ONCE
from frameworkcontroller.core.reconcile import group_pass
from localcluster.client import Json
from tests.controller.core.manual import Manual, of_roles
from tests.controller.core.scenarios.groups import said
from tests.controller.core.scenarios.lives import TWO_ROLES
from tests.controller.core.values import core_config, known
from tests.support.rows import each

ASKED = "gangScheduling: {scheduler: kubernetes, topologyKey: zone, priorityClassName: high, disruptionMode: Single}\n"


def test_a_group_asks_for_all_that_the_framework_does_and_not_for_what_the_controller_has_by_default() -> None:
    default = core_config(gang_scheduling=GangScheduling("kubernetes", topology_key="rack"))
    manual = Manual(TWO_ROLES + ASKED, default)
    created = manual.work_until(CreateCompanion)
    assert created.spec == {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
        "priorityClassName": "high",
        "disruptionMode": {"single": {}},
    }


@each(
    "scheduler, spec, given",
    [
        (
            "volcano",
            {"minMember": 4, "queue": "research", "priorityClassName": "high"},
            {"annotations": {"scheduling.k8s.io/group-name": "fw-attempt-0"}, "schedulerName": "volcano"},
        ),
        ("coscheduling", {"minMember": 4}, {"labels": {"scheduling.x-k8s.io/pod-group": "fw-attempt-0"}}),
    ],
)
def test_groups_of_other_schedulers(scheduler: str, spec: Json, given: Json) -> None:
    kind = KINDS[scheduler]
    fields = {"queue": "research", "priorityClassName": "high"}
    asked = {name: value for name, value in fields.items() if name not in kind.lacks}
    manual = Manual(f"{TWO_ROLES}gangScheduling: { ({'scheduler': scheduler} | asked) }\n")
    assert manual.work_until(CreateCompanion).spec == spec
    assert kind.membership("fw-attempt-0") == given


GROUPED = TWO_ROLES + "gangScheduling: {scheduler: kubernetes}\n"


def test_a_gang_that_is_preempted_while_its_config_map_is_hidden_ends_once_that_is_found() -> None:
    manual = Manual(GROUPED)
    manual.at_rest()
    manual.world.unlabel_config_map()
    (group,) = manual.world.groups.documents
    manual.world.groups.preempt(group)
    manual.see()
    manual.live(60)
    assert (manual.world.status.attempt_status.id, manual.world.status.ready) == (1, "4/4")


def test_a_pod_of_others_preempts_nobody() -> None:
    others, manual = Manual(GROUPED), Manual(GROUPED)
    others.at_rest()
    (group,) = others.world.groups.documents
    others.world.groups.preempt(group)
    creation = manual.work_until(CreatePod)
    name = f"fw-{creation.role}-{creation.index}"
    of_others = others.world.pods[name]
    metadata = replace(of_others.metadata, uid="others", owner_references=(), annotations={})
    manual.world.pods[name] = replace(of_others, metadata=metadata)
    manual.world.frozen.add(name)
    manual.answer(creation, NameTaken("it is there"))
    manual.live(30)
    assert manual.world.status.attempt_status.id == 0
    assert manual.world.status.attempt_status.completion_status is None


def test_the_name_of_a_group_fits_into_a_label() -> None:
    framework = "g" * 63
    found = {names.pod_group_name(framework, attempt, role) for attempt in (1, 10) for role in ("", "worker", "r" * 63)}
    assert len(found) == 6
    assert all(len(name) <= 63 and name.startswith(names.pod_group_prefix(framework)) for name in found)
    assert names.pod_group_name("fw", 0, "worker") == "fw-attempt-0-worker"


@each(
    "phase, conditions, said",
    [
        ("", (), None),
        ("Pending", ("Unschedulable",), ("PodGroupInitiallyScheduled", "False", "Unschedulable")),
        ("Inqueue", ("Unschedulable", "Scheduled"), ("PodGroupInitiallyScheduled", "False", "Unschedulable")),
        ("Running", ("Unschedulable", "Scheduled"), ("PodGroupInitiallyScheduled", "True", "Scheduled")),
        ("Completed", ("Scheduled",), ("PodGroupInitiallyScheduled", "True", "Scheduled")),
    ],
)
def test_which_of_the_conditions_of_volcano_holds_is_in_the_phase(
    phase: str, conditions: tuple[str, ...], said: tuple[str, str, str] | None
) -> None:
    status = {"phase": phase, "conditions": [{"type": one, "status": "True", "message": one} for one in conditions]}
    metadata = {"name": "a", "uid": "a", "resourceVersion": "1"}
    found = known(KINDS["volcano"].said)(msgspec.convert({"metadata": metadata, "status": status}, PodGroup))
    assert (found and (found.type, found.status, found.message)) == said


def test_that_nothing_was_said_of_a_group_whose_pods_have_nodes_is_told_once_that_lasts() -> None:
    manual = Manual(TWO_ROLES + ASKED)
    manual.world.groups.is_gated = True
    manual.live(8)
    assert manual.world.running
    assert not said(manual.world)
    manual.live(8)
    assert said(manual.world).startswith("NotGangScheduled")


def test_what_an_attempt_asks_for_stays_as_it_is_when_the_spec_changes() -> None:
    manual = Manual(TWO_ROLES + ASKED)
    manual.live(3)
    manual.edit(gangScheduling={"scheduler": "none"})
    manual.live(3)
    assert manual.world.status.attempt_status.gang_scheduling.topology_key == "zone"


def test_what_the_scheduler_says_is_written_every_ten_seconds_however_often_that_changes() -> None:
    manual = Manual(TWO_ROLES + ASKED)
    manual.world.groups.room = 0
    manual.live(5)
    before = manual.world.history[WriteStatus.__name__]
    for second in range(60):
        manual.world.groups.room = -second
        manual.live(1)
    assert 3 <= manual.world.history[WriteStatus.__name__] - before <= 7


def test_a_group_that_is_gone_before_the_cache_has_shown_it_is_made_again() -> None:
    manual = Manual(TWO_ROLES + ASKED)
    created = manual.work_until(CreateCompanion)
    manual.answer_as_the_server(created)
    del manual.world.groups.documents[created.name]
    assert CreateCompanion not in map(type, manual.ask()), "the cache may be late"
    manual.reconciler.touch_companion(created.name)
    assert CreateCompanion in map(type, manual.ask())


def test_a_group_that_is_not_there_any_more_is_not_changed_again_and_again() -> None:
    manual = Manual(TWO_ROLES + ASKED)
    manual.world.groups.room = 0
    manual.live(5)
    manual.edit_role(1, taskNumber=1)
    changed = manual.work_until(PatchCompanion)
    manual.answer(changed, Missing())
    assert PatchCompanion not in map(type, manual.ask())


PER_ROLE = TWO_ROLES + "gangScheduling: {scheduler: kubernetes, groupPer: TaskRole}\n"


def test_one_request_about_groups_follows_another_and_a_refused_one_speaks_for_all() -> None:
    manual = Manual(PER_ROLE)
    manual.world.groups.refusal = "no such priority class"
    first = manual.work_until(CreateCompanion)
    assert CreateCompanion not in map(type, manual.ask())
    manual.answer(first, Refused(422, "no such priority class"))
    assert CreateCompanion not in map(type, manual.ask())
    manual.live(60)
    assert said(manual.world) == "GroupsRefused no such priority class"
    assert manual.world.history[CreateCompanion.__name__] <= 10


def test_that_groups_were_refused_is_not_said_for_ever_by_a_scheduler_that_says_nothing() -> None:
    manual = Manual(TWO_ROLES + "gangScheduling: {scheduler: coscheduling}\n")
    manual.world.groups.refusal, manual.world.groups.room = "no", 0
    manual.live(3)
    assert said(manual.world) == "GroupsRefused no"
    manual.world.groups.refusal = ""
    manual.live(60)
    assert said(manual.world).startswith("NothingSaid")
    manual.world.groups.room = 100
    manual.live(15)
    assert said(manual.world).startswith("Scheduled")


def test_groups_of_a_namespace_are_made_at_a_pace() -> None:
    manual = Manual(PER_ROLE)
    for _ in range(GROUPS_AT_ONCE + 2 * GROUPS_A_SECOND):
        manual.shares.groups.reserve(manual.world.now.timestamp())
    manual.live(1)
    assert not manual.world.groups.made
    manual.live(3)
    assert len(manual.world.groups.made) == 2


def test_an_attempt_makes_no_more_groups_however_often_its_roles_are_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_pass, "MAX_ROLES", 5)
    manual = Manual(PER_ROLE)
    manual.live(1)
    for number in range(10):
        manual.edit_role(0, name=f"role{number}")
        manual.live(2)
    assert len(manual.world.groups.made) == 5
    assert said(manual.world).startswith("GroupsRefused")


def test_of_more_groups_than_a_pass_looks_at_it_is_said_that_all_have_their_place() -> None:
    """Of thirty it was said for ever that there is no place, though all of it ran."""
    roles = of_roles(**{f"r{number}": 1 for number in range(30)})
    manual = Manual(roles + PER_ROLE.removeprefix(TWO_ROLES))
    manual.world.groups.room = 0
    manual.live(20)
    assert said(manual.world).startswith("Unschedulable")
    manual.world.groups.room = 100
    manual.live(15)
    assert said(manual.world).startswith("Scheduled")


def test_a_group_that_is_none_of_it_wakes_nobody() -> None:
    manual = Manual(TWO_ROLES + ASKED)
    manual.live(5)
    (name,) = manual.world.groups.documents
    assert [manual.reconciler.touch_companion(one) for one in (name, "fw-attempt-mine")] == [True, False]


def test_that_a_group_has_its_place_is_said_only_when_that_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    manual = Manual(TWO_ROLES + ASKED)
    manual.world.groups.room = 0
    manual.live(5)
    (name,) = manual.world.groups.documents
    del manual.world.groups.documents[name]
    monkeypatch.setattr(manual.world.groups, "say", lambda *_: None)
    for _ in range(20):
        manual.live(1)
        assert said(manual.world).startswith("Unschedulable")
    assert name in manual.world.groups.documents


def test_a_pod_that_is_made_again_once_others_are_over_needs_no_place_for_these() -> None:
    """Its scheduler would wait for Pods that will never come."""
    manual = Manual(TWO_ROLES.replace("maxRetryCount: 0", "maxRetryCount: 3") + ASKED)
    manual.world.plan.ends = {"ps-0": ["stay"], "worker-0": [0], "worker-1": ["stay"], "worker-2": ["stay"]}
    manual.live(10)
    (name,) = manual.world.groups.documents
    assert manual.world.groups.seen[name].min_count == 4, "nobody waits for a place"
    manual.world.terminate("fw-worker-1")
    assert manual.work_until(PatchCompanion).name == name
