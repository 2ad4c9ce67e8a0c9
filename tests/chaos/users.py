"""The users of a run: they create Frameworks, rescale, stop and delete them, and some of them are hostile."""

import random
import threading
import time

from frameworkcontroller.api import names
from frameworkcontroller.api.states import State
from localcluster import Cluster
from localcluster.client import ApiStatusError, Json
from testkit.frameworks import Frameworks, framework, role
from tests.chaos.history import History
from tests.chaos.hostile import Hostile
from tests.chaos.journal import Journal
from tests.chaos.lives import FANCY, Life, draw_life
from tests.chaos.patience import api_faults_pass
from tests.controller.core import checks

AT_ONCE = 10
"""So many Frameworks are on their way at most."""
MEDDLE: dict[str, Json | None] = {
    "unlabel a ConfigMap": {"metadata": {"labels": {names.FRAMEWORK_NAME: None}}},
    "delete a ConfigMap": None,
    "tamper with a roster": {"data": {names.ROSTER_KEY: '{"framework": {"name": "evil\\n10.6.6.6 x"}}'}},
}
"""What somebody merges into the ConfigMap of a healthy Framework."""


class Users:
    """All users, who add to the lives; `step` lets each do the next thing, if it is time."""

    def __init__(
        self,
        cluster: Cluster,
        frameworks: Frameworks,
        lives: dict[str, Life],
        history: History,
        draw: random.Random,
        journal: Journal,
    ) -> None:
        self._frameworks, self._lives, self._history = frameworks, lives, history
        self._draw, self._journal = draw, journal
        self.hostile = Hostile(cluster, frameworks, draw, journal)
        self._due: dict[str, float] = {}
        self._pending: Life | None = None
        self._creates_at = self._harms_at = 0.0
        self._lock = threading.Lock()
        self._calm = False

    def calm(self) -> None:
        """Create nothing more, and harm nobody; what was begun is brought to its end."""
        with self._lock:
            self._calm = True

    def step(self) -> None:
        with self._lock:
            now = time.monotonic()
            if not self._calm and now >= self._harms_at:
                self._harms_at = now + self._draw.uniform(0.5, 4)
                with api_faults_pass():
                    self._harm()
            if self._pending is not None or (not self._calm and now >= self._creates_at and self._has_room()):
                self._creates_at = now + self._draw.uniform(0.1, 3)
                with api_faults_pass():
                    self._create()
            for life in list(self._lives.values()):
                if life.steps and life is not self._pending:
                    with api_faults_pass():
                        self._go_on(life, now)

    def _has_room(self) -> bool:
        return sum(life.kind != "serve" and not self._is_over(life) for life in self._lives.values()) < AT_ONCE

    def _is_over(self, life: Life) -> bool:
        status = self._history.status(life.name)
        return status is not None and status.state is State.COMPLETED

    def _create(self) -> None:
        life = self._pending
        if life is None:
            life = self._pending = draw_life(self._draw, len(self._lives))
            self._lives[life.name] = life
            self._journal.did(f"create {life.kind}", f"{life.name} {self._sizes(life)}")
        body = framework(self._frameworks.namespace, life.name, *life.roles, **life.spec)
        try:
            self._frameworks.raw.create(self._frameworks.path, body)
        except ApiStatusError as error:
            # The answer to an earlier request was lost.
            if error.status != 409:
                raise
        self._pending = None

    # --- the life of one Framework -----------------------------------------------------------------------------------

    def _go_on(self, life: Life, now: float) -> None:
        """Take the next step of a life, at a time that is drawn when the one before was taken."""
        if life.name not in self._due:
            self._due[life.name] = now + self._draw.uniform(0, 12)
        if now < self._due[life.name] or life.name not in self._history.latest:
            return
        step = life.steps[0]
        if step in {"scale", "drop a role", "add a role"} and not self._is_started(life):
            # The first step after the calm is the last one.
            if not self._calm:
                return
            step = "release"
            del life.steps[:-1]
        if step == "release" and not self._is_complete(life):
            return
        self._take(life, step)
        life.steps.pop(0)
        del self._due[life.name]

    def _take(self, life: Life, step: str) -> None:
        name = life.name
        match step:
            case "stop":
                self._frameworks.merge(name, executionType="Stop")
            case "start":
                self._frameworks.merge(name, executionType="Start")
            case "delete":
                path = f"{self._frameworks.path}/{name}"
                self._frameworks.raw.delete(path, {"propagationPolicy": "Foreground"})
            case "release":
                life.otherwise = 0
            case _:
                roles = self._rescaled(life, step)
                self._frameworks.merge(name, taskRoles=roles)
                life.roles = roles
        self._journal.did(step, f"{name} {self._sizes(life) if step not in {'stop', 'delete'} else ''}")

    def _rescaled(self, life: Life, step: str) -> list[Json]:
        """Return the TaskRoles after a step; they have at least one Task, since none at all never end by themselves."""
        roles = [dict(entry) for entry in life.roles]
        if step == "add a role" or (step == "drop a role" and len(roles) == 1):
            pod = roles[0]["task"]["pod"]
            roles.append(role(f"more{self._draw.randrange(1000)}", self._draw.randint(1, 3), retry=FANCY, pod=pod))
        elif step == "drop a role":
            roles.pop(self._draw.randrange(len(roles)))
        else:
            self._draw.choice(roles)["taskNumber"] = self._draw.randint(0, 5)
        if not any(entry["taskNumber"] for entry in roles):
            roles[0]["taskNumber"] = 1
        return roles

    def _is_started(self, life: Life) -> bool:
        status = self._history.status(life.name)
        return status is not None and status.state is State.RUNNING

    def _is_complete(self, life: Life) -> bool:
        """Report whether all Tasks run that the user wants, and no others."""
        status = self._history.status(life.name)
        if status is None:
            return False
        tasks = {f"{role}-{index}": task for (role, index), task in checks.tasks_of(status).items()}
        return set(tasks) == life.tasks and all(
            task.state is State.RUNNING and not task.deletion_pending for task in tasks.values()
        )

    # --- harm --------------------------------------------------------------------------------------------------------

    def _harm(self) -> None:
        """Send something hostile, or meddle with what belongs to a healthy Framework."""
        victims = [life for life in self._lives.values() if life.is_restartable and not self._is_over(life)]
        if victims and self._draw.random() < 0.3:
            what, victim = self._draw.choice(sorted(MEDDLE)), self._draw.choice(victims)
            path = f"/api/v1/namespaces/{self._frameworks.namespace}/configmaps/{victim.name}-attempt"
            try:
                if (patch := MEDDLE[what]) is None:
                    self._frameworks.raw.delete(path, {"propagationPolicy": "Foreground"})
                else:
                    self._frameworks.raw.merge(path, patch)
            except ApiStatusError as error:
                if error.status != 404:
                    raise
                return
            self._journal.did(what, victim.name)
        else:
            self.hostile.send(sorted(self._lives))

    def _sizes(self, life: Life) -> str:
        return " ".join(f"{entry['name']}={entry['taskNumber']}" for entry in life.roles)
