"""Gangs whose ranks write what they see of their gang at each start, and do what a test asks of them."""

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster import Cluster, LocalClusterError
from localcluster.client import Json
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.e2e.pods import pod, printed, python

# Keeps what it sees at each start in a volume, and prints all of it. Then it does what the file `do` says, once.
PROGRAM = """
import json, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with open("/mnt/frameworkbarrier/roster.json") as file:
    roster = json.load(file)
tasks = [task for role in roster["taskRoles"] for task in role["tasks"]]
members = [[task[0], task[1], task[2], task[6]] for task in tasks if task[6]]
size = os.environ["WORLD_SIZE"]
run = {"epoch": roster["epoch"], "members": members, "rank": os.environ["RANK"], "size": size, "at": time.time()}
with open("/state/runs", "a") as file:
    file.write(json.dumps(run) + "\\n")
runs = pathlib.Path("/state/runs").read_text()
print(runs, end="")
do = pathlib.Path("/state/do")
if len(runs.splitlines()) <= int(os.environ.get("CRASHES", "0")):
    sys.exit(17)
while True:
    time.sleep(0.1)
    if not do.exists():
        continue
    what = do.read_text()
    do.unlink()
    if what == "oom":
        held = [b"x" * (1 << 24) for _ in range(100)]
    elif what == "hang":
        pathlib.Path("/tmp/hung").touch()
    else:
        sys.exit(int(what))
"""
NAME, ROLE = "fw", "worker"


def rank(*, crashes: int = 0, probed: bool = False, **annotations: str) -> Json:
    """Return the Pod template of a rank, with annotations of the barrier as `pod` has them.

    Rank 1 `crashes` so many times as soon as it runs. A rank that is `probed` is ended when it hangs; its liveness
    probe would also fail if the rank exited meanwhile.
    """
    template = pod(python(PROGRAM), restart="in-place", preset="pytorch", **annotations)
    (main,) = template["spec"]["containers"]
    template["spec"]["volumes"] = [{"name": "state", "emptyDir": {}}]
    main["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    main["resources"]["limits"] = {"memory": "128Mi"}
    if probed:
        # The rank ends at SIGTERM; on a busy machine it needs more than a second for that.
        template["spec"]["terminationGracePeriodSeconds"] = 30
        asks = {"exec": {"command": ["sh", "-c", "! test -e /tmp/hung"]}}
        main["livenessProbe"] = {**asks, "periodSeconds": 1, "timeoutSeconds": 30, "failureThreshold": 1}
    if crashes:
        shell = f'if [ "$FC_TASK_INDEX" = 1 ]; then export CRASHES={crashes}; fi; exec python3 -uc "$0"'
        main["command"] = ["sh", "-c", shell, PROGRAM]
    return template


def disagreements(runs: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Return where ranks have run in one epoch with other members than each other, or one of them twice."""
    members: dict[int, set[str]] = {}
    found = []
    for name, each in runs.items():
        epochs = [one["epoch"] for one in each]
        if epochs != sorted(set(epochs)):
            found.append(f"{name} has run in {epochs}")
        for one in each:
            members.setdefault(one["epoch"], set()).add(json.dumps(one["members"]))
    return found + [f"epoch {epoch}: {seen}" for epoch, seen in members.items() if len(seen) > 1]


@dataclass
class Gang:
    """A Framework of ranks in the test's namespace."""

    cluster: Cluster
    frameworks: Frameworks

    def create(self, size: int, template: Json, *others: Json, retries: int = 3) -> Json:
        """Create it, with other TaskRoles after its own, and return its own."""
        worker = role(ROLE, size, pod=template, retry={"fancyRetryPolicy": False, "maxRetryCount": retries})
        self.frameworks.create(NAME, worker, *others)
        return worker

    def attempt(self) -> Json:
        found: Json = self.frameworks.status(NAME)["attemptStatus"]
        return found

    def runs(self, name: str) -> list[dict[str, Any]]:
        """Return what the application of a Pod has seen at each of its starts; AssertionError while it does not run."""
        return printed(self.cluster, self.frameworks.namespace, name)

    def run_together(self, size: int, *, epoch: int | None = None, timeout: float = 90) -> dict[str, str]:
        """Wait until so many ranks run with each other, in this epoch or the newest; return the UIDs of their Pods."""

        def check() -> dict[str, str]:
            attempt, pods = self.attempt(), self.frameworks.pods()
            found = {name: one for name, one in pods.items() if name.startswith(f"{NAME}-{ROLE}-")}
            wanted = attempt.get("gangEpoch") if epoch is None else epoch
            assert (attempt.get("gangEpoch"), attempt.get("gangReleased")) == (wanted, size), attempt
            assert len(found) == size
            runs = {name: self.runs(name) for name in found}
            assert disagreements(runs) == []
            last = [(each or [{}])[-1] for each in runs.values()]
            assert {(one.get("epoch"), one.get("size")) for one in last} == {(wanted, str(size))}
            return {name: str(one["metadata"]["uid"]) for name, one in found.items()}

        return eventually(check, timeout, 0.5)

    def do(self, index: int, what: str) -> None:
        """Let a rank do something: exit with a code, `oom` or `hang`."""
        self.execute(index, "main", f"printf {what} > /state/new && mv /state/new /state/do")

    def execute(self, index: int, container: str, command: str) -> None:
        """Run a command in a container, which may end by it before the shell that runs it."""
        where = (f"{NAME}-{ROLE}-{index}", "-c", container, "-n", self.frameworks.namespace)
        try:
            self.cluster.kubectl("exec", *where, "--", "sh", "-c", command)
        except LocalClusterError as error:
            if "exit code 137" not in str(error):
                raise

    def kill(self, index: int) -> None:
        """Send SIGKILL to the first process of a rank, from the node."""
        (main,) = self.frameworks.pods()[f"{NAME}-{ROLE}-{index}"]["status"]["containerStatuses"]
        os.kill(first_process(main["containerID"].rsplit("/", 1)[1]), signal.SIGKILL)

    def causes(self) -> list[tuple[str, str, int | None]]:
        """Return reason, Task and exit code of the last restarts."""
        return [(one["reason"], one.get("task", ""), one.get("code")) for one in self.attempt()["lastGangRestarts"]]


def first_process(container: str) -> int:
    """Return the process on the node that is number 1 in a container."""
    for cgroup in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            is_in = container in cgroup.read_text()
            status = (cgroup.parent / "status").read_text()
        except OSError:  # it has ended meanwhile
            continue
        numbers = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
        if is_in and numbers[-1] == "1":
            return int(numbers[0])
    raise AssertionError(f"container {container} has no process")
