"""The passes of the controller over one Framework: all that one tenant's object makes the core do.

A genome says what the Framework is like and what becomes of its Pods. Each pass is a step, and so is the answer to each
effect, the body of the first Pod of each TaskRole, and the start of the next leader at the end. The world is that of
`tests.controller.core` without its checks, which cost more than what is measured.
"""

import contextlib
import random
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Labels, Meta, OwnerReference
from frameworkcontroller.api.pod import Container, Pod, PodCondition, PodSpec
from frameworkcontroller.api.spec import MAX_DEPENDENCIES, MAX_ROLES
from frameworkcontroller.core.effects import (
    CreatePod,
    Done,
    Dropped,
    Effect,
    Outcome,
    Refused,
    StaleStatus,
    WriteRoster,
    WriteStatus,
)
from frameworkcontroller.core.pods.facts import LARGE_BYTES, MAX_CONTAINERS_OF_FRAMEWORK, RoleFacts, read
from frameworkcontroller.core.pods.template import MAX_CONTAINERS_OF_POD, PodTemplate, TemplateError
from frameworkcontroller.core.reconcile.decision import Decision
from frameworkcontroller.engine.requests import creation_error, status_encoding
from frameworkcontroller.engine.workers import DEFAULT_SLOTS
from frameworkkube.errors import ApiStatusError
from tests.controller.core.driver import Driver
from tests.controller.core.inplace import RUNS, InPlace
from tests.controller.core.world import Plan, World
from tests.cost.bounds import INPUT_BYTES, TASKS
from tests.cost.genes import Genes, Number, Word
from tests.cost.meter import Genome, Play, Size, Step
from tests.cost.templates import GENES as TEMPLATE
from tests.cost.templates import template_of

ROUNDS = 5
"""A second has so many passes at most: beyond that it only repeats itself."""
GENES = Genes(
    {
        "roles": Number(1, MAX_ROLES + 1),
        "tasks": Number(0, TASKS),
        "shape": Word(("none", "chain", "star", "layers", "circle", "nobody")),
        "status": Word(("Complete", "Ready")),
        "seconds": Number(1, 12),
        "end": Word(("stay", 0, 1, "")),
        "retries": Word((0, -2, -1, 3)),
        "fancy": Word((False, True)),
        "framework_retries": Word((0, -2)),
        "policy": Word((1, -1)),
        "refusal": Number(0, 32_000),
        "barrier": Word((False, True)),
        "in_place": Word((False, True)),
        "retain": Word(("Never", "Always")),
        "padding": Number(0, INPUT_BYTES),
        "containers": Number(0, INPUT_BYTES // 3),
        "placeholders": Number(0, INPUT_BYTES // 16),
        "variables": Number(0, INPUT_BYTES // 3),
        "annotations": Number(0, INPUT_BYTES // 12),
        "description": Number(0, INPUT_BYTES),
        "edits": Number(0, 3),
        "edit": Word(("all", "description", "template")),
        "scale": Number(1, TASKS),
    }
)


class Passes:
    """Frameworks."""

    name = "pass"
    mutated = staticmethod(GENES.mutated)

    def seeds(self) -> Mapping[str, Genome]:
        """Return the cases by which one Framework held up all others, and each limit: at it, and one above it."""
        roles: Genome = {"roles": MAX_ROLES, "tasks": 1, "seconds": 2}
        containers: Genome = {"containers": MAX_CONTAINERS_OF_POD - 1, "tasks": 1, "seconds": 3}
        full = MAX_CONTAINERS_OF_FRAMEWORK // MAX_CONTAINERS_OF_POD
        again: Genome = {"seconds": 12, "end": 1, "retries": -2}
        in_place: Genome = again | {"barrier": True, "in_place": True}
        ends: Genome = {"tasks": 1, "end": 0, "seconds": 12, "policy": -1}
        return {
            "1,000 roles alone": roles,
            "1,000 roles, star": roles | {"shape": "star", "status": "Ready"},
            "1,000 roles, circle": roles | {"shape": "circle", "status": "Ready", "seconds": 1},
            "300 roles that wait for nobody": roles | {"roles": 300, "shape": "nobody"},
            "1,001 roles are too many": roles | {"roles": MAX_ROLES + 1},
            "1,000 roles of 10 Tasks": roles | {"tasks": 10, "seconds": 1},
            "10,000 Tasks become one": {"tasks": TASKS, "seconds": 3, "edits": 1, "scale": 1},
            "3,000 Tasks that are refused": {"tasks": 3000, "refusal": 4000, "retries": -2, "seconds": 3},
            "full layers of 16, 10,000 dependencies": roles | {"roles": 641, "shape": "layers"},
            "full layers of 16, too many dependencies": roles | {"roles": 642, "shape": "layers"},
            "full layers that end": ends | {"roles": 96, "shape": "layers"},
            "a chain of 200 roles that ends": ends | {"roles": 200, "shape": "chain"},
            "restart in place, 200 roles": in_place | {"roles": 200, "tasks": 1},
            "300 Tasks of 100 KB that are retried": again | {"tasks": 300, "padding": 100_000, "seconds": 4},
            "Tasks of 200 KB in 5 roles": again | {"roles": 5, "tasks": 20, "padding": 200_000, "seconds": 4},
            "300 Tasks of 100 KB that are refused": again | {"tasks": 300, "padding": 100_000, "refusal": 500},
            "refused and fancy": {"tasks": 300, "refusal": 32_000, "fancy": True, "seconds": 6},
            "refused Frameworks": {"tasks": 300, "refusal": 32_000, "framework_retries": -2, "seconds": 6},
            "256 containers": containers | {"tasks": 64},
            "257 containers are too many": containers | {"containers": MAX_CONTAINERS_OF_POD},
            "10,000 containers": containers | {"roles": full},
            "10,240 containers are too many": containers | {"roles": full + 1},
            "230,000 empty containers": containers | {"containers": 230_000},
            "90,000 names of the Pod": {"placeholders": 90_000, "tasks": 1, "seconds": 3},
            "as many variables of a barrier as fit": {"variables": 465_000, "tasks": 1, "seconds": 1},
            "as many annotations as fit": {"annotations": 115_000, "tasks": 1, "seconds": 1},
            "a description": {"description": 1_400_000, "tasks": 1, "edits": 3, "scale": 2, "seconds": 12},
            "1,000 Tasks with a barrier": {"tasks": 1000, "seconds": 4, "barrier": True},
            "500 Tasks that end": {"tasks": 500, "seconds": 8, "end": 0, "retain": "Always"},
            "300 Tasks become 10 and many again": {"tasks": 300, "seconds": 12, "edits": 3, "scale": 10},
        }

    def case(self, genome: Genome) -> "Pass | None":
        genes = GENES.whole(genome)
        roles, tasks = genes["roles"], genes["tasks"]
        if (
            roles * max(tasks, genes["scale"] if genes["edits"] else 0) > TASKS
            or roles * (genes["padding"] + 3 * (genes["containers"] + genes["variables"]) + 100) > INPUT_BYTES
        ):
            return None
        if genes["in_place"] and roles * tasks > 500:
            # The world has a quadratic cost of its own there.
            return None
        spec = spec_of(genes)
        # A play of more is too long for what else is to be tried.
        is_long = roles * tasks * genes["seconds"] > 40_000
        return None if spec is None or len(spec) > INPUT_BYTES or is_long else Pass(genes, spec)


def spec_of(genes: Mapping[str, Any], edit: int = 0) -> bytes | None:
    """Return the spec as JSON, after so many edits; None if it cannot be that long.

    An edit changes the description and maybe the numbers of Tasks too, or the template of the last role alone.
    """
    labels = f'"{names.BARRIER_LABEL}":"enabled",' if genes["barrier"] or genes["in_place"] else ""
    notes = (
        f'"{names.RESTART_ANNOTATION}":"{names.IN_PLACE}","{names.RESTART_LIMIT_ANNOTATION}":"0",'
        if genes["in_place"]
        else ""
    )
    wanted = {name: genes[name] for name in ("padding", "containers", "placeholders", "variables", "annotations")}
    template = template_of(TEMPLATE.whole(wanted | {"placeholder": names.POD_NAME}), labels, notes)
    if template is None or len(template) * genes["roles"] > 2 * INPUT_BYTES:
        return None
    is_scaled, is_other = edit % 2 and genes["edit"] == "all", edit % 2 and genes["edit"] == "template"
    number, described = genes["scale"] if is_scaled else genes["tasks"], 0 if genes["edit"] == "template" else edit
    described_at_length = f"{described}{'x' * genes['description']}"
    head = (
        f'{{"executionType":"Start","retainPods":"{genes["retain"]}","description":"{described_at_length}"'
        f',"retryPolicy":{{"fancyRetryPolicy":false,"maxRetryCount":{genes["framework_retries"]}}},"taskRoles":['
    )
    task = (
        f'"taskNumber":{number},"frameworkAttemptCompletionPolicy":{{"minFailedTaskCount":{genes["policy"]},'
        f'"minSucceededTaskCount":-1}},"task":{{"retryPolicy":{{"fancyRetryPolicy":{str(genes["fancy"]).lower()},'
        f'"maxRetryCount":{genes["retries"]}}},"pod":{template}}}}}'
    )
    roles = []
    for place in range(genes["roles"]):
        wanted_roles = ",".join(
            f'{{"name":"r{other}","status":"{genes["status"]}"}}'
            for other in _waits_for(genes["shape"], place, genes["roles"])
        )
        depends_on = f'"dependsOn":[{wanted_roles}],' if wanted_roles else ""
        roles.append(f'{{"name":"r{place}",{depends_on}{task}')
    if is_other:
        roles[-1] = roles[-1].replace('"image":"none"', '"image":"other"')
    return f"{head}{','.join(roles)}]}}".encode()


def _waits_for(shape: str, place: int, roles: int) -> Iterator[int]:
    """Yield the places of the roles for which one waits."""
    match shape:
        case "chain" if place:
            yield place - 1
        case "star" if place:
            yield 0
        case "layers" if place >= MAX_DEPENDENCIES:
            first = place // MAX_DEPENDENCIES * MAX_DEPENDENCIES - MAX_DEPENDENCIES
            yield from range(first, first + MAX_DEPENDENCIES)
        case "circle":
            yield (place + 1) % roles
        case "nobody":
            yield roles
        case _:
            pass


@dataclass
class Pass:
    """A Framework, and what becomes of it."""

    genes: dict[str, Any]
    spec: bytes
    bound: str = "pass"
    requests: int = 0
    items: int = 0

    @property
    def size(self) -> Size:
        """The bytes of the spec; its roles, Tasks and dependencies, and the Pods that were created."""
        return Size(len(self.spec), self.items)

    def play(self) -> Play:
        """Let time pass, and let the controller do what it wants."""
        genes = self.genes
        self._begin(max(genes["tasks"], genes["scale"] if genes["edits"] else 0))
        world = CheapWorld(self.spec, genes)
        driver = Driver(world)
        engine = Engine(driver, world)
        for second in range(genes["seconds"]):
            yield from self._second(engine)
            world.tick()
            if second % 3 == 2 and second // 3 < genes["edits"]:
                world.edit(second // 3 + 1)
            driver.touch_pods(*driver.caches.refresh())
            driver.touch_config_map()
        self.items += len(world.made_pods)
        driver.start()
        yield from Engine(driver, world).decide()

    def _begin(self, tasks: int) -> None:
        """Forget the last play; each role is to have so many Tasks."""
        roles = self.genes["roles"]
        edges = sum(1 for place in range(roles) for _ in _waits_for(self.genes["shape"], place, roles))
        self.requests, self.items = 0, edges + roles * (1 + tasks)

    def _second(self, engine: "Engine") -> Play:
        for _ in range(ROUNDS):
            yield from engine.decide()
            effects = engine.decision.effects
            if not effects:
                return
            for effect in effects:
                self.requests += yield from engine.perform(effect)
            engine.driver.touch_pods(*engine.driver.caches.refresh())


class Edits:
    """Edits of Frameworks that run."""

    name = "edit"

    def seeds(self) -> Mapping[str, Genome]:
        """Return those of as many roles as there may be."""
        roles: Genome = {"roles": MAX_ROLES, "tasks": 1, "edits": 2}
        layers: Genome = {"roles": 641, "shape": "layers"}
        return {
            "a description beside 1,000 roles of a gang": roles | {"edit": "description", "barrier": True},
            "a description beside 10,000 dependencies": roles | {"edit": "description"} | layers,
            "one of 1,000 templates": roles | {"edit": "template", "shape": "star"},
        }

    def mutated(self, genome: Genome, draw: random.Random) -> Genome:
        """Change some genes, and edit nothing else."""
        changed = GENES.mutated(genome, draw)
        return changed | {"edits": 2, "edit": "template" if changed["edit"] == "all" else changed["edit"]}

    def case(self, genome: Genome) -> "Edit | None":
        """Return the Framework; nothing that happens by itself is measured beside the edits."""
        genes = GENES.whole(genome) | {"seconds": 3, "end": "stay", "refusal": 0}
        # What is large is read beside the event loop, and costs by its size.
        if genes["roles"] * genes["tasks"] > 3 * MAX_ROLES or genes["padding"] + genes["description"] > LARGE_BYTES:
            return None
        found = Passes().case(genes | {"containers": 0, "placeholders": 0})
        return None if found is None else Edit(found.genes, found.spec, bound="edit")


@dataclass
class Edit(Pass):
    """A Framework that runs and is edited."""

    def play(self) -> Play:
        """Let it start, and measure what is done for each edit until nothing is left to be done."""
        genes = self.genes
        self._begin(genes["tasks"])
        world = CheapWorld(self.spec, genes | {"edits": 0})
        engine = Engine(Driver(world), world)
        for _ in range(genes["seconds"]):
            _unmeasured(self._second(engine))
            world.tick()
            engine.driver.touch_pods(*engine.driver.caches.refresh())
            engine.driver.touch_config_map()
        for edit in range(1, genes["edits"] + 1):
            world.edit(edit)
            engine.driver.caches.refresh()
            yield from self._second(engine)
            world.tick()


def _unmeasured(play: Play) -> None:
    result = None
    with contextlib.suppress(StopIteration):
        while True:
            result = play.send(result)()


class Engine:
    """One that works on this Framework alone: its turns are what is measured."""

    def __init__(self, driver: Driver, world: "CheapWorld") -> None:
        self.driver, self._world = driver, world
        self.decision = Decision()
        self._outcomes: list[tuple[Effect, Outcome]] = []
        self._steps: Generator[None, None, Decision] | None = None
        self._starts = True

    def decide(self) -> Play:
        """Decide in as many turns as the pass wants: each ends where others may have theirs.

        Large templates are read beside the event loop, which stands still for one of them at most.
        """
        while len(self._outcomes) > DEFAULT_SLOTS:
            # No more of them come between two turns than are performed at a time.
            yield self._take_in
        while unread := (yield self._begin):
            facts: dict[bytes, RoleFacts] = {}
            for key, template in unread.items():
                facts[key] = yield partial(read, template)
            self.driver.learn(facts)
        while self._steps is not None:
            yield self._go_on

    def _begin(self) -> dict[bytes, Raw]:
        """Begin a pass, unless templates are to be read first: return these."""
        if self._starts:
            self.driver.reload()
            self._starts = False
        self._take_in()
        unread = self.driver.unread()
        if not unread:
            self._steps = self.driver.steps()
            self._go_on()
        return unread

    def _take_in(self) -> None:
        for effect, outcome in self._outcomes[:DEFAULT_SLOTS]:
            self.driver.answer(effect, outcome)
        del self._outcomes[:DEFAULT_SLOTS]

    def _go_on(self) -> None:
        """Decide until others may have their turn."""
        assert self._steps is not None
        try:
            next(self._steps)
        except StopIteration as end:
            self.decision, self._steps = end.value, None

    def perform(self, effect: Effect) -> Generator[Step, Any, int]:
        """Perform an effect, and keep the outcome for the next pass; return how many requests that takes."""
        wanted: Effect | None = yield partial(self.driver.at_turn, effect)
        if wanted is None:
            self._outcomes.append((effect, Dropped()))
            return 0
        if isinstance(wanted, WriteStatus):
            yield partial(msgspec.json.encode, wanted.status)
        if isinstance(wanted, CreatePod) and (made := _made_of(wanted)) not in self._world.refused:
            template: PodTemplate | str = yield partial(_prepared, wanted)
            self._world.refused[made] = template if isinstance(template, str) else ""
            if isinstance(template, PodTemplate):
                yield partial(wanted.body, template)
        self._outcomes.append((wanted, self.driver.send(wanted)))
        return 1


def _made_of(effect: CreatePod) -> tuple[bytes, str]:
    """Return what the Pods that are alike have in common: of those, one is made."""
    return bytes(effect.source.template), effect.source.problem


def _prepared(effect: CreatePod) -> PodTemplate | str:
    """Prepare a template, or return why there can be no Pod of it."""
    try:
        return effect.source.prepare()
    except TemplateError as error:
        return str(error)


@dataclass
class Ends(Plan):
    """All Pods end alike."""

    code: int | str = "stay"

    def end(self, task_key: str, attempt: int) -> int | str:
        """Return the end of each."""
        return self.code


class CheapWorld(World):
    """A world that checks nothing and keeps little, so that what is measured is the controller."""

    def __init__(self, spec: bytes, genes: Mapping[str, Any]) -> None:
        self.raw_spec, self._genes = spec, genes
        meta = {"name": "fw", "namespace": "ns", "uid": "framework-uid", "generation": 1}
        super().__init__({"metadata": meta, "spec": {}}, Plan())
        self.in_place = CheapInPlace(self)
        self.refused: dict[tuple[bytes, str], str] = {}
        """Why there can be no Pod, by what it would be made of; "" if there can be one."""
        self.made_pods: list[str] = []
        self.plan = Ends(code=genes["end"])

    @cached_property
    def _owner(self) -> OwnerReference:
        uid = self.config_map.metadata.uid if self.config_map else ""
        return OwnerReference(kind="ConfigMap", name="fw-attempt", uid=uid, controller=True)

    @property
    def framework(self) -> Framework:
        """The object, whose spec is not encoded anew each time."""
        meta = self.manifest["metadata"] | {"resourceVersion": str(self._version)}
        return Framework(
            msgspec.Raw(msgspec.json.encode(meta)), msgspec.Raw(self.raw_spec), msgspec.Raw(self.stored or b"")
        )

    def edit(self, number: int) -> None:
        """Change the spec for the n-th time."""
        spec = spec_of(self._genes, number)
        if spec is not None and len(spec) <= INPUT_BYTES:
            self.raw_spec = spec
            self.edited()

    def _write_status(self, effect: WriteStatus) -> Outcome:
        if effect.resource_version != str(self._version):
            return StaleStatus()
        self.stored = msgspec.json.encode(effect.status)
        if not status_encoding.is_small(len(self.stored), effect.rest_bytes):
            self.stored = status_encoding.compress(effect.status, effect.rest_bytes)
        self._version += 1
        return Done(resource_version=str(self._version))

    def perform(self, effect: Effect) -> Outcome:
        """Answer a request; Pods of templates that were tried are not made once more."""
        if not isinstance(effect, CreatePod):
            return super().perform(effect)
        self.history["CreatePod"] += 1
        if problem := self.refused[_made_of(effect)]:
            return Refused(422, problem, sent=False)
        attempts = effect.attempt_id + effect.source.attempt.framework_attempt_id
        return self._create(f"{effect.role}-{effect.index}", attempts, lambda: self._create_pod(effect, b""))

    def _create(self, key: str, attempt: int, create: Any) -> Outcome:
        length = self._genes["refusal"]
        if length and key != "attempt":
            message = f"{key} is invalid: ".ljust(length, "x")
            # So much of it comes as far as the core.
            return Refused(422, creation_error.describe(ApiStatusError(422, "Invalid", message)))
        return super()._create(key, attempt, create)

    def _create_pod(self, effect: CreatePod, _made: bytes) -> str:
        uid, attempt = self.uid(), effect.source.attempt
        notes = dict(attempt.values) | {names.TASK_ATTEMPT_ID: str(effect.attempt_id)}
        if self._genes["in_place"]:
            notes[names.RESTART_ANNOTATION] = names.IN_PLACE
        if "_owner" in self.__dict__ and self._owner.uid != attempt.config_map_uid:
            del self.__dict__["_owner"]
        meta = Meta(
            names.pod_name("fw", effect.role, effect.index),
            uid,
            "1",
            namespace="ns",
            creation_timestamp=self.stamp,
            annotations=notes,
            labels=Labels(framework="fw"),
            owner_references=(self._owner,),
        )
        has_barrier = self._genes["barrier"] or self._genes["in_place"]
        always = "Always" if self._genes["in_place"] else ""
        barrier = (Container(names.BARRIER_CONTAINER, always),) if has_barrier else ()
        self.pods[meta.name] = Pod(meta, PodSpec(init_containers=barrier))
        self.made_pods.append(uid)
        return uid

    def _write_roster(self, effect: WriteRoster) -> Outcome:
        assert self.config_map is not None
        notes = {names.ROSTER_ANNOTATION: effect.annotation}
        version = self._next_version()
        meta = replace(self.config_map.metadata, annotations=notes, resource_version=version)
        self.config_map = replace(self.config_map, metadata=meta)
        self.roster = msgspec.json.decode(effect.document)
        self.rosters = [*self.rosters[-1:], self.roster]
        return Done(resource_version=version)


class CheapInPlace(InPlace):
    """Pods that restart in place, as the newest roster says, without a memory of what all others did."""

    def live(self, name: str) -> bool:
        """The kubelet or the barrier of this Pod does its next thing."""
        pod = self._world.pods[name]
        barrier = next(iter(pod.status.init_container_statuses), None)
        roster = self._world.roster or {}
        if pod.status.phase not in {"Pending", "Running"}:
            return False
        if any(one.type == names.ALL_CONTAINERS_RESTARTING for one in pod.status.conditions):
            self._remove_containers(name, is_begun=False)
        elif barrier is None or barrier.state.running is None:
            return self._start_barrier(name)
        elif not barrier.started and roster.get("complete"):
            opened = replace(barrier, started=True)
            main = replace(pod.status.container_statuses[0], state=RUNS)
            self._world.running[pod.metadata.uid] = pod
            self._set(name, opened, main, phase="Running", conditions=(PodCondition("Ready", "True"),))
        elif barrier.started and (code := self._world.plan.end(name, 0)) == 1:
            self._restart(name, code=code)
        else:
            return False
        return True
