"""The whole life of one large Framework, phase by phase: for the test of ten thousand Tasks, and for its benchmark.

Half of the Tasks belong to the role `steady`, half to `flaky`, whose Pods are deleted once, so that each is retried.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus, TaskAttemptStatus, TaskStatus
from frameworkcontroller.api.stored_roles import roles_of
from localcluster.client import ApiStatusError
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually

NAME = "large"
SECONDS = 600.0
"""A phase takes at most so long on an idle machine."""
AT_A_TIME = 16
"""So many requests to delete a Pod are in flight."""


@dataclass(frozen=True)
class Phase:
    """A part of the life, which begins with what a user does; the controller may be in the middle of it."""

    name: str
    begin: Callable[[], object]
    is_under_way: Callable[[], bool]
    is_over: Callable[[], bool]


class LargeLife:
    """One Framework of so many Tasks, at least 20."""

    def __init__(self, frameworks: Frameworks, tasks: int) -> None:
        self._frameworks, self._tasks, self._half = frameworks, tasks, tasks // 2
        self._fewer = tasks // 10

    def phases(self) -> Iterator[Phase]:
        """Yield the phases in their order."""
        yield Phase(
            "created",
            lambda: self._frameworks.create(NAME, *self._roles(self._half), executionType="Start"),
            lambda: self.pods >= self._half,
            lambda: self.pods >= self._tasks,
        )
        yield Phase("running, with a complete roster", lambda: None, lambda: True, lambda: self._runs(self._tasks))
        yield Phase(
            "half of them retried",
            self._delete_flaky,
            lambda: self._retried("flaky") > 0,
            lambda: self._retried("flaky") >= self._half and self._runs(self._tasks),
        )
        fewer = self._tasks - self._fewer
        yield Phase(
            "scaled down",
            lambda: self._frameworks.merge(NAME, taskRoles=self._roles(self._half - self._fewer)),
            lambda: self.pods < self._tasks - self._fewer // 2,
            lambda: self._runs(fewer) and self.pods == fewer,
        )
        yield Phase(
            "scaled up",
            lambda: self._frameworks.merge(NAME, taskRoles=self._roles(self._half)),
            lambda: self.pods > fewer + self._fewer // 2,
            lambda: self._runs(self._tasks),
        )
        yield Phase(
            "completed",
            lambda: self._frameworks.merge(NAME, executionType="Stop"),
            lambda: self.pods < self._half,
            lambda: self.status.state is State.COMPLETED,
        )
        yield Phase(
            "deleted",
            lambda: self._frameworks.raw.delete(f"{self._frameworks.path}/{NAME}"),
            lambda: True,
            lambda: self._is_gone() and self.pods == 0,
        )

    def wait(self, what: Callable[[], bool], *, interval: float = 0.2) -> float:
        """Wait until something holds, and return the seconds that it took; see `eventually`."""
        begun = time.monotonic()

        def check() -> None:
            assert what(), f"{self.pods} Pods, {'gone' if self._is_gone() else self.status.ready} ready"

        eventually(check, SECONDS, interval)
        return time.monotonic() - begun

    @property
    def status(self) -> FrameworkStatus:
        """The status, which may be compressed."""
        status = FRAMEWORK_DECODER.decode(msgspec.json.encode(self._frameworks.get(NAME))).stored_status()
        assert status is not None, "the controller has written no status yet"
        return status

    @property
    def pods(self) -> int:
        """The number of Pods."""
        return self._frameworks.count(self._frameworks.pods_path)

    def _delete_flaky(self) -> None:
        """Delete the Pods of a role, each by its own request: one for all of them takes longer than a request may."""
        found = [task.attempt_status for task in self.tasks("flaky")]

        def delete(attempt: TaskAttemptStatus) -> None:
            precondition = {"preconditions": {"uid": attempt.pod_uid}}
            self._frameworks.raw.delete(f"{self._frameworks.pods_path}/{attempt.pod_name}", precondition)

        with ThreadPoolExecutor(AT_A_TIME) as pool:
            list(pool.map(delete, found))

    def tasks(self, role_name: str) -> tuple[TaskStatus, ...]:
        """Return the Tasks of a role."""
        return next((one.task_statuses for one in roles_of(self.status) if one.name == role_name), ())

    def _roles(self, steady: int) -> list[dict[str, object]]:
        # A Pod that is deleted by others is a transient failure: it is retried for ever, and not counted.
        retry = {"fancyRetryPolicy": True}
        return [role("steady", steady, retry=retry), role("flaky", self._half, retry=retry)]

    def _retried(self, role_name: str) -> int:
        return sum(task.retry_policy_status.total_retried_count > 0 for task in self.tasks(role_name))

    def _runs(self, tasks: int) -> bool:
        """Report whether so many Tasks run, and the roster says so."""
        if self.status.ready != f"{tasks}/{tasks}":
            return False
        running = sum(task.state is State.RUNNING for one in ("steady", "flaky") for task in self.tasks(one))
        annotations = self._frameworks.config_map(NAME)["metadata"].get("annotations", {})
        published = msgspec.json.decode(annotations.get(names.ROSTER_ANNOTATION, "{}"))
        return running == tasks and bool(published.get("complete"))

    def _is_gone(self) -> bool:
        try:
            self._frameworks.get(NAME)
        except ApiStatusError as error:
            if error.status != 404:
                raise
            return True
        return False
