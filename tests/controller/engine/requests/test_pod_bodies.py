"""What is kept of prepared templates, and how much of what is large is on its way, of all Frameworks together."""

import asyncio
import threading
import uuid
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest
from msgspec import Raw

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskRoleStatus
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import (
    CreatePod,
    DeletePod,
    Done,
    Effect,
    Outcome,
    RolesSummary,
    SetFinalizers,
    Subject,
    WriteStatus,
)
from frameworkcontroller.core.pods.facts import LARGE_BYTES, read
from frameworkcontroller.core.pods.template import PodSource, PodTemplate, RoleAttempt, TemplateError
from frameworkcontroller.engine.actions import LARGE_STATUS_BYTES, LARGE_STATUS_TASKS, Actions, Work
from frameworkcontroller.engine.config.settings import Settings
from frameworkcontroller.engine.observe.metrics import Metrics
from frameworkcontroller.engine.requests.pod_bodies import AT_ONCE_BYTES, CAPACITY, PodBodies
from frameworkcontroller.engine.workers import OBJECTS_PER_STATUS
from tests.controller.core.values import ended, framework, moment, task
from tests.controller.engine.stubs import beside, until
from tests.kube.virtualtime import in_virtual_time
from tests.support.rows import each


def creation(size: int, role: str = "worker", index: int = 0, problem: str = "") -> CreatePod:
    document = {"spec": {"containers": [{"name": "main"}], "note": "x" * size}}
    template = Raw(msgspec.json.encode(document))
    attempt = RoleAttempt("ns", "fw", str(uuid.uuid5(uuid.NAMESPACE_URL, "fw")), 0, "map-uid", role, "role-uid")
    return CreatePod(role, index, "task-uid", 0, PodSource(attempt, template, read(template).size, problem))


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The roles whose templates were prepared, in their order."""
    roles: list[str] = []

    class Prepared(PodTemplate):
        def __init__(self, template: bytes, attempt: RoleAttempt) -> None:
            roles.append(attempt.role)
            super().__init__(template, attempt)

    monkeypatch.setattr("frameworkcontroller.core.pods.template.PodTemplate", Prepared)
    return roles


async def test_a_template_is_prepared_once_for_all_tasks_of_its_role(prepared: list[str]) -> None:
    bodies = PodBodies()
    for index in range(3):
        assert f'"fw-worker-{index}"'.encode() in await bodies.render(creation(100, index=index))
    await bodies.render(creation(200))
    assert prepared == ["worker", "worker"], "the second one was edited"


async def test_of_many_templates_those_that_were_used_last_are_kept_in_8_mib(prepared: list[str]) -> None:
    assert CAPACITY == 8 * 1024 * 1024
    bodies, size = PodBodies(), 60_000
    fit = CAPACITY // (2 * size)
    roles = [f"r{number}" for number in range(2 * fit)]
    for role in roles:
        await bodies.render(creation(size, role))
    assert len(prepared) == len(roles)
    await bodies.render(creation(size, roles[-fit // 2]))
    assert len(prepared) == len(roles), "it is kept"
    await bodies.render(creation(size, roles[0]))
    assert len(prepared) == len(roles) + 1, "it is not"


async def test_only_small_templates_are_prepared_in_the_event_loop_and_others_once_for_all_tasks(
    prepared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """66 of 60 KB, for which as many workers woke together, held it for 180 ms."""
    threads: list[object] = []
    make = PodSource.prepare

    def watched(source: PodSource) -> PodTemplate:
        threads.append(threading.current_thread() is not threading.main_thread())
        return make(source)

    monkeypatch.setattr(PodSource, "prepare", watched)
    bodies = PodBodies()
    for size in (100, AT_ONCE_BYTES):
        made = await asyncio.gather(*(bodies.render(creation(size, f"r{size}", index)) for index in range(64)))
        assert b'"fw-r' + str(size).encode() + b'-63"' in made[-1]
    assert threads == [False, True]
    assert prepared == ["r100", f"r{AT_ONCE_BYTES}"]


async def test_what_is_large_is_not_kept(prepared: list[str]) -> None:
    bodies = PodBodies()
    for _ in range(2):
        await bodies.render(creation(LARGE_BYTES))
    assert prepared == ["worker", "worker"]


async def test_what_can_be_no_pod_is_not_prepared(prepared: list[str]) -> None:
    with pytest.raises(TemplateError, match="too many"):
        await PodBodies().render(creation(100, problem="too many"))
    assert prepared == []


class Slow:
    """A performer whose requests take some seconds, and who counts them: those of one effect, and others."""

    def __init__(self, effect: Effect, seconds: float = 1, others: float = 1) -> None:
        self.effect, self.seconds = effect, {True: seconds, False: others}
        self.now, self.most = {True: 0, False: 0}, {True: 0, False: 0}

    async def perform(self, _subject: Subject, effect: Effect) -> Outcome:
        is_it = effect is self.effect
        self.now[is_it] += 1
        self.most[is_it] = max(self.most[is_it], self.now[is_it])
        await asyncio.sleep(self.seconds[is_it])
        self.now[is_it] -= 1
        return Done()


class Reconciler:
    """One who still wants each effect."""

    uid = "u"

    def at_turn(self, effect: Effect, _now: Now, *, as_emitted: bool) -> Effect:
        assert not as_emitted
        return effect


async def ends_of(
    performer: object, effects: list[Effect], number: int, slots: int, namespaces: Sequence[str] = ("ns",)
) -> list[tuple[Effect, float]]:
    """Let so many Frameworks want these effects; return each of these with the time when it has ended."""
    ends, begun = list[tuple[Effect, float]](), asyncio.get_running_loop().time()

    def on_end(work: Work, error: Exception | None) -> None:
        assert error is None
        ends.append((work.outcomes[-1][0], asyncio.get_running_loop().time() - begun))

    metrics = Metrics(Settings().core.codes)
    made, yes = cast("Any", performer), lambda *_: True
    actions = Actions(yes, yes, on_end, made, metrics, slots=slots, now=lambda: moment(0))
    for place in range(number):
        actions.submit(Work((namespaces[place % len(namespaces)], f"fw{place}"), cast("Any", Reconciler())), effects)
    async with beside(actions.run()):
        await until(lambda: len(ends) == number * len(effects))
    return ends


def write(tasks: int, text_bytes: int = 0, roles: int = 1, rest_bytes: int = 0) -> WriteStatus:
    """A status of so many Tasks, none of which is wanted any more, in each of so many roles."""
    role = TaskRoleStatus("worker", "r", None, (task(State.COMPLETED, ended(0)),) * tasks)
    summary = RolesSummary(roles=(role,) * roles, order=(), ready=0, total=0, by_arrival=False, member_revision=0)
    return WriteStatus(framework(State.RUNNING), summary, 1, "1", None, rest_bytes=rest_bytes, text_bytes=text_bytes)


MANY, STATUSES = LARGE_STATUS_TASKS, 64 // OBJECTS_PER_STATUS


@pytest.mark.parametrize(
    ("large", "small", "most"),
    [
        pytest.param(creation(LARGE_BYTES), creation(100), 20, id="Pods"),
        pytest.param(write(MANY + 1), creation(100), 20, id="large statuses, small Pods"),
        pytest.param(write(MANY + 1), write(MANY), 1, id="statuses"),
        pytest.param(write(0, roles=MANY + 1), write(0, roles=MANY), 1, id="statuses of many TaskRoles"),
        pytest.param(write(1, LARGE_STATUS_BYTES + 1), write(1), STATUSES, id="statuses of long texts"),
        pytest.param(write(MANY), write(MANY // STATUSES), STATUSES, id="statuses of 500 Tasks, those of 62"),
        pytest.param(
            write(1, rest_bytes=LARGE_BYTES + 1),
            write(1, rest_bytes=LARGE_BYTES),
            STATUSES,
            id="statuses of long specs",
        ),
    ],
)
@in_virtual_time
async def test_of_what_is_large_one_is_sent_at_a_time_by_all_frameworks_with_pauses_and_others_beside_it(
    large: Effect, small: Effect, most: int
) -> None:
    slow = Slow(large)
    ends = await ends_of(slow, [large, small], 20, slots=64)
    assert slow.most == {True: 1, False: most}
    assert ends[-1][1] >= 2 * 20 - 1


class Slowing:
    """A performer that needs ten times as long from the 200th effect on."""

    def __init__(self) -> None:
        self.number = self.now = self.most = 0

    async def perform(self, _subject: Subject, _effect: Effect) -> Outcome:
        self.number += 1
        self.now += 1
        if self.number > 400:
            self.most = max(self.most, self.now)
        await asyncio.sleep(0.1 if self.number > 200 else 0.01)
        self.now -= 1
        return Done()


@pytest.mark.parametrize(
    ("namespaces", "effect", "most"),
    [
        pytest.param(("a", "b"), creation(100), 2 * 8, id="Pods of two namespaces"),
        pytest.param(("a",), creation(100), 64, id="Pods of one"),
        pytest.param(("a", "b"), DeletePod("worker", 0, "uid"), 64 + 16, id="deletions, which take other times"),
        pytest.param(("a", "b"), write(1), 2, id="statuses of two namespaces"),
    ],
)
@in_virtual_time
async def test_a_namespace_makes_way_while_the_api_server_needs_longer_for_all(
    namespaces: tuple[str, ...], effect: Effect, most: int
) -> None:
    """Beside forty gangs of 25 that arrived together others started after five seconds."""
    slowing = Slowing()
    await ends_of(slowing, [effect], 600, 64, namespaces)
    assert slowing.most == most


HALF = LARGE_STATUS_BYTES // 2


@each(
    "effect, most",
    [
        (write(10), STATUSES),
        (write(100), STATUSES // 2),
        (write(400), 2),
        (write(1, HALF), 2),
        (SetFinalizers(b"[]", "1", HALF), 2),
    ],
    ids=("10 Tasks", "100 Tasks", "400 Tasks", "texts", "finalizers"),
)
@in_virtual_time
async def test_of_smaller_writes_of_frameworks_fewer_are_sent_at_a_time_the_larger_they_are(
    effect: Effect, most: int
) -> None:
    alone, others = Slow(effect), Slow(effect)
    await ends_of(alone, [effect], 40, slots=64)
    assert alone.most[True] == most
    await ends_of(others, [effect], 41, slots=64, namespaces=["first", *["ns", "other"] * 20])
    assert others.most[True] == min(2 * most + 1, STATUSES + 2)


@each("size, most", [(2 * HALF + 1, 1), (LARGE_STATUS_BYTES // 64, 64)], ids=("large", "small"))
@in_virtual_time
async def test_finalizers_wait_for_no_status_and_of_large_frameworks_are_sent_one_at_a_time(
    size: int, most: int
) -> None:
    """A webhook that took 10 s for them alone held all places of statuses."""
    slow = Slow(finalizers := SetFinalizers(b"[]", "1", size))
    ends = await ends_of(slow, [finalizers, write(10)], 64, slots=64)
    assert slow.most == {True: most, False: STATUSES}
    assert max(at for effect, at in ends if effect is not finalizers) == 64 / STATUSES


class Busy(Slow):
    """One who answers later when there was much to do."""

    begun = 0

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        self.begun += 1
        self.seconds[True] = 0.01 if self.begun < 20 else 0.1
        if self.begun == 50:
            self.most[True] = 0
        return await super().perform(subject, effect)


@each("namespaces, most", [(("ns", "other"), 2), (("ns",), STATUSES)], ids=("beside others", "alone"))
@in_virtual_time
async def test_a_busy_api_server_has_one_status_of_each_namespace_at_a_time(
    namespaces: tuple[str, ...], most: int
) -> None:
    performer = Busy(status := write(10))
    await ends_of(performer, [status], 80, slots=64, namespaces=namespaces)
    assert performer.most[True] == most
