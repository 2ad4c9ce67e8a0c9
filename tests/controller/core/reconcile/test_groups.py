"""What a group asks of the scheduler, and how often it is told what that says; `scenarios/groups` has whole lives."""

from __future__ import annotations

import msgspec

from frameworkcontroller.api.pod_group import GangScheduling
from frameworkcontroller.core.effects import CreateGroup, Missing, PatchGroup, WriteStatus
from tests.controller.core.manual import Manual
from tests.controller.core.scenarios.lives import TWO_ROLES
from tests.controller.core.values import core_config

ASKED = "gangScheduling: {scheduler: kubernetes, topologyKey: zone, priorityClassName: high, disruptionMode: Single}\n"


def test_a_group_asks_for_all_that_the_framework_does_and_not_for_what_the_controller_has_by_default() -> None:
    default = core_config(gang_scheduling=GangScheduling("kubernetes", topology_key="rack"))
    manual = Manual(TWO_ROLES + ASKED, default)
    created = manual.work_until(CreateGroup)
    assert msgspec.json.decode(created.spec) == {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
        "priorityClassName": "high",
        "disruptionMode": {"single": {}},
    }


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
    created = manual.work_until(CreateGroup)
    manual.answer_as_the_server(created)
    del manual.world.groups.documents[created.name]
    assert CreateGroup not in map(type, manual.ask()), "the cache may be late"
    manual.reconciler.touch_companion(created.name)
    assert CreateGroup in map(type, manual.ask())


def test_a_group_that_is_not_there_any_more_is_not_changed_again_and_again() -> None:
    manual = Manual(TWO_ROLES + ASKED)
    manual.world.groups.room = 0
    manual.live(5)
    manual.edit_role(1, taskNumber=1)
    changed = manual.work_until(PatchGroup)
    manual.answer(changed, Missing())
    assert PatchGroup not in map(type, manual.ask())
