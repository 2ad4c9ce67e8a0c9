"""A gang that restarts in place on a control plane alone: the caller reports what kubelets would.

A benchmark and tests on the API server use it. Its checks raise AssertionError, so that they fit into
`waiting.eventually`.
"""

from concurrent.futures import ThreadPoolExecutor

from frameworkcontroller.api import names
from localcluster.client import ApiStatusError, Json
from testkit.absent_pods import NODE, WRITERS, addressed
from testkit.frameworks import Frameworks, role

TEMPLATE: Json = {
    "metadata": {
        "labels": {names.BARRIER_LABEL: "enabled"},
        "annotations": {names.RESTART_ANNOTATION: names.IN_PLACE, names.RESTART_LIMIT_ANNOTATION: "0"},
    },
    "spec": {
        "restartPolicy": "Never",
        # There is no such node: the Pods are scheduled, and no kubelet runs them.
        "nodeName": NODE,
        "initContainers": [{"name": names.BARRIER_CONTAINER, "image": "none", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "image": "none"}],
    },
}
"""The Pod template of its Tasks."""


class RestartingGang:
    """The Tasks of one TaskRole, `worker`; their barriers are in the template, because no webhook is there."""

    def __init__(self, frameworks: Frameworks, name: str, tasks: int) -> None:
        self._frameworks, self._raw, self._name, self._tasks = frameworks, frameworks.raw, name, tasks

    def create(self, *others: Json) -> None:
        """Create the Framework, with other TaskRoles after this one."""
        self._frameworks.create(self._name, role("worker", self._tasks, pod=TEMPLATE), *others)

    def has_pods(self) -> dict[str, str]:
        """Return the UIDs of its Pods by their names, if each Task has one."""
        found = self._frameworks.pods().items()
        uids = {name: pod["metadata"]["uid"] for name, pod in found if name.startswith(f"{self._name}-worker-")}
        assert len(uids) == self._tasks, f"{len(uids)} of {self._tasks} Pods"
        return uids

    def confirm_deletions(self) -> None:
        """Confirm as a kubelet that nothing runs of the Pods that are deleted."""
        for name, pod in self._frameworks.pods().items():
            if pod["metadata"].get("deletionTimestamp"):
                path = f"{self._frameworks.pods_path}/{name}"
                self._raw.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}})

    def report_all(self, restarts: int) -> None:
        """Report that the barriers of all Pods run, and how often they have been restarted."""
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(lambda index: self.report(index, restarts), range(self._tasks)))

    def report(self, index: int, restarts: int, *, restarting: bool = False) -> None:
        """Report as a kubelet how often a barrier was restarted, and whether all containers of its Pod are about to be.

        Raises:
            AssertionError: There is no such Pod.
        """
        barrier = {
            "name": names.BARRIER_CONTAINER,
            "restartCount": restarts,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "image": "none",
            "imageID": "",
            "ready": False,
        }
        status = addressed(index) | {"initContainerStatuses": [barrier]}
        status["conditions"] = [{"type": names.ALL_CONTAINERS_RESTARTING, "status": str(restarting)}]
        pod = names.pod_name(self._name, "worker", index)
        try:
            self._raw.merge(f"{self._frameworks.pods_path}/{pod}/status", {"status": status})
        except ApiStatusError as error:
            raise AssertionError(error) from error

    def is_open(self, epoch: int) -> Json:
        """Return the roster, if it is the complete one of this epoch."""
        return self._roster(epoch, complete=True)

    def is_closed(self, epoch: int) -> Json:
        """Return the roster, if it is one of this epoch that waits."""
        return self._roster(epoch, complete=False)

    def _roster(self, epoch: int, *, complete: bool) -> Json:
        assert self._frameworks.status(self._name)["attemptStatus"].get("gangEpoch") == epoch
        roster = self._frameworks.roster(self._name)
        assert (roster["complete"], roster.get("epoch")) == (complete, epoch), (roster["complete"], roster.get("epoch"))
        return roster
