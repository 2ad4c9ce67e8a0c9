"""The barrier as a native sidecar on a real node: it holds the application, then keeps the files up to date."""

import json
import re
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster import Cluster
from localcluster.client import Json, RawClient
from localcluster.images import images
from localcluster.programs import binaries
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.e2e.pods import all_run, pod, printed, python

pytestmark = pytest.mark.node

GRACE_SEC = 300
"""What the kubelet waits for a Pod that does not end by itself."""
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "reference" / "barrier.md"
FOLLOWS_SEC = 30.0
"""The limit from the status that has an address to the files of all running Pods, which takes a second on an idle
machine; without the watch's event it would take until the watch's end."""
FOLDER = "/mnt/frameworkbarrier/"

# Prints each content of each file with the time at which it appeared, and ends on SIGTERM.
OBSERVER = """
import json, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
folder, seen = "/mnt/frameworkbarrier/", {}
paths = ["/etc/hosts"] + [folder + name for name in ("hosts", "roster.json", "worker.hosts", "generation")]
while True:
    for path in paths:
        with open(path) as file:
            text = file.read()
        if seen.get(path) != text:
            seen[path] = text
            # One write, because the signal may arrive at any moment.
            sys.stdout.write(json.dumps({"at": time.time(), "path": path, "text": text}) + "\\n")
    time.sleep(0.01)
"""


def shows(path: str, text: str, key: str, address: str) -> bool:
    """Report whether this content of the file has the address of the Task."""
    index = int(key.rpartition("-")[2])
    match path.rpartition("/")[2]:
        case "hosts":
            return f"{address}\tfw-{key} {key} " in text
        case "worker.hosts":
            return text.splitlines()[index : index + 1] == [address]
        case "roster.json":
            tasks = json.loads(text)["taskRoles"][0]["tasks"]
            return [task[1] for task in tasks if task[0] == index] == [address]
    raise AssertionError(path)


class Gang:
    """The running gang `fw` of one role, whose Pods observe their files."""

    def __init__(self, cluster: Cluster, frameworks: Frameworks) -> None:
        self._cluster, self._frameworks = cluster, frameworks

    def observed(self, name: str) -> list[dict[str, Any]]:
        return printed(self._cluster, self._frameworks.namespace, name)

    def follow(self, key: str, other_than: str, *followers: str) -> None:
        """Wait until all files of these Pods have a Task's next address, soon after the status has it."""

        def shown() -> str:
            address = self._frameworks.tasks("fw")[key]["attemptStatus"].get("podIP")
            assert address not in {None, "", other_than}
            return str(address)

        address, since = eventually(shown, 60), time.time()

        def follows() -> float:
            at = []
            for name in followers:
                last = {each["path"]: each for each in self.observed(name)}
                at += [each["at"] for each in last.values()]
                generation = int(last.pop(f"{FOLDER}generation")["text"])
                assert all(shows(path, each["text"], key, address) for path, each in last.items())
                assert generation >= json.loads(last[f"{FOLDER}roster.json"]["text"])["generation"]
            return float(max(at))

        delay = eventually(follows, 20, 0.2) - since
        print(f"{key} at {address}: {delay:.3f} s after the status")
        assert delay < FOLLOWS_SEC


def takes_at_most_32_mib(cluster: Cluster, frameworks: Frameworks) -> None:
    read = ["exec", "fw-worker-0", "-c", "frameworkbarrier", "-n", frameworks.namespace, "--", "cat", "/proc/1/status"]
    found = re.search(r"VmHWM:\s+(\d+) kB", cluster.kubectl(*read))
    assert found
    print(f"a whole wait: {int(found[1]) / 1024:.1f} MiB")
    assert int(found[1]) < 32 * 1024


def test_a_sidecar_waits_in_32_mib_and_a_retried_task_and_a_rescale_reach_every_file_of_every_running_pod(
    cluster: Cluster, frameworks: Frameworks, raw: RawClient
) -> None:
    gang = Gang(cluster, frameworks)
    template = pod(python(OBSERVER), mode="sidecar", hosts="mount", preset="tensorflow,pytorch,jax,mpi")
    worker = role("worker", 3, pod=template, retry={"fancyRetryPolicy": False, "maxRetryCount": 3})
    frameworks.create("fw", worker)
    all_run(frameworks, 3)
    takes_at_most_32_mib(cluster, frameworks)
    before = frameworks.pods()
    addresses = {f"worker-{index}": before[f"fw-worker-{index}"]["status"]["podIP"] for index in range(3)}
    for name in before:
        first = {each["path"]: each["text"] for each in reversed(gang.observed(name))}
        for key, address in addresses.items():
            assert all(shows(path, text, key, address) for path, text in first.items() if "gene" not in path)

    raw.delete(f"{frameworks.pods_path}/fw-worker-1")
    gang.follow("worker-1", addresses["worker-1"], "fw-worker-0", "fw-worker-2")
    all_run(frameworks, 3)

    frameworks.merge("fw", taskRoles=[{**worker, "taskNumber": 4}])
    gang.follow("worker-3", "", "fw-worker-0", "fw-worker-1", "fw-worker-2")
    all_run(frameworks, 4)

    after = frameworks.pods()
    for name in ("fw-worker-0", "fw-worker-2"):
        assert after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"]
    for found in after.values():
        states = found["status"]["initContainerStatuses"] + found["status"]["containerStatuses"]
        assert [state["restartCount"] for state in states] == [0, 0]


def by_hand() -> Json:
    """Return the Pod with a sidecar of the documentation, with an application that prints its end."""
    blocks = re.findall(r"```yaml\n(spec:\n.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    (found,) = (block for block in map(yaml.safe_load, blocks) if "restartPolicy" in block["spec"]["initContainers"][0])
    spec: Json = found["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        container |= {"image": images.reference("barrier"), "imagePullPolicy": "IfNotPresent"}
    program = OBSERVER.replace("sys.exit(0)", 'sys.exit(print("over"))')
    spec["containers"][0]["command"] = python(program)
    return {"spec": spec | {"restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE_SEC}}


def times(log: str) -> list[tuple[float, str]]:
    """Return the times and texts of the lines of `kubectl logs --timestamps`.

    A kubelet that removes the container while it sends the log adds a line of its own, without a time.
    """
    lines = re.findall(r"^(\S+T\S+\.\d{6})\d*Z (.*)$", log, re.MULTILINE)
    return [(datetime.fromisoformat(f"{stamp}+00:00").timestamp(), text) for stamp, text in lines]


def test_a_sidecar_made_by_hand_ends_at_once_when_the_application_has(
    cluster: Cluster, frameworks: Frameworks, raw: RawClient
) -> None:
    frameworks.create("fw", role("worker", 2, pod=by_hand()))
    all_run(frameworks, 2)
    kubectl = [str(binaries.find("kubectl", kubernetes=cluster.version))]
    kubectl += [f"--kubeconfig={cluster.kubeconfig}", "-n", frameworks.namespace]
    follow = [*kubectl, "logs", "--follow", "--timestamps", "fw-worker-0", "-c"]
    with (
        subprocess.Popen([*follow, "main"], stdout=subprocess.PIPE, text=True) as main,
        subprocess.Popen([*follow, "frameworkbarrier"], stdout=subprocess.PIPE, text=True) as sidecar,
    ):
        assert main.stdout is not None
        assert sidecar.stdout is not None
        # When the first lines have arrived, both readers are connected.
        main.stdout.readline()
        sidecar.stdout.readline()
        asked = time.time()
        raw.delete(f"{frameworks.pods_path}/fw-worker-0")

        def is_gone() -> float:
            assert "fw-worker-0" not in frameworks.pods()
            return time.time()

        gone = eventually(is_gone, 50)
        application, barrier = times(main.stdout.read()), times(sidecar.stdout.read())
    assert application[-1][1] == "over"
    assert "ended by SIGTERM" in barrier[-1][1]
    assert "exit code 143" in barrier[-1][1]
    late = barrier[-1][0] - application[-1][0]
    print(f"the sidecar said so {late:.3f} s after the application's end; the Pod was gone after {gone - asked:.1f} s")
    assert late < GRACE_SEC / 2
    assert gone - asked < GRACE_SEC / 2
